"""Permuted copies against NumPy: any shape, order, element, step and direction; and which kernel does which."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.engines.cpu import admission, engine, permute, plan
from anydml.moves import Access, Move, simplify
from anydml.operators.slice import slice_moves
from anydml.tensor import Layout

DTYPES = ["u1", "u2", "f4", "f8", "c16", "V3", "V6", "V12", "V5", "V24", "V64"]


def copy_program(out, x):
    moves = slice_moves(Layout.of(x), Layout.of(out), (0,) * x.ndim, (1,) * x.ndim)
    return engine.program("copy", moves)


@st.composite
def views(draw):
    """A view whose axes are permuted, some of them stepped, reversed or repeated, and an output for it."""
    rank = draw(st.integers(2, 6))
    sizes = [1, 2, 3, 4, 5, 8, 16, 17, 31, 33, 64, 65, 90, 200]
    shape = [draw(st.sampled_from(sizes)) for _ in range(rank)]
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    assume(10 < math.prod(shape) * dtype.itemsize < 3_000_000)
    x = np.random.default_rng(rank).integers(0, 256, math.prod(shape) * dtype.itemsize, np.uint8)
    x = x.view(dtype).reshape(shape).transpose(draw(st.permutations(range(rank))))
    x = x[tuple(slice(None, None, draw(st.sampled_from([1, 1, 1, -1, 2, -3]))) for _ in shape)]
    if draw(st.integers(0, 7)) == 0:
        x = np.broadcast_to(x[:, None], (x.shape[0], 3, *x.shape[1:]))
    gaps = draw(st.sampled_from(["none", "none", "shifted", "between rows", "between elements"]))
    if gaps == "none":
        return x, np.zeros(x.shape, dtype)
    if gaps == "shifted":
        shift = draw(st.integers(0, 63))
        return x, np.zeros(x.nbytes + 64, np.uint8)[shift : shift + x.nbytes].view(dtype).reshape(x.shape)
    if gaps == "between rows":
        return x, np.zeros([size + 1 for size in x.shape], dtype)[tuple(slice(size) for size in x.shape)]
    return x, np.zeros([2 * size for size in x.shape], dtype)[tuple(slice(None, None, 2) for _ in x.shape)]


@pytest.mark.parametrize("cache", [-1, 1 << 60], ids=["streamed", "cached"])
def test_programs_move_what_numpy_moves(cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "most_cached", lambda: cache)
        patch.setattr(engine, "SMALL_BYTES", -1)
        patch.setattr(plan, "PERMUTED_BYTES", 0)
        # No time for patterns of their own.
        patch.setattr(admission, "MOST", 0)

        @settings(max_examples=120, deadline=None)
        @given(views())
        def check(case):
            x, out = case
            program = copy_program(out, x)
            program.run((x, out))
            assert out.tobytes() == x.tobytes(), str(program)

        check()


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from([1, 2]))
def test_functions_move_what_numpy_moves(case, threads):
    x, out = case
    before = dml.get_num_threads()
    dml.set_num_threads(threads)
    most, admission.MOST = admission.MOST, 0
    try:
        dml.slice(x, (0,) * x.ndim, x.shape, out=out)
        assert out.tobytes() == x.tobytes()
        both = dml.join([x, x], axis=0)
        assert both.tobytes() == x.tobytes() * 2
        for part, expected in zip(dml.split(x, [1, x.shape[-1] - 1], axis=-1), (x[..., :1], x[..., 1:]), strict=True):
            assert part.tobytes() == expected.tobytes()
        order = np.arange(x.shape[0])[::-1] - 1
        assert dml.gather(x, order, 0).tobytes() == x[order].tobytes()
    finally:
        dml.set_num_threads(before)
        admission.MOST = most


CASES = {
    "a matrix": ((300, 500), (1, 0), "f4", "turn"),
    "bytes": ((400, 900), (1, 0), "u1", "turn"),
    "halves": ((300, 500), (1, 0), "f2", "turn"),
    "doubles": ((300, 500), (1, 0), "f8", "turn"),
    "complex": ((500, 600), (1, 0), "c16", "turn"),
    "few doubles": ((181, 183), (1, 0), "f8", "elements"),
    "few doubles whose lines collide": ((181, 128), (1, 0), "f8", "turn"),
    "few short lines of doubles": ((30, 20, 30), (2, 1, 0), "f8", "turn"),
    "few complex": ((127, 129), (1, 0), "c16", "table"),
    "pixels": ((300, 500, 3), (1, 0, 2), "u1", "turn"),
    "pixels of floats": ((300, 500, 3), (1, 0, 2), "f4", "turn"),
    "channels last": ((4, 64, 30, 30), (0, 2, 3, 1), "f4", "turn"),
    "channels first": ((4, 30, 30, 64), (0, 3, 1, 2), "f4", "turn"),
    "keys": ((2, 4, 128, 64), (0, 1, 3, 2), "f2", "turn"),
    "six axes": ((4, 6, 7, 5, 8, 9), (5, 1, 3, 0, 4, 2), "f4", "turn"),
    "twenty axes": ((2,) * 20, tuple(range(19, -1, -1)), "u1", "turn"),
    "planes apart": ((200, 300, 3), (2, 0, 1), "u1", "interleave"),
    "planes together": ((3, 200, 300), (1, 2, 0), "u1", "interleave"),
    "heads": ((4, 100, 16, 64), (0, 2, 1, 3), "f4", "rows"),
    "heads past the caches": ((4, 100, 16, 64), (0, 2, 1, 3), "f4", "row_blocks"),
    "heads of halves": ((4, 100, 16, 33), (0, 2, 1, 3), "f2", "row_blocks"),
    "long heads past the caches": ((4, 100, 16, 512), (0, 2, 1, 3), "f4", "rows"),
    "patches": ((14, 16, 14, 16, 3), (0, 2, 4, 1, 3), "u1", "table"),
    "odd elements": ((300, 90), (1, 0), "V5", "table"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_permutation_has_its_kernel(name, monkeypatch):
    shape, order, dtype, kernel = CASES[name]
    monkeypatch.setattr(plan, "most_cached", lambda: -1 if kernel == "row_blocks" or "past" in name else 1 << 60)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    x = np.random.default_rng(1).integers(0, 256, size, np.uint8).view(dtype).reshape(shape).transpose(order)
    out = np.zeros(x.shape, dtype)
    program = copy_program(out, x)
    (step,) = program.steps
    assert step.kernel == kernel
    assert f"{step.kernel}: {step.reason}" in str(program)
    program.run((x, out))
    assert out.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("shape", "size", "kernel"),
    [((32, 32), 4, "turn"), ((9, 8), 4, "turn"), ((5, 7), 4, "elements"), ((9, 1700), 1, "elements")],
    ids=str,
)
def test_small_permutations_have_kernels_whose_tables_a_call_can_fill(shape, size, kernel):
    from anydml.engines.cpu.kernels.launch import MOST_WORDS

    to, source = Access(0, 0, (size * shape[0], size)), Access(1, 0, (size, size * shape[1]))
    (step,) = plan.plan([Move(shape[::-1], to, source, size)], size * math.prod(shape))
    assert step.kernel == kernel
    assert step.template.size <= MOST_WORDS


@pytest.mark.parametrize("offset", [0, 16, 3])
@pytest.mark.parametrize("side", [1024, 1000])
def test_large_outputs_leave_past_the_caches_wherever_they_begin(offset, side):
    x = np.random.default_rng(2).random((side, side), np.float32).T
    memory = np.zeros(x.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    out = memory[start : start + x.nbytes].view("f4").reshape(x.shape)
    program = copy_program(out, x)
    assert program.steps[0].template[2] == 1
    program.run((x, out))
    np.testing.assert_array_equal(out, x)
    assert not memory[:start].any()
    assert not memory[start + x.nbytes :].any()


def test_blocks_fit_their_scratch(monkeypatch):
    from anydml.engines.cpu.kernels.blocks import BLOCK, FIELDS
    from anydml.engines.cpu.kernels.driver import HEADER, STREAMED
    from anydml.engines.cpu.kernels.tiles import PADDED

    rng = np.random.default_rng(3)
    pitch, rows, direct = (HEADER + FIELDS.index(field) for field in ("pitch", "rows", "direct"))
    for size in (1, 2, 3, 4, 6, 8, 12, 16):
        for _ in range(200):
            shape = tuple(rng.integers(2, 70, rng.integers(2, 6)).tolist())
            order = rng.permutation(len(shape)).tolist()
            source = [size * math.prod(shape[d + 1 :]) for d in range(len(shape))]
            sizes = tuple(shape[d] for d in order)
            to = tuple(size * math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
            move = Move(sizes, Access(0, 0, to), Access(1, 0, tuple(source[d] for d in order)), size)
            for cache in (-1, 1 << 60):
                monkeypatch.setattr(plan, "most_cached", lambda cache=cache: cache)
                # Planned only: what is compiled for it is no matter of this test.
                for step in plan.plan(simplify([move]), move.bytes_written):
                    is_kept = not step.template[STREAMED] and size not in PADDED
                    # Tiles that are stored at once need none.
                    if step.kernel == "turn" and step.template[direct] < (1 if is_kept else 3):
                        side = 64 // {3: 4, 6: 8, 12: 16}.get(size, size)
                        assert int(step.template[pitch]) * max(int(step.template[rows]), side) <= BLOCK, cache


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_long_rows_that_begin_anywhere_in_a_line(dtype, monkeypatch):
    from anydml.engines.cpu.kernels.blocks import FIELDS
    from anydml.engines.cpu.kernels.driver import HEADER

    item = np.dtype(dtype).itemsize
    monkeypatch.setattr(plan, "most_cached", lambda: -1)
    monkeypatch.setattr(engine, "SMALL_BYTES", -1)
    monkeypatch.setattr(permute, "STRAIGHT_FROM", 0)
    # Blocks that overlap, and rows of one tile and a bit.
    for lines, height in ((32, 64 // item + 13), (45, 1024 // item + 70)):
        width = lines * 64 // item
        memory = np.random.default_rng(lines).integers(0, 256, width * height * item, np.uint8).view(dtype)
        x = memory.reshape(width, height).T
        for shift in (0, 1, 16, 24, 64 - item):
            guarded = np.full(x.nbytes + 320, 0xA5, np.uint8)
            start = -guarded.ctypes.data % 64 + 64 + shift
            out = guarded[start : start + x.nbytes].view(dtype).reshape(x.shape)
            program = copy_program(out, x)
            (step,) = program.steps
            assert (step.kernel, step.template[HEADER + FIELDS.index("direct")]) == ("turn", 3)
            program.run((x, out))
            assert out.tobytes() == x.tobytes()
            assert (guarded[:start] == 0xA5).all()
            assert (guarded[start + x.nbytes :] == 0xA5).all()


@pytest.mark.parametrize(
    ("shape", "order", "dtype", "streamed"),
    [
        ((8, 256, 64, 4), (0, 2, 1, 3), "f4", False),
        ((8, 128, 256), (0, 2, 1), "f8", False),
        ((512, 512), (1, 0), "f8", True),
        ((362, 362), (1, 0), "c16", False),
        ((16, 128, 256), (0, 2, 1), "f8", True),
        ((600, 600), (1, 0), "c16", True),
    ],
    ids=str,
)
def test_what_stays_in_the_caches(shape, order, dtype, streamed, monkeypatch):
    monkeypatch.setattr(plan, "most_cached", lambda: 1 << 60)
    x = np.zeros(shape, dtype).transpose(order)
    (step,) = copy_program(np.zeros(x.shape, dtype), x).steps
    assert bool(step.template[2]) is streamed


@pytest.mark.parametrize(
    ("shape", "order", "dtype", "kernel"),
    [
        ((700, 256), (1, 0), "f4", "turn"),
        ((1000, 500), (1, 0), "u1", "turn"),
        ((300, 401), (1, 0), "u2", "turn"),
        ((300, 301), (1, 0), "V3", "turn"),
        ((12, 64, 400), (0, 2, 1), "f4", "turn"),
        ((250, 200), (1, 0), "c16", "table"),
        ((150, 150), (1, 0), "V10", "table"),
    ],
    ids=str,
)
def test_threads_write_whole_rows_of_what_they_share(shape, order, dtype, kernel):
    from anydml.engines.cpu.kernels.blocks import FIELDS
    from anydml.engines.cpu.kernels.driver import HEADER

    x = np.zeros(shape, dtype).transpose(order)
    (step,) = copy_program(np.zeros(x.shape, dtype), x).steps
    columns, count = (int(step.template[HEADER + FIELDS.index(field)]) for field in ("columns", "count_j"))
    assert (step.kernel, count) == (kernel, 1)
    assert columns % math.prod(x.shape[2 if x.ndim > 2 and order[0] == 0 else 1 :]) == 0
