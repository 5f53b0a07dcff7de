"""Parts of model files, for tests."""

from __future__ import annotations


def values(*numbers, kind="FLOAT32"):
    return {"initialValuesDataType": kind, "initialValues": list(numbers)}


def copy_of(size, **tensor):
    """A JOIN of one part: a copy."""
    floats = {"DataType": "FLOAT32", "Sizes": [size]}
    return {"type": "JOIN", "desc": {"InputTensors": [{**floats, **tensor}], "OutputTensor": floats, "Axis": 0}}


def dispatch(name, **bindings):
    return {"type": "dispatch", "dispatchable": name, "bindings": bindings}


def show(name, **fields):
    return {"type": "print", "resource": name, **fields}


def model(resources, dispatchables, *commands):
    return lambda m: m.update(resources=resources, dispatchables=dispatchables, commands=list(commands))


def bytes_of(count):
    """A resource of so many zeros."""
    return {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": count, "value": 0}}
