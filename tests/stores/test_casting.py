"""Casts to one dtype are NumPy's and ml_dtypes', whatever the memory, the ranks and the layout."""

import json

import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 by it)
import numpy as np
import pytest
from safetensors.numpy import save_file
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import ModelError

TYPES = ("float64", "float32", "float16", "bfloat16")
LAYOUT = """
[[rules]]
match = "layers.{n}.up_proj.weight"
permute = [1, 0]
[[rules]]
join = ["layers.{n}.q_proj.weight", "layers.{n}.k_proj.weight"]
to = "layers.{n}.up_proj.qk"
axis = 0
[[axes]]
match = "*.up_proj.qk"
axis = 0
[[axes]]
match = "ids"
replicate = true
"""


def tensors():
    rng = np.random.default_rng(1)
    made = {"ids": np.arange(7), "layers.0.up_proj.weight": rng.standard_normal((400, 302)).astype("f4")}
    for k in range(1, 9):
        for name in ("q_proj", "k_proj"):
            numbers = rng.standard_normal((16, 24)) * 10.0 ** rng.integers(-9, 9)
            made[f"layers.{k}.{name}.weight"] = numbers.astype(TYPES[k % 4])
    return made


def expected(given, dtype):
    made = {name: each if name == "ids" else each.astype(dtype) for name, each in given.items()}
    found = {"ids": made["ids"], "layers.0.up_proj.weight": made["layers.0.up_proj.weight"].T}
    for k in range(1, 9):
        parts = [made[f"layers.{k}.{name}.weight"] for name in ("q_proj", "k_proj")]
        found[f"layers.{k}.up_proj.qk"] = np.concatenate(parts)
    return found


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("memory", ["40KB", "64MB"])
@pytest.mark.parametrize("dtype", [*TYPES, "float8_e4m3fn", "float8_e5m2"])
def test_casts_are_those_of_numpy(tmp_path, dtype, memory):
    given = tensors()
    (tmp_path / "in").mkdir()
    save_file(given, tmp_path / "in/model.safetensors")
    (tmp_path / "in/config.json").write_text(
        json.dumps({"dtype": "float32", "text_config": {"torch_dtype": "float32"}})
    )
    (tmp_path / "layout.toml").write_text(LAYOUT)
    for ranks in (None, 2):
        out = tmp_path / f"out{ranks}"
        stores.reshard([tmp_path / "in"], out, tmp_path / "layout.toml", ranks, memory, dtype=dtype).run()
        said = json.loads((out / "config.json").read_text())
        assert said == {"dtype": dtype, "text_config": {"torch_dtype": dtype}}
        if ranks:
            stores.reshard([out], out := tmp_path / "whole").run()
        found = stores.open(out)
        wanted = expected(given, dtype)
        assert {*found} == {*wanted}
        for name, each in wanted.items():
            assert found[name].dtype == each.dtype
            assert found[name].read().tobytes() == each.tobytes(), name


def test_pieces_are_cast_and_nothing_is_unless_asked_for(tmp_path):
    given = tensors()
    (tmp_path / "in").mkdir()
    save_file(given, tmp_path / "in/model.safetensors")
    (tmp_path / "layout.toml").write_text(LAYOUT)
    stores.reshard([tmp_path / "in"], tmp_path / "ranks", tmp_path / "layout.toml", 2).run()
    plan = stores.reshard([tmp_path / "ranks"], tmp_path / "whole", dtype="bfloat16")
    cast = "casts 2 tensors from float64 to bfloat16 by ml_dtypes"
    assert plan.remarks[0] == f"{cast}: numbers beyond ±3.38953e+38 become infinite"
    size = sum(each.nbytes for each in stores.reshard([tmp_path / "ranks"], tmp_path / "same").outputs)
    assert plan.totals.bytes_read == size
    assert plan.totals.bytes_read_again == 0
    plan.run()
    for name, each in expected(given, "bfloat16").items():
        assert stores.open(tmp_path / "whole")[name].read().tobytes() == each.tobytes()


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        ("float16", "±65504 become infinite"),
        ("float8_e5m2", "±57344 become infinite"),
        ("float8_e4m3fn", "±448 become nan"),
        ("bfloat16", ""),
        ("float64", ""),
    ],
)
def test_a_narrower_range_is_said(dtype, said, tmp_path):
    numbers = np.array([448, 464, 480, 57344, 61440, 65504, 65520, 1e6, 1e38, -1e6], np.float32)
    save_file({"w": numbers}, tmp_path / "x.safetensors")
    plan = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", dtype=dtype)
    (remark,) = plan.remarks
    assert remark.partition(": numbers beyond ")[2] == said
    plan.run()
    found = stores.open(tmp_path / "y.safetensors")["w"].read().astype(np.float64)
    assert np.isfinite(found).all() == (not said)
    if said:
        assert np.isnan(found).any() == said.endswith("nan")


def test_what_means_nothing_is_refused(tmp_path):
    save_file({"w": np.zeros(4, "float8_e4m3fn")}, tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match='"w" is float8_e4m3fn, whose scales are other tensors'):
        stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", dtype="float32")
    with pytest.raises(ModelError, match=r'dtype must be one of float64, .*, not "int8"'):
        stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", dtype="int8")
    assert not (tmp_path / "y.safetensors").exists()


def test_scales_of_quantized_weights_keep_their_dtypes(tmp_path, capsys):
    floats = np.linspace(0, 1, 8, dtype="f4")
    kept = {
        "gptq.qweight": np.ones((4, 8), "i4"), "gptq.qzeros": np.ones((1, 1), "i4"), "gptq.scales": floats[None],
        "int8.weight": np.ones((8, 4), "i1"), "int8.SCB": floats, "packed.weight_packed": np.ones((8, 1), "i4"),
        "packed.weight_scale": floats[:, None], "nf4.weight": np.ones((16, 1), "u1"), "nf4.weight.absmax": floats,
        "nf4.weight.nested_quant_map": floats, "norm.num_batches_tracked": np.array(3),
    }  # fmt: skip
    cast = dict.fromkeys(("gptq.bias", "nf4.bias", "norm.running_mean", "nf4.lora_A.weight", "weight"), floats)
    save_file({**kept, **cast}, tmp_path / "in.safetensors")
    plan = stores.reshard(tmp_path / "in.safetensors", tmp_path / "out.safetensors", dtype="bf16")
    said = next(
        each for each in plan.remarks if each.startswith("keeps the dtypes of 5 tensors of quantized weights: ")
    )
    assert all(name in said for name in ("gptq.scales", "int8.SCB", "nf4.weight.absmax", "packed.weight_scale"))
    plan.run()
    found = stores.open(tmp_path / "out.safetensors")
    assert {name: found[name].dtype for name in kept} == {name: each.dtype for name, each in kept.items()}
    assert {str(found[name].dtype) for name in cast} == {"bfloat16"}
    assert (
        anydml(capsys, "verify", tmp_path / "in.safetensors", tmp_path / "out.safetensors", "--dtype", "bf16")[0] == 0
    )


FLOATS = np.linspace(0, 1, 8, dtype="f4")


@pytest.mark.parametrize(
    ("integers", "kept", "cast"),
    [
        ({"l.weight": "u4"}, ["l.scales", "l.biases"], ["l.bias", "m.biases"]),
        ({"weight": "u4"}, ["scales", "biases"], ["bias", "norm"]),
        ({"l.q_weight": "i4", "l.q_scale": "i4", "l.q_groups": "i2"}, ["l.q_scale_max"], ["l.bias", "l.norm"]),
        ({"l.trellis": "i2"}, ["l.suh", "l.svh"], ["l.bias", "norm.weight"]),
        ({"l.weight._data": "i1"}, ["l.weight._scale", "l.input_scale"], ["l.bias", "m.input_scale"]),
        ({"l.weight._data._data": "u1"}, ["l.weight._scale", "l.weight._shift"], ["l.bias"]),
        ({"e.w13_qweight": "i4"}, ["e.w13_scales", "e.w13_zeros"], ["e.w2_weight", "e.w13_bias", "e.w2_scales"]),
        ({"e.w13_weight": "i1"}, ["e.w13_weight_scale", "e.w13_input_scale"], ["e.w2_weight"]),
        ({"e.gate_up_proj": "i1"}, ["e.gate_up_proj_scale"], ["e.gate_up_proj_bias", "e.down_proj"]),
        ({"e.attn_output_weight": "i1"}, ["e.attn_output_scale"], ["e.logit_scale"]),
        ({"l.codes": "i2"}, ["l.codebooks", "l.scales"], ["l.bias"]),
        ({"l.B": "i4"}, ["l.s"], ["l.bias"]),
        ({"l.Qidxs": "i8", "l.codebook_id": "i8"}, ["l.SU", "l.SV", "l.Wscale"], ["l.bias", "norm.weight"]),
        ({"l.indices": "i4", "l.perm": "u2"},
         ["l.centroids.weight", "l.res_centroids.weight", "l.outlier_centroids.weight", "l.weight_scale",
          "l.weight_bias"], ["l.bias", "m.centroids.weight"]),
        ({"l.indices": "i4"}, [], ["l.values", "m.centroids.weight"]),
        ({"l.weight": "i1"}, ["l.per_channel_scale", "l.smoother"], ["l.bias"]),
        ({"l.weight.quant_state.bitsandbytes__nf4": "u1"}, ["l.weight", "l.weight.absmax"], ["l.bias"]),
        ({"weight": "u1"}, ["weight.absmax"], ["norm", "head.weight"]),
        ({"qweight": "i4"}, ["scales"], ["norm", "head.weight"]),
        ({"B": "i4"}, [], ["A", "l.s", "norm"]),
        ({"codes": "i4", "weight": "u1"}, [], ["norm", "bias", "biases"]),
        ({"l.weight": "u1"}, [], ["l.other", "l.bias"]),
        ({"l.B": "i8"}, [], ["l.A", "l.logits"]),
        ({"position_ids": "i8"}, [], ["logit_scale", "scale"]),
    ],
    ids=str,
)  # fmt: skip
def test_only_what_is_beside_integers_keeps_its_dtype(integers, kept, cast, tmp_path):
    given = {name: np.ones(8, dtype) for name, dtype in integers.items()} | dict.fromkeys([*kept, *cast], FLOATS)
    save_file(given, tmp_path / "in.safetensors")
    plan = stores.reshard(tmp_path / "in.safetensors", tmp_path / "out.safetensors", dtype="bf16")
    assert any("of quantized weights" in each for each in plan.remarks) == bool(kept)
    plan.run()
    found = stores.open(tmp_path / "out.safetensors")
    assert {name: str(found[name].dtype) for name in kept} == dict.fromkeys(kept, "float32")
    assert {name: str(found[name].dtype) for name in cast} == dict.fromkeys(cast, "bfloat16")
