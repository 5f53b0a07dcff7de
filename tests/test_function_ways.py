"""Few numbers are moved without a program, packed parts without layouts: each agrees with the ordinary way."""

from __future__ import annotations

import contextlib
from unittest import mock

import numpy as np
import pytest
from call_ways import in_python
from odd_arrays import DTYPES, odd, random_array

import anydml as dml
from anydml.engines.cpu.engine import CpuProgram
from anydml.functions import calling, planning
from anydml.functions.operations import OPERATIONS
from anydml.moves import simplify
from anydml.operators.parts import packed_part_moves, part_moves
from anydml.tensor import Layout

CALLS = 600
NUMBERS = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "g", "D", ">i2", ">f8")
INDICES = ("i1", "i2", "i4", "i8", "u1", "u4", "u8", ">i4", ">u8")


@pytest.fixture(autouse=True)
def without_compiled_calls():
    """Python does all of the work."""
    with in_python():
        yield


@contextlib.contextmanager
def few_bytes(most):
    """Another limit for what NumPy does at once; plans that were made with the other one are forgotten."""
    with mock.patch.object(planning, "FEW_BYTES", most):
        calling.PLANS.clear()
        yield
    calling.PLANS.clear()


def outcome(call, outs=()):
    """All that a caller can tell of a call: its results, or its error; and what is in `outs` then."""
    for out in outs:
        out[...] = 1
    try:
        results = call()
    except Exception as error:
        told = (type(error), str(error), *(getattr(error, name, None) for name in ("operator", "field", "rule")))
    else:
        arrays = results if isinstance(results, list) else [*results] if isinstance(results, tuple) else [results]
        told = [(type(a), a.dtype, a.shape, a.strides, a.tobytes(), a.flags.writeable, a.flags.owndata) for a in arrays]
    return told, [out.tobytes() for out in outs]


def some(rng, *values):
    return values[int(rng.integers(len(values)))]


def random_x(rng):
    shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, int(rng.integers(1, 4))))
    x = random_array(rng, DTYPES[some(rng, *NUMBERS)], shape)
    return odd(rng, x) if rng.random() < 0.4 else x


def random_outs(rng, shapes, x):
    """None, arrays that fit, or that do not."""
    kind = rng.random()
    if kind < 0.5:
        return None
    if kind < 0.6:
        return [x[tuple(np.s_[:n] for n in shape)] if len(shape) == x.ndim else x for shape in shapes]
    shapes = shapes if kind < 0.9 else [(*shape, 1) for shape in shapes]
    outs = [np.zeros(shape, x.dtype if kind < 0.95 else "u2") for shape in shapes]
    return outs if kind < 0.8 else [out.T.copy().T for out in outs]


def sizes_of(rng, whole):
    cuts = sorted(rng.integers(0, whole + 1, int(rng.integers(0, 4))).tolist())
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, whole], strict=True)]
    return sizes if rng.random() < 0.8 else [*sizes, int(rng.integers(-1, 2))]


def random_call(rng):
    """A function, its arguments, many of them wrong, and its outs."""
    name = some(rng, "split", "split_training", "join", "concat_training", "slice", "slice1", "gather")
    x = random_x(rng)
    axis = int(rng.integers(-x.ndim, x.ndim)) if rng.random() < 0.9 else some(rng, x.ndim, -9, "x", None)
    at = axis if isinstance(axis, int) and -x.ndim <= axis < x.ndim else 0
    whole, before, after = x.shape[at], x.shape[: at % x.ndim], x.shape[at % x.ndim + 1 :]
    if name in ("split", "split_training"):
        sizes = sizes_of(rng, whole)
        outs = random_outs(rng, [(*before, max(size, 0), *after) for size in sizes], x)
        if name == "split" and rng.random() < 0.2:
            sizes = int(rng.integers(-1, 4))
        return name, (x, sizes, axis), outs, True
    if name in ("join", "concat_training"):
        parts = [x, *(x[(np.s_[:],) * (at % x.ndim) + (np.s_[:n],)] for n in rng.integers(0, 4, 2))]
        if rng.random() < 0.1:
            parts.append(np.zeros(x.shape, some(rng, "f4", ">f8")))
        total = sum(part.shape[at] for part in parts)
        return name, (parts, axis), random_outs(rng, [(*before, total, *after)], x), False
    if name == "gather":
        indices = rng.integers(-6, 7, tuple(rng.integers(0, 4, int(rng.integers(0, 3))))).astype(some(rng, *INDICES))
        indices = some(rng, indices, indices, indices.tolist(), odd(rng, np.asarray(indices)))
        shape = (*before, *np.shape(indices), *after)
        return name, (x, indices, axis), random_outs(rng, [shape], x), False
    offsets = [int(rng.integers(0, n + 1)) for n in x.shape]
    sizes = [int(rng.integers(0, n - o + 1)) for n, o in zip(x.shape, offsets, strict=True)]
    least = 1 if name == "slice" else -3
    steps = [some(rng, 1, 1, int(rng.integers(least, 4)), least * 2**70) for _ in sizes]
    if rng.random() < 0.1:
        sizes = some(rng, [n + 1 for n in sizes], sizes[1:], ["x"] * x.ndim)
    shape = tuple(sizes)
    if name == "slice1" and all(isinstance(n, int) for n in sizes) and 0 not in steps and len(sizes) == len(steps):
        shape = tuple(1 + (n - 1) // abs(s) if n else 0 for n, s in zip(sizes, steps, strict=True))
    fits = all(isinstance(n, int) for n in shape)
    return name, (x, offsets, sizes, steps), random_outs(rng, [shape], x) if fits else None, False


@pytest.mark.parametrize("seed", range(4))
def test_few_numbers_and_programs_agree_on_results_and_errors(seed):
    rng = np.random.default_rng(seed)
    refused = ran = 0
    for _ in range(CALLS):
        name, arguments, outs, is_list = random_call(rng)
        out = outs if is_list or outs is None else outs[0]
        owned = [each for each in outs or () if each.flags.owndata]

        def call(name=name, arguments=arguments, out=out):
            return getattr(dml, name)(*arguments, out=out)

        few = outcome(call, owned)
        with few_bytes(-1):
            assert outcome(call, owned) == few, (name, arguments, out)
        refused += isinstance(few[0], tuple)
        ran += isinstance(few[0], list)
    assert refused > CALLS // 5
    assert ran > CALLS // 5


def calls(x):
    """Each function on (n, 4) elements, new and into `out`."""
    out, parts = np.empty_like(x), [np.empty_like(x[:1]), np.empty_like(x[1:])]
    everything = [0, 0], x.shape
    for given, split_out in ((None, None), (out, parts)):
        yield lambda given=split_out: dml.split(x, [1, len(x) - 1], out=given)
        yield lambda given=split_out: dml.split_training(x, [1, len(x) - 1], out=given)
        yield lambda given=given: dml.join([x[:1], x[1:]], out=given)
        yield lambda given=given: dml.concat_training([x[:1], x[1:]], out=given)
        yield lambda given=given: dml.slice(x, *everything, out=given)
        yield lambda given=given: dml.slice1(x, *everything, [-1, 1], out=given)
        yield lambda given=given: dml.gather(x, np.arange(len(x)), out=given)


FEW = planning.FEW_BYTES
TAKEN = FEW * OPERATIONS["gather"].few


@pytest.mark.parametrize("size, programs", [(FEW, 0), (FEW + 16, 12), (TAKEN, 12), (TAKEN + 16, 14)])
def test_only_few_numbers_go_without_a_program(size, programs):
    with mock.patch.object(CpuProgram, "run", autospec=True, side_effect=CpuProgram.run) as run:
        for call in calls(np.arange(size // 4, dtype=np.float32).reshape(-1, 4)):
            call()
    assert run.call_count == programs


def test_what_is_no_number_has_a_program():
    x = np.full((3, 4), "a", "S4")
    with mock.patch.object(CpuProgram, "run", autospec=True, side_effect=CpuProgram.run) as run:
        for call in calls(x):
            call()
    assert run.call_count == 14


def test_many_picked_have_a_program_and_so_have_those_for_which_numpy_would_copy_all():
    x = np.arange(1.0 + FEW)
    torn = np.ndarray(x.shape, x.dtype, np.zeros(x.nbytes + 1, np.uint8), 1)
    torn[...] = x
    with mock.patch.object(CpuProgram, "run", autospec=True, side_effect=CpuProgram.run) as run:
        assert dml.gather(x, [-1, 0]).tolist() == [FEW, 0]
        assert run.call_count == 0
        assert (dml.gather(x, np.ones(1 + TAKEN // 8, int)) == 1).all()
        assert run.call_count == 1
        assert dml.gather(x[::-1], [-1, 0]).tolist() == [0, FEW]
        assert run.call_count == 2
        assert dml.gather(torn, [-1, 0]).tolist() == [FEW, 0]
        assert run.call_count == 3


@pytest.mark.parametrize("into_whole", [False, True])
def test_packed_parts_have_the_moves_that_their_layouts_have(into_whole):
    rng = np.random.default_rng(8)
    for _ in range(500):
        before, after = (tuple(rng.integers(1, 4, int(rng.integers(0, 3))).tolist()) for _ in range(2))
        sizes = rng.integers(0, 4, int(rng.integers(1, 5))).tolist()
        item = some(rng, 1, 2, 4, 16, 3)
        parts = [Layout.packed((*before, size, *after), item) for size in sizes]
        whole = Layout.packed((*before, sum(sizes), *after), item)
        first = 0 if into_whole else 1
        place = (len(sizes) if into_whole else 0, whole)
        expected = simplify(part_moves(place, [*enumerate(parts, first)], len(before), into_whole))
        runs = [size * int(np.prod(after)) * item for size in sizes]
        assert packed_part_moves(int(np.prod(before)), runs, into_whole) == expected


def test_packed_and_strided_parts_agree():
    rng = np.random.default_rng(9)
    for _ in range(100):
        x = np.asarray(random_array(rng, DTYPES[some(rng, "f4", "u1", "D")], (int(rng.integers(1, 5)), 3000, 2)))
        cut = int(rng.integers(0, 3001))
        spread = np.repeat(x, 2, 2)[..., ::2]
        parts = dml.split(x, [cut, 3000 - cut], 1)
        for part, again, slow in zip(
            parts, dml.split(spread, [cut, 3000 - cut], 1), np.split(x, [cut], 1), strict=True
        ):
            assert part.tobytes() == again.tobytes() == slow.tobytes()
        assert dml.join(parts, 1).tobytes() == dml.join(np.split(spread, [cut], 1), 1).tobytes() == x.tobytes()
