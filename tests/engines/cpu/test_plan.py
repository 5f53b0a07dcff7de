"""What the CPU engine says about programs: which kernels do them, in how many parts, by how many threads."""

import re

import numpy as np
import pytest

import anydml as dml
from anydml import core
from anydml.text import count_noun

FLOAT32, UINT8 = "FLOAT32", "UINT8"

pytestmark = pytest.mark.skipif(core.program is None, reason="there is no compiled core")


@pytest.fixture(autouse=True)
def cached():
    """Stores go through the caches, whatever this machine's are."""
    from anydml.core import moving

    moving.choose_kernels("", 1 << 60)
    yield moving.choose_kernels
    moving.choose_kernels()


def tensor(*sizes, data_type=FLOAT32):
    return dml.TensorDesc(data_type, sizes)


def split(shape, axis, parts, data_type=FLOAT32):
    outputs = [tensor(*shape[:axis], part, *shape[axis + 1 :], data_type=data_type) for part in parts]
    return dml.SplitOperatorDesc(tensor(*shape, data_type=data_type), outputs, axis)


def join(shape, axis, parts):
    desc = split(shape, axis, parts)
    return dml.JoinOperatorDesc(desc.output_tensors, desc.input_tensor, axis)


def slice1(shape, sizes, strides, data_type=FLOAT32):
    output = [1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True)]
    whole = tensor(*shape, data_type=data_type)
    return dml.Slice1OperatorDesc(whole, tensor(*output, data_type=data_type), [0] * len(shape), sizes, strides)


def gather(shape, indices, axis, data_type="INT64"):
    output = (*shape[:axis], *indices, *shape[axis + 1 :])
    rank = max(len(shape), len(output))

    def padded(sizes):
        return (1,) * (rank - len(sizes)) + tuple(sizes)

    index = dml.TensorDesc(data_type, padded(indices))
    axis += rank - len(shape)
    return dml.GatherOperatorDesc(tensor(*padded(shape)), index, tensor(*padded(output)), axis, len(indices))


def transposed(rows, columns):
    strides = dml.TensorDesc(FLOAT32, [rows, columns], [1, rows])
    return dml.ElementWiseIdentityOperatorDesc(strides, tensor(rows, columns))


CASES = {
    "long rows of a split": (split((512, 3072), 1, [1024] * 3), "rows"),
    "a split of the first axis": (split((64, 10000), 0, [16] * 4), "rows"),
    "many runs": (split((640, 10), 0, [7] * 90 + [10]), "runs"),
    "colour planes": (split((50_000, 3), 1, [1] * 3, UINT8), "interleave"),
    # Columns of more than four bytes are interleaved by vectors of 64 bytes only.
    "two, one, three": (
        split((40_000, 6), 1, [2, 1, 3]),
        "interleave" if core.instruction_set() == "x86-64-v4" else "elements",
    ),
    "planes together": (join((50_000, 3), 1, [1] * 3), "interleave"),
    "a reversal": (slice1((512, 512), (512, 512), (1, -1)), "mirror"),
    "mirrored pictures": (slice1((4, 8, 800, 3), (4, 8, 800, 3), (1, 1, -1, 1), UINT8), "mirror"),
    "every second": (slice1((512, 512), (512, 512), (1, 2)), "interleave"),
    "a crop": (slice1((4, 3, 256, 256), (4, 3, 128, 128), (1,) * 4), "rows"),
    "rows backwards": (slice1((512, 512), (512, 512), (-1, 1)), "rows"),
    "every ninth byte": (slice1((512, 9000), (512, 9000), (1, 9), UINT8), "interleave"),
    "every ninth of four": (slice1((512, 900, 4), (512, 900, 4), (1, 9, 1)), "elements"),
    "a transposition": (transposed(300, 500), "transpose"),
    "rows by index": (gather((1000, 64), (2000,), 0), "look-up"),
    "scalars by index": (gather((5000,), (50_000,), 0), "look-up"),
    "columns by index": (gather((512, 512), (512,), 1), "look-up"),
    "a table of indices": (gather((8, 512, 32), (8, 16), 1, "INT32"), "look-up"),
    "chosen by a mask": (
        dml.ElementWiseIfOperatorDesc(tensor(300, 300, data_type=UINT8), *[tensor(300, 300)] * 3),
        "select",
    ),
    "one value": (dml.FillValueConstantOperatorDesc(tensor(300, 300), FLOAT32, 7), "fill"),
    "one value a row": (
        dml.ElementWiseIdentityOperatorDesc(dml.TensorDesc(FLOAT32, [300, 300], [1, 0]), tensor(300, 300)),
        "repeat",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_work_has_its_kernel(name):
    desc, kernel = CASES[name]
    operator = dml.Device("cpu").compile_operator(desc)
    first, second, *lines = str(operator).splitlines()
    assert first.startswith(f"{desc.OPERATOR} on cpu: ")
    listed = re.match(rf"  {kernel}: (\d+) moves? in ", second)
    assert listed, second
    moves = int(listed[1])
    assert len(lines) == min(moves, 64) + (moves > 64)


def test_columns_of_several_rows_are_taken_apart_row_by_row():
    x = np.arange(2 * 3 * 64 * 512, dtype=np.float32).reshape(2, 3, 64, 512)

    def focus(x):
        return np.concatenate([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], axis=1)

    fused = dml.fuse(focus)
    assert {names for names, *_ in core.program.Compiled(fused.lower(x).moves, 2).stages()} == {("interleave",)}
    assert np.array_equal(fused(x), focus(x))


def test_crops_of_many_images_are_interleaved_together():
    images = [np.full((60 + k, 60 + k, 3), k, np.uint8) for k in range(32)]

    def crops(images):
        return np.stack([image[2:50, k % 3 :][:, :48].transpose(2, 0, 1) for k, image in enumerate(images)])

    fused = dml.fuse(crops)
    ((names, *_),) = core.program.Compiled(fused.lower(images).moves, 33).stages()
    assert names == ("interleave",)
    assert np.array_equal(fused(images), crops(images))


def test_explanations_count_bytes_and_threads():
    small, large = split((10, 300), 1, [100] * 3), split((4096, 3072), 1, [1024] * 3)
    assert str(dml.Device().compile_operator(small)).startswith(
        "DML_SPLIT on cpu: 12000 B to read, 12000 B to write, 1 thread\n"
    )
    assert str(dml.Device().compile_operator(large)).startswith(
        f"DML_SPLIT on cpu: 50331648 B to read, 50331648 B to write, {count_noun(dml.get_num_threads(), 'thread')}\n"
    )


def test_long_explanations_are_cut():
    lines = str(dml.Device().compile_operator(split((200, 100), 0, [1] * 200))).splitlines()
    assert lines[-1] == "    … 136 more"
    assert len(lines) < 140


@pytest.mark.parametrize("limit", [1 << 40, 1 << 20])
def test_stores_go_past_the_caches_only_where_much_is_written(limit, cached):
    cached("", limit)
    text = str(dml.Device().compile_operator(split((512, 3072), 1, [1024] * 3)))
    assert (", stored past the caches" in text) == (limit == 1 << 20)


def test_where_numpy_does_it_that_is_said(monkeypatch):
    monkeypatch.setattr(core, "program", None)
    text = str(dml.Device().compile_operator(split((512, 3072), 1, [1024] * 3)))
    assert text.splitlines()[1] == "  by NumPy: there is no compiled code for it here"
