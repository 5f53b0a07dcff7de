"""Programs on the GPU engine, against the definition of a move: hazards, scatters, refused indices, its memory."""

import collections
from functools import partial

import numpy as np
import pytest

pytest.importorskip("triton")  # The conftest does not ignore a file that is named.

from cuda_memory import ON_GPU, Memory
from how_many import how_many
from random_programs import random_program

from anydml.engines.common import scratch_arrays
from anydml.engines.cuda import engine, launch, operands, plan, schedule, tiles
from anydml.engines.cuda.engine import CudaProgram, as_operand
from anydml.engines.numpy.engine import NumpyProgram
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access, Fill, Lookup, Move, Operand, Program

CHUNKS, PROGRAMS = 6, how_many(150) // 6
GPU = 0 if ON_GPU else None


class Bound:
    """A program with copies of arrays on the device."""

    def __init__(self, program, arrays, compiled=None):
        self.compiled = compiled or CudaProgram.of(program, GPU)
        self.arrays = arrays
        self.memories = [Memory(array.view(np.uint8)) for array in arrays]
        self.operands = [
            as_operand("test", "x", memory.window(0, (array.nbytes,), (1,), np.uint8), GPU)
            for memory, array in zip(self.memories, arrays, strict=True)
        ]
        self.dispatch = self.compiled.bind(self.operands)

    def read(self):
        return [memory.read().view(array.dtype) for memory, array in zip(self.memories, self.arrays, strict=True)]


def literally(program, arrays):
    """The operands after the program, by definition."""
    copies = [array.copy() for array in arrays]
    bind_literally(program, [*copies, *scratch_arrays(program)])()
    return copies


def check(program, arrays):
    bound = Bound(program, arrays)
    bound.dispatch()
    for number, (result, right) in enumerate(zip(bound.read(), literally(program, arrays), strict=True)):
        np.testing.assert_array_equal(result, right, f"operand {number} of\n{program}\n{bound.dispatch}")
    return bound


def set_tiles(monkeypatch, vectors, narrowest):
    for table in (tiles.TILES, tiles.CROWDED):
        for size in table:
            monkeypatch.setitem(table, size, vectors)
    monkeypatch.setattr(tiles, "NARROWEST", narrowest)


@pytest.fixture
def backwards(monkeypatch):
    """Programs of a launch run in any order on a GPU; here from the last to the first, one vector each."""
    set_tiles(monkeypatch, 1, 1)
    monkeypatch.setattr(schedule, "BLOCK", 64)
    monkeypatch.setattr(operands, "BLOCK", 64)
    if ON_GPU:
        return
    from triton.runtime.interpreter import interpreter_builder

    forwards = interpreter_builder.set_grid_idx

    def set_grid_idx(x, y, z):
        forwards(interpreter_builder.grid_dim[0] - 1 - x, y, z)

    monkeypatch.setattr(interpreter_builder, "set_grid_idx", set_grid_idx)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk, monkeypatch):
    plans, seen = [], collections.Counter()
    monkeypatch.setattr(engine, "plan", lambda *arguments: plans.append(plan.plan(*arguments)) or plans[-1])
    for k in range(PROGRAMS):
        check(*random_program([20, chunk, k]))
    for planned in plans:
        seen["winners"] += planned.winners is not None
        seen["matrix"] += planned.winners is not None and not planned.is_flat
        seen["long elements"] += planned.winners is not None and planned.parts[0].is_run
    assert all(seen[kind] > 3 for kind in ("winners", "matrix", "long elements")), seen


@pytest.mark.parametrize("way", ["small tiles", "64-bit offsets", "wide entries", "in rounds", "all of them"])
def test_random_programs_in_other_ways(way, monkeypatch):
    if way in ("small tiles", "all of them"):
        set_tiles(monkeypatch, 32, 4)
    if way in ("64-bit offsets", "all of them"):
        monkeypatch.setattr(plan, "LIMIT", 0)
    if way in ("wide entries", "all of them"):
        monkeypatch.setattr(schedule, "NARROW_NUMBERS", 0)
    if way in ("in rounds", "all of them"):
        monkeypatch.setattr(schedule, "MAX_ENTRIES", 7)
    for k in range(PROGRAMS // 3):
        program, arrays = random_program([21, k], scale=1 + k % 3)
        check(program, arrays)


def test_random_programs_whose_launches_run_backwards(backwards, monkeypatch):
    set_tiles(monkeypatch, 16, 4)
    for k in range(PROGRAMS // 3):
        program, arrays = random_program([22, k])
        check(program, arrays)


def test_every_launch_of_a_long_program_is_planned_once(monkeypatch):
    planned = []
    monkeypatch.setattr(engine, "plan", lambda launch, *rest: planned.append(launch) or plan.plan(launch, *rest))
    launches = 3 * engine.MAX_PLANS
    # Each reads what the one before it has written.
    moves = [Move((1,), Access(1, 4 * k + 4, (4,)), Access(1, 4 * k, (4,)), 4) for k in range(launches)]
    operands = (Operand("input", "x"), Operand("output", "y"))
    compiled = CudaProgram.of(Program("chain", operands, tuple(moves)), GPU)
    arrays = [np.zeros(4, np.uint8), np.zeros(4 * launches + 4, np.uint8)]
    for _ in range(2):
        Bound(compiled, arrays, compiled)
    assert len(planned) == launches


def test_kernels_are_compiled_once(monkeypatch):
    warmed = []

    class Compiler:
        @staticmethod
        def warmup(**named):
            warmed.append(named)
            return {(1, 1, 1): print}

    monkeypatch.setattr(launch, "move_tiles", Compiler)

    def compiled(element, dimensions=1):
        strides = (64, 16)[-dimensions:]
        move = Move((3, 2)[:dimensions], Access(1, 0, strides), Access(0, 0, strides), element)
        planned = plan.plan(schedule.launches([move])[0], element, ())
        # No machine has a GPU of this number, whose kernels another test could find.
        launch.Kernel(planned, collections.defaultdict(int), 999)

    for _ in range(2):
        for k in range(8):
            compiled((1, 2, 4, 8)[k % 4], 2 - k // 4)
        assert len(warmed) == 8


def scatter(rng, count, axis, inner=(), outside="clamp", element=4, dtype="int64", along=False):
    """``y[i[n], …] = x[n, …]``, or with an index for every element, and its arrays."""
    sizes = (count, *inner)
    packed = [element * int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]
    item = np.dtype(dtype).itemsize
    by_index = tuple(item * stride // element if along or d == 0 else 0 for d, stride in enumerate(packed))
    row = by_index if along else (item, *by_index[1:])
    lookup = Lookup(1, dtype, 0, row, axis, packed[0], outside)
    move = Move(sizes, Access(2, 0, (0, *packed[1:]), (lookup,)), Access(0, 0, tuple(packed)), element)
    x = rng.integers(0, 256, count * packed[0], np.uint8)
    values = rng.integers(-axis - 2, axis + 2, int(np.prod(sizes)) if along else count)
    y = rng.integers(0, 256, axis * packed[0], np.uint8)
    operands = (Operand("input", "x"), Operand("input", "i"), Operand("output", "y"))
    return Program("scatter", operands, (move,)), [x, values.astype(dtype), y]


SCATTERS = [
    {"count": 9000, "axis": 11, "dtype": "int32"},
    {"count": 500, "axis": 7, "inner": (33,)},
    {"count": 500, "axis": 7, "inner": (33,), "outside": "skip"},
    {"count": 60, "axis": 5, "inner": (6, 7), "along": True},
    {"count": 60, "axis": 5, "inner": (6, 7), "along": True, "outside": "skip"},
    {"count": 300, "axis": 9, "element": 3},
    {"count": 40, "axis": 3, "inner": (50,), "element": 1, "dtype": "int32"},
    {"count": 1, "axis": 3, "inner": (5,)},
    {"count": 7, "axis": 1},
]


@pytest.mark.parametrize("shape", [None, (64, 2), (16, 16)], ids=str)
@pytest.mark.parametrize("case", SCATTERS, ids=lambda case: "-".join(map(str, case.values())))
def test_the_last_of_several_writes_wins(case, shape, monkeypatch):
    if shape:
        set_tiles(monkeypatch, *shape)
        case = {**case, "count": min(case["count"], 2 * shape[0])}
    program, arrays = scatter(np.random.default_rng(5), **case)
    bound = Bound(program, arrays)
    bound.dispatch()
    reference = [array.copy() for array in arrays]
    NumpyProgram(program).bind(reference)()
    np.testing.assert_array_equal(bound.read()[2], reference[2])
    assert arrays[2].tobytes() != reference[2].tobytes()


@pytest.mark.parametrize("case", SCATTERS[1:6], ids=lambda case: "-".join(map(str, case.values())))
def test_the_last_write_wins_in_any_order_of_programs(case, backwards):
    small = {"count": 9, "axis": 4, "inner": tuple(min(n, 2) for n in case.get("inner", ()))}
    check(*scatter(np.random.default_rng(6), **{**case, **small}))


def test_elements_that_overlap_in_part():
    indices = np.array([0, 1, 2, 1, 5, 0, 3], np.int32)
    for source, strides in ((Access(0, 0, (8, 24)), (0, 3)), (Access(0, 0, (8, 8)), (1, -1))):
        lookup = Lookup(1, "int32", 0, (4, 0), 6, 4)
        move = Move((7, 3), Access(2, 2, strides, (lookup,)), source, 6)
        program = Program("p", (Operand("input", "x"), Operand("input", "i"), Operand("output", "y")), (move,))
        x = np.random.default_rng(0).integers(0, 256, 200, np.uint8)
        bound = check(program, [x, indices, np.zeros(60, np.uint8)])
        assert "1 move in 3 launches" in str(bound.dispatch)


def test_where_no_order_can_be_seen_one_launch_does_it():
    rows = Lookup(0, "int32", 0, (4,), 5, 4, "skip")
    outputs = (Operand("input", "i"), Operand("output", "y"))
    one_hot = Program("hot", outputs, (Move((6,), Access(1, 0, (20,), (rows,)), Fill(b"\1"), 4),))
    several = Program("many", outputs, (Move((6,), Access(1, 0, (0,), (rows,)), Fill(b"\1\2"), 4),))
    for program in (one_hot, several):
        indices = np.array([4, 0, 7, -1, 0, -9], np.int32)
        bound = check(program, [indices, np.zeros(120, np.uint8)])
        assert "1 move in 1 launch" in str(bound.dispatch)


def test_a_scatter_explains_itself():
    program, arrays = scatter(np.random.default_rng(0), count=50, axis=7, inner=(3,))
    for text in (str(CudaProgram.of(program, GPU)), str(Bound(program, arrays).dispatch)):
        assert "scatter on cuda" in text.splitlines()[0]
        assert "1 move in 3 launches" in text
        assert "clears the table of who writes last" in text
        assert "finds which coordinate is the last to write each of 7 elements" in text
        assert "one move, by the last coordinates that write each of 7 elements" in text
        assert "4096 B of memory on the GPU: who writes last" in text


def _refused(work):
    """What a call says of an index that is outside, or None."""
    try:
        work()
    except IndexError as error:
        return str(error)
    return None


def test_an_index_that_may_not_be_outside_stops_everything():
    raised = 0
    for k in range(24):
        program, arrays = random_program([23, k], outside=("error", "clamp", "skip"))
        expected = [array.copy() for array in arrays]
        bound = Bound(program, arrays)
        if message := _refused(NumpyProgram(program).bind(expected)):
            raised += 1
            assert _refused(bound.dispatch) == message
            assert _refused(partial(bound.compiled.run, bound.operands)) == message
        else:
            bound.dispatch()
        for result, right in zip(bound.read(), expected, strict=True):
            np.testing.assert_array_equal(result, right)
    assert 5 < raised < 20


def test_a_dispatch_that_was_stopped_can_go_on():
    program, arrays = scatter(np.random.default_rng(0), count=20, axis=7, outside="error", dtype="int32")
    indices = np.arange(20, dtype=np.int32) % 7
    bad = indices.copy()
    bad[[12, 17]] = 7, -8
    bound = Bound(program, [arrays[0], bad, arrays[2]])
    with pytest.raises(
        IndexError, match=r"^scatter: index 7 in i is out of range for an axis of size 7: indices must be -7 to 6$"
    ):
        bound.dispatch()
    np.testing.assert_array_equal(bound.read()[2], arrays[2])
    good = Bound(program, [arrays[0], indices, arrays[2]], bound.compiled)
    good.dispatch()
    np.testing.assert_array_equal(good.read()[2], literally(program, [arrays[0], indices, arrays[2]])[2])


def copy(to, source, count=16):
    return Move((), Access(to, 0, ()), Access(source, 0, ()), count)


def test_constants_are_uploaded_once_for_all_bindings(monkeypatch):
    uploads = []
    upload = operands.upload

    def counted(numbers, gpu):
        uploads.append(numbers.copy())
        return upload(numbers, gpu)

    monkeypatch.setattr(operands, "upload", counted)
    value = np.arange(100, 116, dtype=np.uint8)
    constants = (Operand("constant", "c", value=value), Operand("constant", "d", value=value.view(np.int64) + 1))
    moves = (copy(0, 1), Move((), Access(0, 16, ()), Access(2, 0, ()), 16), Move((), Access(0, 32, ()), Fill(b"ab"), 6))
    program = Program("p", (Operand("output", "y"), *constants), moves)
    compiled = CudaProgram.of(program, GPU)
    assert not uploads, "only a binding needs them"
    bounds = [Bound(program, [np.zeros(40, np.uint8)], compiled) for _ in range(3)]
    value[:] = 0
    compiled.run(bounds[0].operands)
    bounds.append(Bound(program, [np.zeros(40, np.uint8)], compiled))
    for bound in bounds:
        bound.dispatch()
        result = bound.read()[0]
        assert result[:16].tolist() == list(range(100, 116))
        assert (result[16:32].view(np.int64) == result[:16].view(np.int64) + 1).all()
        assert result[32:].tobytes() == b"ababab\0\0"
    assert len(uploads) == 1


def test_constants_and_scratch_outlive_their_program():
    value = np.arange(64, dtype=np.uint8)
    program = Program(
        "p",
        (Operand("output", "y"), Operand("constant", "c", value=value), Operand("scratch", "s", 64, reason="a test")),
        (copy(2, 1, 64), copy(0, 2, 64)),
    )
    dispatches = [Bound(program, [np.zeros(64, np.uint8)]) for _ in range(8)]
    for bound in dispatches:
        bound.compiled = None
    others = [np.full(4096, 7, np.uint8) for _ in range(50)]
    for bound in dispatches:
        bound.dispatch()
        np.testing.assert_array_equal(bound.read()[0], value)
    assert len(others) == 50


def test_every_binding_has_scratch_of_its_own(monkeypatch):
    sizes = []
    reserve = operands.reserve

    def counted(size, gpu):
        sizes.append(size)
        return reserve(size, gpu)

    monkeypatch.setattr(operands, "reserve", counted)
    roles = (Operand("input", "x"), Operand("output", "y"), Operand("scratch", "s", 300, reason="a test"))
    program = Program("p", (*roles, Operand("scratch", "t", 16, reason="it")), (copy(2, 0), copy(3, 2), copy(1, 3)))
    compiled = CudaProgram.of(program, GPU)
    bounds = [Bound(program, [np.full(16, k, np.uint8), np.zeros(16, np.uint8)], compiled) for k in range(3)]
    assert sizes == [512 + 256] * 3
    monkeypatch.setattr(operands, "reserve", None)
    for bound in reversed(bounds):
        bound.dispatch()
    for k, bound in enumerate(bounds):
        assert set(bound.read()[1].tolist()) == {k}
    assert "316 B of memory on the GPU: scratch" in str(compiled)


def test_what_lies_on_the_host_stays_there():
    lengths = np.array([3, 4], np.int64)
    every = (
        Operand("input", "x"),
        Operand("input", "h", is_on_host=True),
        Operand("output", "y"),
        Operand("output", "n", is_on_host=True),
        Operand("constant", "c", value=lengths),
    )
    moves = (
        copy(2, 0),
        copy(3, 4),
        Move((), Access(3, 16, ()), Access(1, 0, ()), 8),
        Move((), Access(2, 16, ()), Access(4, 0, ()), 16),
    )
    program = Program("p", every, moves)
    x, h, y, n = np.arange(16, dtype=np.uint8), np.array([9]), np.zeros(32, np.uint8), np.zeros(3, np.int64)
    memories = [Memory(x), Memory(y)]
    windows = [
        as_operand("p", "x", m.window(0, (a.size,), (1,), np.uint8), GPU) for m, a in zip(memories, (x, y), strict=True)
    ]
    compiled = CudaProgram.of(program, GPU)
    compiled.bind([windows[0], h, windows[1], n])()
    assert n.tolist() == [3, 4, 9]
    assert memories[1].read().tobytes() == x.tobytes() + lengths.tobytes()
    assert str(compiled).count("on the host: ") == 2
    for bad in (copy(3, 0), copy(2, 1)):
        with pytest.raises(ValueError, match=r"p: .* is between the host and the GPU"):
            CudaProgram.of(program.with_moves((bad,)), GPU)


def test_launches_follow_the_stages_of_a_program():
    roles = (Operand("input", "x"), Operand("input", "i"), Operand("output", "y"), Operand("output", "z"))
    lookup = Lookup(1, "int32", 0, (4,), 4, 4)
    gather = Move((4,), Access(3, 0, (4,)), Access(2, 0, (0,), (lookup,)), 4)
    other = Move((4,), Access(3, 0, (4,)), Access(0, 0, (0,), (lookup,)), 4)
    program = Program("p", roles, (copy(2, 0), gather, copy(2, 3), other))
    arrays = [np.arange(16, dtype=np.uint8), np.array([3, 2, 1, 0], np.int32), *np.zeros((2, 16), np.uint8)]
    bound = check(program, arrays)
    assert "4 moves in 4 launches" in str(bound.dispatch)
    together = CudaProgram.of(program.with_moves((copy(2, 0), copy(3, 0))), GPU)
    assert "2 moves in 1 launch" in str(together)


def test_a_dispatch_makes_nothing_new(monkeypatch):
    program, arrays = scatter(np.random.default_rng(0), count=50, axis=7, outside="skip")
    bound = Bound(program, arrays)

    def refuse(*arguments):
        raise AssertionError("dispatch planned, uploaded or took something")

    for module, name in ((engine, "plan"), (engine, "Kernel"), (operands, "upload"), (operands, "reserve")):
        monkeypatch.setattr(module, name, refuse)
    for _ in range(2):
        bound.dispatch()
    np.testing.assert_array_equal(bound.read()[2], literally(program, arrays)[2])


def test_what_waits_cannot_be_captured(monkeypatch):
    program, arrays = scatter(np.random.default_rng(0), count=5, axis=7, outside="error")
    bound = Bound(program, arrays)
    monkeypatch.setattr(engine, "is_captured", lambda gpu: True)
    with pytest.raises(
        RuntimeError, match=r"scatter: indices that may not be out of range .* a CUDA graph cannot wait"
    ):
        bound.dispatch()
