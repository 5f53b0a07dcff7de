"""torch.compile without graph breaks, and torch.export, there and back through a file."""

import io

import pytest
import torch
from torch.utils._pytree import tree_map
from torch_cases import CASES, leaves, of_data, same

import anydml as dml
import anydml.torch as at

every_case = pytest.mark.parametrize("case", CASES, ids=str)
# Inductor needs a C++ compiler; aot_eager traces as much, and runs the graph as it is.
BACKENDS = ["aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch.compiler.reset()


@pytest.fixture
def without_caches():
    """Code that an earlier run left on disk may be that of other gradients: PyTorch knows an operator by its name."""
    from torch._inductor import config

    with config.patch(force_disable_caches=True):
        yield


def has_compiler():
    """Whether inductor finds what it compiles with."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        return bool(get_cpp_compiler())
    except InvalidCxxCompiler:
        return False


FIRST = [*{case.name: case for case in reversed(CASES)}.values()]
OTHERS = [case for case in CASES if case not in FIRST]


@pytest.mark.parametrize("cases, dynamic", [(FIRST, True), (OTHERS, False)], ids=["dynamic", "static"])
def test_compiled_without_graph_breaks(cases, dynamic):
    results = []
    for is_compiled in (True, False):
        calls, data = zip(*(of_data(case, case.make(requires_grad=True)) for case in cases), strict=True)

        def twice(data, calls=calls):
            return [
                [tensor * 2 for tensor in call(*[tensor.sin() for tensor in tensors])]
                for call, tensors in zip(calls, data, strict=True)
            ]

        run = torch.compile(twice, fullgraph=True, dynamic=dynamic, backend="aot_eager") if is_compiled else twice
        outputs = run(data)
        sum((tensor * tensor).sum() for tensor in leaves(outputs)).backward()
        results.append([[*each, *(tensor.grad for tensor in own)] for each, own in zip(outputs, data, strict=True)])
    for case, compiled, plain in zip(cases, *results, strict=True):
        assert_same(case, compiled, plain)


def assert_same(case, found, expected):
    """Say which case of many it is."""
    try:
        same(found, expected)
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("without_caches")
def test_compiled_by_inductor():
    if not has_compiler():
        pytest.skip("inductor finds no C++ compiler")

    def every_operator(x, indices, split):
        parts = at.split_training(x, split, 1)
        front, back = at.split(at.join(parts[::-1], 1), 2)
        taken = at.slice1(front, [0, 0], front.shape, [-1, 2]) + at.slice(back, [0, 0], [2, 3], [1, 2])
        joined, _ = at.concat_training([taken, taken * 2], 1)
        return at.gather(joined, indices, 1, out_of_range="clamp").relu()

    compiled = torch.compile(every_operator, fullgraph=True, dynamic=True)
    for rows in (4, 4):
        inputs = torch.randn(rows, 6), torch.tensor([0, -1, 99, 3]), torch.tensor([1, 2, 3])
        same(compiled(*inputs), every_operator(*inputs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("without_caches")
@pytest.mark.parametrize("name", ["slice", "slice1"])
def test_gradients_compiled_by_inductor(name):
    """The window's places are symbols: of these some compilers make wrong code, if PyTorch's own indexing lays it."""
    if not has_compiler():
        pytest.skip("inductor finds no C++ compiler")
    window = ([1, 0, 3], [2, 2, 1], [2, 5, 1]) if name == "slice" else ([1, 0, 3], [3, 6, 1], [2, 5, 1])
    x = torch.randn(5, 6, 4, dtype=torch.float64, requires_grad=True)
    operator = getattr(torch.ops.anydml, name)
    compiled = torch.compile(lambda x: operator(x, *window), fullgraph=True, dynamic=True)
    (compiled(x) * torch.arange(1.0, 5).reshape(2, 2, 1)).sum().backward()
    wanted = torch.zeros(5, 6, 4, dtype=torch.float64)
    wanted[1::2, ::5, 3:][:2] = torch.arange(1.0, 5).reshape(2, 2, 1)
    same(x.grad, wanted)


def test_one_compiled_graph_serves_many_sizes():
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    def call(x, indices):
        rows = x.shape[0]
        first, rest = at.split(x, [1, rows - 1])
        return at.gather(at.join([rest, first]), indices, out_of_range="clamp"), at.slice1(x, [0, 0], x.shape, [-1, -1])

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=counting)
    for rows, columns, count in ((3, 4, 5), (7, 2, 3), (9, 5, 8)):
        inputs = torch.randn(rows, columns), torch.randint(-20, 20, (count,))
        same(compiled(*inputs), call(*inputs))
    assert len(graphs) == 1


def test_sizes_that_are_data_stay_data():
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(at.split_training, fullgraph=True, backend=counting)
    x = torch.arange(6.0)
    for split in ([1, 2, 3], [3, 3, 0], [0, 6, 0]):
        same(compiled(x, torch.tensor(split)), torch.split(x, split))
    assert len(graphs) == 1


def picked_after_split(x, indices, split):
    _, back = at.split_training(x, split)
    return at.gather(back, indices, out_of_range="clamp")


AFTER_SPLIT = {
    "gather": picked_after_split,
    "split": lambda x, i, s: at.split(at.split_training(x, s)[1], [1, 2], 1)[0],
    "join": lambda x, i, s: at.join(at.split_training(x, s)[::-1]),
    "concat_training": lambda x, i, s: at.concat_training(at.split_training(x, s))[0],
    "slice": lambda x, i, s: at.slice(at.split_training(x, s)[1], [0, 1], [2, 2]),
    "slice1": lambda x, i, s: at.slice1(at.split_training(x, s)[1], [0, 0], [3, 3], [-2, 1]),
    "gather along another axis": lambda x, i, s: at.gather(at.split_training(x, s)[1], i, 1, out_of_range="clamp"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("without_caches")
@pytest.mark.parametrize(
    "name, backend", [*((name, "aot_eager") for name in AFTER_SPLIT), ("gather", "inductor"), ("slice1", "inductor")]
)
def test_gradients_after_sizes_that_are_data(name, backend):
    call = AFTER_SPLIT[name]
    if backend == "inductor" and not has_compiler():
        pytest.skip("inductor finds no C++ compiler")
    indices, split = torch.tensor([0, 1, -1, 9]), torch.tensor([3, 4])
    found = []
    for run in (torch.compile(call, fullgraph=True, backend=backend), call):
        x = torch.arange(21.0, dtype=torch.float64).reshape(7, 3).requires_grad_()
        result = run(x, indices, split)
        (result * result).sum().backward()
        found.append([result, x.grad])
    same(*found)


class Module(torch.nn.Module):
    """An operator with all arguments but its tensors."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *tensors):
        return self.call(*tensors)


@every_case
def test_exported_saved_loaded_and_run(case):
    call, data = of_data(case, case.make())
    program = torch.export.export(Module(call), tuple(data))
    assert f"anydml.{case.name}" in str(program.graph)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    other = [tensor + 1 for tensor in data]
    same(loaded(*data), call(*data))
    same(loaded(*other), call(*other))


def test_exported_with_dynamic_sizes():
    class Model(torch.nn.Module):
        def forward(self, x, indices, split):
            parts = at.split_training(x, split, 0, 2)
            joined, lengths = at.concat_training(parts[::-1])
            return at.gather(joined, indices, out_of_range="clamp"), lengths, joined + x

    rows, count = torch.export.Dim("rows", min=2), torch.export.Dim("count", min=2)
    example = torch.randn(4, 3), torch.tensor([0, 1, 5]), torch.tensor([1, 3])
    program = torch.export.export(Model(), example, dynamic_shapes=({0: rows}, {0: count}, None))
    model = program.module()
    for size, split in ((4, [1, 3]), (7, [7, 0]), (2, [1, 1])):
        x, indices = torch.randn(size, 3), torch.randint(-9, 9, (size + 2,))
        same(model(x, indices, torch.tensor(split)), Model()(x, indices, torch.tensor(split)))


@pytest.mark.parametrize(
    ("call", "expected", "example"),
    [
        (
            lambda i: at.one_hot(i, torch.tensor([0, 1]), i.shape[0] + 1),
            lambda i: torch.nn.functional.one_hot(i, i.shape[0] + 1),
            lambda rows: torch.randint(0, rows, (rows,)),
        ),
        (
            lambda x: at.triu(x, x.shape[0] - 2),
            lambda x: torch.triu(x, x.shape[0] - 2),
            lambda rows: torch.randn(rows, 5),
        ),
        (
            lambda x: at.diagonal_matrix(x, 0.0, 1 - x.shape[0], 0),
            lambda x: x.triu(),
            lambda rows: torch.randn(rows, rows),
        ),
    ],
    ids=["one_hot", "triu", "diagonal_matrix"],
)
def test_numbers_that_follow_from_sizes_are_exported_as_symbols(call, expected, example):
    class Model(torch.nn.Module):
        def forward(self, x):
            return call(x)

    first = example(4)
    dynamic = {axis: torch.export.Dim.AUTO for axis, size in enumerate(first.shape) if size == 4}
    model = torch.export.export(Model(), (first,), dynamic_shapes=(dynamic,)).module()
    for rows in (2, 3, 4, 7, 9):
        x = example(rows)
        assert torch.equal(model(x), expected(x))


def test_results_of_fake_tensors_look_like_real_ones():
    from torch._subclasses.fake_tensor import FakeTensorMode

    for case in CASES:
        if case.name == "split_training":
            continue
        # No sequence is made of bfloat16.
        arguments = case.make(torch.float32 if case.name == "sequence" else torch.bfloat16)
        mode = FakeTensorMode()
        fake = tree_map(
            lambda leaf, mode=mode: mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf, arguments
        )
        for a, b in zip(leaves(case.operator(*fake)), leaves(case.operator(*arguments)), strict=True):
            assert (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device)


def test_functions_compile():
    tensor = torch.arange(24.0).reshape(4, 6)
    for call in (lambda x: dml.split(x, 2, 1)[1], lambda x: dml.join([x, x], 1), lambda x: dml.copy(x.T)):
        compiled = torch.compile(call, fullgraph=True, backend="eager")(tensor)
        assert torch.equal(compiled, torch.from_numpy(call(tensor.numpy())))


@pytest.mark.parametrize("functions", [at, dml])
@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("roll", lambda roll, x: roll(x, x.shape[0] // 2, 0), lambda x: torch.roll(x, x.shape[0] // 2, 0)),
        ("repeat", lambda repeat, x: repeat(x, x.shape[0], 1), lambda x: x.repeat_interleave(x.shape[0], 1)),
    ],
)
def test_numbers_where_lists_are_allowed_may_follow_from_sizes(functions, name, call, expected):
    function = getattr(functions, name)
    compiled = torch.compile(lambda x: call(function, x), fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (4, 6):
        x = torch.arange(5.0 * rows).reshape(rows, 5)
        assert torch.equal(compiled(x), expected(x))
