"""Requests on slow mounts: files are opened once, and read by long requests."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from stores.test_opening import written

from anydml import stores
from anydml.stores.running import files

MAX_REQUESTS_PER_GIB = 300
LAYERS, ROWS, COLUMNS = 3, 4096, 2048

OPENED = Counter()
WATCHED = []


@sys.addaudithook
def _opened(event, arguments):
    """Count what is opened in the folder that is watched."""
    if event == "open" and WATCHED and isinstance(arguments[0], (str, os.PathLike)):
        path = Path(arguments[0])
        if WATCHED[0] in path.parents and path.suffix == ".safetensors":
            OPENED[path.name] += 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """96 MiB in three files."""
    folder = tmp_path_factory.mktemp("whole")
    values = np.random.default_rng(0).standard_normal(ROWS * COLUMNS).astype("f4")
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        tensors = {f"{name}.self_attn.o_proj.weight": np.roll(values, layer).reshape(COLUMNS, ROWS)}
        tensors |= {f"{name}.{which}_layernorm.weight": values[:ROWS] for which in ("input", "post_attention")}
        written(folder / f"model-{layer + 1:05}-of-{LAYERS:05}.safetensors", tensors)
    return folder


@pytest.fixture
def requests(monkeypatch):
    """What counts requests and opens of files in a folder while something runs."""
    reads = []
    one, several = files.PlainFile._read, files.request

    def read(file, view, at):
        reads.append(file.path)
        return one(file, view, at)

    def request(descriptor, buffer, starts, length, at, is_read):
        if is_read:
            reads.append(None)
        return several(descriptor, buffer, starts, length, at, is_read)

    monkeypatch.setattr(files.PlainFile, "_read", read)
    monkeypatch.setattr(files, "request", request)

    def counted(folder, run):
        reads.clear()
        OPENED.clear()
        WATCHED.append(folder)
        try:
            run()
        finally:
            WATCHED.clear()
        return len(reads), Counter(OPENED)

    return counted


@pytest.fixture(scope="module")
def ranks(whole, tmp_path_factory):
    """The same of four ranks."""
    folder = tmp_path_factory.mktemp("ranks") / "tp"
    stores.reshard(whole, folder, ranks=4).run()
    return folder


@pytest.mark.parametrize(
    "options", [{}, {"dtype": "bf16"}, {"ranks": 4}, {"ranks": {"fsdp": 2}, "dcp": True}, {"shards": 2}], ids=str
)
def test_a_plan_reads_by_long_requests_and_opens_each_file_twice(whole, tmp_path, requests, options):
    reads, opened = requests(whole, lambda: stores.reshard(whole, tmp_path / "out", **options).run())
    assert 0 < reads <= MAX_REQUESTS_PER_GIB * 96 / 1024 + 1
    # Once for its header, and once for its elements.
    assert [*opened.values()] == [2] * LAYERS


def test_ranks_are_joined_by_long_requests_and_their_copies_compared_in_open_files(ranks, tmp_path, requests):
    reads, opened = requests(ranks, lambda: stores.reshard(ranks, tmp_path / "out").run())
    # Of each norm, the copies of four ranks are compared.
    assert 0 < reads <= MAX_REQUESTS_PER_GIB * 96 / 1024 + 2 * LAYERS * 4
    assert [*opened.values()] == [3] * 4


@pytest.mark.parametrize("is_distributed", [False, True])
@pytest.mark.parametrize("options", [{}, {"dtype": "bf16"}], ids=str)
def test_pieces_that_follow_each_other_in_files_are_read_together(tmp_path, requests, is_distributed, options):
    values = np.random.default_rng(0).standard_normal(1 << 20).astype("f4")
    tensors = {f"layers.{k}.up.weight": np.roll(values, k).reshape(1024, 1024) for k in range(24)}
    tensors |= {f"layers.{k}.norm.weight": values[k : k + 1024] for k in range(24)}
    written(tmp_path / "x.safetensors", tensors)
    stores.reshard(tmp_path / "x.safetensors", tmp_path / "in", ranks={"fsdp": 4}, dcp=is_distributed).run()
    reads, _ = requests(
        tmp_path / "in", lambda: stores.reshard(tmp_path / "in", tmp_path / "out.safetensors", **options).run()
    )
    assert 0 < reads <= MAX_REQUESTS_PER_GIB * 96 / 1024
    if not options:
        assert stores.verify(tmp_path / "x.safetensors", tmp_path / "out.safetensors") is None


JOINED_AND_DIVIDED = [
    {}, {"shards": 8}, {"shards": 3}, {"ranks": 4}, {"ranks": 8}, {"ranks": {"fsdp": 8}}, {"ranks": {"fsdp": 3}},
    {"ranks": {"tp": 4, "fsdp": 2}}, {"ranks": {"tp": 2, "fsdp": 4}, "dcp": True},
    {"dtype": "fp32"}, {"dtype": "fp32", "ranks": 4}, {"dtype": "fp32", "shards": 3}, {"dtype": "fp8_e4m3"},
    {"dtype": "fp32", "memory": "512MB"}, {"dtype": "fp32", "ranks": 4, "memory": "512MB"},
    {"dtype": "fp32", "ranks": {"fsdp": 8}, "memory": "512MB"},
]  # fmt: skip


@pytest.mark.parametrize("ranks", [{"fsdp": 8}, {"tp": 8}, {"tp": 4}, {"tp": 4, "fsdp": 2}], ids=str)
def test_several_files_are_joined_and_divided_by_long_requests(tmp_path, ranks):
    # 22 MiB: a window of 40 MiB would hold one of these only, and 22 MiB in eight files is 372 requests a GiB.
    names = {"self_attn.q_proj": (2048, 2048), "mlp.gate_proj": (5632, 2048), "mlp.up_proj": (5632, 2048),
             "mlp.down_proj": (2048, 5632), "input_layernorm": (2048,)}  # fmt: skip
    shapes = {f"model.layers.{k}.{name}.weight": shape for k in range(2) for name, shape in names.items()}
    size, header = 0, {}
    for name, shape in shapes.items():
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [size, size + 2 * int(np.prod(shape))]}
        size = header[name]["data_offsets"][1]
    text = json.dumps(header).encode()
    (tmp_path / "in").mkdir()
    with (tmp_path / "in/model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)
    heads = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16}
    (tmp_path / "in/config.json").write_text(json.dumps(heads))
    stores.reshard(tmp_path / "in", tmp_path / "ranks", ranks=ranks).run()
    for options in JOINED_AND_DIVIDED:
        totals = stores.reshard(tmp_path / "ranks", tmp_path / "out", **options).totals
        # Half of a thread's 256 MB / 2 holds less than 8 MiB of each of eight files, cast to four bytes an element.
        is_short_of_memory = options.get("dtype") == "fp32" and "memory" not in options
        limit = 350 if is_short_of_memory else MAX_REQUESTS_PER_GIB
        assert 0 < totals.reads <= limit * size / 2**30, options
        assert 0 < totals.writes <= limit * size / 2**30, options
        assert not totals.bytes_read_again, options


@pytest.mark.parametrize("mebibytes", [32, 56, 112])
@pytest.mark.parametrize("ranks", [{"fsdp": 8}, {"tp": 8}], ids=str)
def test_with_more_memory_large_tensors_of_several_files_are_cast_by_long_requests(tmp_path, mebibytes, ranks):
    """Cast, a tensor is larger than a window that is not cast."""
    names = [f"model.layers.{k}.mlp.{('up', 'down')[k % 2]}_proj.weight" for k in range(4)]
    entries = [(name, (mebibytes << 8, 2048)[:: 1 - 2 * (k % 2)]) for k, name in enumerate(names)]
    sparse(tmp_path / "x.safetensors", entries)
    stores.reshard(tmp_path / "x.safetensors", tmp_path / "in", ranks=ranks).run()
    for options in {}, {"ranks": 4}, {"ranks": {"fsdp": 8}}:
        totals = stores.reshard(tmp_path / "in", tmp_path / "out", dtype="fp32", memory="512MB", **options).totals
        assert totals.reads <= MAX_REQUESTS_PER_GIB * totals.bytes_read / 2**30, options
        assert totals.writes <= MAX_REQUESTS_PER_GIB * totals.bytes_written / 2**30, options


@pytest.mark.parametrize("other", ["whole", "ranks"])
def test_verify_opens_each_file_twice(whole, ranks, requests, other):
    other = whole if other == "whole" else ranks
    found = []
    reads, opened = requests(whole, lambda: found.append(stores.verify(whole, other)))
    assert found == [None]
    assert [*opened.values()] == ([4] if other is whole else [2]) * LAYERS
    assert reads <= 2 * MAX_REQUESTS_PER_GIB * 96 / 1024


def test_a_manifest_opens_each_file_twice(whole, requests):
    reads, opened = requests(whole, lambda: stores.manifest(whole))
    assert 0 < reads <= MAX_REQUESTS_PER_GIB * 96 / 1024
    assert [*opened.values()] == [2] * LAYERS


def test_many_small_tensors_of_ranks_are_read_by_few_requests(tmp_path):
    layers = {f"model.layers.{k}.mlp": np.arange(k, k + 128, dtype="f4") for k in range(1100)}
    own = {f"{name}.gate_proj.weight": each.reshape(16, 8) for name, each in layers.items()}
    own |= {f"{name}.down_proj.weight": -each.reshape(8, 16) for name, each in layers.items()}
    # Without these, tensors that are alike would be evenly spaced.
    own |= {f"model.layers.{k}.input_layernorm.weight": np.ones(k, "f4") for k in range(1, 1100, 3)}
    save_file(own, tmp_path / "whole.safetensors")
    plan = stores.reshard([tmp_path / "whole.safetensors"], tmp_path / "tp", ranks=4)
    assert plan.totals.reads < 100
    assert not sum(len(group.moves) for group in plan.blocking.distinct)
    plan.run()
    ranks = [stores.open(tmp_path / f"tp/model-rank-{rank:05}-of-00004.safetensors") for rank in range(4)]
    for name, tensor in own.items():
        parts = [tensor] * 4 if "norm" in name else np.split(tensor, 4, 1 if "down" in name else 0)
        for rank, part in zip(ranks, parts, strict=True):
            assert np.array_equal(rank[name].read(), part), name
    assert stores.verify(tmp_path / "whole.safetensors", tmp_path / "tp") is None


def experts(rng, count, sizes):
    """Gates, ups and downs of experts, and norms of other dtypes between layers."""
    tensors = {}
    for layer in range(3):
        for k in range(count):
            own = f"model.layers.{layer}.mlp.experts.{k}"
            for name in ("gate_proj", "up_proj", "down_proj"):
                shape = sizes[::-1] if name == "down_proj" else sizes
                tensors[f"{own}.{name}.weight"] = rng.integers(0, 1 << 15, shape).astype("i2").view("f2")
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = rng.integers(0, 99, sizes[1]).astype("f4")
    return tensors


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"ranks": 4}, {"ranks": {"tp": 2, "fsdp": 2}}, {"ranks": {"tp": 2, "pp": 3}}, {"ranks": 4, "dcp": True},
        {"ranks": 4, "dtype": "float32"}, {"ranks": {"tp": 2, "ep": 2}, "memory": "20MB"},
        {"ranks": 4, "memory": "3MB"},
    ],
    ids=str,
)  # fmt: skip
def test_tensors_of_ranks_are_read_once_for_all_of_them(tmp_path, options, files):
    own = experts(np.random.default_rng(0), 4, (768, 512))
    names = [*own]
    (tmp_path / "in").mkdir()
    for k in range(files):
        some = names[k * len(names) // files : (k + 1) * len(names) // files]
        save_file({name: own[name] for name in some}, tmp_path / f"in/{k}.safetensors")
    plan = stores.reshard(tmp_path / "in", tmp_path / "out", **options)
    size = sum(each.nbytes for each in own.values())
    if options.get("memory") != "3MB":
        assert plan.totals.bytes_read <= 1.01 * size
        assert plan.totals.reads <= 24
    plan.run()
    stores.reshard(tmp_path / "out", tmp_path / "back.safetensors").run()
    found = stores.open(tmp_path / "back.safetensors")
    assert {*found} == {*own}
    for name, tensor in own.items():
        expected = tensor.astype("f4") if "dtype" in options else tensor
        assert found[name].read().tobytes() == expected.tobytes(), name


def test_planning_ten_thousands_of_tensors_for_ranks_takes_few_moves(tmp_path):
    header, at = {}, 0
    for layer in range(20):
        for k in range(200):
            for name in ("gate_proj", "up_proj", "down_proj"):
                offsets = [at, at + (8 << 20)]
                header[f"model.layers.{layer}.mlp.experts.{k}.{name}.weight"] = {
                    "dtype": "F16", "shape": [2048, 2048], "data_offsets": offsets,
                }  # fmt: skip
                at += 8 << 20
    text = json.dumps(header).encode()
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    plan = stores.reshard(tmp_path / "x.safetensors", tmp_path / "out", ranks=4)
    assert len(plan.blocking.groups) == 1
    assert sum(len(group.moves) for group in plan.blocking.distinct) <= 8
    assert plan.totals.reads <= MAX_REQUESTS_PER_GIB * at / (1 << 30)
    assert plan.totals.bytes_read_again == 0


@pytest.mark.parametrize("options", [{"ranks": {"fsdp": 4}, "dcp": True}, {"ranks": 4, "dcp": True}], ids=str)
def test_many_pieces_of_experts_and_other_tensors_are_written(tmp_path, options):
    """Whose moves are too many to tell whether they write the same bytes."""
    rng, own = np.random.default_rng(0), {}
    for layer in range(12):
        name = f"model.layers.{layer}"
        for which in ("q_proj", "k_proj", "v_proj", "o_proj"):
            own[f"{name}.self_attn.{which}.weight"] = rng.integers(0, 1 << 15, (512, 256)).astype("i2").view("f2")
        for k in range(24):
            for which in ("gate_proj", "up_proj", "down_proj"):
                shape = (256, 512) if which == "down_proj" else (512, 256)
                own[f"{name}.mlp.experts.{k}.{which}.weight"] = rng.integers(0, 99, shape).astype("i2").view("f2")
        own[f"{name}.mlp.gate.weight"] = rng.integers(0, 99, (24, 256)).astype("i2").view("f2")
        own[f"{name}.input_layernorm.weight"] = rng.integers(0, 99, 256).astype("f4")
    save_file(own, tmp_path / "x.safetensors")
    stores.reshard(tmp_path / "x.safetensors", tmp_path / "out", **options).run()
    assert stores.verify(tmp_path / "x.safetensors", tmp_path / "out") is None


def sparse(path, entries):
    """A file of tensors of float16, by names and shapes, of which no byte is on the disk."""
    header, at = {}, 0
    for name, shape in entries:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": [*shape], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    return at


@pytest.mark.parametrize("sizes", [(8, 32), (32, 64), (128, 256), (512, 1024), (1024, 1024), (2048, 2048)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"ranks": 4}, {"ranks": {"fsdp": 4}}, {"ranks": {"tp": 2, "ep": 2}}, {"ranks": 4, "dcp": True},
        {"ranks": {"fsdp": 8}, "dcp": True},
    ],
    ids=str,
)  # fmt: skip
def test_experts_of_any_size_are_read_and_written_by_few_requests(tmp_path, options, sizes):
    entries = []
    for layer in range(8):
        for k in range(max(8, (24 << 20) // (2 * sizes[0] * sizes[1]) // 8)):
            own = f"model.layers.{layer}.mlp.experts.{k}"
            entries += [(f"{own}.{name}_proj.weight", sizes) for name in ("gate", "up")]
            entries.append((f"{own}.down_proj.weight", sizes[::-1]))
        entries.append((f"model.layers.{layer}.input_layernorm.weight", sizes[1:]))
    total = sparse(tmp_path / "x.safetensors", entries)
    totals = stores.reshard(tmp_path / "x.safetensors", tmp_path / "out", **options).totals
    assert totals.bytes_read_again == 0
    assert totals.reads <= MAX_REQUESTS_PER_GIB * total / (1 << 30) + 8
    assert totals.writes <= MAX_REQUESTS_PER_GIB * totals.bytes_written / (1 << 30) + 8


@pytest.mark.parametrize("is_distributed", [False, True])
@pytest.mark.parametrize("options", [{"ranks": 4}, {"ranks": {"fsdp": 4}}], ids=str)
def test_tensors_of_any_shapes_are_read_once_and_written_by_few_requests(tmp_path, options, is_distributed):
    rng, own = np.random.default_rng(0), {}
    for k in range(400):
        name = ("self_attn.q_proj", "mlp.down_proj", "mlp.up_proj", "input_layernorm")[k % 4]
        shape = 4 * rng.integers(1, 300, 1 if k % 4 == 3 else 2)
        own[f"model.layers.{k}.{name}.weight"] = rng.integers(0, 1 << 15, shape).astype("i2").view("f2")
    save_file(own, tmp_path / "x.safetensors")
    size = (tmp_path / "x.safetensors").stat().st_size / (1 << 30)
    plan = stores.reshard(tmp_path / "x.safetensors", tmp_path / "out", **options, dcp=is_distributed)
    assert plan.totals.bytes_read_again == 0
    assert max(plan.totals.reads, plan.totals.writes) <= MAX_REQUESTS_PER_GIB * size + 8
    plan.run()
    assert stores.verify(tmp_path / "x.safetensors", tmp_path / "out") is None


@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("mebibytes", [11, 21, 24, 32])
@pytest.mark.parametrize(
    "options",
    [{"ranks": 8}, {"ranks": {"fsdp": 8}}, {"ranks": {"fsdp": 8}, "dcp": True}, {"ranks": {"tp": 4, "fsdp": 2}}],
    ids=str,
)
def test_few_requests_write_tensors_of_any_size(tmp_path, mebibytes, options, dtype):
    """Windows have room for 40 MiB: they are filled, whatever the size of a tensor is."""
    shape = (mebibytes << 8, 2048)
    names = [f"model.layers.0.mlp.experts.{k}.{('up', 'down')[k % 2]}_proj.weight" for k in range(96)]
    at = sparse(tmp_path / "x.safetensors", [(name, shape[:: 1 - 2 * (k % 2)]) for k, name in enumerate(names)])
    totals = stores.reshard(tmp_path / "x.safetensors", tmp_path / "out", dtype=dtype, **options).totals
    assert totals.bytes_read == at
    assert totals.writes <= MAX_REQUESTS_PER_GIB * totals.bytes_written / 2**30
    assert totals.reads <= MAX_REQUESTS_PER_GIB * at / 2**30


@pytest.mark.parametrize("is_distributed", [False, True])
def test_few_requests_write_tensors_of_several_files(tmp_path, is_distributed):
    """Tensors of 22 MiB of which each of eight files has a part."""
    values = np.random.default_rng(0).integers(0, 99, 5632 * 2048).astype("i2").view("f2")
    names = [f"model.layers.{k}.mlp.{('up', 'down')[k % 2]}_proj.weight" for k in range(4)]
    shapes = [(5632, 2048)[:: 1 - 2 * (k % 2)] for k in range(4)]
    tensors = {name: np.roll(values, k).reshape(shapes[k]) for k, name in enumerate(names)}
    written(tmp_path / "x.safetensors", tensors)
    stores.reshard(tmp_path / "x.safetensors", tmp_path / "in", ranks={"fsdp": 8}, dcp=is_distributed).run()
    for options in {"ranks": 4}, {"ranks": 4, "dcp": True}:
        totals = stores.reshard(tmp_path / "in", tmp_path / "out", **options).totals
        assert totals.writes <= MAX_REQUESTS_PER_GIB * totals.bytes_written / 2**30
