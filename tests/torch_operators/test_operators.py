"""``torch.ops.anydml.*`` against PyTorch's own operators, and PyTorch's own checks of operators."""

import numpy as np
import pytest
import torch
from function_cases import called
from torch.utils._pytree import tree_map
from torch_cases import CASES, bits, leaves, picked, same, strided, window, with_data

import anydml
import anydml.torch as at
from anydml.operators import FUNCTIONS
from anydml.operators.element_wise_identity import copy_rule
from anydml.operators.function import Function, parameters_of
from anydml.torch.torch_functions import _has_sections

every_case = pytest.mark.parametrize("case", CASES, ids=str)
DTYPES = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool, torch.uint16, torch.int64]


@every_case
def test_results_are_those_of_pytorchs_own_operators(case):
    arguments = case.make()
    same(case.operator(*arguments), case.expected(*arguments))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("case", [case for case in CASES if hasattr(at, case.name)], ids=str)
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_nested_tensors_are_refused(case, layout):
    nested = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(1, 3)], layout=layout)
    arguments = [*case.make()]
    for k, argument in enumerate(arguments):
        if isinstance(argument, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in argument):
            other = [*argument[:-1], nested]
        elif isinstance(argument, torch.Tensor):
            other = nested
        else:
            continue
        with pytest.raises(anydml.BindingError, match="is a PyTorch tensor that is nested: pass its parts"):
            called(getattr(at, case.name), (*arguments[:k], other, *arguments[k + 1 :]))


@every_case
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(case, dtype):
    arguments = case.make(dtype)
    if case.name == "sequence":
        # Numbers, which bits are not.
        if dtype is torch.bool:
            with pytest.raises(anydml.DescError, match="only numbers make a sequence"):
                case.operator(*arguments)
        else:
            shape = arguments[0].shape
            numbers = torch.arange(1, 2 * shape.numel(), 2).to(dtype).reshape(shape)
            same(case.operator(*arguments), [numbers])
        return
    # PyTorch's own operators lack some dtypes, but not the bits.
    expected = case.expected(*with_data(arguments, bits))
    if case.name == "concat_training":
        same(case.operator(*arguments), (expected[0].view(dtype), expected[1]))
    else:
        same(case.operator(*arguments), [part.view(dtype) for part in leaves(expected)])


# One case of each operator; PyTorch asks the same of one without gradients, and less.
FIRST = {case.name: case for case in reversed(CASES)}.values()


# PyTorch's own check reads the gradients of copies.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("case, requires_grad", [*((case, True) for case in FIRST), (CASES[0], False)], ids=str)
def test_pytorchs_check_of_operators(case, requires_grad):
    results = torch.library.opcheck(case.operator.default, case.make(requires_grad=requires_grad))
    assert len(results) == 4
    assert set(results.values()) == {"SUCCESS"}


def test_results_share_no_memory():
    x = torch.arange(12.0).reshape(3, 4)
    results = torch.ops.anydml.split(x, [1, 3], 1) + torch.ops.anydml.split(x, [3])
    results += [torch.ops.anydml.join([x]), torch.ops.anydml.slice(x, [0, 0], [3, 4], [1, 1])]
    places = [tensor.untyped_storage().data_ptr() for tensor in [x, *results]]
    assert len(set(places)) == len(places)


def test_inputs_of_any_strides():
    x = torch.arange(60.0).reshape(3, 4, 5).transpose(0, 2)[::2]
    same(torch.ops.anydml.split(x, [1, 3], 1), torch.split(x, [1, 3], 1))
    broad = torch.arange(4.0).expand(3, 4)
    same(torch.ops.anydml.join([broad, broad.T.contiguous().T]), torch.cat([broad, broad]))


def test_the_functions_have_anydmls_arguments():
    x = torch.arange(24.0).reshape(4, 6)
    same(at.split(x, 3, 1), torch.split(x, 2, 1))
    same(at.split(x, [1, 3]), torch.split(x, [1, 3]))
    for split in ([1, 2, 3], np.array([1, 2, 3]), torch.tensor([1, 2, 3], dtype=torch.int32)):
        same(at.split_training(x, split, -1), torch.split(x, [1, 2, 3], 1))
    for split in (None, [], torch.tensor([])):
        same(at.split_training(x, split, 1, 2), torch.split(x, 3, 1))
    same(at.join([x, x], 1), torch.cat([x, x], 1))
    same(at.concat_training([x, x[:1]]), (torch.cat([x, x[:1]]), torch.tensor([4, 1])))
    same(at.slice(x, [1, 2], [2, 3]), strided(x, [1, 2], [2, 3], [1, 1]))
    same(at.slice(x, [1, 0], [2, 3], [1, 2]), strided(x, [1, 0], [2, 3], [1, 2]))
    same(at.slice1(x, [0, 0], [4, 6], [-1, 5], [2, 1]), window(x, [0, 0], [4, 6], [-1, 5], [2, 1]))
    same(at.gather(x, [[5], [-7]], 1, out_of_range="clamp"), picked(x, torch.tensor([[5], [-7]]), 1))
    same(at.gather(x, torch.tensor(3)), x[3])


def every_tensor(arguments, change):
    return tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, arguments)


def test_meta_tensors_give_meta_tensors():
    for case in CASES:
        arguments = case.make()
        # Sizes are data: they stay where they can be read.
        move = with_data if case.name == "split_training" else every_tensor
        meta = move(arguments, lambda tensor: tensor.to("meta"))
        for result, expected in zip(leaves(case.operator(*meta)), leaves(case.expected(*arguments)), strict=True):
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: torch.ops.anydml.split(x, [1, 2], 1), "add up to 3, but axis 1 has size 6"),
        (lambda x: torch.ops.anydml.split(x, [-1, 7], 1), "negative"),
        (lambda x: torch.ops.anydml.split(x, [4], 2), "axis is 2"),
        (lambda x: at.split(x, 4, 1), "does not divide into 4 equal parts"),
        (lambda x: torch.ops.anydml.join([x, x.int()]), "arrays.1. is int32|arrays.1. is torch.int32"),
        (lambda x: torch.ops.anydml.slice(x, [0, 0], [4, 7], [1, 1]), r"sizes\[1\]"),
        (lambda x: torch.ops.anydml.slice1(x, [0, 0], [4, 6], [1, 0]), r"window_strides\[1\] is 0"),
        (lambda x: torch.ops.anydml.gather(x, x), "indices are float32"),
        (lambda x: torch.ops.anydml.split_training(x, torch.tensor([2, 3])), "add up to 5"),
        (lambda x: at.split_training(x, None), "num_outputs is not given"),
    ],
)
def test_broken_rules_are_refused_as_by_the_functions(call, message):
    with pytest.raises(anydml.DescError, match=message):
        call(torch.zeros(4, 6))


def test_bad_indices_can_be_errors():
    with pytest.raises(IndexError, match="gather: index 4 in indices is out of range for an axis of size 4"):
        at.gather(torch.zeros(4), [4])


def test_cases_cover_every_operator():
    from anydml.torch.registration import OPERATORS

    assert {case.name for case in CASES} == set(OPERATORS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.split(np.arange(4), 2), r"split: x is array\(.*must be a PyTorch tensor: pass torch\.as_tensor"),
        (lambda f: f.gather("x", [0]), "gather: x is 'x', but it must be a PyTorch tensor"),
        (lambda f: f.where([True], [1], [2]), r"where: condition is \[True\], but it must be a PyTorch tensor"),
        (lambda f: f.join(torch.arange(4)), r"join: arrays is tensor\(.*a list of PyTorch tensors: pass \[x\]"),
        (lambda f: f.stack(torch.arange(4)), r"stack: arrays is tensor\(.*a list of PyTorch tensors"),
        (lambda f: f.join({torch.arange(4)}), r"join: arrays is \{tensor\(.*it must be a list of tensors"),
        (
            lambda f: f.permute_dims(torch.zeros(2, 3), {1, 0}),
            r"permute_dims: axes is \{0, 1\}, but it must be a list of integers",
        ),
        (lambda f: f.tile([1, 2], [2]), r"tile: x is \[1, 2\], but it must be a PyTorch tensor"),
        (lambda f: f.pad(torch.arange(4), 1), "pad: pads is 1, but it must be a list of integers"),
        (lambda f: f.pad(torch.arange(4), [1, 1], value="a"), "pad: value is 'a', but it must be a number"),
        (
            lambda f: f.fill(torch.arange(4), torch.tensor(3)),
            r"fill: value is tensor\(3\), .*a number: pass its item\(\)",
        ),
        (lambda f: f.flip(torch.zeros(2, 2), True), "flip: axis is True, but it must be an integer"),
        (lambda f: f.flip(torch.zeros(2, 2), [0, True]), r"flip: axis\[1\] is True, but it must be an integer"),
        (lambda f: f.tile(torch.zeros(2), (True,)), r"tile: repeats\[0\] is True, but it must be an integer"),
        (lambda f: f.gather(torch.zeros(2, 2), [0], axis=True), "gather: axis is True, but it must be an integer"),
        (lambda f: f.tile(torch.arange(4), [2], out=torch.arange(8)), "tile of anydml.torch: .*'out': assign"),
    ],
)
def test_arguments_of_other_types_are_named_in_one_line(call, message):
    with pytest.raises(TypeError, match=rf"^{message}[^\n]*$"):
        call(anydml.torch)


def test_functions_of_one_array_have_no_number_of_parts():
    """An operator of one file may have no other parameter."""

    def twin(x: "Array", *, out: "Array | None" = None) -> "Array":  # noqa: F821  # read as text
        """Copy."""

    assert not _has_sections(Function(twin, parameters_of(twin), lambda name, shape: (), copy_rule))
    assert _has_sections(FUNCTIONS["split"])
