"""Descriptions of functions on arrays, from which every front end derives its own form.

A function is a stub (name, signature and docstring, without a body) decorated with `function`, which records how to
check a call and which rule makes its results. `anydml.<name>`, ``torch.ops.anydml.<name>``, `anydml.torch.<name>`, the
function in `anydml.fuse`, and the ONNX node of the domain ``anydml`` are derived from it.

The annotations of a stub are the kinds of its parameters; arrays come first, ``out`` is the last:

    Array             an array, of the results' dtype; ``Sequence[Array]`` is a list of them
    Indices           an array of integers; negative ones of a signed type count from the end
    Mask              an array of bools, or of 8-bit integers, which are true if not 0
    HostInts | None   a 1-D array or list of integers that is read on the host
    int, Ints         numbers and lists of numbers, also ``| None``; ``int | Ints``; ``int | Ints | None``
    Scalar            the value of an element
    Literal[…]        one of several words
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from anydml.moves.move_maker import MoveMaker
from anydml.moves.sizing import Integers
from anydml.moves.verbs import Maker, View, views_of
from anydml.tensor import Layout


class ArrayLike(Protocol):
    """The attributes that arrays of all libraries have."""

    @property
    def shape(self) -> Any:
        """Sizes."""

    @property
    def dtype(self) -> Any:
        """The elements' type."""


Array = TypeVar("Array", bound=ArrayLike)
"""For type checkers, results have the arguments' type of array. They reject lists, although NumPy converts these."""

Indices: TypeAlias = Any
Mask: TypeAlias = Any
Ints: TypeAlias = Sequence[int]
HostInts: TypeAlias = Any
Scalar: TypeAlias = Any

Sizes = tuple[int, ...]
Parameters = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])

ARRAY, ARRAYS, INDICES, MASK = "Array", "Arrays", "Indices", "Mask"


class Inferred(NamedTuple):
    """The result of shape inference.

    Attributes:
        parameters: the checked arguments, in the form that the rule expects.
        shapes: the results' shapes.
    """

    parameters: Parameters
    shapes: list[Sizes]


class HostIntegers(NamedTuple):
    """A ``HostInts`` argument: shape, dtype, and the values if they could be read."""

    shape: Sizes
    dtype: str
    is_integer: bool
    values: tuple[int, ...] | None


class Parameter(NamedTuple):
    """A parameter of a stub other than ``out``.

    Attributes:
        name: the parameter's name.
        kind: the annotation; ``"Arrays"`` for a list of arrays, ``"Literal"`` for words.
        has_default: whether it is optional.
        default: the default value.
        words: the valid values of a ``"Literal"``.
    """

    name: str
    kind: str
    has_default: bool
    default: Any
    words: tuple[str, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether the argument is an operand of engines."""
        return self.kind in (ARRAY, ARRAYS, INDICES, MASK)

    @property
    def is_index(self) -> bool:
        """Whether the argument selects elements, as indices and masks do."""
        return self.kind in (INDICES, MASK)


class _SizesInferredError(Exception):
    """The sizes of the only result are known."""


class _SizesMaker(Maker):
    """A maker that stops a rule once the sizes of the only result are known, so that no symbols are compared.

    Raises:
        _SizesInferredError: always, once the sizes are known.
    """

    def result(self, sizes: Integers, write_sizes: Integers | None = None) -> Any:
        """Stop the rule."""
        super().result(sizes, write_sizes)
        raise _SizesInferredError

    def result_from(self, x: Any) -> Any:
        """Stop the rule."""
        super().result_from(x)
        raise _SizesInferredError


class Function(NamedTuple):
    """The description of a function on arrays: its stub, the check of a call, and its rule.

    Attributes:
        stub: the public function.
        parameters: the stub's parameters without ``out``.
        check_call: ``check(label, *shapes, *arguments)`` checks a call and returns the rule's numbers. Takes the label,
            the shapes of the arrays (`Array`, then `Indices` and `Mask`; those of a list of arrays as one list), and
            the other arguments in order, followed by the dtypes of indices and masks; a `Scalar` is an `Element`.
            Sizes may be symbols. Raises DescError.
        rule: ``rule(maker, *inputs, *numbers)`` makes the results (see `anydml.operators.rule`).
        lengths: ``lengths(label, shapes, *numbers)``, the second result, if the function has one: the inputs' lengths.
        may_update: whether `out` may be the first array, which is updated in place then.
    """

    stub: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    check_call: Callable[..., Parameters]
    rule: Callable[..., None]
    lengths: Callable[..., Sizes] | None = None
    may_update: bool = False

    def __hash__(self) -> int:
        # Functions are in the keys of plans of calls, and hashing their fields takes as long as a small call.
        return id(self)

    @property
    def name(self) -> str:
        """The stub's name."""
        return self.stub.__name__

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The parameters that are operands, in the order of operands: data, then indices and masks."""
        arrays = [parameter for parameter in self.parameters if parameter.is_array]
        return tuple(sorted(arrays, key=lambda parameter: parameter.is_index))

    @property
    def is_of_lists(self) -> bool:
        """Whether the data is a list of arrays."""
        return self.parameters[0].kind == ARRAYS

    def input_names(self, count: int) -> list[str]:
        """Return the names of `count` inputs in errors."""
        if self.is_of_lists:
            return [f"arrays[{i}]" for i in range(count)]
        return [parameter.name for parameter in self.arrays]

    def data_count(self, inputs: int) -> int:
        """Return the number of data inputs among `inputs` inputs."""
        return inputs - sum(parameter.is_index for parameter in self.parameters)

    @property
    def has_parts(self) -> bool:
        """Whether the result is a list of arrays."""
        return str(self.stub.__annotations__["return"]).startswith("list[")

    def infer(self, label: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
        """Check a call, and infer its results' shapes.

        Raises:
            DescError: the call breaks a rule.
        """
        checked = self.check(label, shapes, arguments)
        maker = Maker() if self.has_parts else _SizesMaker()
        with suppress(_SizesInferredError):
            self.apply(maker, [View(tuple(shape)) for shape in shapes], checked)
        return Inferred(checked, maker.shapes)

    def check(self, label: str, shapes: Sequence[Sizes], arguments: Parameters) -> Parameters:
        """Check a call; return the rule's numbers.

        Raises:
            DescError: the call breaks a rule.
        """
        return self.check_call(label, *([shapes] if self.is_of_lists else shapes), *arguments)

    def apply(self, maker: Maker, inputs: Sequence[Any], parameters: Parameters) -> None:
        """Make the results of a call, from views of its inputs."""
        numbers = [Integers(value) if type(value) is tuple else value for value in parameters]
        self.rule(maker, *([inputs] if self.is_of_lists else inputs), *numbers)

    def lower(
        self,
        inputs: Sequence[Layout],
        dtypes: Sequence[str],
        outputs: Sequence[Layout],
        parameters: Parameters,
        is_in_place: bool = False,
    ) -> MoveMaker:
        """Return a call's moves, the constants that they read, and scratch.

        Args:
            inputs: layouts of the arrays.
            dtypes: NumPy's names of the dtypes of the indices and masks, which are the last arrays.
            outputs: layouts of the results.
            parameters: the rule's numbers.
            is_in_place: whether the result is the first array, which is updated.
        """
        maker = MoveMaker(len(inputs), outputs, is_in_place)
        self.apply(maker, views_of(inputs, dtypes), parameters)
        maker.finish()
        return maker

    def parameter(self, name: str) -> Parameter:
        """Return the parameter of a name."""
        return next(parameter for parameter in self.parameters if parameter.name == name)

    def with_defaults(self, arguments: Sequence[Any]) -> list[Any]:
        """Append the defaults of missing arguments to positional ones."""
        return [*arguments, *(parameter.default for parameter in self.parameters[len(arguments) :])]


RECORDED: dict[str, Function] = {}
"""The functions of the imported operators, by name."""


def function(check: Callable[..., Parameters], rule: Callable[..., None], **named: Any) -> Callable[[F], F]:
    """Return a decorator that records a stub as a function.

    Args:
        check: see `Function.check_call`.
        rule: see `Function.rule`.
        named: other attributes of `Function`.
    """

    def record(stub: F) -> F:
        RECORDED[stub.__name__] = Function(stub, parameters_of(stub), check, rule, **named)
        return stub

    return record


def parameters_of(stub: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return a stub's parameters without ``out``."""
    # `inspect.signature` would take longer than a first call.
    names = [*stub.__annotations__][:-1]
    last_defaults = zip(names[: stub.__code__.co_argcount][::-1], (stub.__defaults__ or ())[::-1], strict=False)
    defaults = {**dict(last_defaults), **(stub.__kwdefaults__ or {})}
    parameters = []
    for name in names:
        kind, words = str(stub.__annotations__[name]).replace("Sequence[Array]", ARRAYS), ()
        if kind.startswith("Literal["):
            kind, words = "Literal", ast.literal_eval(f"({kind[8:-1]},)")
        if name != "out":
            parameters.append(Parameter(name, kind, name in defaults, defaults.get(name), words))
    return tuple(parameters)
