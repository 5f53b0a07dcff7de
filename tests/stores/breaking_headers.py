"""Safetensors files whose headers nobody writes by accident."""

import json
import random

VALUES = [
    None, True, -1, 0, 1, 3, 2**31, 2**62, 2**64, 10**30, 0.5, "", "F32", "F4", "F99", "x" * 500, [],
    {}, [[]], [0], [1, -1],
    [2**62, 2**62, 2**62], [0, 2**63], [8, 4], [0] * 100, [0, 2**40], {"dtype": "F32"}, "\x1b[2J", "\ud800", "a\nb",
]  # fmt: skip


def broken_files(seed, count):
    """Files' bytes, almost all broken."""
    rng = random.Random(seed)
    for _ in range(count):
        yield rng.choice((_changed_content, _changed_bytes, _changed_text, _changed_length))(rng)


def sound(rng):
    """A header's content, and how many bytes of tensors there are."""
    content, end = {"__metadata__": {"format": "pt"}}, 0
    for number in range(rng.randint(1, 4)):
        shape = [rng.randint(0, 4) for _ in range(rng.randint(0, 3))]
        size = 4
        for extent in shape:
            size *= extent
        content[f"t{number}"] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    return content, end


def packed(text, tensors):
    return len(text).to_bytes(8, "little") + text + bytes(tensors)


def _changed_content(rng):
    content, end = sound(rng)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice([*content])
        way = rng.randrange(6)
        entry = content[name]
        if way == 0:
            content[name] = rng.choice(VALUES)
        elif way == 1 and isinstance(entry, dict) and entry:
            entry[rng.choice([*entry])] = rng.choice(VALUES)
        elif way == 2 and isinstance(entry, dict) and entry:
            del entry[rng.choice([*entry])]
        elif way == 3 and isinstance(entry, dict) and isinstance(entry.get("data_offsets"), list):
            entry["data_offsets"] = [rng.randint(-1, end + 8), rng.randint(-1, end + 8)]
        elif way == 4 and isinstance(entry, dict):
            entry["more"] = rng.choice(VALUES)
        else:
            end += rng.choice((-4, 4, 1, 100))
    return packed(json.dumps(content).encode(), max(0, end))


def _changed_bytes(rng):
    content, end = sound(rng)
    text = bytearray(json.dumps(content).encode())
    for _ in range(rng.randint(1, 4)):
        text[rng.randrange(len(text))] = rng.randrange(256)
    return packed(bytes(text), end)


def _changed_text(rng):
    content, end = sound(rng)
    text = json.dumps(content)
    way = rng.randrange(5)
    if way == 0:
        text = text.replace('"t0"', '"__metadata__"')
    elif way == 1:
        text = "[" * 20_000 if rng.random() < 0.5 else '{"a":' * 20_000
    elif way == 2:
        text = text[: rng.randrange(len(text))]
    elif way == 3:
        text = text.replace("4", "9" * 5000, 1)
    else:
        text = text[:-1] + "," + text[1:]
    return packed(text.encode(), end)


def _changed_length(rng):
    content, end = sound(rng)
    text = json.dumps(content).encode()
    length = rng.choice((0, 1, 2**63, 2**64 - 1, len(text) - 1, len(text) + 1, len(text) + end + 1))
    return (length.to_bytes(8, "little") + text + bytes(end))[: rng.choice((0, 3, 8, 9, None))]
