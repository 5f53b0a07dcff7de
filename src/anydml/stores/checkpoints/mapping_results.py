"""Results of transformers' mappings, and their form in JSON: data only, so that a cached file cannot run code."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Access, Fill, Move
from anydml.moves.composer import Composer
from anydml.moves.move import Lookup
from anydml.moves.pieces import Factor, Piece
from anydml.moves.program import Operand
from anydml.moves.value import Value
from anydml.stores.checkpoints.axis import Axis
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.patterns import Pattern


class Answer(NamedTuple):
    """The tensors of a model in another layout.

    Attributes:
        tensors: the tensors by name, over the same numbered sources.
        composer: the composer, with the constants and scratch of their values.
        remarks: notes for users.
        axes: the axes along which ranks share the tensors.
    """

    tensors: ComposedTensors
    composer: Composer
    remarks: list[str]
    axes: Axes


def text_of(answer: Answer) -> bytes:
    """Return a result as JSON; values and dtypes are numbered, because many tensors share them."""
    values: dict[int, tuple[int, Value]] = {}
    dtypes: dict[int, tuple[int, np.dtype[Any]]] = {}
    tensors = {
        name: (
            values.setdefault(id(tensor.value), (len(values), tensor.value))[0],
            dtypes.setdefault(id(tensor.dtype), (len(dtypes), tensor.dtype))[0],
            tensor.sources,
        )
        for name, tensor in answer.tensors.items()
    }
    composer = vars(answer.composer)
    operands = {operand_number: _plain(operand) for operand_number, operand in composer["_operands"].items()}
    document = {
        "tensors": tensors,
        "values": [
            (value.sizes, value.element_size, _plain(value.pieces if value.access is None else value.access))
            for _, value in values.values()
        ],
        "dtypes": [dtype.str if dtype.isbuiltin == 1 else dtype.name for _, dtype in dtypes.values()],
        "composer": (answer.composer.name, [*operands.items()], _plain(composer["_moves"]), composer["_counts"]),
        "remarks": answer.remarks,
        "axes": [(pattern.text, axis.axis, axis.heads, axis.parts) for pattern, axis in answer.axes.rules],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def answer_of(text: bytes) -> Answer:
    """Return the result that a JSON string describes.

    Raises:
        ValueError, TypeError, LookupError, ModelError: the string describes none.
    """
    document = json.loads(text)
    values = [_value(*fields) for fields in document["values"]]
    dtypes = [*map(np.dtype, document["dtypes"])]
    name, operands, moves, counts = document["composer"]
    composer = Composer(name)
    vars(composer).update(
        _operands={int(operand_number): _operand(*fields) for operand_number, fields in operands},
        _moves=[*map(_move, moves)],
        _counts={int(role): int(count) for role, count in counts.items()},
    )
    return Answer(
        {
            name: ComposedTensor(values[value], dtypes[dtype], _numbers(sources))
            for name, (value, dtype, sources) in document["tensors"].items()
        },
        composer,
        [*map(str, document["remarks"])],
        Axes([
            (Pattern(pattern), Axis(axis, _numbers(heads) if isinstance(heads, list) else heads, int(parts)))
            for pattern, axis, heads, parts in document["axes"]
        ]),
    )  # fmt: skip


def _plain(part: Any) -> Any:
    """Return a value as tuples, numbers and strings; bytes become base64."""
    if isinstance(part, (tuple, list)):
        return [*map(_plain, part)]
    if part is None or isinstance(part, (bool, int, str)):
        return part
    return b64encode(part if isinstance(part, bytes) else np.asarray(part).tobytes()).decode()


def _numbers(parts: Any) -> tuple[int, ...]:
    return tuple(map(int, parts))


def _value(sizes: Any, element_size: Any, parts: Any) -> Value:
    # A list of pieces begins with a list, a whole operand with its number.
    if parts and isinstance(parts[0], int):
        return Value(_numbers(sizes), int(element_size), None, _access(*parts))
    return Value(_numbers(sizes), int(element_size), tuple(map(_piece, parts)))


def _piece(fields: Any) -> Piece:
    start, factors, source = fields
    return Piece(_numbers(start), tuple(Factor(*_numbers(factor)) for factor in factors), _source(source))


def _move(fields: Any) -> Move:
    sizes, destination, source, element_size = fields
    return Move._make((_numbers(sizes), _access(*destination), _source(source), int(element_size)))


def _source(fields: Any) -> Access | Fill:
    return _access(*fields) if len(fields) > 1 else Fill(b64decode(fields[0]))


def _access(operand: Any, offset: Any, strides: Any, lookups: Any) -> Access:
    return Access._make((int(operand), int(offset), _numbers(strides), tuple(_lookup(*lookup) for lookup in lookups)))


def _lookup(
    operand: Any, dtype: Any, offset: Any, strides: Any, size: Any, stride: Any, outside: Any, lookups: Any
) -> Lookup:
    inner = tuple(_lookup(*lookup) for lookup in lookups)
    fields = int(operand), str(dtype), int(offset), _numbers(strides), int(size), int(stride), outside, inner
    return Lookup._make(fields)


def _operand(role: Any, name: Any, size: Any, value: Any, is_on_host: Any, reason: Any) -> Operand:
    constant = None if value is None else np.frombuffer(b64decode(value), np.uint8)
    return Operand(role, str(name), int(size), constant, bool(is_on_host), str(reason))
