"""DML_BUFFER_TENSOR_DESC: sizes, strides, byte counts, and each rule at its boundary."""

import re

import numpy as np
import pytest
from random_descs import collides
from refused import refused

import anydml as dml
from anydml.strides import has_overlap, shares_memory
from anydml.tensor import Layout, packed_strides, tensor_problems
from anydml.text import count_noun

BYTES = {
    "FLOAT64": 8, "FLOAT32": 4, "FLOAT16": 2, "INT64": 8, "INT32": 4, "INT16": 2, "INT8": 1,
    "UINT64": 8, "UINT32": 4, "UINT16": 2, "UINT8": 1,
}  # fmt: skip
ALIGNMENT = "it must be 0, or a power of two no smaller than the element ({} bytes)"
DISTINCT = "an output must write each element once; only inputs may broadcast"


def copy(tensor):
    """A desc with `tensor` as input, and a sound output of as many elements."""
    return dml.SplitOperatorDesc(tensor, [dml.TensorDesc(tensor.data_type, tensor.sizes)], 0)


def copy_to(tensor):
    """A desc with `tensor` as output."""
    return dml.SplitOperatorDesc(dml.TensorDesc(tensor.data_type, tensor.sizes), [tensor], 0)


@pytest.mark.parametrize("name, size", BYTES.items())
def test_data_types(name, size):
    data_type = dml.DataType.parse(name)
    assert data_type is dml.DataType.parse(f"DML_TENSOR_DATA_TYPE_{name}") is dml.DataType.parse(data_type)
    assert str(data_type) == name
    assert data_type.itemsize == size == data_type.dtype.itemsize
    kind = {"F": "f", "I": "i", "U": "u"}[name[0]]
    assert data_type.dtype.kind == kind
    assert data_type.dtype.isnative


def test_there_are_eleven_data_types_with_the_headers_values():
    header = ["FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64", "UINT64", "INT64"]
    assert {t.name: t.value for t in dml.DataType} == {name: i for i, name in enumerate(header, 1)}


@pytest.mark.parametrize("name", ["BOOL", "float33", "UINT4", "", "FLOAT8"])
def test_an_unknown_data_type_lists_the_known(name):
    with pytest.raises(ValueError, match=r"unknown data type .*FLOAT32.*INT64"):
        dml.TensorDesc(name, [1])


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"sizes": [1, 1.5]}, "Sizes[1]", "Sizes[1] is 1.5, but it must be an integer"),
        ({"sizes": 3}, "Sizes", "Sizes is 3, but it must be a list of integers"),
        ({"sizes": None}, "Sizes", "Sizes is None, but"),
        ({"strides": ["1"]}, "Strides[0]", "Strides[0] is '1', but"),
        ({"strides": 1}, "Strides", "Strides is 1, but"),
        ({"flags": "OWNED_BY_DML"}, "Flags", "Flags is 'OWNED_BY_DML', but"),
        ({"total_tensor_size_in_bytes": 4.0}, "TotalTensorSizeInBytes", "TotalTensorSizeInBytes is 4.0, but"),
        ({"guaranteed_base_offset_alignment": None}, "GuaranteedBaseOffsetAlignment", "is None, but"),
        ({"sizes": [np.eye(20)]}, "Sizes[0]", "array([[1., 0."),
    ],
)
def test_arguments_of_other_types_are_refused(changes, field, text):
    for expected in (TypeError, dml.DescError):
        with pytest.raises(expected) as caught:
            dml.TensorDesc(**{"data_type": "FLOAT32", "sizes": [1], **changes})
    error = caught.value
    assert (error.operator, error.field) == ("DML_BUFFER_TENSOR_DESC", field)
    assert str(error).startswith("DML_BUFFER_TENSOR_DESC: ")
    assert text in str(error)
    assert "\n" not in str(error)
    assert len(str(error)) < 200


def test_types_may_be_numbers():
    assert dml.TensorDesc(9, [1]).data_type is dml.DataType.FLOAT64
    for unknown in (0, 12, None, np.float32):
        with pytest.raises(ValueError, match=r"unknown data type .*: it must be one of FLOAT32, "):
            dml.TensorDesc(unknown, [1])


def test_unknown_flags():
    assert not list(tensor_problems(dml.TensorDesc("INT8", [1], flags=1), True))
    for flags in (2, 9):
        (problem,) = tensor_problems(dml.TensorDesc("INT8", [1], flags=flags), False)
        assert problem[:2] == ("Flags", f"is {flags}")


def test_descs_are_values():
    one, same = dml.TensorDesc("INT8", [2, 3]), dml.TensorDesc(dml.DataType.INT8, np.array([2, 3]))
    assert one == same
    assert hash(one) == hash(same)
    assert one.sizes == (2, 3)
    assert one != dml.TensorDesc("INT8", [3, 2])
    with pytest.raises(AttributeError):
        one.sizes = (1,)


@pytest.mark.parametrize(
    "data_type, sizes, strides, span, minimum",
    [
        ("FLOAT32", [1, 1, 6, 2], None, 48, 48),
        ("UINT8", [5], None, 5, 8),
        ("UINT8", [4], None, 4, 4),
        ("FLOAT16", [3], None, 6, 8),
        ("FLOAT64", [3], None, 24, 24),
        ("FLOAT32", [2, 3], [10, 2], 4 * (1 + 10 + 4), 60),
        ("INT16", [2, 3], [0, 1], 6, 8),
        ("INT8", [7, 7], [0, 0], 1, 4),
        ("UINT16", [3, 2], [1, 5], 16, 16),
    ],
)
def test_bytes(data_type, sizes, strides, span, minimum):
    tensor = dml.TensorDesc(data_type, sizes, strides)
    assert (tensor.span_in_bytes, tensor.minimum_size_in_bytes, tensor.size_in_bytes) == (span, minimum, minimum)
    larger = dml.TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=minimum + 5)
    assert larger.size_in_bytes == minimum + 5


def test_packed_strides_are_numpys():
    for sizes in ((2, 3, 4), (5,), (1, 1, 7), (3, 1, 2)):
        strides = tuple(s // 4 for s in np.empty(sizes, np.float32).strides)
        assert packed_strides(sizes) == strides == dml.TensorDesc("FLOAT32", sizes).element_strides


def test_layouts():
    array = np.zeros((4, 6), np.int16)[::-1, ::2]
    assert Layout.of(array) == Layout((4, 3), (-12, 4), 2)
    assert Layout.packed((2, 3), 8) == Layout((2, 3), (24, 8), 8) != Layout((2, 3), (24, 8), 4)
    assert dml.TensorDesc("FLOAT32", [2, 3], [5, 1]).layout == Layout((2, 3), (20, 4), 4)
    assert hash(Layout.of(array)) == hash(Layout((4, 3), (-12, 4), 2))
    assert repr(Layout((1,), (2,), 3)) == "Layout((1,), (2,), 3)"


def test_dimension_counts():
    rule = "a tensor must have 1 to 8 dimensions"
    for count in (1, 8):
        copy(dml.TensorDesc("INT8", [1] * count)).check()
    for count in (0, 9):
        refused(copy(dml.TensorDesc("INT8", [1] * count)), "InputTensor.Sizes", rule, f"has {count} dimensions")


@pytest.mark.parametrize("size", [0, 2**32])
def test_sizes_out_of_range(size):
    refused(
        copy(dml.TensorDesc("INT8", [2, size])),
        "InputTensor.Sizes[1]",
        "each size must be 1 to 4294967295",
        f"is {size}",
    )


@pytest.mark.parametrize(
    "field, arguments",
    [
        ("Sizes[1]", ("FLOAT32", [1, -2])),
        ("Sizes[0]", ("int8", [-(2**70)])),
        ("Strides[2]", ("UINT8", [1, 2, 3], [0, 1, -3])),
    ],
)
def test_negative_numbers_are_refused_at_once(field, arguments):
    with pytest.raises(dml.DescError, match=rf"DML_BUFFER_TENSOR_DESC: {re.escape(field)} is -\d+: each s") as caught:
        dml.TensorDesc(*arguments)
    assert (caught.value.operator, caught.value.field) == ("DML_BUFFER_TENSOR_DESC", field)


@pytest.mark.parametrize("data_type", dml.DataType)
def test_data_types_by_numpys_names(data_type):
    assert dml.TensorDesc(data_type.name.lower(), [2]) == dml.TensorDesc(data_type, [2])
    assert dml.TensorDesc(data_type.dtype.name, [2]).data_type is data_type
    with pytest.raises(ValueError, match="unknown data type 'float33'"):
        dml.TensorDesc("float33", [2])


@pytest.mark.parametrize("sizes", [[2**32 - 1], [2**16 + 1, 2**16 - 1], [2**31 - 1, 2]])
def test_as_many_elements_as_an_UINT_counts(sizes):
    copy(dml.TensorDesc("INT8", sizes)).check()


@pytest.mark.parametrize("sizes", [[2**16, 2**16], [2**32 - 1, 2], [2**31, 2]])
def test_more_elements_than_an_UINT_counts(sizes):
    count = sizes[0] * sizes[1]
    refused(
        copy(dml.TensorDesc("INT8", sizes)),
        "InputTensor.Sizes",
        "a tensor must have at most 4294967295 elements",
        f"make {count} elements",
    )


def test_strides_of_another_number_have_no_size():
    for strides in ([], [1], [1, 1, 1]):
        tensor = dml.TensorDesc("INT8", [2, 3], strides)
        for name in ("element_strides", "layout", "span_in_bytes", "minimum_size_in_bytes", "size_in_bytes"):
            with pytest.raises(dml.DescError, match=r"^DML_BUFFER_TENSOR_DESC: Strides has .* for 2 sizes") as caught:
                getattr(tensor, name)
            assert caught.value.field == "Strides"


def test_there_is_one_stride_a_dimension():
    for strides in ([], [1], [1, 1, 1]):
        tensor = dml.TensorDesc("INT8", [2, 3], strides)
        refused(
            copy(tensor),
            "InputTensor.Strides",
            "one stride per dimension",
            f"has {count_noun(len(strides), 'entry')} for 2 sizes",
        )


def test_strides_are_unsigned():
    copy(dml.TensorDesc("INT8", [2, 2], [0, 2**32 - 1])).check()
    for stride in (2**32, 2**40):
        tensor = dml.TensorDesc("INT8", [2, 2], [1, stride])
        refused(copy(tensor), "InputTensor.Strides[1]", "each stride must be 0 to 4294967295", f"is {stride}")


def test_addresses_stay_below_2_to_the_63():
    refused(
        dml.JoinOperatorDesc(
            [dml.TensorDesc("INT64", [2**31], [2**32 - 1])], dml.TensorDesc("INT64", [2**31]), 0
        ),
        "InputTensors[0].Strides",
        "a tensor must span fewer than 2^63 bytes",
        str(8 * (1 + (2**31 - 1) * (2**32 - 1))),
    )  # fmt: skip


@pytest.mark.parametrize("data_type, size", [("INT8", 1), ("FLOAT16", 2), ("FLOAT32", 4)])
def test_alignment(data_type, size):
    for alignment in (0, size, 2 * size, 65536):
        copy(dml.TensorDesc(data_type, [4], guaranteed_base_offset_alignment=alignment)).check()
    for alignment in (3 * size, 65536 + size, size // 2 or -1, -4):
        tensor = dml.TensorDesc(data_type, [4], guaranteed_base_offset_alignment=alignment)
        refused(
            copy(tensor), "InputTensor.GuaranteedBaseOffsetAlignment", ALIGNMENT.format(size), f"is {alignment}"
        )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "most", "beyond", "rule"),
    [
        ("guaranteed_base_offset_alignment", 2**31, 2**32, "it must be a UINT, at most 2^31 as a power of two"),
        ("total_tensor_size_in_bytes", 2**63 - 1, 2**63, "it must be below 2^63 bytes"),
    ],
)
def test_fields_have_as_many_bits_as_in_the_header(field, most, beyond, rule):
    copy(dml.TensorDesc("INT8", [4], **{field: most})).check()
    name = "".join(word.capitalize() for word in field.split("_"))
    for value in (beyond, 2**64):
        refused(copy(dml.TensorDesc("INT8", [4], **{field: value})), f"InputTensor.{name}", rule, f"is {value}")


def test_total_size():
    rule = "it may not be smaller than the minimum implied size, (1 + Σ(size−1)·stride)·element rounded up to 4"
    for total in (8, 9, 1000):
        copy(dml.TensorDesc("INT8", [5], total_tensor_size_in_bytes=total)).check()
    for total in (7, 5, 0, -1):
        tensor = dml.TensorDesc("INT8", [5], total_tensor_size_in_bytes=total)
        message = f"is {total}, but sizes and strides need 8 bytes"
        refused(copy(tensor), "InputTensor.TotalTensorSizeInBytes", rule, message)


def test_flags():
    assert (dml.TensorFlags.NONE, dml.TensorFlags.OWNED_BY_DML) == (0, 1)
    for flags in (dml.TensorFlags.NONE, dml.TensorFlags.OWNED_BY_DML, 1):
        copy(dml.TensorDesc("INT8", [5], flags=flags)).check()


@pytest.mark.parametrize("strides", [[0, 1], [1, 0], [3, 1], [1, 1], [0, 0]])
def test_only_inputs_may_broadcast(strides):
    tensor = dml.TensorDesc("INT8", [2, 4], strides)
    copy(tensor).check()
    refused(copy_to(tensor), "OutputTensors[0].Strides", DISTINCT, f"{strides} over sizes [2, 4]")


@pytest.mark.parametrize("strides", [[4, 1], [1, 2], [9, 2], [1, 7], [5, 1], [3, 2]])
def test_outputs_may_be_padded_permuted_and_interleaved(strides):
    assert not collides([2, 4], strides)
    copy_to(dml.TensorDesc("INT8", [2, 4], strides)).check()


def test_a_stride_of_a_size_1_dimension_means_nothing():
    copy_to(dml.TensorDesc("INT8", [1, 4, 1], [0, 1, 1])).check()


def test_overlap_against_brute_force():
    rng = np.random.default_rng(5)
    seen = []
    for _ in range(4000):
        count = int(rng.integers(1, 5))
        sizes = [int(n) for n in rng.integers(1, 5, count)]
        strides = [int(s) for s in rng.integers(-2, 20, count)]
        element = int(rng.integers(1, 6))
        answer = has_overlap(sizes, strides, element)
        assert answer == collides(sizes, strides, element), f"{sizes}, {strides}, {element}"
        assert has_overlap(sizes, strides) == collides(sizes, strides), f"{sizes}, {strides}"
        seen.append(answer)
    assert 500 < sum(seen) < 3500


@pytest.mark.parametrize(
    "sizes, strides, expected",
    [
        ([65536, 65535], [65535, 1], False),
        ([65536, 65536], [65535, 1], True),
        ([65535, 65536], [1, 65535], False),
        ([2, 2**31 - 1], [2**31 - 1, 1], False),
        ([3, 5, 7], [35, 7, 1], False),
        ([1000, 1001], [1000, 999], True),
        ([1000, 1000], [1000, 999], False),
        ([999, 1001], [1000, 999], False),
    ],
)
def test_overlap_of_large_tensors(sizes, strides, expected):
    assert has_overlap(sizes, strides) is expected


def test_strides_too_hard_to_decide_count_as_overlapping():
    # A knapsack of eight numbers with nothing in common: to search it all would take minutes.
    sizes = [13, 13, 13, 15, 11, 14, 14, 10]
    strides = [1753442921, 3696782898, 2425332954, 240890389, 3308688215, 3160880733, 3651355441, 836869582]
    with pytest.raises(np.exceptions.TooHardError):
        view = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), sizes, strides)
        np.shares_memory(view[1:], view[:1], max_work=1000)
    assert has_overlap(sizes, strides)


def test_nothing_overlaps_nothing():
    assert not has_overlap([5, 0], [0, 0])
    assert not has_overlap([], [])


def test_shared_memory_is_found_by_the_byte():
    base = np.zeros(24, np.uint8)
    even, odd = base[::2], base[1::2]
    assert not shares_memory(even, odd)
    assert shares_memory(even, base[2:3])
    assert shares_memory(base[0:8].view(np.int64), base[7:8])


@pytest.mark.parametrize("sizes", [[2**32, 2], [2**32], [0, 2**32 - 1, 2**32 - 1]])
def test_a_broken_size_hides_what_would_follow_from_it(sizes):
    tensor = dml.TensorDesc("UINT8", sizes, [1] * len(sizes), total_tensor_size_in_bytes=0)
    assert [field for field, _, _ in tensor_problems(tensor, True)] == [
        f"Sizes[{d}]" for d, size in enumerate(sizes) if size in (0, 2**32)
    ]
