"""Tensor-parallel ranks of tensors whose names are known, and of those whose names only look so."""

import json

import ml_dtypes
import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.errors import ModelError

LAYER = "model.layers.0."
Q, K, OUT = (f"{LAYER}self_attn.{name}_proj" for name in "qko")
RNG = np.random.default_rng(3)


def random(*shape, dtype="float32"):
    return RNG.integers(-9, 9, shape).astype(dtype)


def model(folder, tensors, config=None):
    """A checkpoint in a folder, and its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    written(folder / "model.safetensors", tensors)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def ranks_of(source, out, count, layout=None):
    """The tensors of each rank, as arrays; and what the plan remarks."""
    if layout is not None:
        (out.parent / "layout.toml").write_text(layout)
        layout = out.parent / "layout.toml"
    plan = stores.reshard([source], out, layout, ranks=count)
    plan.run()
    files = [stores.open(out / f"model-rank-{k:05}-of-{count:05}.safetensors") for k in range(count)]
    return [{name: each.read() for name, each in file.items()} for file in files], plan.remarks


def refusal(source, out, count):
    with pytest.raises(ModelError) as refused:
        stores.reshard([source], out, ranks=count)
    with pytest.raises(ModelError) as also:
        stores.plan_load(source, 0, count)
    assert str(also.value).split(": ", 1)[1] == str(refused.value).split(": ", 1)[1]
    assert not out.exists()
    return str(refused.value)


HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}

STATE = {
    "bitsandbytes quant_map": (f"{Q}.weight.quant_map", random(16)),
    "bitsandbytes absmax": (f"{Q}.weight.absmax", random(16)),
    "bitsandbytes quant_state": (f"{Q}.weight.quant_state.bitsandbytes__nf4", random(80, dtype="uint8")),
    "bitsandbytes nested_absmax": (f"{Q}.weight.nested_absmax", random(16)),
    "bitsandbytes nested_quant_map": (f"{Q}.weight.nested_quant_map", random(256)),
    "LLM.int8 SCB": (f"{Q}.SCB", random(32)),
    "LLM.int8 weight_format": (f"{Q}.weight_format", np.array(0, "uint8")),
    "GPTQ qweight": (f"{Q}.qweight", random(4, 32, dtype="int32")),
    "GPTQ qzeros": (f"{Q}.qzeros", random(2, 4, dtype="int32")),
    "GPTQ scales": (f"{Q}.scales", random(2, 32, dtype="float16")),
    "GPTQ g_idx": (f"{Q}.g_idx", random(32, dtype="int32")),
    "AWQ qweight": (f"{OUT}.qweight", random(32, 4, dtype="int32")),
    "compressed weight_packed": (f"{Q}.weight_packed", random(32, 4, dtype="int32")),
    "compressed weight_shape": (f"{Q}.weight_shape", random(2, dtype="int64")),
    "compressed weight_zero_point": (f"{Q}.weight_zero_point", random(32, 2, dtype="int8")),
    "compressed weight_scale without weight": (f"{Q}.weight_scale", random(32, 2, dtype=ml_dtypes.bfloat16)),
    "LoRA lora_A": (f"base_model.model.{Q}.lora_A.weight", random(8, 32)),
    "LoRA lora_B": (f"base_model.model.{Q}.lora_B.weight", random(32, 8)),
    "LoRA named": (f"base_model.model.{Q}.lora_A.default.weight", random(8, 32)),
    "DoRA": (f"base_model.model.{Q}.lora_magnitude_vector", random(32)),
    "weight_norm": (f"{Q}.weight_g", random(32, 1)),
    "a weight of three dimensions": (f"{Q}.weight", random(32, 8, 4)),
    "a norm of two dimensions": (f"{LAYER}self_attn.q_norm.weight", random(4, 8)),
    "a projection after a norm": (f"{LAYER}norm_proj.weight", random(8, 8)),
    "Baichuan's head": ("model.norm_head.weight", random(8, 8)),
    "an embedding of another": ("model.vision_embed_tokens.weight", random(8, 8)),
    "w1 of an unknown module": (f"{LAYER}w1.weight", random(8, 8)),
}


@pytest.mark.parametrize("case", STATE)
def test_what_only_has_a_known_name_in_its_own_is_refused_with_the_line_that_decides(case, tmp_path):
    name, array = STATE[case]
    folder = model(tmp_path / "in", {name: array}, HEADS)
    said = refusal(folder, tmp_path / "out", 2)
    assert name[:50] in said
    line = said.partition("in a layout for anydml reshard --layout, by ")[2].partition(", or axis")[0]
    if array.shape:
        cut = line.replace("replicate = true", "axis = 0")
        made, _ = ranks_of(folder, tmp_path / "cut", 2, cut)
        np.testing.assert_array_equal(np.concatenate([each[name] for each in made]), array)
    made, _ = ranks_of(folder, tmp_path / "whole", 2, line)
    assert all(each[name].tobytes() == array.tobytes() for each in made)


@pytest.mark.parametrize("state", [f"{OUT}.weight.quant_map", f"{OUT}.SCB"])
def test_packed_weights_are_refused_although_a_layout_decides_about_their_state(state, tmp_path):
    tensors = {f"{OUT}.weight": random(512, 2, dtype="uint8"), state: random(16)}
    folder = model(tmp_path / "in", tensors, HEADS)
    (tmp_path / "layout.toml").write_text(f'axes = [{{match = "{state}", replicate = true}}]')
    with pytest.raises(ModelError, match=r"o_proj\.weight.*, which is uint8, and may be packed, for there is .*o_proj"):
        stores.reshard([folder], tmp_path / "out", tmp_path / "layout.toml", ranks=2)


def test_one_scale_of_a_weight_is_that_of_every_rank(tmp_path):
    scales = {"weight_scale": (1,), "weight_scale_inv": (1, 1), "input_scale": (), "weight_scale_2": (1,)}
    tensors = {f"{Q}.{name}": random(*shape) for name, shape in scales.items()}
    tensors |= {f"{Q}.weight": random(32, 32), f"{LAYER}self_attn.k_scale": random(1)}
    made, _ = ranks_of(model(tmp_path / "in", tensors, HEADS), tmp_path / "out", 2)
    for name, array in tensors.items():
        for k, each in enumerate(made):
            np.testing.assert_array_equal(each[name], array[16 * k :][:16] if name.endswith(".weight") else array)


@pytest.mark.parametrize("rows", [64, 96, 128, 192])
@pytest.mark.parametrize("columns", [64, 96, 128])
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", ["gate_proj", "down_proj"])
@pytest.mark.parametrize("is_in_groups", [False, True])
def test_scales_of_blocks_stay_with_what_they_scale(name, rows, columns, ranks, is_in_groups, tmp_path):
    block, axis = (32, 16), int(name == "down_proj")
    weight, scales = random(rows, columns), random(-(-rows // block[0]), -(-columns // block[1]))
    tensors = {f"{LAYER}mlp.{name}.weight": weight, f"{LAYER}mlp.{name}.weight_scale_inv": scales}
    groups = {"group_0": {"weights": {"strategy": "block", "block_structure": [*block]}, "targets": ["Linear"]}}
    config = {"quantization_config": {"config_groups": groups} if is_in_groups else {"weight_block_size": [*block]}}
    folder = model(tmp_path / "in", tensors, config)
    if weight.shape[axis] // ranks % block[axis] or weight.shape[axis] % ranks:
        said = refusal(folder, tmp_path / "out", ranks)
        assert "would divide one" in said or "cannot share evenly" in said or "divided evenly among" in said
        return
    made, _ = ranks_of(folder, tmp_path / "out", ranks)
    scaled = weight * scales.repeat(block[0], 0).repeat(block[1], 1)[:rows, :columns]
    parts = []
    for each in made:
        part, own = each[f"{LAYER}mlp.{name}.weight"], each[f"{LAYER}mlp.{name}.weight_scale_inv"]
        parts.append(part * own.repeat(block[0], 0).repeat(block[1], 1)[: part.shape[0], : part.shape[1]])
    np.testing.assert_array_equal(np.concatenate(parts, axis), scaled)
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    stores.reshard(files, tmp_path / "back.safetensors").run()
    assert stores.verify(tmp_path / "back.safetensors", folder) is None


def test_scales_are_refused_if_their_blocks_are_not_known(tmp_path):
    name, scales = f"{LAYER}mlp.gate_proj.weight", f"{LAYER}mlp.gate_proj.weight_scale_inv"
    folder = model(tmp_path / "in", {name: random(192, 32), scales: random(2, 1)})
    assert "for blocks of" in refusal(folder, tmp_path / "out", 2)
    model(
        folder,
        {name: random(192, 32), scales: random(2, 1)},
        {"quantization_config": {"weight_block_size": [128, 128]}},
    )
    assert "is for 128 rows, but a rank has 96, which would divide one" in refusal(folder, tmp_path / "out", 2)
    several = {f"group_{k}": {"weights": {"block_structure": [size, 32]}} for k, size in enumerate((96, 32))}
    for groups in (several, {"group_0": {"weights": None}}, [], {"group_0": 1}):
        model(folder, {name: random(192, 32), scales: random(2, 1)}, {"quantization_config": {"config_groups": groups}})
        assert "for blocks of" in refusal(folder, tmp_path / "out", 2)
    model(
        folder,
        {name: random(192, 32), scales: random(3, 1)},
        {"quantization_config": {"weight_block_size": [128, 128]}},
    )
    assert "not one for each 128 rows" in refusal(folder, tmp_path / "out", 2)
    model(folder, {name: random(192, 32), scales: random(192)})
    assert "does not tell which rows and columns" in refusal(folder, tmp_path / "out", 2)
    model(folder, {name: random(192, 32), scales: (one := random(192, 1))})
    made, _ = ranks_of(folder, tmp_path / "out", 2)
    np.testing.assert_array_equal(np.concatenate([each[scales] for each in made]), one)


CONFIGS = {
    "of text alone": HEADS,
    "with its own head size": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "hidden_size": 99},
    "of text and vision": {"text_config": HEADS, "vision_config": {"num_attention_heads": 3, "hidden_size": 30}},
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_no_head_is_divided(config, ranks, kind, tmp_path):
    tails = (32,) if kind == "weight" else ()
    tensors = {f"{Q}.{kind}": random(32, *tails), f"{K}.{kind}": random(16, *tails)}
    folder = model(tmp_path / "in", tensors, CONFIGS[config])
    for source in (folder, folder / "model.safetensors"):
        out = tmp_path / source.name / "out"
        if ranks <= 2:
            made, remarks = ranks_of(source, out, ranks) if ranks > 1 else ([tensors], [])
            assert not [each for each in remarks if "heads" in each]
            for name, array in tensors.items():
                np.testing.assert_array_equal(np.concatenate([each[name] for each in made]), array)
        else:
            said = refusal(source, out, ranks)
            assert f"{ranks} ranks cannot share evenly" in said
            assert "config.json" in said


def test_heads_are_copied_by_the_line_of_the_refusal(tmp_path):
    array = random(16, 32)
    folder = model(tmp_path / "in", {f"{K}.weight": array}, HEADS)
    line = refusal(folder, tmp_path / "out", 4).partition("in a layout for anydml reshard --layout, by ")[2]
    assert line == 'axes = [{match = "*.self_attn.k_proj.weight", axis = 0, heads = 2}]'
    made, _ = ranks_of(folder, tmp_path / "out", 4, line)
    for k, each in enumerate(made):
        np.testing.assert_array_equal(each[f"{K}.weight"], array[k // 2 * 8 :][:8])


def test_rows_that_are_not_those_of_the_heads_are_refused(tmp_path):
    folder = model(tmp_path / "in", {f"{Q}.weight": random(64, 32)}, HEADS)
    assert "whose 64 rows do not fit the heads in" in refusal(folder, tmp_path / "out", 2)


@pytest.mark.parametrize("config", [None, {"model_type": "llama"}])
def test_what_is_assumed_of_heads_is_said(config, tmp_path):
    folder = model(tmp_path / "in", {f"{Q}.weight": random(32, 4), f"{K}.weight": random(8, 4)}, config)
    _, remarks = ranks_of(folder, tmp_path / "out", 2)
    said = "assumes that ranks share the heads of k_proj, q_proj evenly, without copies"
    assert any(each.startswith(said) for each in remarks)
    plan = stores.plan_load(folder, 0, 2)
    assert plan.remarks[0].startswith(said)
    assert said in plan.explain()


def test_copies_of_heads_are_joined_as_one(tmp_path):
    head = [random(8, 32), random(8, 32)]
    files = []
    for k in range(4):
        folder = model(tmp_path / f"{k}", {f"{K}.weight": head[k // 2]}, HEADS)
        files.append(folder / "model.safetensors")
    stores.reshard(files, tmp_path / "out.safetensors").run()
    np.testing.assert_array_equal(stores.open(tmp_path / "out.safetensors")[f"{K}.weight"].read(), np.concatenate(head))
    for folder in (tmp_path / f"{k}" for k in range(4)):
        (folder / "config.json").unlink()
    plan = stores.reshard(files, tmp_path / "assumed.safetensors")
    assert any("assumes that ranks share the heads of k_proj evenly, without copies" in each for each in plan.remarks)


def test_experts_are_those_of_the_configuration(tmp_path):
    name = f"{LAYER}mlp.experts.gate_up_proj"
    folder = model(tmp_path / "in", {name: random(6, 4, 4)}, {"num_experts": 4})
    with pytest.raises(ModelError, match="axis 0 is not that of the 4 experts"):
        stores.reshard([folder], tmp_path / "out", ranks={"ep": 2})
    tensors = {f"{LAYER}mlp.experts.{k}.up_proj.weight": random(4, 4) for k in range(2)}
    folder = model(tmp_path / "numbered", tensors, {"num_experts": 4})
    with pytest.raises(ModelError, match=r"has 2 experts, but .*config\.json states 4"):
        stores.reshard([folder], tmp_path / "out", ranks={"ep": 2})


def test_tensors_of_no_known_stage_are_named(tmp_path):
    tensors = {f"model.layers.{k}.mlp.up_proj.weight": random(4, 4) for k in range(2)}
    tensors |= {"model.embed_tokens.weight": random(4, 4), "model.norm.weight": random(4), "ln_f.weight": random(4)}
    plan = stores.reshard([model(tmp_path / "in", tensors)], tmp_path / "out", ranks={"pp": 2})
    assert 'puts 1 tensor of no known stage in the first: "ln_f.weight"' in plan.remarks


def test_a_configuration_that_is_none_is_refused(tmp_path):
    folder = model(tmp_path / "in", {f"{Q}.weight": random(4, 4)}, [1])
    assert "config.json" in refusal(folder, tmp_path / "out", 2)
    (folder / "config.json").write_text("{")
    assert "is not JSON" in refusal(folder, tmp_path / "out", 2)


def test_convert_divides_no_head_either(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **HEADS)).save_pretrained(tmp_path / "in")
    stores.convert(tmp_path / "in", tmp_path / "two", ranks=2).run()
    assert stores.verify(tmp_path / "two", tmp_path / "in") is None
    with pytest.raises(ModelError, match=r"k_proj\.weight.*, whose 2 heads \(.*\) 4 ranks cannot share evenly"):
        stores.convert(tmp_path / "in", tmp_path / "four", ranks=4)
    with pytest.raises(ModelError, match=r"k_proj\.weight.*, whose 2 heads \(.*\) 4 ranks cannot share evenly"):
        stores.plan_load(tmp_path / "in", 0, 4, to="transformers")
