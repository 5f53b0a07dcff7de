"""Functions on arrays as operators' files describe them: what users see, and what all else is derived from.

A function is a stub (its name, signature and docstring, and a call of its `ways`) under `function`, which records what
it infers from shapes and what it is lowered to. From that come `anydml.<name>`, ``torch.ops.anydml.<name>`` and
`anydml.torch.<name>`, the function in `anydml.fuse`, and the ONNX node of the domain ``anydml``.

The annotations of a stub say what its parameters are; arrays come first, ``out`` is the last:

    Array, Arrays     an array; a list of them. All have one dtype, which is the results'
    Indices           an array of integers; negative ones of a signed type count from the end
    Mask              an array of bools, or of 8-bit integers, which are true where they are not 0
    HostInts | None   a 1-D array or list of integers that is read before anything is moved
    int, Ints         numbers and lists of numbers, also ``| None``; ``int | Ints``; ``int | Ints | None``
    Scalar            the value of an element
    Literal[…]        one of several words
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from anydml.moves import Constant, Move, Outside
from anydml.tensor import Layout

Array: TypeAlias = Any
Indices: TypeAlias = Any
Mask: TypeAlias = Any
Arrays: TypeAlias = Sequence[Any]
Ints: TypeAlias = Sequence[int]
HostInts: TypeAlias = Any
Scalar: TypeAlias = Any

Sizes = tuple[int, ...]
Parameters = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])

ARRAY, ARRAYS, INDICES, MASK = "Array", "Arrays", "Indices", "Mask"
OUTSIDE: dict[str, Outside] = {"error": "refuse", "clamp": "clamp", "skip": "skip"}
"""What lookups do where an index lies outside its axis, by the words of functions that have a parameter for it."""


class Inferred(NamedTuple):
    """What is known of a call from shapes and numbers.

    Attributes:
        parameters: its arguments, checked, as lowering wants them.
        shapes: of the results.
        views: of the one input, for NumPy, if the results are that.
    """

    parameters: Parameters
    shapes: list[Sizes]
    views: Sequence[tuple[Any, ...]] = ()


class Listed(NamedTuple):
    """A ``HostInts`` argument: shape and dtype are known, values where they could be read."""

    shape: Sizes
    dtype: str
    is_integer: bool
    values: tuple[int, ...] | None


class Parameter(NamedTuple):
    """A parameter of a stub, but ``out``.

    Attributes:
        name: as the stub has it.
        kind: its annotation; ``"Literal"`` for words.
        has_default: whether it need not be given.
        default: what it is then.
        words: that it may be, for ``"Literal"``.
    """

    name: str
    kind: str
    has_default: bool
    default: Any
    words: tuple[str, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether engines see it."""
        return self.kind in (ARRAY, ARRAYS, INDICES, MASK)

    @property
    def is_index(self) -> bool:
        """Whether it says which elements move, and is none of them."""
        return self.kind in (INDICES, MASK)


class Composing(Protocol):
    """What arrays of a fused function can do without being moved."""

    def cut(self, x: Any, axis: int, start: int, size: int) -> Any:
        """A part of an axis."""

    def sliced(self, x: Any, starts: Sizes, sizes: Sizes, steps: Sizes) -> Any:
        """``result[c] = x[starts + steps·c]``."""

    def reshaped(self, x: Any, shape: Sizes) -> Any:
        """In row-major order in another shape of as many elements."""

    def joined(self, arrays: Sequence[Any], axis: int) -> Any:
        """One after the other."""

    def picked_by(self, x: Any, indices: Any, axis: int, outside: Outside) -> Any:
        """Elements along an axis, by indices that count from either end."""


Lowering = Callable[[Sequence[Layout], Sequence[Layout], Parameters, bool], tuple[Move, ...]]
"""To moves, from the layouts of inputs (operands 0 …) and results (the operands after them), and parameters."""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Function:
    """A function on arrays, without any array.

    Attributes:
        stub: what users see.
        name: the stub's.
        label: what errors call it.
        parameters: the stub's, but ``out``.
        infer: from what errors call it, the shapes of its arrays (`Arrays` and `Array`, then `Indices` and `Mask`), and
            its other arguments in order, followed by the dtypes of indices and masks; a `Scalar` is an `Element`. Sizes
            may be symbols. Raises DescError.
        lower: to moves, from the layouts of the same arrays (operands 0 …) and of the results (the operands after
            them), and what `infer` made of the arguments; the last argument is True if all are packed.
        in_place: lowers a call whose `out` is x itself: what is not changed is not moved.
        constants: what the moves read beside the inputs: operands that follow the results, made from the same arguments
            as the moves.
        by_numpy: writes the results of inputs to arrays, for dtypes whose elements are references; without it they are
            looked up where the moves put numbers.
        written_by_numpy: bytes of results from which `by_numpy` writes them in less time than a program; None: never.
        lengths: of the inputs, from shapes and parameters, where they are a second result.
        expand: arguments in which lists of sizes stand for their number.
        compose: in a fused function, the results from what composes, the arrays (indices that are known are NumPy's),
            and what `infer` made of the arguments. Without it, what is lowered moves into scratch.
    """

    stub: Callable[..., Any]
    name: str
    label: str
    parameters: tuple[Parameter, ...]
    infer: Callable[[str, Sequence[Sizes], Parameters], Inferred]
    lower: Lowering
    constants: Callable[[Sequence[Layout], Sequence[Layout], Parameters], tuple[Constant, ...]] | None = None
    in_place: Lowering | None = None
    by_numpy: Callable[[Sequence[Any], Inferred, Sequence[Any]], None] | None = None
    written_by_numpy: int | None = None
    lengths: Callable[[Sequence[Sizes], Parameters], Sizes] | None = None
    expand: Callable[[str, Sequence[Sizes], Parameters], Parameters] | None = None
    compose: Callable[[Composing, Sequence[Any], Inferred], list[Any]] | None = None

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The parameters that engines see, in their order: data, then indices and masks."""
        found = [each for each in self.parameters if each.is_array]
        return tuple(sorted(found, key=lambda each: each.is_index))

    @property
    def is_of_lists(self) -> bool:
        """Whether its data is a list of arrays."""
        return self.parameters[0].kind == ARRAYS

    @property
    def input_names(self) -> tuple[str, ...]:
        """What errors call its inputs; none where they are elements of a list."""
        return () if self.is_of_lists else tuple(each.name for each in self.arrays)

    def data_count(self, inputs: int) -> int:
        """How many of so many inputs are data."""
        return inputs - sum(each.is_index for each in self.parameters)

    @property
    def has_parts(self) -> bool:
        """Whether there are several results."""
        return str(self.stub.__annotations__["return"]).startswith("list[")

    def parameter(self, name: str) -> Parameter:
        """The parameter of this name."""
        return next(each for each in self.parameters if each.name == name)

    def bound(self, arguments: Sequence[Any]) -> list[Any]:
        """Arguments by position, with the defaults of those that are not given."""
        return [*arguments, *(each.default for each in self.parameters[len(arguments) :])]


FUNCTIONS: dict[str, Function] = {}
"""The functions of the operators that were imported, by name."""


def function(
    infer: Callable[[str, Sequence[Sizes], Parameters], Inferred],
    lower: Lowering,
    label: str | None = None,
    **named: Any,
) -> Callable[[F], F]:
    """Record the function that a stub describes.

    Args:
        infer: see `Function`.
        lower: likewise.
        label: what errors call it; its name by default.
        named: the other attributes of `Function`.
    """

    def record(stub: F) -> F:
        FUNCTIONS[stub.__name__] = described(stub, infer, lower, label, **named)
        return stub

    return record


def described(
    stub: Callable[..., Any],
    infer: Callable[[str, Sequence[Sizes], Parameters], Inferred],
    lower: Lowering,
    label: str | None = None,
    **named: Any,
) -> Function:
    """The function that a stub describes; arguments as those of `function`."""
    name = stub.__name__
    return Function(stub, name, label or name, _parameters(stub), infer, lower, **named)


def _parameters(stub: Callable[..., Any]) -> tuple[Parameter, ...]:
    code, kinds = stub.__code__, stub.__annotations__
    count, most = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    defaults: dict[str, Any] = dict(stub.__kwdefaults__ or {})
    given = stub.__defaults__ or ()
    defaults.update(zip(code.co_varnames[count - len(given) : count], given, strict=True))
    found = []
    for name in code.co_varnames[:most]:
        if name == "out":
            continue
        kind = str(kinds[name])
        words: tuple[str, ...] = ()
        if kind.startswith("Literal["):
            words = ast.literal_eval(f"({kind[8:-1]},)")
            kind = "Literal"
        found.append(Parameter(name, kind, name in defaults, defaults.get(name), words))
    return tuple(found)
