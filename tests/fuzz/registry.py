"""Descs of every operator of the registry, bound between guard pages, compared byte for byte with the reference engine.

python -m tests.fuzz.registry --cases 500 --seed 1 [--operator tile] [--engine cpu|numpy|cuda]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PAGES = 1024
"""Of an operand at most."""


def names() -> dict[str, Any]:
    """Every desc of the registry, by its operator's name in small letters."""
    from anydml.operators import DESCS

    return {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.OPERATOR.removeprefix("DML_")).lower(): kind for kind in DESCS.values()
    }


def drawn(name: str, rng: np.random.Generator) -> Any:
    """A random valid desc of an operator.

    Raises:
        KeyError: nobody knows how to draw one; `random_family.FAMILY` says it.
    """
    from random_descs import OPERATORS, random_desc
    from random_family import FAMILY

    return random_desc(rng, name) if name in OPERATORS else FAMILY[name](rng)


def filled(name: str, desc: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Random bytes for every tensor, with indices near what exists, some of them hostile."""
    from random_descs import OPERATORS, fill_inputs
    from random_family import fill_indices

    memory = [rng.integers(0, 256, tensor.size_in_bytes, np.uint8) for _, tensor in (*desc.inputs, *desc.outputs)]
    views = [
        np.ndarray(t.sizes, t.data_type.dtype, flat, 0, [s * t.data_type.itemsize for s in t.element_strides])
        for (_, t), flat in zip(desc.inputs, memory, strict=False)
    ]
    if name in OPERATORS:
        fill_inputs(rng, desc, views)
    else:
        fill_indices(rng, [(field, view) for (field, _), view in zip(desc.inputs, views, strict=True)])
    return memory


def ways(engine: str) -> Iterator[tuple[str, Any]]:
    """Devices, and what makes them work in one way."""
    from .forced import CPU_WAYS, forced

    if engine != "cpu":
        yield engine, contextlib.nullcontext
        return
    for how in (CPU_WAYS[0], CPU_WAYS[3], CPU_WAYS[4]):
        yield "cpu", lambda how=how: forced(how)


def check(name: str, number: int, arenas: list[Any], seed: int = 0, engine: str = "cpu") -> None:
    """One desc, with every operand before a guard page, then after one, in every way of an engine.

    Raises:
        AssertionError: a byte differs; the message has the desc. A byte read or written outside ends the process.
    """
    import anydml as dml

    rng = np.random.default_rng([seed, number, *name.encode()])
    desc = drawn(name, rng)
    before = filled(name, desc, rng)
    count = len(desc.inputs)
    expected = [flat.copy() for flat in before]
    dml.Device("reference").compile_operator(desc).bind(expected[:count], expected[count:]).dispatch()
    for device, way in ways(engine):
        with way():
            compiled = dml.Device(device).compile_operator(desc)
            for at_end in (True, False):
                memory = [arena.take(flat.size, at_end) for arena, flat in zip(arenas, before, strict=False)]
                for own, flat in zip(memory, before, strict=True):
                    own[...] = flat
                compiled.bind(memory[:count], memory[count:]).dispatch()
                for own, right in zip(memory, expected, strict=True):
                    assert own.tobytes() == right.tobytes(), f"case {number} of {name}, seed {seed}, {device}: {desc!r}"


def main() -> int:
    """Fuzz; 0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.registry", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100, help="of each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operator", action="append", help="only this one (may be repeated)")
    parser.add_argument("--engine", choices=["cpu", "numpy", "cuda"], default="cpu")
    given = parser.parse_args()
    warnings.simplefilter("error", RuntimeWarning)
    interpreting: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if given.engine == "cuda":
        os.environ["TRITON_INTERPRET"] = "1"
        from interpreter import patched_once

        interpreting = patched_once()
    from trust.guarded import Arena

    arenas = [Arena(PAGES) for _ in range(12)]
    total = 0
    with interpreting:
        for name in given.operator or names():
            for number in range(given.cases):
                check(name, number, arenas, given.seed, given.engine)
            total += given.cases
            print(f"{name}: {given.cases} cases", flush=True)
    print(f"{total} cases of seed {given.seed}, no mismatch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
