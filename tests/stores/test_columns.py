"""Headers and targets in columns: equal to what is written one tensor at a time, and not held by a plan."""

import json

import numpy as np
import pytest
import safetensors.numpy
from stores.test_opening import written

from anydml import stores
from anydml.files.location import Location
from anydml.stores.formats.columns import FileTensors, digits_of
from anydml.stores.formats.new_header import RankParts, make_header

CHARACTERS = 'ab."\\/\n\t\x00\x1f\x7fé漢😀 {}[],:'


def test_the_digits_of_numbers_are_those_of_their_texts():
    numbers = [0, 1, 9, 10, 11, 99, 100, 10**17, 10**18 - 1, 10**18, 2**63 - 1]
    assert digits_of(np.array(numbers)).tolist() == [len(str(number)) for number in numbers]


@pytest.mark.parametrize("seed", range(20))
def test_a_header_is_as_long_as_was_planned_and_says_what_was_given(seed):
    rng = np.random.default_rng(seed)

    def text():
        return "".join(rng.choice([*CHARACTERS], rng.integers(0, 9)))

    dtypes = [np.dtype(each) for each in ("f4", "f2", "u1", "<i8")]
    names = [*dict.fromkeys(text() for _ in range(rng.integers(0, 60)))]
    tensors = {name: (tuple(rng.integers(0, 12, 2).tolist()), rng.choice(dtypes)) for name in names}
    metadata = {text(): text() for _ in range(rng.integers(0, 4))}
    columns = FileTensors.of(tensors)
    cuts = ['[[[0, 1]], "é\\""]', "[]"]
    part = rng.integers(0, 2, len(names))
    ranks = RankParts("parts", columns.names, columns.name, dict(enumerate(cuts)), part) if rng.random() < 0.7 else None
    header, offsets, size = make_header(columns, metadata, Location("x"), ranks)
    content = header.make()
    start = 8 + int.from_bytes(content[:8], "little")
    said = json.loads(content[8:])
    expected = metadata | (
        {"parts": json.dumps(dict(zip(names, map(json.loads, np.array(cuts)[part]), strict=True)), ensure_ascii=False)}
        if ranks
        else {}
    )
    assert len(content) == start
    assert start % 4096 == 0
    found = said.pop("__metadata__", {})
    assert {**found, "parts": json.loads(found.get("parts", "0"))} == {
        **expected, "parts": json.loads(expected.get("parts", "0"))
    }  # fmt: skip
    assert {*said} == {*names}
    for name, at in zip(names, offsets.tolist(), strict=True):
        shape, dtype = tensors[name]
        assert said[name]["shape"] == [*shape]
        assert np.diff(said[name]["data_offsets"]) == np.prod(shape, dtype=int) * dtype.itemsize
        assert start + said[name]["data_offsets"][0] == at
    assert size == start + sum(np.prod(shape, dtype=int) * dtype.itemsize for shape, dtype in tensors.values())


@pytest.mark.parametrize("options", [{"ranks": {"fsdp": 4}}, {"ranks": {"fsdp": 4}, "dcp": True}, {"ranks": 2}])
def test_layers_that_are_alike_are_planned_once(tmp_path, options):
    layers = 200
    tensors = {
        f"model.layers.{layer}.{name}.weight": np.full((8, 4), layer, "f4")
        for layer in range(layers)
        for name in ("self_attn.o_proj", "mlp.up_proj")
    }
    written(tmp_path / "a.safetensors", tensors)
    plan = stores.reshard(tmp_path / "a.safetensors", tmp_path / "out", **options)
    ranks = plan.files if not options.get("dcp") else plan.files[:4]
    assert len(plan.outputs) == 2 * layers * len(ranks)
    assert len(plan.outputs.kinds) <= 2 * len(ranks)
    # Nothing is made of what is long before it is written.
    assert not any(isinstance(file.header, bytes) and file.header for file in plan.files)
    assert not any(isinstance(content, bytes) for content in plan.other_files.values())
    plan.run()
    stores.reshard(tmp_path / "out", tmp_path / "whole.safetensors").run()
    found = safetensors.numpy.load_file(tmp_path / "whole.safetensors")
    assert all(np.array_equal(found[name], array) for name, array in tensors.items())


def test_the_index_is_that_of_json(tmp_path):
    tensors = {f"é{k}\"'\\": np.zeros(4, "f4") for k in range(9)}
    written(tmp_path / "in.safetensors", tensors)
    stores.reshard(tmp_path / "in.safetensors", tmp_path / "out", shards=3).run()
    text = (tmp_path / "out/model.safetensors.index.json").read_text("utf-8")
    content = json.loads(text)
    assert text == json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    assert [*content["weight_map"]] == sorted(tensors)
    assert content["metadata"] == {"total_size": 9 * 16}


def test_casts_of_adjacent_tensors_share_requests(tmp_path):
    tensors = {f"w{k}": np.random.default_rng(k).standard_normal(100).astype("f4") for k in range(500)}
    tensors["odd"] = np.arange(3, dtype="u1")
    tensors |= {f"v{k}": np.random.default_rng(k).standard_normal(7).astype("f8") for k in range(100)}
    written(tmp_path / "a.safetensors", tensors)
    plan = stores.reshard(tmp_path / "a.safetensors", tmp_path / "b.safetensors", dtype="fp16")
    assert plan.totals.reads <= 6
    plan.run()
    found = safetensors.numpy.load_file(tmp_path / "b.safetensors")
    assert all(
        np.array_equal(found[name], array if name == "odd" else array.astype("f2")) for name, array in tensors.items()
    )


def test_a_rule_for_one_layer_is_one_for_its_scales(tmp_path):
    tensors = {}
    for layer in range(4):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        tensors |= {name: np.full((8, 4), layer, "f4"), f"{name}_scale": np.full((8, 1), layer, "f4")}
    written(tmp_path / "a.safetensors", tensors)
    (tmp_path / "l.toml").write_text('axes = [{match = "model.layers.2.mlp.up_proj.weight", axis = 1}]')
    plan = stores.reshard(tmp_path / "a.safetensors", tmp_path / "out", tmp_path / "l.toml", ranks=2)
    shapes = {target.name: target.shape for target in plan.outputs}
    for layer in range(4):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        whole = (8, 2), (8, 1)
        assert (shapes[name], shapes[f"{name}_scale"]) == (whole if layer == 2 else ((4, 4), (4, 1)))
    # Layers that no rule names are planned together.
    assert len(plan.outputs.kinds) == 2 * 3 + 1
