"""DML_FEATURE_LEVEL: names, order, and rows of a support table."""

import pytest

import anydml as dml
from anydml.feature_level import Support, SupportRow, lowest_level, row_at

NAMES = ["1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"]
L = dml.FeatureLevel
T = dml.DataType
TABLE = (
    SupportRow(L.LEVEL_4_1, {"X": Support(1, 8, (T.INT8, T.INT64))}),
    SupportRow(L.LEVEL_2_1, {"X": Support(4, 5, (T.INT8,))}),
)


def test_there_are_fifteen_levels_in_order():
    assert [level.short for level in L] == NAMES
    assert sorted(L) == list(L)
    assert L.LATEST is L.LEVEL_6_4 is max(L)


def test_values_are_the_headers():
    for name, level in zip(NAMES, L, strict=True):
        major, minor = name.split("_")
        assert level == int(major) << 12 | int(minor) << 8
        assert str(level) == f"DML_FEATURE_LEVEL_{name}"


@pytest.mark.parametrize("name", NAMES)
def test_parse(name):
    level = L[f"LEVEL_{name}"]
    texts = (
        name, name.replace("_", "."), f"LEVEL_{name}", f"DML_FEATURE_LEVEL_{name}", f"dml_feature_level_{name}",
        f" {name} ",
    )  # fmt: skip
    assert {L.parse(text) for text in texts} == {level} == {L.parse(level)}


def test_parse_latest():
    assert L.parse("latest") is L.parse("LATEST") is L.parse("DML_FEATURE_LEVEL_LATEST") is L.LEVEL_6_4


@pytest.mark.parametrize("text", ["7_0", "3", "", "3_0_0", "LEVEL", "1_1", "__class__"])
def test_an_unknown_level_lists_the_known(text):
    with pytest.raises(ValueError, match=r"unknown feature level .*: it must be one of 1_0, 2_0, .*6_4$"):
        L.parse(text)
    with pytest.raises(ValueError, match="unknown feature level"):
        dml.Device("cpu", feature_level=text)


def test_the_newest_row_at_or_below_a_level():
    expected = {name: None if name < "2_1" else 1 if name < "4_1" else 0 for name in NAMES}
    for name, row in expected.items():
        assert row_at(TABLE, L.parse(name)) is (None if row is None else TABLE[row])
    assert row_at((), L.LATEST) is None


@pytest.mark.parametrize(
    "dimensions, data_type, expected",
    [
        (4, T.INT8, L.LEVEL_2_1),
        (5, T.INT8, L.LEVEL_2_1),
        (3, T.INT8, L.LEVEL_4_1),
        (6, T.INT8, L.LEVEL_4_1),
        (4, T.INT64, L.LEVEL_4_1),
        (9, T.INT8, None),
        (0, T.INT8, None),
        (4, T.FLOAT32, None),
    ],
)
def test_the_lowest_level_that_allows(dimensions, data_type, expected):
    assert lowest_level(TABLE, "X", dimensions, data_type) is expected
