"""Layouts of vLLM and Megatron: what each rank has is what their documents say, worked out by NumPy from the model."""

import numpy as np
import pytest

from anydml import stores
from anydml.cli.stores_commands import LAYOUTS
from anydml.errors import ModelError

transformers = pytest.importorskip("transformers", minversion="5.0", reason="transformers is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")

HEADS, GROUPS, EXPERTS = 8, 2, 4
COMMON = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": HEADS, "num_key_value_heads": GROUPS}  # fmt: skip


def made(name, folder):
    """A tiny model, and its parameters."""
    transformers.utils.logging.disable_progress_bar()
    more = {"moe_intermediate_size": 24, "num_experts": EXPERTS, "head_dim": 4} if name.endswith("Moe") else {}
    kind = getattr(transformers, f"{name}ForCausalLM")
    model = kind(kind.config_class(**COMMON, **more))
    model.save_pretrained(folder)
    return {key: each.detach().numpy() for key, each in model.state_dict().items()}


def rows(each, tp, rank, axis=0):
    return np.split(each, tp, axis)[rank]


def heads(each, tp, rank):
    """Of keys and values: ranks beyond the groups have copies."""
    return np.split(each, min(tp, GROUPS))[rank * min(tp, GROUPS) // tp]


def vllm(found, tp, rank):
    """A rank's parameters, by the weight loaders of vLLM's layers."""
    layer = {}
    for n in range(2):
        own, to = f"model.layers.{n}.self_attn", f"model.layers.{n}.self_attn.qkv_proj"
        for kind in ("weight", "bias"):
            if f"{own}.q_proj.{kind}" in found:
                q, k, v = (found[f"{own}.{each}_proj.{kind}"] for each in "qkv")
                layer[f"{to}.{kind}"] = np.concatenate([rows(q, tp, rank), heads(k, tp, rank), heads(v, tp, rank)])
        mlp = f"model.layers.{n}.mlp"
        if f"{mlp}.gate_proj.weight" in found:
            both = [rows(found[f"{mlp}.{each}_proj.weight"], tp, rank) for each in ("gate", "up")]
            layer[f"{mlp}.gate_up_proj.weight"] = np.concatenate(both)
            layer[f"{mlp}.down_proj.weight"] = rows(found[f"{mlp}.down_proj.weight"], tp, rank, 1)
        else:
            gate, up = np.split(found[f"{mlp}.experts.gate_up_proj"], 2, 1)
            layer[f"{mlp}.experts.w13_weight"] = np.concatenate([rows(gate, tp, rank, 1), rows(up, tp, rank, 1)], 1)
            layer[f"{mlp}.experts.w2_weight"] = rows(found[f"{mlp}.experts.down_proj"], tp, rank, 2)
    layer["lm_head.weight"] = rows(found["lm_head.weight"], tp, rank)
    return layer


def megatron(found, tp, rank):
    """A rank's parameters, as Megatron Core's linear layers have them; GQA's groups lie one after the other."""
    layer = {"output_layer.weight": rows(found["lm_head.weight"], tp, rank)}
    layer["embedding.word_embeddings.weight"] = rows(found["model.embed_tokens.weight"], tp, rank)
    layer["decoder.final_layernorm.weight"] = found["model.norm.weight"]
    for n in range(2):
        own, to = f"model.layers.{n}", f"decoder.layers.{n}"
        for kind in ("weight", "bias"):
            if f"{own}.self_attn.q_proj.{kind}" in found:
                parts = [np.split(found[f"{own}.self_attn.{each}_proj.{kind}"], GROUPS) for each in "qkv"]
                groups = [np.concatenate(group) for group in zip(*parts, strict=True)]
                layer[f"{to}.self_attention.linear_qkv.{kind}"] = rows(np.concatenate(groups), tp, rank)
        mlp = f"{own}.mlp"
        if f"{mlp}.gate_proj.weight" in found:
            both = [rows(found[f"{mlp}.{each}_proj.weight"], tp, rank) for each in ("gate", "up")]
            layer[f"{to}.mlp.linear_fc1.weight"] = np.concatenate(both)
            layer[f"{to}.mlp.linear_fc2.weight"] = rows(found[f"{mlp}.down_proj.weight"], tp, rank, 1)
            continue
        layer[f"{to}.mlp.router.weight"] = found[f"{mlp}.gate.weight"]
        for k in range(EXPERTS):
            both = [rows(each, tp, rank) for each in np.split(found[f"{mlp}.experts.gate_up_proj"][k], 2)]
            layer[f"{to}.mlp.experts.local_experts.{k}.linear_fc1.weight"] = np.concatenate(both)
            down = rows(found[f"{mlp}.experts.down_proj"][k], tp, rank, 1)
            layer[f"{to}.mlp.experts.local_experts.{k}.linear_fc2.weight"] = down
    return layer


@pytest.mark.parametrize(("to", "wanted", "most"), [("vllm", vllm, 4), ("megatron", megatron, 2)])
@pytest.mark.parametrize("name", ["Llama", "Qwen2", "Qwen3Moe"])
def test_each_rank_has_what_their_layers_load(name, to, wanted, most, tmp_path):
    found = made(name, tmp_path / "in")
    tp = 1
    while tp <= most:
        out = tmp_path / f"{tp}"
        stores.convert(tmp_path / "in", out, to, tp).run()
        for rank, file in enumerate(sorted(out.glob("*.safetensors"))):
            opened = stores.open(file)
            for key, each in wanted(found, tp, rank).items():
                np.testing.assert_array_equal(opened[key].read(), each, key)
        assert stores.verify(out, tmp_path / "1") is None
        tp *= 2
    if name == "Qwen3Moe":
        stores.convert(tmp_path / "in", tmp_path / "all", to, {"tp": 2, "ep": 2, "pp": 2}).run()
        assert stores.verify(tmp_path / "all", tmp_path / "1") is None


def test_the_command_has_the_layouts_of_the_function():
    from anydml.stores import converting

    assert LAYOUTS == converting.LAYOUTS


@pytest.mark.parametrize(("kind", "to", "error"), [
    ("GptOss", "vllm", "is transposed, which the layout of vllm does not know"),
    ("Gemma3", "megatron", "the layout of megatron does not know"),
])  # fmt: skip
def test_models_of_other_layouts_are_refused(kind, to, error, tmp_path):
    from stores import tiny_models

    kind = getattr(transformers, f"{kind}ForCausalLM")
    tiny_models.tiny_model(kind).save_pretrained(tmp_path / "in")
    with pytest.raises(ModelError, match=error):
        stores.convert(tmp_path / "in", tmp_path / "out", to)
