"""Kernels that differ in constants: typed once, right in each variant, and made by Numba alone where it must be."""

import contextlib

import numba
import numpy as np
import pytest

from anydml.engines.cpu.compiler import NoCompilerError
from anydml.engines.cpu.kernels import driver, elements, interleave, lookup, select, table, turn, variants
from anydml.engines.cpu.kernels.ir import load, store
from anydml.engines.cpu.kernels.variants import constant, one_of

KERNELS = {
    "elements": (elements.elements_kernel, [(0,), (1,), (8,)]),
    "table": (table.table_kernel, [(0,), (2,), (16,)]),
    "turn": (turn.turn_kernel, [(3,), (4,)]),
    "select": (select.select_kernel, [(0,), (4,)]),
    "lookup of rows": (lookup.rows_kernel, [(32,), (-64,)]),
    "lookup of elements": (lookup.elements_kernel, [(4, -32), (2, 64)]),
    "lookup of lines": (lookup.lines_kernel, [(4, -32), (2, 64)]),
    "interleave": (interleave.interleave_kernel, [("0 4 3 16 0 0:1,1:1,2:1",), ("1 2 4 32 1 0:2,2:2",)]),
}


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """Compile everything, and keep nothing on the disk."""

    def njit(*signature, cache=False, **options):
        return numba.njit(*signature, **options)

    monkeypatch.setattr(driver, "njit", njit)
    monkeypatch.setattr(driver, "one_process", lambda kernel: contextlib.nullcontext())
    monkeypatch.setattr(variants, "_templates", {})


@pytest.fixture
def typed(monkeypatch):
    """The names of what Numba types."""
    names, compile_extra = [], variants.compile_extra

    def counted(typing, target, function, *arguments):
        names.append(function.__code__.co_name)
        return compile_extra(typing, target, function, *arguments)

    monkeypatch.setattr(variants, "compile_extra", counted)
    return names


def kernel_of(**blanks):
    """A kernel that multiplies by `factor`, and adds the number at a place."""

    def weighed(table, counter, chunks):
        store(table, load(table) * constant("factor") + number_at(counter))
        return constant("factor")

    return driver.compiled(weighed, *blanks.values(), blanks=blanks)


@numba.extending.intrinsic
def number_at(typing, place):
    """One of the variant's numbers."""
    return numba.types.uint64(numba.types.uint64), variants.blank("number_at")


def run(kernel, value, place):
    memory = np.array([value], np.uint64)
    return kernel(memory.ctypes.data, place, 0), int(memory[0])


def test_variants_are_typed_once_and_differ(typed):
    numbers = [5, 11, 2, 7]
    kernels = {factor: kernel_of(factor=factor, number_at=one_of(numbers)) for factor in (0, 3, 1 << 40)}
    for factor, kernel in kernels.items():
        for place, number in enumerate(numbers):
            assert run(kernel, 9, place) == (factor, 9 * factor + number)
    assert typed == ["weighed"]


def test_a_variant_needs_nothing_of_the_template(typed):
    kernel = kernel_of(factor=6, number_at=4)
    (overload,) = kernel.overloads.values()
    assert "blank." not in overload.library.get_llvm_str()


@pytest.mark.parametrize("way", ["", "Numba's own passes"])
def test_a_blank_without_a_filling_is_an_error(way, monkeypatch):
    if way:
        monkeypatch.setattr(variants._FillTemplate, "run_pass", None)
    with pytest.raises(NoCompilerError, match="number_at"):
        kernel_of(factor=6)


def test_numbas_own_passes_make_the_same(monkeypatch, typed):
    def fails(self, state):
        raise AttributeError("another Numba")

    monkeypatch.setattr(variants._FillTemplate, "run_pass", fails)
    assert run(kernel_of(factor=3, number_at=one_of([1, 20])), 9, 1) == (3, 47)
    assert not typed


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_with_constants_is_typed_once(name, typed):
    make, constants = KERNELS[name]
    kernels = [make.__wrapped__(*each) for each in constants]
    assert len({driver.entry(kernel) for kernel in kernels}) == len(constants)
    assert len(typed) == 1
