"""Constants that kernels differ in: each is a *blank* in a kernel's code, which LLVM fills for each variant.

Before LLVM begins, Numba takes three quarters of the time that a kernel takes to compile. So where a kernel depends on
constants, its code says a blank: a call of a function that each variant defines for itself, and that LLVM puts in the
place of the call before it does anything else (see `compilation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.ir import I64, literal_value
from anydml.engines.cpu.kernels.language import intrinsic, types

Filling = int | Callable[[Any, list[Any]], Any]
"""What a blank stands for: a number, or what builds its code from LLVM's builder and the arguments."""

PREFIX = "blank."
"""Of the names of blanks in intermediate code."""

_now: Mapping[str, Filling] | None = None
"""What blanks are filled with where they stand; None while a template is made. Compilers work one at a time."""


@intrinsic
def constant(typing: Any, name: Any) -> Any:
    """A number of the variant."""
    return types.uint64(name), blank(literal_value(name))


def blank(name: str) -> Callable[[Any, Any, Any, list[Any]], Any]:
    """What generates the code of an intrinsic that each variant defines: of 64-bit words, to a word or nothing."""

    def generate(context: Any, builder: Any, kind: Any, arguments: list[Any]) -> Any:
        words = [value for value in arguments if value.type == I64]
        if _now is not None:
            result = code_of_blank(_now[name], builder, words)
        else:
            function = builder.module.globals.get(PREFIX + name)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(I64, [I64] * len(words)), PREFIX + name)
            result = builder.call(function, words)
        return context.get_dummy_value() if kind.return_type == types.void else result

    return generate


def code_of_blank(filling: Filling, builder: Any, arguments: list[Any]) -> Any:
    """Build the code that a blank stands for; gives its value."""
    if isinstance(filling, int):
        return ir.Constant(I64, filling)
    result = filling(builder, arguments)
    return ir.Constant(I64, 0) if result is None else result


def one_of(numbers: Sequence[int]) -> Filling:
    """What a blank of one argument stands for: the number of that place."""

    def generate(builder: Any, arguments: list[Any]) -> Any:
        found = ir.Constant(I64, numbers[0])
        for place, number in enumerate(numbers[1:], 1):
            is_here = builder.icmp_unsigned("==", arguments[0], ir.Constant(I64, place))
            found = builder.select(is_here, ir.Constant(I64, number), found)
        return found

    return generate


@contextmanager
def filled(fillings: Mapping[str, Filling] | None) -> Iterator[None]:
    """Within this, what is compiled has its blanks filled where they stand; with None it is a template."""
    global _now  # noqa: PLW0603
    before, _now = _now, fillings
    try:
        yield
    finally:
        _now = before
