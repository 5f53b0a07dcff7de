"""ONNX files with fields that lie: made by changing any field of valid models, or any byte of their files."""

from __future__ import annotations

import random
from typing import Any

from onnx import ModelProto, TensorProto, parser

from .hostile_graphs import PRETENDING, deep_file, hostile_graph

MODELS = [
    """<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
    g (float[4, 2] x) => (float[A, B] a, float[C, D] b) <int64[1] one = {1}> {
        t = Constant <value = float[2, 2] {1, 2, 3, 4}> ()
        j, n = com.microsoft.ConcatTraining <axis = 0> (x, t)
        g = Gather (j, one)
        k = Concat <axis = 0> (j, g)
        e = Constant <value_ints = [-1]> ()
        l = Slice (k, one, e, one)
        a, b = com.microsoft.SplitTraining <axis = 0> (j, n)
    }""",
    """<ir_version: 8, opset_import: ["": 18]>
    g (float[4, 2] x) => (float[N, 2] y) <int64[3] i = {3, -1, 0}, int64[2] s = {1, 3}, float[4, 2] w> {
        a, b = Split <axis = 0> (x, s)
        c = Gather <axis = 0> (b, i)
        y = Concat <axis = 0> (a, c, w)
    }""",
    """<ir_version: 8, opset_import: ["": 18]>
    g (float[4, 2] x) => (float[N, M] y, float[A, B] z) <int64[2] two = {8, -1}, int64[4] pads = {0, 1, -1, 2},
     int64[2] times = {2, 3}, float[2] values = {0, 1}, float[2] v = {2, 1}, int64 o = {-1}, int64[1] d = {0}> {
        s = Shape (x)
        n = ReduceProd <keepdims = 0> (s)
        m = Mul (n, s)
        f = Cast <to = 1> (m)
        r = Reshape (x, two)
        t = Transpose <perm = [1, 0]> (r)
        p = Pad <mode = "edge"> (t, pads)
        u = Tile (p, times)
        h = OneHot <axis = -1> (s, n, values)
        q = SplitToSequence <axis = 1> (u)
        l = SequenceLength (q)
        i = SequenceAt (q, o)
        k = NonZero (i)
        e = Trilu (u)
        y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (e, , v)
        z = Unsqueeze (f, d)
    }""",
]
NUMBERS = [-1, 0, 1, 2, 7, 127, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)]
TEXTS = ["", "x", "a", "Split", "Loop", "com.microsoft", "\0", "é" * 3, "x" * 10_000, "../outside.bin",
         "/dev/zero", "w.bin", "99999999999", *PRETENDING]  # fmt: skip


def hostile_model(rng: random.Random) -> bytes:
    """The bytes of one model file."""
    kind = rng.random()
    if kind < 0.02:
        return deep_file(rng)
    if kind < 0.5:
        return _bytes(rng, hostile_graph(rng), broken=0.1)
    model = parser.parse_model(rng.choice(MODELS))
    if len(model.graph.initializer) == 3:
        weights = model.graph.initializer[2]
        weights.raw_data = bytes(32)
        if rng.random() < 0.5:
            _store_outside(rng, weights)
    for _ in range(rng.choice([0, 1, 1, 1, 3, 8])):
        _change(rng, model)
    return _bytes(rng, model, broken=3 / 8)


def _bytes(rng: random.Random, model: ModelProto, broken: float) -> bytes:
    """A model's bytes, some of which are sometimes wrong."""
    data = bytearray(model.SerializePartialToString())
    kind = rng.randrange(3) if rng.random() < broken else None
    if kind == 0:
        data = data[: rng.randrange(len(data) + 1)]
    elif kind == 1:
        for _ in range(rng.choice([1, 2, 10])):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    elif kind == 2:
        at = rng.randrange(len(data))
        data[at:at] = data[at : at + rng.randrange(1, 50)] * rng.choice([1, 100])
    return bytes(data)


def _store_outside(rng: random.Random, tensor: TensorProto) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": rng.choice(["w.bin", *TEXTS]), "offset": "0", "length": "32"}
    for key, value in entries.items():
        lie = rng.choice(["", "-1", "4", "33", "1e3", "9" * 19, "9" * 400, "٣"]) if rng.random() < 0.2 else value
        tensor.external_data.add(key=key, value=lie)


def _messages(message: Any) -> list[Any]:
    found = [message]
    for field, value in message.ListFields():
        if field.message_type:
            for item in value if _is_repeated(field) else [value]:
                found += _messages(item)
    return found


def _is_repeated(field: Any) -> bool:
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _change(rng: random.Random, model: ModelProto) -> None:
    message = rng.choice(_messages(model))
    fields = message.ListFields()
    field = rng.choice(fields)[0] if fields and rng.random() < 0.7 else rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
        return
    if _is_repeated(field):
        values = getattr(message, field.name)
        if len(values) and rng.random() < 0.3:
            del values[rng.randrange(len(values))]
        elif field.message_type:
            if len(values) and rng.random() < 0.5:
                values.add().CopyFrom(rng.choice(values))
            elif not len(values):
                values.add()
        else:
            values.extend([_scalar(rng, field)] * rng.choice([1, 1, 9]))
    elif field.message_type:
        getattr(message, field.name).SetInParent()
    else:
        try:
            setattr(message, field.name, _scalar(rng, field))
        except ValueError:
            message.ClearField(field.name)


def _scalar(rng: random.Random, field: Any) -> Any:
    kinds = field.cpp_type
    if kinds == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS)
        return text if field.type == field.TYPE_STRING else text.encode()
    if kinds == field.CPPTYPE_ENUM:
        return rng.choice(list(field.enum_type.values_by_number))
    if kinds in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.5, 1e38, float("nan")])
    if kinds == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    number = rng.choice(NUMBERS)
    low, high = {field.CPPTYPE_INT32: (-(2**31), 2**31 - 1), field.CPPTYPE_UINT64: (0, 2**64 - 1)}.get(
        kinds, (-(2**63), 2**63 - 1)
    )
    return min(max(number, low), high)
