"""Windows of files that are divided otherwise among others: all of it, once, by few requests."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from anydml import stores
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.planning.copies import Rows, RowTable
from anydml.stores.planning.row_copies import RowCopies
from anydml.stores.planning.windows import Windows, window_io

MAX_REQUESTS_PER_GIB = 300

PAIRS = [
    ({"fsdp": 8}, {"tp": 4}), ({"tp": 4}, {"fsdp": 8}), ({"tp": 8}, {"tp": 4}), ({"tp": 4}, {"tp": 8}),
    ({"fsdp": 8}, {"fsdp": 2}), ({"fsdp": 2}, {"fsdp": 8}), ({"fsdp": 8}, {"tp": 4, "fsdp": 2}),
    ({"tp": 2, "pp": 2}, {"fsdp": 4}), ({"tp": 4, "fsdp": 2}, {"tp": 2}),
]  # fmt: skip


def model(rng, width, hidden, layers, words):
    """Tensors of a model, with norms of another dtype between them."""
    shapes = {"model.embed_tokens.weight": (words, width), "lm_head.weight": (words, width)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.self_attn.{each}_proj.weight": (width, width) for each in "qkvo"}
        shapes[f"{name}.input_layernorm.weight"] = (width,)
        shapes |= {f"{name}.mlp.{each}_proj.weight": (hidden, width) for each in ("gate", "up")}
        shapes[f"{name}.mlp.down_proj.weight"] = (width, hidden)
    return {
        name: rng.integers(0, 99, shape).astype("f4")
        if len(shape) == 1
        else rng.integers(0, 1 << 15, shape).astype("i2").view("f2")
        for name, shape in shapes.items()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A model of 23 MB in two files."""
    folder = tmp_path_factory.mktemp("whole")
    tensors = model(np.random.default_rng(0), 512, 1408, 3, 2048)
    names = [*tensors]
    for k in range(2):
        save_file({name: tensors[name] for name in names[k::2]}, folder / f"model-{k}.safetensors")
    heads = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8}
    (folder / "config.json").write_text(json.dumps(heads))
    return folder


# Windows are whole models, some tensors, and parts of tensors.
@pytest.mark.parametrize(("memory", "is_distributed"), [("256MB", False), ("17MB", True)])
@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_ranks_are_divided_otherwise_by_windows_of_any_size(whole, tmp_path, source, target, is_distributed, memory):
    stores.reshard(whole, tmp_path / "in", ranks=source, dcp=is_distributed).run()
    plan = stores.reshard(tmp_path / "in", tmp_path / "out", ranks=target, dcp=not is_distributed, memory=memory)
    assert any(group.windows is not None for group in plan.blocking.distinct)
    # Copies of small tensors are read from one rank.
    assert plan.totals.bytes_read_again == 0
    plan.run()
    assert stores.verify(whole, tmp_path / "out") is None


@pytest.mark.parametrize(("dtype", "memory"), [("fp32", "256MB"), ("bf16", "17MB")])
def test_windows_are_cast(whole, tmp_path, dtype, memory):
    stores.reshard(whole, tmp_path / "in", ranks={"fsdp": 4}).run()
    stores.reshard(tmp_path / "in", tmp_path / "out", ranks=2, dtype=dtype, memory=memory).run()
    assert not stores.compare(whole, tmp_path / "out", dtype=dtype).differences


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Folders of ranks of 270 MB."""
    folder = tmp_path_factory.mktemp("ranks")
    rng = np.random.default_rng(0)
    tensors = model(rng, 64, 176, 1, 64) | {
        name: np.zeros(shape, "f2")
        for layer in range(4)
        for name, shape in {
            **{f"model.layers.{layer}.self_attn.{each}_proj.weight": (2048, 2048) for each in "qkvo"},
            **{f"model.layers.{layer}.mlp.{each}_proj.weight": (4096, 2048) for each in ("gate", "up")},
            f"model.layers.{layer}.mlp.down_proj.weight": (2048, 4096),
        }.items()
    }
    save_file(tensors, folder / "x.safetensors")
    return folder


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=str)
def test_ranks_are_divided_otherwise_by_few_requests(ranks, tmp_path, source, target):
    is_distributed = target == {"fsdp": 8}
    stores.reshard([ranks / "x.safetensors"], tmp_path / "in", ranks=source, dcp=not is_distributed).run()
    totals = stores.reshard(tmp_path / "in", tmp_path / "out", ranks=target, dcp=is_distributed).totals
    size = (ranks / "x.safetensors").stat().st_size / (1 << 30)
    assert max(totals.reads, totals.writes) <= MAX_REQUESTS_PER_GIB * size + 16


@pytest.mark.parametrize("seed", range(20))
def test_windows_have_each_row_once_wherever_they_end(seed):
    rng = np.random.default_rng(seed)
    columns, at, to = [], 0, 0
    for _ in range(12):
        length, count, others = rng.integers(1, 9, 3)
        step = length + rng.integers(0, 20)
        # The rows of others, at the same places of further sources, lie between these.
        for k in range(others):
            columns.append((to + k * length, at, length, count, others * length, step))
            # The next may begin between the rows of this one, as those of another rank do.
            at += rng.integers(0, count * step)
        to += others * count * length + rng.integers(0, 3)
    rows = Rows(*np.array(columns).T)
    source = rng.integers(0, 256, int(rows.ends.max())).astype("u1")
    expected, found = np.zeros((2, to), "u1")
    for first, at, length, count, to_step, step in columns:
        for k in range(count):
            expected[first + k * to_step :][:length] = source[at + k * step :][:length]
    order = np.argsort(rows.from_, kind="stable")
    copies = RowCopies(0, 1, RowTable.of(rows.select(order)), KnownBytes.of(), 0)
    # The second half of the source lies elsewhere in the file.
    half, one = source.size // 2, np.arange(2)
    halves = np.array([half, source.size - half])
    windows = Windows(source.size, 1, one * half, one * 0, np.array([half + 99, 7]), halves)
    file = np.zeros(source.size + 200, "u1")
    for offset, length, place in zip(windows.offsets, halves, windows.places, strict=True):
        file[offset : offset + length] = source[place : place + length]
    low = written = 0
    while low < source.size:
        high = min(source.size, low + int(rng.integers(1, 40)))
        # Rows from both halves would be in both.
        high = half if low < half < high else high
        io = window_io([copies], windows, low, high)
        buffer = np.zeros(io.size, "u1")
        assert not io.known
        for transfers, is_read in ((io.reads, True), (io.writes, False)):
            for transfer in transfers:
                runs = transfer.run_offsets.tolist(), transfer.buffer_offsets.tolist(), transfer.lengths.tolist()
                for offset, place, length in zip(*runs, strict=True):
                    if is_read:
                        buffer[place : place + length] = file[offset : offset + length]
                    else:
                        found[offset : offset + length] = buffer[place : place + length]
            if is_read:
                io.copied.run(buffer, buffer)
        written += sum(write.bytes for write in io.writes)
        low = high
    assert written == int(rows.sizes.sum())
    assert np.array_equal(found, expected)
