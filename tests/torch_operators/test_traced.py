"""The plain functions inside torch.compile and torch.export: what runs, and what is refused before it does."""

import warnings

import pytest
import torch
from torch_cases import same

import anydml as dml


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch.compiler.reset()


class Module(torch.nn.Module):
    """An operator with all arguments but its tensors."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *tensors):
        return self.call(*tensors)


WRONG = {
    "join of two dtypes": (lambda x: dml.join([x, x.double()]), "arrays[1] is float64"),
    "join of two shapes": (lambda x: dml.join([x, x.new_zeros(4, 5)]), "arrays[1] has shape (4, 5)"),
    "concat_training": (lambda x: dml.concat_training([x, x[0]]), "arrays[1] has shape (4,)"),
    "slice": (lambda x: dml.slice(x, [0, 0], [100, 4]), "sizes[0] − 1)·strides[0] is 99, but x.shape[0] is 3"),
    "slice1": (lambda x: dml.slice1(x, [0, 0], [3, 4], [1, 0]), "window_strides[1] is 0"),
    "gather": (lambda x: dml.gather(x, x[0]), "indices are float32"),
    "gather by a list": (lambda x: dml.gather(x, [0.5]), "indices are float32"),
    "split": (lambda x: dml.split(x, [2, 4]), "add up to 6, but axis 0 has size 3"),
    "equal parts": (lambda x: dml.split(x, 5, 1), "does not divide into 5 equal parts"),
    "split_training": (lambda x: dml.split_training(x, x[0]), "split is float32 of shape (4,)"),
    "out": (lambda x: dml.join([x], out=x.new_empty(9)), "out is torch.float32 (9,), but the result is"),
    "out of no list": (lambda x: dml.split(x, 3, out=3), "out is an int: out must be a list of arrays"),
    "outs": (lambda x: dml.split(x, 3, out=[x]), "out has 1 array for 3 parts"),
}


@pytest.mark.parametrize("call, message", WRONG.values(), ids=WRONG)
def test_wrong_programs_are_refused_before_they_run(call, message):
    x = torch.zeros(3, 4)
    with pytest.raises((dml.DescError, dml.BindingError)) as caught:
        torch.export.export(Module(call), (x,))
    assert message in str(caught.value)
    for dynamic in (False, True):
        torch.compiler.reset()
        with pytest.raises(Exception) as caught:  # PyTorch wraps it in one of its own
            torch.compile(call, fullgraph=True, dynamic=dynamic, backend="aot_eager")(x)
        assert message.partition(" is 99")[0] in str(caught.value)


PLAIN = {
    "split": lambda d, x: d.split(x, [1, 3], 1),
    "equal parts": lambda d, x: d.split(x, 2, 1),
    "split_training": lambda d, x: d.split_training(x, torch.tensor([1, 2])),
    "join": lambda d, x: d.join([x, x], 1),
    "concat_training": lambda d, x: d.concat_training((x, x)),
    "slice": lambda d, x: d.slice(x, [0, 1], [2, 2]),
    "slice1": lambda d, x: d.slice1(x, [0, 0], [3, 4], [-1, 2], [2, 2]),
    "gather": lambda d, x: d.gather(x, torch.tensor([0, -1])),
    "gather by a list": lambda d, x: d.gather(x, [0, 2], 1),
    "flip one axis": lambda d, x: d.flip(x, 1),
    "roll one axis": lambda d, x: d.roll(x, 1, 0),
    "roll all": lambda d, x: d.roll(x, 5),
    "repeat": lambda d, x: d.repeat(x, 2, 1),
    "repeat each": lambda d, x: d.repeat(x, [1, 0, 2], 0),
    "join all": lambda d, x: d.join([x, x[0]], None),
}


def test_the_plain_functions_are_compiled_as_the_operators_are():
    """All of them are one program: most of the time goes into beginning one."""
    x = torch.randn(3, 4)
    expected = [call(dml, x) for call in PLAIN.values()]

    def plain(x):
        return [call(dml, x) for call in PLAIN.values()]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # PyTorch says so of Python 3.13.0 alone.
        warnings.filterwarnings("ignore", "Guards may run slower", RuntimeWarning)
        for dynamic in (True, False):
            torch.compiler.reset()
            compiled = torch.compile(plain, fullgraph=True, dynamic=dynamic, backend="aot_eager")
            same(compiled(x), expected)
        for strict in (True, False):
            program = torch.export.export(Module(plain), (x,), strict=strict)
            operators = {
                str(node.target).split(".")[1] for node in program.graph.nodes if "anydml." in str(node.target)
            }
            assert operators == {
                "split", "split_training", "join", "concat_training", "slice", "slice1", "gather", "flip", "roll",
                "repeat",
            }  # fmt: skip
            same(program.module()(x), expected)


def test_plain_functions_write_to_out_when_compiled():
    def call(x, out, parts):
        return dml.slice1(x, [0], [4], [-1], out=out), dml.split(x, [1, 3], out=parts)

    out, parts = torch.zeros(4), [torch.zeros(1), torch.zeros(3)]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    same(compiled(torch.arange(4.0), out, parts), call(torch.arange(4.0), torch.zeros(4), [p * 0 for p in parts]))
    assert (out.tolist(), parts[1].tolist()) == ([3, 2, 1, 0], [1, 2, 3])


def test_constants_are_gathered_while_a_program_is_exported():
    """PyTorch runs what it knows all of at once, while it compiles: the operators must not call themselves then."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.arange(8.0)

        def forward(self, x):
            order = dml.gather(torch.tensor([2, 0, 1]), torch.tensor([1, 0, 2]))
            return dml.gather(x, order), dml.gather(self.table, order), dml.split(self.table, 2)[0]

    model, x = Model(), torch.tensor([5.0, 6, 7])
    same(torch.export.export(model, (x,)).module()(x), model(x))
