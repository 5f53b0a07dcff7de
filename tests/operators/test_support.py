"""Every operator's support table, typed out from the documents: level × data type × dimension count."""

import pytest

import anydml as dml
from anydml.operators import REGISTRY

LEVELS = ["1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"]
ALL = ["FLOAT64", "FLOAT32", "FLOAT16", "INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8"]
NOT_64 = ["FLOAT32", "FLOAT16", "INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"]
NOT_64_NOR_8 = ["FLOAT32", "FLOAT16", "INT32", "INT16", "UINT32", "UINT16"]
INDICES = ["INT64", "INT32", "UINT64", "UINT32"]

# operator: rows of (from level, dimension counts, data types, index types), newest first
TABLES = {
    "split": [("3_0", "12345678", NOT_64), ("2_1", "4", NOT_64), ("1_0", "4", NOT_64_NOR_8)],
    "join": [
        ("4_1", "12345678", ALL),
        ("3_1", "12345678", NOT_64),
        ("3_0", "45", NOT_64),
        ("2_1", "4", NOT_64),
        ("1_0", "4", NOT_64_NOR_8),
    ],
    "slice": [
        ("4_1", "12345678", ALL),
        ("3_0", "12345678", NOT_64),
        ("2_1", "45", NOT_64),
        ("1_0", "45", NOT_64_NOR_8),
    ],
    "slice1": [("4_1", "12345678", ALL), ("3_0", "12345678", NOT_64), ("2_1", "45", NOT_64)],
    "gather": [
        ("4_1", "12345678", ALL, INDICES),
        ("3_0", "12345678", NOT_64, INDICES),
        ("2_1", "4", NOT_64, ["UINT32"]),
        ("1_0", "4", ["FLOAT32", "FLOAT16"], ["UINT32"]),
    ],
}
TENSORS = {
    "split": {"InputTensor", "OutputTensors"},
    "join": {"InputTensors", "OutputTensor"},
    "slice": {"InputTensor", "OutputTensor"},
    "slice1": {"InputTensor", "OutputTensor"},
    "gather": {"InputTensor", "IndicesTensor", "OutputTensor"},
}


def make(operator, data_type, dimensions, index_type="UINT32"):
    """The smallest desc of an operator."""
    x, ones, zeros = dml.TensorDesc(data_type, [1] * dimensions), [1] * dimensions, [0] * dimensions
    return {
        "split": lambda: dml.SplitOperatorDesc(x, [x], 0),
        "join": lambda: dml.JoinOperatorDesc([x], x, 0),
        "slice": lambda: dml.SliceOperatorDesc(x, x, zeros, ones, ones),
        "slice1": lambda: dml.Slice1OperatorDesc(x, x, zeros, ones, ones),
        "gather": lambda: dml.GatherOperatorDesc(x, dml.TensorDesc(index_type, ones), x, 0, 1),
    }[operator]()


def newest_row(operator, level):
    """The row of the newest level at or below `level`."""
    rows = [row for row in TABLES[operator] if LEVELS.index(row[0]) <= LEVELS.index(level)]
    return rows[0] if rows else None


def lowest(operator, allows):
    """The lowest level whose row `allows` what is asked."""
    levels = [row[0] for row in TABLES[operator] if allows(row)]
    return levels[-1] if levels else None


def problem_at(desc, level):
    try:
        desc.check(level)
    except dml.DescError as error:
        return error
    return None


@pytest.mark.parametrize("operator", TABLES)
def test_tables_are_the_documents(operator):
    """As they are, because what no tensor may be, such as nine dimensions, shows in no desc's problems."""
    found = REGISTRY[f"DML_OPERATOR_{operator.upper()}"].SUPPORT
    assert [row.level.short for row in found] == [row[0] for row in TABLES[operator]]
    for row, (_, counts, types, *index_types) in zip(found, TABLES[operator], strict=True):
        assert set(row.tensors) == TENSORS[operator]
        for name, support in row.tensors.items():
            wanted = index_types[0] if name == "IndicesTensor" else types
            assert (support.min_dimensions, support.max_dimensions) == (int(counts[0]), int(counts[-1]))
            assert sorted(t.name for t in support.data_types) == sorted(wanted)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("operator", TABLES)
def test_data_types_and_dimension_counts(operator, level):
    row = newest_row(operator, level)
    for data_type in ALL:
        for dimensions in range(1, 9):

            def allows(row, data_type=data_type, dimensions=dimensions):
                return str(dimensions) in row[1] and data_type in row[2]

            error = problem_at(make(operator, data_type, dimensions), f"DML_FEATURE_LEVEL_{level}")
            assert (error is None) == bool(row and allows(row)), f"{data_type} in {dimensions} dimensions"
            if error is None:
                continue
            assert error.operator == f"DML_{operator.upper()}"
            if row is None:
                assert f"needs DML_FEATURE_LEVEL_{TABLES[operator][-1][0]}" in str(error)
            elif needed := lowest(operator, allows):
                assert f"needs DML_FEATURE_LEVEL_{needed}" in str(error)
                assert f"DML_FEATURE_LEVEL_{level}" in str(error)
            else:
                assert "no level supports it" in str(error)
                assert "needs" not in str(error)


@pytest.mark.parametrize("level", LEVELS)
def test_index_types(level):
    row = newest_row("gather", level)
    for index_type in ALL:
        for dimensions in range(1, 9):
            error = problem_at(make("gather", "FLOAT32", dimensions, index_type), level)
            assert (error is None) == (str(dimensions) in row[1] and index_type in row[3])
            if index_type in INDICES and str(dimensions) in row[1] and index_type not in row[3]:
                assert error.field == "IndicesTensor.DataType"
                assert "needs DML_FEATURE_LEVEL_3_0" in str(error)


def test_the_default_is_the_newest_level():
    for operator, (newest, *_) in TABLES.items():
        for data_type in ALL:
            assert (problem_at(make(operator, data_type, 3), "6_4") is None) == (data_type in newest[2])
            assert (problem_at(make(operator, data_type, 3), dml.FeatureLevel.LATEST) is None) == (
                data_type in newest[2]
            )


def test_split_of_64_bits_names_the_ways_to_do_it():
    for data_type in ("FLOAT64", "INT64", "UINT64"):
        error = problem_at(make("split", data_type, 4), "6_4")
        for text in ("anydml.split", "SplitTraining", "1.7.0", "from 4_1", "its own page"):
            assert text in str(error)
        assert error.field == "InputTensor.DataType"


def test_a_higher_level_is_named_in_plain_words():
    error = problem_at(make("slice1", "FLOAT32", 3), "2_1")
    assert str(error) == (
        "DML_SLICE1: InputTensor has 3 dimensions, but DML_FEATURE_LEVEL_2_1 supports 4 to 5"
        "; it needs DML_FEATURE_LEVEL_3_0"
    )
    assert (error.operator, error.field, error.rule) == (
        "DML_SLICE1",
        "InputTensor.Sizes",
        "4 to 5 dimensions at DML_FEATURE_LEVEL_2_1",
    )


def test_an_operator_that_does_not_exist_yet():
    error = problem_at(make("slice1", "FLOAT32", 4), "2_0")
    assert "there is no such operator at DML_FEATURE_LEVEL_2_0" in str(error)
    assert "needs DML_FEATURE_LEVEL_2_1" in str(error)


@pytest.mark.parametrize("data_type", ALL)
def test_training_operators_are_bound_by_no_level(data_type):
    x = dml.TensorDesc(data_type, [2])
    dml.SplitTrainingOperatorDesc(x, None, [x]).check("1_0")
    dml.ConcatTrainingOperatorDesc([x], x).check("1_0")
