"""Tensors that stand for a weight together: what ranks get multiplies as the whole does."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from stores.test_known_axes import HEADS, LAYER, OUT, K, Q, model, random, ranks_of, refusal
from stores.test_opening import written

from anydml import stores
from anydml.errors import ModelError

UP, DOWN = f"{LAYER}mlp.up_proj", f"{LAYER}mlp.down_proj"


def packed(values, bits, axis):
    """Words of integers along an axis, the lowest bits first."""
    count = 32 // bits
    parts = np.moveaxis(values, axis, -1).astype(np.uint32)
    parts = parts.reshape(*parts.shape[:-1], -1, count) << (np.arange(count, dtype=np.uint32) * bits)
    return np.moveaxis(np.bitwise_or.reduce(parts, -1), -1, axis).astype(np.uint32).view(np.int32)


def unpacked(words, bits, axis):
    count = 32 // bits
    parts = np.moveaxis(words.view(np.uint32), axis, -1)[..., None] >> (np.arange(count, dtype=np.uint32) * bits)
    parts = (parts & (2**bits - 1)).astype(np.int64)
    return np.moveaxis(parts.reshape(*parts.shape[:-2], -1), -1, axis)


def whole(module, tensors, bits, is_awq):
    """The weight, inputs by outputs, that GPTQ or AWQ makes of its parts."""
    words, scales, zeros = (tensors[f"{module}.{each}"] for each in ("qweight", "scales", "qzeros"))
    values = unpacked(words, bits, int(is_awq))
    groups = tensors.get(f"{module}.g_idx", np.arange(len(values)) // (len(values) // len(scales)))
    return (values - unpacked(zeros, bits, 1)[groups]) * scales[groups].astype("f8")


CASES = [
    (bits, kind, module)
    for bits, kind, module in itertools.product((4, 8), ("gptq", "act_order", "no g_idx", "awq"), (UP, DOWN, Q, K, OUT))
]


@pytest.mark.parametrize(("bits", "kind", "module"), CASES)
def test_packed_weights_are_shared_as_they_are(bits, kind, module, tmp_path):
    inputs, outputs, groups = (64, 32, 4) if module in (DOWN, OUT) else (32, 16 if module == K else 32, 2)
    is_awq = kind == "awq"
    tensors = {
        f"{module}.qweight": packed(np.abs(random(inputs, outputs)) % 2**bits, bits, int(is_awq)),
        f"{module}.qzeros": packed(np.abs(random(groups, outputs)) % 2**bits, bits, 1),
        f"{module}.scales": random(groups, outputs, dtype="f2"),
        f"{module}.bias": random(outputs, dtype="f2"),
    }
    names = np.arange(inputs) // (inputs // groups)
    if kind in ("gptq", "act_order"):
        tensors[f"{module}.g_idx"] = (names if kind == "gptq" else np.random.default_rng(0).permutation(names)).astype(
            "i4"
        )
    config = {**HEADS, "quantization_config": {"quant_method": "awq" if is_awq else "gptq", "bits": bits}}
    folder = model(tmp_path / "in", tensors, config)
    made, remarks = ranks_of(folder, tmp_path / "out", 2)
    assert not [each for each in remarks if "assumes" in each]
    axis = 0 if module in (DOWN, OUT) else 1
    parts = [whole(module, each, bits, is_awq) for each in made]
    np.testing.assert_array_equal(np.concatenate(parts, axis), whole(module, tensors, bits, is_awq))
    bias = [each[f"{module}.bias"] for each in made]
    np.testing.assert_array_equal(np.concatenate(bias) if axis else bias[1], tensors[f"{module}.bias"])
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    stores.reshard(files, tmp_path / "back.safetensors").run()
    assert stores.verify(tmp_path / "back.safetensors", folder) is None


def test_ranks_that_would_divide_a_word_or_a_group_are_refused(tmp_path):
    def tensors(inputs, outputs, groups, module):
        shapes = {"qweight": (inputs // 8, outputs), "scales": (groups, outputs), "qzeros": (groups, outputs // 8)}
        return {f"{module}.{each}": random(*shape, dtype="i4") for each, shape in shapes.items()}

    assert "each is for 8 outputs" in refusal(model(tmp_path / "a", tensors(32, 24, 2, UP)), tmp_path / "out", 2)
    assert "each is for 8 inputs" in refusal(model(tmp_path / "b", tensors(24, 32, 1, DOWN)), tmp_path / "out", 2)
    assert "each is for 32 inputs" in refusal(model(tmp_path / "c", tensors(96, 32, 3, DOWN)), tmp_path / "out", 2)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 1, "hidden_size": 32}
    assert "1 head" in refusal(model(tmp_path / "d", tensors(32, 8, 1, K), heads), tmp_path / "out", 2)


@pytest.mark.parametrize(("module", "adapter"), [*itertools.product((UP, DOWN, Q, K, OUT), ("", ".default"))])
def test_factors_of_lora_are_shared_as_their_weight(module, adapter, tmp_path):
    inputs, outputs = (64, 32) if module == DOWN else (32, 16 if module == K else 32)
    names = [f"base_model.model.{module}.lora_{each}{adapter}.weight" for each in "AB"]
    tensors = {names[0]: random(8, inputs), names[1]: random(outputs, 8)}
    folder = model(tmp_path / "in", tensors, HEADS)
    made, _ = ranks_of(folder, tmp_path / "out", 2)
    axis = 1 if module in (DOWN, OUT) else 0
    parts = [each[names[1]] @ each[names[0]] for each in made]
    np.testing.assert_array_equal(np.concatenate(parts, axis), tensors[names[1]] @ tensors[names[0]])


@pytest.mark.parametrize("module", [UP, DOWN, Q, K, OUT])
def test_rows_of_llm_int8_keep_their_scales(module, tmp_path):
    inputs, outputs = (64, 32) if module == DOWN else (32, 16 if module == K else 32)
    tensors = {
        f"{module}.weight": random(outputs, inputs, dtype="i1"), f"{module}.SCB": random(outputs),
        f"{module}.weight_format": np.array(0, "u1"),
    }  # fmt: skip
    made, _ = ranks_of(model(tmp_path / "in", tensors, HEADS), tmp_path / "out", 2)
    axis = 1 if module in (DOWN, OUT) else 0
    parts = [each[f"{module}.weight"] * each[f"{module}.SCB"][:, None] for each in made]
    wanted = tensors[f"{module}.weight"] * tensors[f"{module}.SCB"][:, None]
    np.testing.assert_array_equal(np.concatenate(parts, axis), wanted)
    tensors[f"{module}.weight_format"] = np.array(2, "u1")
    assert "lies in tiles" in refusal(model(tmp_path / "tiles", tensors, HEADS), tmp_path / "not", 2)


def test_layers_that_are_packed_in_other_ways_are_not_taken_for_alike(tmp_path):
    tensors = {}
    for layer, order in enumerate((0, 3)):
        module = UP.replace(".0.", f".{layer}.")
        tensors |= {f"{module}.weight": random(32, 32, dtype="i1"), f"{module}.SCB": random(32)}
        tensors[f"{module}.weight_format"] = np.array(order, "u1")
    assert "lies in tiles" in refusal(model(tmp_path / "in", tensors), tmp_path / "out", 2)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def of_nvfp4(module, tensors):
    values = tensors.get(f"{module}.weight", tensors.get(f"{module}.weight_packed"))
    values = FP4[np.stack([values & 15, values >> 4], -1).reshape(len(values), -1)]
    scales = tensors[f"{module}.weight_scale"].astype("f8")
    scales = scales * tensors.get(f"{module}.weight_scale_2", tensors.get(f"{module}.weight_global_scale"))
    return values * np.repeat(scales, 16, 1)


def of_int8(module, tensors):
    return (tensors[f"{module}.weight"] - tensors[f"{module}.weight_zero_point"].astype("i4")) * tensors[
        f"{module}.weight_scale"
    ]


def of_mlx(module, tensors):
    values, scales = unpacked(tensors[f"{module}.weight"], 4, 1), tensors[f"{module}.scales"]
    size = values.shape[1] // scales.shape[1]
    return values * np.repeat(scales, size, 1) + np.repeat(tensors[f"{module}.biases"], size, 1)


def grouped(kind, module, outputs, inputs, groups):
    """A quantized weight in the tensors of a library."""
    rng = np.random.default_rng(outputs)
    nibbles, fp8 = rng.integers(0, 256, (outputs, inputs // 2), "u1"), ml_dtypes.float8_e4m3fn
    parts = {
        "ModelOpt": {
            "weight": nibbles, "weight_scale": random(outputs, groups, dtype=fp8), "weight_scale_2": random(),
            "input_scale": random(),
        },
        "compressed-tensors NVFP4": {
            "weight_packed": nibbles, "weight_scale": random(outputs, groups, dtype=fp8),
            "weight_global_scale": random(1), "input_global_scale": random(1),
        },
        "compressed-tensors int8": {
            "weight": random(outputs, inputs, dtype="i1"), "weight_scale": random(outputs, 1),
            "weight_zero_point": random(outputs, 1, dtype="i1"),
        },
        "MLX": {
            "weight": packed(rng.integers(0, 16, (outputs, inputs)), 4, 1).view("u4"),
            "scales": random(outputs, groups), "biases": random(outputs, groups),
        },
    }  # fmt: skip
    return {f"{module}.{name}": array for name, array in {**parts[kind], "bias": random(outputs)}.items()}


GROUPED = {
    "ModelOpt": of_nvfp4, "compressed-tensors NVFP4": of_nvfp4, "compressed-tensors int8": of_int8, "MLX": of_mlx,
}  # fmt: skip


@pytest.mark.parametrize("module", [UP, DOWN, Q, K, OUT])
@pytest.mark.parametrize("kind", GROUPED)
def test_rows_of_integers_keep_the_scales_of_their_groups(kind, module, tmp_path):
    inputs, outputs = (64, 32) if module in (DOWN, OUT) else (32, 16 if module == K else 32)
    tensors, whole_of = grouped(kind, module, outputs, inputs, inputs // 16), GROUPED[kind]
    folder = model(tmp_path / "in", tensors, HEADS)
    made, _ = ranks_of(folder, tmp_path / "out", 2)
    axis = 1 if module in (DOWN, OUT) else 0
    parts = [whole_of(module, each) for each in made]
    assert np.prod(parts[0].shape) * 2 == outputs * inputs
    np.testing.assert_array_equal(np.concatenate(parts, axis), whole_of(module, tensors))
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    stores.reshard(files, tmp_path / "back.safetensors").run()
    assert stores.verify(tmp_path / "back.safetensors", folder) is None


@pytest.mark.parametrize("kind", GROUPED)
def test_groups_that_ranks_would_divide_and_other_shapes_are_refused(kind, tmp_path):
    odd = grouped(kind, DOWN, 32, 48, 3)
    if "int8" not in kind:
        assert "that 2 ranks would divide" in refusal(model(tmp_path / "a", odd, HEADS), tmp_path / "out", 2)
    (scales,) = (name for name in odd if name.endswith((".weight_scale", ".scales")))
    rows = {**odd, scales: odd[scales][:16]}
    assert "not of rows and their groups" in refusal(model(tmp_path / "b", rows, HEADS), tmp_path / "out", 2)
    packed_shape = {**odd, f"{DOWN}.weight_shape": np.array([32, 48])}
    assert "weight_shape" in refusal(model(tmp_path / "c", packed_shape, HEADS), tmp_path / "out", 2)


def test_parts_with_one_scale_in_each_row_are_not_guessed(tmp_path):
    for rank in range(2):
        written(tmp_path / f"{rank}.safetensors", grouped("MLX", DOWN, 32, 32, 1))
    with pytest.raises(ModelError, match="whose scales have one column in each rank"):
        stores.reshard([tmp_path / "0.safetensors", tmp_path / "1.safetensors"], tmp_path / "x.safetensors")
