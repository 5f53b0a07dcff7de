"""Count the messages of a protobuf file without parsing it, because 2 bytes can expand to hundreds in memory.

The format is documented at protobuf.dev/programming-guides/encoding. Invalid data is left to protobuf to refuse.
"""

from __future__ import annotations

from typing import Any


def count_messages(data: bytes, descriptor: Any, max_count: int) -> int:
    """Count the messages inside a message.

    Args:
        data: the serialized message.
        descriptor: the protobuf descriptor of the message.
        max_count: stop counting above this number.

    Returns:
        The number of messages, or `max_count` + 1 if there are more; in invalid data, the number before the error.
    """
    count = 0
    stack = [(0, len(data), _inner(descriptor))]
    inner_of: dict[str, dict[int, Any]] = {}
    while stack:
        position, end, inner = stack.pop()
        while position < end:
            tag, position = _varint(data, position, end)
            wire_type = tag & 7
            if wire_type == 0:
                _, position = _varint(data, position, end)
            elif wire_type == 1:
                position += 8
            elif wire_type == 5:
                position += 4
            elif wire_type == 2:
                size, position = _varint(data, position, end)
                if size > end - position:
                    return count
                field = inner.get(tag >> 3)
                if field is not None:
                    count += 1
                    if count > max_count:
                        return count
                    if size:
                        name = field.full_name
                        if name not in inner_of:
                            inner_of[name] = _inner(field)
                        stack.append((position, position + size, inner_of[name]))
                position += size
            else:
                # Groups, which ONNX does not have.
                return count
    return count


def _inner(descriptor: Any) -> dict[int, Any]:
    """Return the message types of a message's fields, by field number."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Decode a varint; return its value and the offset of its end, which is `end` if it is truncated."""
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128 or shift > 63:
            return value, position
        shift += 7
    return value, end
