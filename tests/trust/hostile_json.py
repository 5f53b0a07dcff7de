"""Model files that nobody writes by accident, made from the examples: wrong types, depths, numbers, paths, lies."""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anydml.dxdispatch import jsonc
from anydml.files.location import Location

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.json"))

NUMBERS = [
    -1, 0, 1, 3, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63, 2**64, 10**30, -(2**63), 0.5, 1e308,
]  # fmt: skip
WORDS = [
    "", "x", "\x1b[2J\x9b2J", "\0", "\ud800", "🙂" * 50, "x" * 10_000, "deferred", "UNKNOWN", "FLOAT32", "NaN",
    "Infinity", "1e400", "DML_TENSOR_DATA_TYPE_FLOAT128", "DML_OPERATOR_CAST", "DML_OPERATOR_GATHER", "print",
    "__class__", "%s%n", "a\nmodel.json: no problems at DML_FEATURE_LEVEL_6_4", "\u202egnp.x\u2066", "x\u2028y\u0085z",
    "k" * 100_000,
]  # fmt: skip
PATHS = [
    "../outside.bin", "..\\outside.bin", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", "link.bin",
    "up/outside.bin", "C:\\x.npy", ".", "..", "a/../../outside.bin", "model.json", "x" * 300, "a/" * 3000 + "x",
    "nul\0.npy", "~/x.bin", "new\nline.bin", "\u202enib.x",
]  # fmt: skip
OTHERS = [
    None, True, False, [], {}, [[]], [None], {"": {}}, [0] * 1000, {"value": 1},
    {"valueCount": 2**32 - 1, "value": 0},
]  # fmt: skip
LYING = [
    "lie.npy", "short.npy", "objects.npy", "deep.npy", "huge.npy", "negative.npy", "magic.npy", "empty.npy",
    "good.npy", "columns.npy", "many.npy", "header.npy", "wide.npy",
]  # fmt: skip


def lying_npy() -> dict[str, bytes]:
    """Files that claim to be arrays."""
    file = io.BytesIO()
    np.save(file, np.arange(6, dtype=np.float32))
    good = file.getvalue()
    columns = io.BytesIO()
    np.save(columns, np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)))
    return {
        "good.npy": good,
        "lie.npy": good.replace(b"(6,)", b"(9,)"),
        "short.npy": good[:-3],
        "objects.npy": good.replace(b"'<f4'", b"'|O' "),
        "deep.npy": good[:10] + b"(" * 118,
        "huge.npy": good.replace(b"(6,), }" + b" " * 20, b"(60000000000000000000,), } "),
        "negative.npy": good.replace(b"(6,), ", b"(-6,),"),
        "magic.npy": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        "empty.npy": b"",
        "columns.npy": columns.getvalue(),
        "many.npy": good[:8] + b"\xf6\x00" + b"{'descr': '<f4', 'fortran_order': True, 'shape': (%s), }" % (b"1," * 95),
    }


def sparse_npy() -> dict[str, tuple[bytes, int]]:
    """Files of gigabytes that take no space: how they begin, and how long they are."""
    header = b"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 1000000000), }".ljust(118)
    return {
        "header.npy": (b"\x93NUMPY\x02\x00" + (1_500_000_000).to_bytes(4, "little"), 1_600_000_000),
        "wide.npy": (b"\x93NUMPY\x01\x00\x76\x00" + header, 128 + 2_000_000_000),
    }


def hostile_text(rng: random.Random) -> bytes:
    """The text of one model file."""
    model = jsonc.loads(rng.choice(EXAMPLES).read_text(encoding="utf-8"), Location("example"))
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        _change(rng, model)
    text = json.dumps(model, ensure_ascii=rng.random() < 0.7, indent=rng.choice([None, 1]))
    data = text.encode("utf-8", "surrogatepass")
    return changed_text(rng, data) if rng.random() < 0.35 else data


def changed_text(rng: random.Random, data: bytes) -> bytes:
    """A text with some of its bytes cut off, changed, repeated or added."""
    return rng.choice(_TEXT_CHANGES)(rng, data)


def _spots(value: Any, parent: Any = None, key: Any = None) -> Iterator[tuple[Any, Any]]:
    if parent is not None:
        yield parent, key
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, item in items:
        yield from _spots(item, value, k)


def _value(rng: random.Random, model: Any) -> Any:
    kind = rng.randrange(8)
    if kind < 2:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice(WORDS)
    if kind == 3:
        return rng.choice(PATHS)
    if kind == 4:
        return copy.deepcopy(rng.choice(OTHERS))
    if kind == 5:
        return {"sourcePath": rng.choice(PATHS + LYING * 2)}
    if kind == 6:
        depth: Any = 0
        for _ in range(rng.choice([1, 10, 300])):
            depth = [depth] if rng.random() < 0.5 else {"value": depth}
        return depth
    parent, key = rng.choice(list(_spots(model)))
    return copy.deepcopy(parent[key])


def _change(rng: random.Random, model: Any) -> None:
    spots = list(_spots(model))
    if not spots:
        return
    parent, key = rng.choice(spots)
    kind = rng.randrange(6)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, list):
        parent.insert(rng.randint(0, len(parent)), _value(rng, model))
    elif kind == 2 and isinstance(parent, dict):
        parent[rng.choice([rng.choice(WORDS), key + "s", key.lower()])] = parent.pop(key)
    elif kind == 3 and isinstance(parent, dict) and isinstance(model.get("commands"), list):
        resources = model.get("resources")
        resource = rng.choice([*resources, "A"] if isinstance(resources, dict) else ["A"])
        command = {"type": "writeFile", "resource": resource, "targetPath": rng.choice(PATHS)}
        model["commands"].append(command)
    elif kind == 4 and isinstance(parent[key], int):
        parent[key] = parent[key] + rng.choice([-1, 1, 2**32, -(2**32)])
    else:
        parent[key] = _value(rng, model)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(rng: random.Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 20])):
        flipped[rng.randrange(len(flipped))] = (
            rng.choice(b'{}[]",:0\x00\xff\\/*') if rng.random() < 0.7 else rng.randrange(256)
        )
    return bytes(flipped)


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    stop = rng.randrange(start, len(data)) + 1
    return data[:stop] + data[start:stop] * rng.choice([1, 2, 1000 // (stop - start) + 1]) + data[stop:]


def _number(rng: random.Random, data: bytes) -> bytes:
    spots = [i for i, byte in enumerate(data) if byte in b"0123456789"] or [0]
    at = rng.choice(spots)
    number = rng.choice(
        [b"9" * 5000, b"1e999999", b"-0", b"0x10", b"1_0", b"NaN", b"-Infinity", b"1" + b"0" * 400, b".5"]
    )
    return data[:at] + number + data[at + 1 :]


def _deep(rng: random.Random, data: bytes) -> bytes:
    at = rng.choice([i for i, byte in enumerate(data) if byte in b"[{:,"])
    depth = rng.choice([90, 1000, 100_000])
    return data[: at + 1] + rng.choice([b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth]) + data[at + 1 :]


def _noise(rng: random.Random, data: bytes) -> bytes:
    long = [b" " * 100_000, b"/*" * 20_000, b"," * 50_000]
    added = [*long, b"/*", b"//", b"/* */", b",,", b"\xef\xbb\xbf", b"\x00", b'"', b"\\u0000", b"\\ud800"]
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(added) + data[at:]


def _wide(rng: random.Random, data: bytes) -> bytes:
    """Many items where a list or an object begins."""
    lists = [i for i, byte in enumerate(data) if byte == ord("[")]
    objects = [i for i, byte in enumerate(data) if byte == ord("{")]
    if lists and rng.random() < 0.7:
        item = rng.choice([b"0", b"1", b"-1", b"1e9", b"{}", b"[]", b'"A"', b'{"":1}', b'{"type":"INT8","value":1}'])
        return _inserted(data, rng.choice(lists) + 1, item + b",", rng.choice([10, 1000, 200_000 // len(item)]))
    at, count = rng.choice(objects) + 1, rng.choice([10, 10_000])
    return data[:at] + b"".join(b'"%x":%d,' % (i, rng.choice([0, i])) for i in range(count)) + data[at:]


def _inserted(data: bytes, at: int, item: bytes, count: int) -> bytes:
    return data[:at] + item * count + data[at:]


_TEXT_CHANGES = (_cut, _flip, _repeat, _number, _deep, _noise, _wide)
