"""Kernels that differ in constants: typed once, right in each variant; what Numba documents makes the same."""

import numpy as np
import pytest

from anydml.engines.cpu.compiler import NoCompilerError
from anydml.engines.cpu.kernels import (
    blanks,
    compilation,
    driver,
    elements,
    interleave,
    kept,
    lookup,
    pixels,
    select,
    table,
    turn,
)
from anydml.engines.cpu.kernels.blanks import constant, one_of
from anydml.engines.cpu.kernels.ir import load, store
from anydml.engines.cpu.kernels.language import intrinsic, types

KERNELS = {
    "elements": (elements.elements_kernel, [(0,), (1,), (8,)]),
    "table": (table.table_kernel, [(0,), (2,), (16,)]),
    "turn": (turn.turn_kernel, [(3,), (4,)]),
    "select": (select.select_kernel, [(0,), (4,)]),
    "lookup of rows": (lookup.rows_kernel, [(32,), (-64,)]),
    "lookup of elements": (lookup.elements_kernel, [(4, -32), (2, 64)]),
    "lookup of lines": (lookup.lines_kernel, [(4, -32), (2, 64)]),
    "interleave": (interleave.interleave_kernel, [("0 4 3 16 0 0:1,1:1,2:1",), ("1 2 4 32 1 0:2,2:2",)]),
    "pixels": (pixels.pixels_kernel, [("1 3 3 64 0:2:1,1:1:1,2:0:1",), ("8 16 16 8 0:8:8,8:0:8",)]),
}


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """Compile everything, and keep nothing on the disk."""
    monkeypatch.setattr(kept, "name_of", lambda *_: None)
    monkeypatch.setattr(compilation, "_templates", {})


@pytest.fixture
def typed(monkeypatch):
    """The names of what Numba types."""
    names, compile_extra = [], compilation.compile_extra

    def counted(typing, target, function, *arguments, **more):
        names.append(function.__code__.co_name)
        return compile_extra(typing, target, function, *arguments, **more)

    monkeypatch.setattr(compilation, "compile_extra", counted)
    return names


def weighed_kernel(**fillings):
    """A kernel that multiplies by `factor`, and adds the number at a place."""

    def weighed(table, counter, chunks):
        store(table, load(table) * constant("factor") + number_at(counter))
        return constant("factor")

    return driver.compiled(weighed, *fillings.values(), blanks=fillings)


@intrinsic
def number_at(typing, place):
    """One of the variant's numbers."""
    return types.uint64(types.uint64), blanks.blank("number_at")


def run(kernel, value, place):
    memory = np.array([value], np.uint64)
    return kernel(memory.ctypes.data, place, 0), int(memory[0])


def test_variants_are_typed_once_and_differ(typed):
    numbers = [5, 11, 2, 7]
    kernels = {factor: weighed_kernel(factor=factor, number_at=one_of(numbers)) for factor in (0, 3, 1 << 40)}
    for factor, kernel in kernels.items():
        for place, number in enumerate(numbers):
            assert run(kernel, 9, place) == (factor, 9 * factor + number)
    assert typed == ["weighed"]


def test_a_variant_needs_nothing_of_the_template(monkeypatch):
    codes = []
    monkeypatch.setattr(driver, "load", codes.append)
    weighed_kernel(factor=6, number_at=4)
    (code,) = codes
    assert b"blank." not in code.content


@pytest.mark.parametrize("way", ["", "what Numba documents"])
def test_a_blank_without_a_filling_is_an_error(way, monkeypatch):
    if way:
        monkeypatch.setattr(compilation, "compile_extra", None)
    with pytest.raises(NoCompilerError, match="number_at"):
        weighed_kernel(factor=6)


def test_what_numba_documents_makes_the_same(monkeypatch):
    def fails(*_):
        raise AttributeError("another Numba")

    monkeypatch.setattr(driver, "load", fails)
    monkeypatch.setattr(compilation, "compile_extra", fails)
    kernel = weighed_kernel(factor=3, number_at=one_of([1, 20]))
    assert run(kernel, 9, 1) == (3, 47)
    assert kernel.entry


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_with_constants_is_typed_once(name, typed):
    make, constants = KERNELS[name]
    kernels = [make.__wrapped__(*each) for each in constants]
    assert len({kernel.entry for kernel in kernels}) == len(constants)
    assert len(typed) == 1
