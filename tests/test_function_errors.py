"""What the functions refuse, why, and that `out` keeps every byte."""

import numpy as np
import pytest
from drawn_calls import DRAW, call_of
from function_cases import called
from odd_arrays import same

import anydml as dml
from anydml.errors import DescTypeError
from anydml.operators import registry
from anydml.text import a, count_noun

X = np.arange(12.0).reshape(3, 4)


def refused(kind, call, operator, field, *texts):
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert (error.operator, error.field) == (operator, field)
    assert error.rule
    for text in (f"{operator}: ", *texts):
        assert text in str(error)


def desc_error(call, operator, field, *texts):
    refused(dml.DescError, call, operator, field, *texts)


@pytest.mark.parametrize("axis", [2, -3, 99])
def test_axes(axis):
    text = f"axis is {axis}, but the array has 2 dimensions"
    desc_error(lambda: dml.split(X, 1, axis), "split", "axis", text)
    desc_error(lambda: dml.join([X], axis), "join", "axis", text)
    desc_error(lambda: dml.gather(X, 0, axis), "gather", "axis", text)
    desc_error(lambda: dml.split_training(X, [3], axis), "split_training", "axis", text)
    desc_error(lambda: dml.concat_training([X], axis), "concat_training", "axis", text)
    with pytest.raises(dml.DescError) as caught:
        dml.split(X, 1, axis)
    assert caught.value.rule == "axis must be -2 to 1"


def test_a_scalar_has_no_axis():
    for call, name in ((lambda: dml.split(1, 1), "split"), (lambda: dml.join([1]), "join"),
                       (lambda: dml.gather(1, 0), "gather")):  # fmt: skip
        desc_error(call, name, "axis", "0 dimensions")


@pytest.mark.parametrize("name", registry.FUNCTIONS)
def test_bools_are_no_integers(name):
    """As in PyTorch, and in NumPy's compiled functions: they are masks, or flags in the wrong place."""
    given, _ = call_of(np.random.default_rng(0), name)
    for k, (parameter, value) in enumerate(zip(registry.FUNCTIONS[name].parameters, given, strict=False)):
        if parameter.kind.startswith(("int", "Ints")):
            bad = [True] * len(value) if isinstance(value, (list, tuple)) and value else True
            with pytest.raises(DescTypeError, match=rf": {parameter.name}(\[0\])? is \[?True"):
                called(getattr(dml, name), (*given[:k], bad, *given[k + 1 :]))


def tensors_of(torch, value):
    if isinstance(value, list) and isinstance(value[0], np.ndarray):
        return [tensors_of(torch, each) for each in value]
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("number", [True, 1.5])
@pytest.mark.parametrize("name", registry.FUNCTIONS)
def test_tensors_of_bools_and_fractions_are_no_integers(name, number):
    torch = pytest.importorskip("torch")
    import anydml.torch

    given, _ = DRAW[name](np.random.default_rng(0), np.dtype("f4"))
    tensors = [tensors_of(torch, value) for value in given]
    for k, (parameter, value) in enumerate(zip(registry.FUNCTIONS[name].parameters, given, strict=False)):
        if not parameter.kind.startswith(("int", "Ints")):
            continue
        one = torch.tensor(number)
        are_many = isinstance(value, (list, tuple)) and value
        for functions in (dml, anydml.torch):
            for bad in ([one] * len(value), one.repeat(len(value))) if are_many else (one,):
                with pytest.raises(DescTypeError, match=rf": {parameter.name}(\[0\])? is \S*tensor\("):
                    called(getattr(functions, name), (*tensors[:k], bad, *tensors[k + 1 :]))


def test_arrays_without_dimensions_are_integers():
    torch = pytest.importorskip("torch")
    x = np.arange(12).reshape(3, 4)
    for number in (np.array(1), torch.tensor(1)):
        same(dml.flip(x, number), np.flip(x, 1))
        same(dml.roll(x, number, number), np.roll(x, 1, 1))
        same(dml.repeat(x, number, number), x)
        same(dml.split(x, number)[0], x)


@pytest.mark.parametrize("sizes", [[2], [1, 1], [3, 1], [4], [1, 1, 2]])
def test_sizes_add_up(sizes):
    text = f"has the sizes {sizes}, which add up to {sum(sizes)}, but axis 0 has size 3"
    desc_error(lambda: dml.split(X, sizes), "split", "sizes_or_sections", f"sizes_or_sections {text}")
    desc_error(lambda: dml.split_training(X, sizes), "split_training", "split", f"split {text}")


def test_sizes_are_not_negative():
    for sizes in ([-1, 4], [4, -1], [0, -3, 6]):
        desc_error(
            lambda s=sizes: dml.split(X, s),
            "split",
            "sizes_or_sections",
            f"has the sizes {sizes}, with a negative entry",
        )
        desc_error(lambda s=sizes: dml.split_training(X, np.array(s)), "split_training", "split", "negative")


@pytest.mark.parametrize("sections", [2, 0, -1, 4])
def test_sections_divide_the_axis(sections):
    text = f"is {sections}, but axis 0 has size 3, which does not divide into {sections} equal parts"
    desc_error(lambda: dml.split(X, sections), "split", "sizes_or_sections", f"sizes_or_sections {text}")
    desc_error(lambda: dml.split_training(X, [], 0, sections), "split_training", "num_outputs", f"num_outputs {text}")


def test_there_is_a_part():
    desc_error(lambda: dml.split(X, []), "split", "sizes_or_sections", "no parts")
    desc_error(lambda: dml.join([]), "join", "arrays", "no arrays")
    desc_error(lambda: dml.concat_training(()), "concat_training", "arrays", "no arrays")


def test_an_empty_split_needs_the_number_of_outputs():
    for split in ([], None, np.zeros(0, np.int64)):
        text = "split is empty and num_outputs is not given"
        desc_error(lambda s=split: dml.split_training(X, s), "split_training", "num_outputs", text)


def test_the_number_of_outputs_is_the_length_of_split():
    dml.split_training(X, [1, 2], num_outputs=2)
    for count in (1, 3, 0):
        text = f"split has 2 entries, but num_outputs is {count}"
        desc_error(lambda n=count: dml.split_training(X, [1, 2], 0, n), "split_training", "num_outputs", text)


@pytest.mark.parametrize("split", [[1.0, 2.0], [[1, 2]], 3, ["1", "2"], [True, True, True], np.zeros((0, 2), int)])
def test_split_is_a_vector_of_integers(split):
    desc_error(lambda: dml.split_training(X, split), "split_training", "split", "split is")


def test_long_lists_are_cut_in_messages():
    desc_error(lambda: dml.split(X, [1] * 1000), "split", "sizes_or_sections", "… 1000 in all", "add up to 1000")


def test_what_is_joined_is_alike():
    text = "arrays[1] is float32, but arrays[0] is float64"
    desc_error(lambda: dml.join([X, X.astype("f4")]), "join", "arrays[1]", text)
    desc_error(lambda: dml.join([X, X.astype(">f8")]), "join", "arrays[1]", ">f8")
    desc_error(lambda: dml.join([np.array(["a"]), np.array([b"a"])]), "join", "arrays[1]")
    text = "arrays[2] has shape (3, 5), but arrays[0] has (3, 4) and axis is 0"
    desc_error(lambda: dml.concat_training([X, X, np.zeros((3, 5))]), "concat_training", "arrays[2]", text)
    desc_error(lambda: dml.join([X, X[0]]), "join", "arrays[1]", "(4,)")
    dml.join([X, np.zeros((3, 5))], 1)


@pytest.mark.parametrize(
    "offsets, sizes, strides, field",
    [
        ([0, 0], [3, 5], [1, 1], "sizes[1]"),
        ([0, 1], [3, 4], [1, 1], "sizes[1]"),
        ([3, 0], [1, 4], [1, 1], "sizes[0]"),
        ([4, 0], [0, 4], [1, 1], "sizes[0]"),
        ([0, 0], [2, 4], [3, 1], "sizes[0]"),
        ([-1, 0], [1, 4], [1, 1], "sizes[0]"),
        ([0, 0], [-1, 4], [1, 1], "sizes[0]"),
        ([0, 0], [1, 4], [0, 1], "sizes[0]"),
        ([0, 0], [1, 4], [-1, 1], "sizes[0]"),
        ([0], [3, 4], [1, 1], "offsets"),
        ([0, 0], [3], [1, 1], "sizes"),
        ([0, 0], [3, 4], [1, 1, 1], "strides"),
    ],
)
def test_slice(offsets, sizes, strides, field):
    desc_error(lambda: dml.slice(X, offsets, sizes, strides), "slice", field)


def test_slice_at_its_boundaries():
    for arguments in (([3, 4], [0, 0]), ([2, 3], [1, 1], [99, 99]), ([0, 0], [2, 2], [2, 3]), ([0, 0], [3, 4])):
        dml.slice(X, *arguments)


@pytest.mark.parametrize(
    "offsets, sizes, strides, output, field",
    [
        ([0, 0], [3, 5], [1, 1], None, "window_sizes[1]"),
        ([1, 0], [3, 4], [1, 1], None, "window_sizes[0]"),
        ([4, 0], [0, 4], [1, 1], None, "window_sizes[0]"),
        ([-1, 0], [1, 4], [1, 1], None, "window_sizes[0]"),
        ([0, 0], [-1, 4], [1, 1], None, "window_sizes[0]"),
        ([0, 0], [3, 4], [1, 0], None, "window_strides[1]"),
        ([0, 0], [3, 4], [1, 2], [3, 3], "output_sizes[1]"),
        ([0, 0], [3, 4], [1, -4], [3, 2], "output_sizes[1]"),
        ([0, 0], [3, 4], [1, 1], [-1, 4], "output_sizes[0]"),
        ([0, 0], [0, 4], [1, 1], [1, 4], "output_sizes[0]"),
        ([0], [3, 4], [1, 1], None, "window_offsets"),
        ([0, 0], [3, 4, 1], [1, 1], None, "window_sizes"),
        ([0, 0], [3, 4], [], None, "window_strides"),
        ([0, 0], [3, 4], [1, 1], [3], "output_sizes"),
    ],
)
def test_slice1(offsets, sizes, strides, output, field):
    desc_error(lambda: dml.slice1(X, offsets, sizes, strides, output), "slice1", field)


@pytest.mark.parametrize("indices", [[1.0], [True], ["1"], np.array([1], "m8[s]"), np.array([1], object), 0.5])
def test_indices_are_integers(indices):
    desc_error(lambda: dml.gather(X, indices), "gather", "indices", "indices are")


def test_nothing_is_gathered_from_nothing():
    empty = np.zeros((3, 0))
    desc_error(lambda: dml.gather(empty, [0], 1), "gather", "x", "axis 1 of x is empty, but there are indices: 1 index")
    assert dml.gather(empty, [], 1).shape == (3, 0)
    assert dml.gather(empty, [0, 1], 0).shape == (2, 0)


@pytest.mark.parametrize(
    "index", [3, -4, 2**31, np.int64(-(2**63)), np.uint64(2**64 - 1), np.int8(-128), np.uint8(255), 2**63]
)
def test_indices_out_of_range(index):
    out = np.full(4, 7.0)
    assert dml.gather(X, index, out_of_range="clamp", out=out).tolist() == X[0 if index < 0 else 2].tolist()
    out[...] = 7
    with pytest.raises(
        IndexError, match=f"gather: index {int(index)} in indices is out of range for an axis of size 3"
    ):
        dml.gather(X, index, out=out)
    assert out.tolist() == [7] * 4
    for fine in (2, -3):
        assert dml.gather(X, fine).tolist() == X[fine].tolist()


def test_out_of_range_is_one_of_two():
    desc_error(lambda: dml.gather(X, 0, out_of_range="wrap"), "gather", "out_of_range", "'wrap'")


def outputs_of(function, out):
    """Each function writing a (3, 4) array of float64, in one part."""
    return {
        "split": lambda: dml.split(X, 1, out=[out]),
        "join": lambda: dml.join([X], out=out),
        "slice": lambda: dml.slice(X, [0, 0], [3, 4], out=out),
        "slice1": lambda: dml.slice1(X, [0, 0], [3, 4], [1, 1], out=out),
        "gather": lambda: dml.gather(X, [0, 1, 2], out=out),
        "split_training": lambda: dml.split_training(X, [3], out=[out]),
        "concat_training": lambda: dml.concat_training([X], out=out),
    }[function]


FUNCTIONS = ["split", "join", "slice", "slice1", "gather", "split_training", "concat_training"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_out(function):
    field = "out[0]" if "plit" in function else "out"
    frozen = np.full((3, 4), 7.0)
    frozen.flags.writeable = False
    twice = np.lib.stride_tricks.as_strided(np.full(12, 7.0), (3, 4), (8, 8))
    torn = np.lib.stride_tricks.as_strided(np.full(12, 7.0), (3, 4), (28, 7))
    for out, text in (
        (np.full((4, 3), 7.0), "is float64 (4, 3), but the result is float64 (3, 4)"),
        (np.full(12, 7.0), "(12,)"),
        (np.full((3, 4), 7.0, np.float32), "float32"),
        (np.full((3, 4), 7.0, ">f8"), ">f8"),
        (frozen, "read-only"),
        (twice, "share an element"),
        (torn, "share an element"),
    ):
        before = out.tobytes()
        refused(dml.BindingError, outputs_of(function, out), function, field, text)
        assert out.tobytes() == before
    refused(dml.BindingError, outputs_of(function, X.tolist()), function, field, "is a list")
    good = np.full((3, 4), 7.0)
    outputs_of(function, good)()
    assert good.tolist() == X.tolist()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_out_overlaps_no_input(function):
    field = "out[0]" if "plit" in function else "out"
    before = X.copy()
    refused(dml.BindingError, outputs_of(function, X), function, field, "overlaps", "in memory")
    refused(dml.BindingError, outputs_of(function, X[::-1]), function, field, "overlaps")
    np.testing.assert_array_equal(X, before)


def test_outs_are_one_a_part_and_apart():
    base = np.full((4, 4), 7.0)
    for outs in ([], [base[:1]], [base[:1], base[1:2], base[2:3], base[3:]]):
        text = f"out has {count_noun(len(outs), 'array')} for 3 parts"
        refused(dml.BindingError, lambda o=outs: dml.split(X, 3, out=o), "split", "out", text)
    text = "out[2] overlaps out[1] in memory"
    refused(dml.BindingError, lambda: dml.split(X, 3, out=[base[:1], base[1:2], base[1:2]]), "split", "out[2]", text)
    assert (base == 7).all()


def test_an_empty_out_is_welcome():
    for shape in ((5, 0), (0, 5), (5, 0, 7)):
        out = np.empty(shape)
        x = np.empty([n + 1 for n in shape])
        assert dml.slice(x, [0] * x.ndim, shape, out=out) is out
        assert dml.join([np.empty(shape)], out=out) is out


def test_gather_out_does_not_overlap_the_indices():
    indices = np.array([0, 2, 1])
    refused(dml.BindingError, lambda: dml.gather(np.arange(3), indices, out=indices), "gather", "out", "overlaps")
    assert indices.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "call, operator, field, text",
    [
        (lambda: dml.split(X, 1, "x"), "split", "axis", "axis is 'x', but it must be an integer"),
        (lambda: dml.join([X], 1.0), "join", "axis", "axis is 1.0, but it must be an integer"),
        (lambda: dml.gather(X, 0, None), "gather", "axis", "axis is None, but it must be an integer"),
        (lambda: dml.split(X, "x"), "split", "sizes_or_sections", "is 'x', but it must be an integer or a list"),
        (lambda: dml.split(X, [1, 2.0]), "split", "sizes_or_sections[1]", "is 2.0, but it must be an integer"),
        (lambda: dml.split(X, None), "split", "sizes_or_sections", "is None, but it must be an integer or a list"),
        (lambda: dml.split(X, iter([3, "x"])), "split", "sizes_or_sections[1]", "is 'x', but it must be an integer"),
        (lambda: dml.split_training(X, [3], 0, "x"), "split_training", "num_outputs", "'x', but it must be an integer"),
        (lambda: dml.split_training(X, [], 0, "x"), "split_training", "num_outputs", "'x', but it must be an integer"),
        (
            lambda: dml.split_training(X, [[1], [1, 1]]),
            "split_training",
            "split",
            "[[1], [1, 1]], but it must be an array",
        ),
        (lambda: dml.slice(X, [0, "x"], [1, 1]), "slice", "offsets[1]", "is 'x', but it must be an integer"),
        (
            lambda: dml.slice(X, 0, [1, 1]),
            "slice",
            "offsets",
            "is 0, but it must be a list of integers, such as [0, 0]",
        ),
        (lambda: dml.slice1(X, [0, 0], [1, 1], [1, None]), "slice1", "window_strides[1]", "is None"),
        (lambda: dml.gather(X, [[0], [1, 2]]), "gather", "indices", "[[0], [1, 2]], but it must be an array"),
        (lambda: dml.split([[1], [2, 3]], 1), "split", "x", "[[1], [2, 3]], but it must be an array"),
        (lambda: dml.join([[1], [[2], [3, 4]]]), "join", "arrays[1]", "[[2], [3, 4]], but it must be an array"),
        (lambda: dml.join(3), "join", "arrays", "is 3, but it must be a list of arrays"),
    ],
)
def test_arguments_of_wrong_types_are_named(call, operator, field, text):
    refused(DescTypeError, call, operator, field, text)
    with pytest.raises(TypeError):
        call()


def test_outs_are_a_list():
    for out in (3, iter([X])):
        text = f"out is {a(type(out).__name__)}"
        refused(dml.BindingError, lambda o=out: dml.split(X, 1, out=o), "split", "out", text)


def masked(mask):
    return np.ma.MaskedArray(np.arange(3), mask)


@pytest.mark.parametrize(
    "call, operator, field",
    [
        (lambda x: dml.split(x, 3), "split", "x"),
        (lambda x: dml.split(np.arange(3), 1, out=[x]), "split", "out[0]"),
        (lambda x: dml.split_training(np.arange(3), x), "split_training", "split"),
        (lambda x: dml.join([np.arange(3), x]), "join", "arrays[1]"),
        (lambda x: dml.join([np.arange(3)], out=x), "join", "out"),
        (lambda x: dml.concat_training([x]), "concat_training", "arrays[0]"),
        (lambda x: dml.slice(x, [0], [3]), "slice", "x"),
        (lambda x: dml.slice1(x, [0], [3], [1]), "slice1", "x"),
        (lambda x: dml.gather(x, 0), "gather", "x"),
        (lambda x: dml.gather(np.arange(3), x), "gather", "indices"),
    ],
)
def test_masks_are_not_dropped(call, operator, field):
    refused(dml.BindingError, lambda: call(masked([0, 1, 0])), operator, field, f"{field} is a masked array")
    refused(dml.BindingError, lambda: call(masked(False)), operator, field, f"pass {field}.data")
    if field != "split":
        call(masked(np.ma.nomask))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_overlapped_input_is_named(function):
    field = "out[0]" if "plit" in function else "out"
    name = "arrays[0]" if function in ("join", "concat_training") else "x"
    refused(dml.BindingError, outputs_of(function, X), function, field, f"{field} overlaps {name} in memory")


def test_overlapped_indices_are_named():
    x, indices = np.arange(3), np.arange(3)
    refused(dml.BindingError, lambda: dml.gather(x, indices, out=indices), "gather", "out", "overlaps indices")


def test_an_out_over_a_strided_x_is_refused_though_x_would_be_packed_first():
    memory = np.arange(40_000.0)
    x, out = memory.reshape(200, 200).T, memory.reshape(200, 200)
    before = memory.copy()
    with pytest.raises(dml.BindingError, match="gather: out overlaps x in memory"):
        dml.gather(x, np.zeros(200, np.int64), out=out)
    np.testing.assert_array_equal(memory, before)
    apart = np.empty_like(out)
    np.testing.assert_array_equal(dml.gather(x, np.arange(200), out=apart), x)


@pytest.mark.parametrize("many", [1 << 60, 1 << 63, 10**30])
def test_results_that_no_array_can_be(many):
    calls = {
        "repeat": lambda: dml.repeat(X, many, 0),
        "tile": lambda: dml.tile(X, [many, 1]),
        "pad": lambda: dml.pad(X, [many, 0, 0, 0]),
        "broadcast_to": lambda: dml.broadcast_to(X[:1], [many, 4]),
        "slice_grad": lambda: dml.slice_grad(X, [many, 4], [0, 0], [3, 4], [1, 1]),
        "one_hot": lambda: dml.one_hot(np.array([1]), np.zeros(2), many),
    }
    for name, call in calls.items():
        desc_error(call, name, None, "the result has shape", "a result must have fewer than 2⁶³ bytes")
    # What NumPy does not count with empty dimensions left out, it refuses, too.
    desc_error(lambda: dml.repeat(X[:0], many, 1), "repeat", None, "(0, ")
    if many > 1 << 63:
        assert dml.repeat(X[:0], many, 0).shape == (0, 4)


@pytest.mark.parametrize("call", [dml.join, dml.stack], ids=["join", "stack"])
def test_an_array_without_dimensions_is_no_list(call):
    with pytest.raises(DescTypeError, match=r"arrays is array\(1\), but it must be a list of arrays"):
        call(np.array(1))
    with pytest.raises(DescTypeError, match="but it must be a list of arrays"):
        call(np.float32)


@pytest.mark.parametrize("out", [np.array(1), np.dtype("f4"), 7, object()], ids=["0-d", "dtype", "number", "object"])
def test_what_is_no_list_of_outputs(out):
    refused(dml.BindingError, lambda: dml.split(X, 2, 1, out=out), "split", "out", "out must be a list of arrays")


def test_an_object_is_one_element():
    value = [1, 2]
    found = dml.fill(np.array([None, "a"]), value)
    assert found[0] is value
    assert found[1] is value
    array = np.array([1, 2])
    assert dml.fill(np.array(None), array)[()] is array


@pytest.mark.parametrize("limit", ["1", 1.5, None])
def test_a_limit_is_a_number_of_bytes(limit):
    with pytest.raises(TypeError, match=r"set_cache_limit: size is .*, but it must be an integer"):
        dml.set_cache_limit(limit)
