from __future__ import annotations

import random

import pytest
from onnx import ModelProto
from trust.hostile_onnx import hostile_model

from anydml import ModelError
from anydml.memory import limits
from anydml.onnx import load, model_file
from anydml.onnx.wire import count_messages


def inside(message):
    """The messages inside one, counted by protobuf."""
    count = 0
    for field, value in message.ListFields():
        if field.message_type is not None:
            items = value if hasattr(value, "add") else [value]
            count += len(items) + sum(map(inside, items))
    return count


def test_as_many_as_protobuf_finds():
    rng, whole = random.Random(3), 0
    for _ in range(60):
        data = hostile_model(rng)
        count = count_messages(data, ModelProto.DESCRIPTOR, 10**6)
        model = ModelProto()
        try:
            model.ParseFromString(data)
        except Exception:
            continue
        whole += 1
        # A field that stands twice is merged into one message.
        assert count >= inside(model)
        again = count_messages(model.SerializePartialToString(), ModelProto.DESCRIPTOR, 10**6)
        assert again == inside(model)
        assert count_messages(data, ModelProto.DESCRIPTOR, 3) == min(count, 4)
    assert whole > 30


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 50, b"\x3a", b"\x3a\x05\x0a", b"\x3a\x80", b"\x0b\x0c"])
def test_broken_data_ends_it(data):
    assert count_messages(data, ModelProto.DESCRIPTOR, 10) <= 1


def field(number, data):
    size, length = b"", len(data)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x0a\x02\x2a\x00", b"\x5a\x02\x12\x00"])
def test_files_of_many_parts_are_refused_before_they_are_parsed(tmp_path, monkeypatch, part):
    path = tmp_path / "model.onnx"
    monkeypatch.setattr(model_file, "MAX_MESSAGES", 5000)
    path.write_bytes(b"\x08\x08" + field(8, b"\x10\x12") + field(7, part * 6000))
    with pytest.raises(ModelError, match="has more than 5000 nodes, attributes, sizes and other parts"):
        load(path)
    monkeypatch.setattr(model_file, "MAX_MESSAGES", 50_000)
    path.write_bytes(b"\x08\x08" + field(8, b"\x10\x12") + field(7, part * 24_000))
    monkeypatch.setattr(limits, "available_memory", lambda: 2**22)
    with pytest.raises(ModelError, match=r"model\.onnx: loading its \d+ parts needs .*, but 4\.19 MB of memory"):
        load(path)
