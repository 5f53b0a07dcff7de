from __future__ import annotations

import struct

import numpy as np
import pytest

from anydml import dxdispatch


@pytest.mark.parametrize("prefix", ["", "DML_TENSOR_DATA_TYPE_"])
def test_the_guides_own_initializers(folder, prefix):
    f32 = f"{prefix}FLOAT32"
    assert folder.resource(initialValuesDataType=f32, initialValues={"valueCount": 4, "value": 0}) == "0, 0, 0, 0"
    sequence = {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}
    assert folder.resource(initialValuesDataType=f32, initialValues=sequence) == "1, 3.5, 6, 8.5"
    values = [65504, -65504, 4, 3, -4, -6, "nan", "inf", "-inf"]
    printed = folder.resource(initialValuesDataType=f"{prefix}FLOAT16", initialValues=values)
    assert printed == "65504, -65504, 4, 3, -4, -6, nan, inf, -inf"


def test_padding_is_not_printed(folder):
    half = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3]}
    assert folder.resource(**half) == "1, 2, 3"
    assert folder.resource(**half, sizeInBytes=64) == "1, 2, 3"


def test_sizes_are_padded_to_four_bytes_unless_given(folder):
    def sizes(**fields):
        file = folder.edit(lambda m: m["resources"].update(C={"initialValuesDataType": "UINT8", **fields}))
        return dxdispatch.load(file).resources["C"].size_in_bytes

    assert sizes(initialValues=[1] * 5) == 8
    assert sizes(initialValues=[1] * 5, sizeInBytes=5) == 5
    assert sizes(initialValues=[1] * 5, sizeInBytes=100) == 100
    assert sizes(initialValues=[1] * 4, initialValuesOffsetInBytes=4, sizeInBytes=8) == 8


def test_a_list_is_its_values_one_after_the_other(folder):
    elements = [
        {"name": "count", "type": "UINT32", "value": 6},
        {"type": "FLOAT32", "value": 2.5},
        {"type": "INT8", "value": -1},
        {"type": "DML_TENSOR_DATA_TYPE_FLOAT64", "value": "inf"},
    ]

    def add(model):
        model["resources"]["C"] = {"initialValues": elements, "initialValuesDataType": "UNKNOWN", "sizeInBytes": 256}
        model["commands"] = [{"type": "writeFile", "resource": "C", "targetPath": "c.bin"}]

    folder.run(add)
    expected = struct.pack("<Ifbd", 6, 2.5, -1, float("inf"))
    assert (folder.path / "c.bin").read_bytes() == expected + bytes(256 - len(expected))


@pytest.mark.parametrize("name", ["x.dat", "x.bin", "x.anything", "X"])
def test_raw_files(folder, name):
    (folder.path / name).write_bytes(struct.pack("<3h", 1, -2, 3))
    assert folder.resource(initialValuesDataType="INT16", initialValues={"sourcePath": name}) == "1, -2, 3"


@pytest.mark.parametrize("name", ["x.npy", "X.NPY"])
def test_npy_files_know_their_type(folder, name):
    with (folder.path / name).open("wb") as file:
        np.save(file, np.array([[1, 2], [3, 4]], ">u2"))
    assert folder.resource(initialValues={"sourcePath": name}) == "1, 2, 3, 4"
    assert folder.resource(initialValuesDataType="UINT16", initialValues={"sourcePath": name}) == "1, 2, 3, 4"


CASES = [
    ({}, "resources.C.initialValues: is required"),
    ({"initialValues": 3}, "resources.C.initialValues: must be an array"),
    ({"initialValues": "later"}, "resources.C.initialValues: must be an array"),
    ({"initialValues": []}, "resources.C.initialValues: must have at least one value"),
    ({"initialValues": {}}, "resources.C.initialValues: must have one of value, valueStart and sourcePath"),
    (
        {"initialValues": {"value": 1, "valueStart": 1, "valueCount": 1}},
        "resources.C.initialValues: must have one of value, valueStart and sourcePath, but it has value and valueStart",
    ),
    ({"initialValues": {"value": 1}}, "resources.C.initialValues.valueCount: is required"),
    ({"initialValues": {"value": 1, "valueCount": 0}}, "resources.C.initialValues.valueCount: must be at least 1"),
    ({"initialValues": {"value": 1, "valueCount": 1e15}}, "resources.C.initialValues.valueCount: must be an integer"),
    ({"initialValues": {"value": 1, "valueCount": 10**15}}, "resources.C.initialValues.valueCount: must be less"),
    ({"initialValues": {"value": "x", "valueCount": 1}}, "resources.C.initialValues.value: must be a number"),
    ({"initialValues": {"valueStart": 1, "valueCount": 1}}, "resources.C.initialValues.valueDelta: is required"),
    ({"initialValues": [1, 2], "sizeInBytes": 4}, "resources.C.sizeInBytes: is 4, too few for 8 bytes"),
    ({"initialValues": [1, 2], "sizeInBytes": "8"}, 'resources.C.sizeInBytes: must be an integer, not "8"'),
    ({"initialValues": [1], "initialValuesOffsetInBytes": 4}, "resources.C.sizeInBytes: is 4, too few"),
    ({"initialValues": [1], "initialValuesDataType": "FLOAT8"}, "resources.C.initialValuesDataType: unknown data type"),
    ({"initialValues": [1], "initialValuesDataType": "UNKNOWN"}, "resources.C.initialValues[0]: must be an object"),
    (
        {"initialValues": [{"type": "UNKNOWN", "value": 1}], "initialValuesDataType": "UNKNOWN"},
        "resources.C.initialValues[0].type: UNKNOWN",
    ),
    (
        {"initialValues": {"value": 1, "valueCount": 1}, "initialValuesDataType": "UNKNOWN"},
        "resources.C.initialValues: needs an initialValuesDataType",
    ),
    (
        {"initialValues": {"sourcePath": "none.bin"}},
        'resources.C.initialValues.sourcePath: "none.bin": there is no such file or folder',
    ),
    ({"initialValues": {"sourcePath": "."}}, 'resources.C.initialValues.sourcePath: "." is not a file'),
    ({"initialValues": {"sourcePath": "x.jpg"}}, 'resources.C.initialValues.sourcePath: "x.jpg" is an image'),
    (
        {"initialValues": {"sourcePath": "raw.bin"}, "initialValuesDataType": "UNKNOWN"},
        'resources.C.initialValues.sourcePath: "raw.bin" is raw bytes',
    ),
    ({"initialValues": {"sourcePath": "empty.bin"}}, "resources.C.initialValues: must have at least one value"),
    ({"initialValues": {"sourcePath": "i4.npy"}}, "resources.C.initialValues.sourcePath: "),
]


@pytest.mark.parametrize(("fields", "message"), CASES)
def test_errors(folder, fields, message):
    (folder.path / "raw.bin").write_bytes(b"1234")
    (folder.path / "empty.bin").write_bytes(b"")
    np.save(folder.path / "i4.npy", np.zeros(1, np.int32))
    resource = {"initialValuesDataType": "FLOAT32", **fields}
    assert folder.error(lambda m: m["resources"].update(C=resource)).startswith(message)
