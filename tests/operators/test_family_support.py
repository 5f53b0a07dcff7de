"""Support tables of the family, typed out from the documents, and compared cell by cell."""

import pytest

from anydml.operators import REGISTRY

ALL = "FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"
NO64F = "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"
TO32 = "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"
F = "FLOAT32 FLOAT16"
IDX = "INT64 INT32 UINT64 UINT32"
U32 = "UINT32"
BYTES = "FLOAT32 FLOAT16 INT8 UINT8"
LENGTHS = "UINT64 UINT32"

BOTH = "InputTensor OutputTensor"
SCATTERED = "InputTensor UpdatesTensor OutputTensor"
INDEXED = [("4_1", "1-8", ALL, IDX), ("3_0", "1-8", TO32, IDX), ("2_1", "4-4", TO32, U32)]
SPACE = [("5_0", "4-4", ALL), ("2_1", "4-4", TO32), ("1_0", "4-4", F)]

# operator: tensors of one kind, the tensor of another if there is one, rows from the newest level on, a third kind
TABLES = {
    "SLICE_GRAD": (
        "InputGradientTensor OutputGradientTensor",
        "",
        [("4_1", "1-8", ALL), ("3_1", "1-8", TO32), ("3_0", "4-5", TO32)],
    ),
    "GATHER_ELEMENTS": (BOTH, "IndicesTensor", INDEXED),
    "GATHER_ND": (BOTH, "IndicesTensor", INDEXED),
    "GATHER_ND1": (BOTH, "IndicesTensor", INDEXED[:2]),
    "SCATTER": (SCATTERED, "IndicesTensor", [*INDEXED, ("1_0", "4-4", F, U32)]),
    "SCATTER_ELEMENTS": (SCATTERED, "IndicesTensor", [*INDEXED, ("1_0", "4-4", F, U32)]),
    "SCATTER_ND": (SCATTERED, "IndicesTensor", INDEXED),
    "TILE": (BOTH, "", [("4_1", "1-8", NO64F), ("3_1", "1-8", TO32), ("2_1", "4-4", TO32), ("1_0", "4-4", F)]),
    "PADDING": (BOTH, "", [("5_0", "1-8", ALL), ("3_1", "1-8", TO32), ("2_1", "4-5", TO32), ("1_0", "4-5", F)]),
    "PADDING1": (BOTH, "", [("5_0", "1-8", ALL)]),
    "SPACE_TO_DEPTH": (BOTH, "", SPACE),
    "SPACE_TO_DEPTH1": (BOTH, "", SPACE[:2]),
    "DEPTH_TO_SPACE": (BOTH, "", SPACE),
    "DEPTH_TO_SPACE1": (BOTH, "", SPACE[:2]),
    "REVERSE_SUBSEQUENCES": (
        BOTH,
        "SequenceLengthsTensor",
        [("5_0", "1-8", ALL, LENGTHS), ("4_0", "1-8", TO32, U32), ("3_0", "4-5", TO32, U32), ("2_1", "4-4", TO32, U32)],
    ),
    "DIAGONAL_MATRIX": (
        "OutputTensor",
        "",
        [("5_1", "2-4", ALL), ("4_0", "2-4", TO32), ("2_1", "4-4", TO32), ("2_0", "4-4", F)],
    ),
    "DIAGONAL_MATRIX1": (BOTH, "", [("5_1", "2-4", ALL)]),
    "ONE_HOT": ("ValuesTensor OutputTensor", "IndicesTensor", [*INDEXED, ("2_0", "4-4", F, U32)]),
    "FILL_VALUE_CONSTANT": ("OutputTensor", "", [("4_1", "1-8", ALL), ("4_0", "1-8", TO32), ("2_1", "4-4", TO32)]),
    "FILL_VALUE_SEQUENCE": ("OutputTensor", "", [("5_0", "1-8", NO64F), ("4_0", "1-8", TO32), ("2_1", "4-4", TO32)]),
    "ELEMENT_WISE_IDENTITY": (
        BOTH,
        "",
        [("4_1", "1-8", ALL), ("3_0", "1-8", TO32), ("2_1", "4-5", TO32), ("1_0", "4-5", F)],
    ),
    "UPSAMPLE_2D": (BOTH, "", [("1_0", "4-5", F)]),
    # The page has no data types: all are taken.
    "ELEMENT_WISE_IF": (
        "ATensor BTensor OutputTensor",
        "ConditionTensor",
        [("5_0", "1-8", ALL, "UINT8"), ("3_0", "1-8", TO32, "UINT8"), ("2_0", "4-4", "FLOAT16", "UINT8")],
    ),
    "RESAMPLE": (BOTH, "", [("6_2", "1-4", BYTES), ("5_1", "1-4", F), ("2_0", "4-4", F)]),
    "RESAMPLE1": (BOTH, "", [("6_2", "1-4", BYTES), ("5_1", "1-4", F), ("2_1", "4-4", F)]),
    "RESAMPLE2": (BOTH, "", [("6_2", "1-4", BYTES), ("5_1", "1-4", F)]),
    "RESAMPLE3": (BOTH, "", [("6_4", "1-4", BYTES)]),
    "NONZERO_COORDINATES": (
        "OutputCountTensor",
        "InputTensor",
        [("4_0", "1-8", U32, TO32), ("3_0", "4-5", U32, TO32)],
        ("OutputCoordinatesTensor", [("4_0", "2-8", U32), ("3_0", "4-5", U32)]),
    ),
    "UNFOLD": (BOTH, "", [("6_4", "3-8", ALL)]),
}
FIRST_SEVEN = {"SPLIT", "JOIN", "SLICE", "SLICE1", "GATHER"}


@pytest.mark.parametrize("operator", TABLES)
def test_tables_are_the_documents(operator):
    tensors, indices, rows, *more = TABLES[operator]
    found = {
        (row.level.short, name): (f"{s.min_dimensions}-{s.max_dimensions}", {t.name for t in s.data_types})
        for row in REGISTRY[f"DML_OPERATOR_{operator}"].SUPPORT
        for name, s in row.tensors.items()
    }
    expected = {
        (level, name): (dimensions, {*types[name == indices].split()})
        for level, dimensions, *types in rows
        for name in (*tensors.split(), *indices.split())
    }
    for name, own in more:
        expected |= {(level, name): (dimensions, {*types.split()}) for level, dimensions, types in own}
    assert found == expected
    levels = [row.level for row in REGISTRY[f"DML_OPERATOR_{operator}"].SUPPORT]
    assert levels == sorted(levels, reverse=True)


def test_every_operator_has_its_table():
    known = {name.removeprefix("DML_OPERATOR_") for name in REGISTRY if name.startswith("DML_")}
    assert known == {*TABLES, *FIRST_SEVEN}
