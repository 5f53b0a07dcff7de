"""Fused chains against NumPy, PyTorch, torch.compile and JAX: ``python -m benchmarks.fused [--case F1] [--json FILE]``.

Results are new each time, and contiguous. Every peer's are compared with NumPy's, bit for bit, before it is timed. The
yardstick is the fastest plain copy of the results' bytes into warm memory. Peers that are not there are named.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from anydml.text import count_noun
from benchmarks import fused_streams
from benchmarks.blocks import Block
from benchmarks.fused_cases import CASES, Case
from benchmarks.measure import CopyLimit, machine, medians
from benchmarks.report import Result, geometric_mean, keep

ROUNDS, QUICK_ROUNDS = 21, 3
SCALE, QUICK_SCALE = 8, 1

COLUMNS = ("numpy", "torch", "torch.compile", "jax")

Run = Callable[[], object]
Array = np.ndarray[Any, Any]


class AbsentError(Exception):
    """Why a peer takes no part."""


def run_case(case: Case, rounds: int, scale: int, absent: dict[str, str]) -> tuple[Result, float, str]:
    """Check everybody's results, then time everybody.

    Args:
        case: the chain.
        rounds: how often everybody has a turn.
        scale: of the arguments.
        absent: peers that are not there, and why; those that are found missing are added.

    Returns:
        What was measured, our seconds with ``out=``, and the program in a few words.
    """
    arguments = case.make(scale)
    expected = _contiguous(case.numpy(*arguments))
    fused = dml.fuse(case.numpy)
    program = fused.lower(*arguments)
    words = f"{count_noun(len(program.moves), 'move')}, {program.scratch_bytes} B of scratch"
    runs: dict[str, Run] = {
        "anydml": lambda: fused(*arguments),
        "numpy": lambda: _contiguous(case.numpy(*arguments)),
    }
    for name, make in (("torch", _torch), ("torch.compile", _compiled), ("jax", _jax)):
        if name in absent:
            continue
        try:
            runs[name] = make(case, arguments)
            runs[name]()
        except AbsentError as reason:
            absent[name] = str(reason)
            runs.pop(name, None)
    for name, run in runs.items():
        for one, other in zip(_arrays(run()), expected, strict=True):
            if one.shape != other.shape or not np.array_equal(_bits(one), _bits(other)):
                raise SystemExit(f"{case.name}: the result of {name} differs from NumPy's")
    total = sum(array.nbytes for array in expected)
    outputs = tuple(np.empty_like(array) for array in expected)
    del expected
    out: Any = outputs if len(outputs) > 1 else outputs[0]
    source, destination = (Block([((total,), np.dtype(np.uint8))], 0) for _ in range(2))
    copies = CopyLimit(source.bytes, destination.bytes).runs(2 * total)
    times = medians({**runs, "out": lambda: fused(*arguments, out=out), **copies}, rounds)
    limit = min(times.pop(name) for name in copies)
    return Result(case.name, case.about, total, {name: times[name] for name in runs}, limit), times["out"], words


def _contiguous(results: Any) -> tuple[Array, ...]:
    return tuple(np.ascontiguousarray(each) for each in (results if isinstance(results, tuple) else (results,)))


def _arrays(results: Any) -> Iterator[Array]:
    for each in results if isinstance(results, tuple) else (results,):
        yield np.asarray(each)


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)


def _tensors(arguments: Sequence[Any], make: Callable[[Array], Any]) -> list[Any]:
    """Arguments with other arrays in the place of NumPy's."""
    return [
        make(each) if isinstance(each, np.ndarray) else [make(one) for one in each] if isinstance(each, list) else each
        for each in arguments
    ]


def _torch(case: Case, arguments: Sequence[Any]) -> Run:
    function, tensors = _of_torch(case, arguments)
    return lambda: function(*tensors)


def _compiled(case: Case, arguments: Sequence[Any]) -> Run:
    function, tensors = _of_torch(case, arguments)
    import torch

    # All cases are one function to it, which it compiles so many times only: let it forget the others.
    torch.compiler.reset()
    compiled = torch.compile(function, dynamic=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(*tensors)
    except Exception as error:
        raise AbsentError(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from None
    return lambda: compiled(*tensors)


def _of_torch(case: Case, arguments: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """PyTorch's spelling with contiguous results, and tensors over the arguments."""
    try:
        import torch
    except ImportError:
        raise AbsentError("not installed") from None

    def function(*tensors: Any) -> Any:
        results = case.torch(*tensors)
        return tuple(each.contiguous() for each in results) if isinstance(results, tuple) else results.contiguous()

    return function, _tensors(arguments, torch.from_numpy)


def _jax(case: Case, arguments: Sequence[Any]) -> Run:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        raise AbsentError("not installed") from None
    jax.config.update("jax_enable_x64", True)
    known = {k: each for k, each in enumerate(arguments) if isinstance(each, tuple)}
    compiled = jax.jit(_with(case.numpy, jnp), static_argnums=tuple(known))
    arrays = _tensors(arguments, jnp.asarray)
    return lambda: jax.block_until_ready(compiled(*arrays))


def _with(function: Callable[..., Any], jnp: Any) -> Callable[..., Any]:
    """NumPy's spelling with JAX's functions for NumPy's."""
    import types

    return types.FunctionType(function.__code__, {**function.__globals__, "np": jnp}, function.__name__)


def header() -> str:
    """The table's first line."""
    return (
        f"{'case':6}{'work':40}{'ours':>9}{'out=':>9}"
        + "".join(f"{name:>15}" for name in COLUMNS)
        + (f"{'× fastest':>11}{'of copy':>9}  program")
    )


def line(result: Result, out: float, words: str) -> str:
    """A case's line: milliseconds, the fastest peer's time over ours, and ours over the plain copy's."""
    cells = [result.seconds.get(name) for name in COLUMNS]
    peers = "".join(f"{'–' if each is None else f'{each * 1e3:.2f}':>15}" for each in cells)
    ours = f"{result.ours * 1e3:9.2f}{out * 1e3:9.2f}"
    times = result.ours / (result.copy_seconds or result.ours)
    return f"{result.name:6}{result.about[:39]:40}{ours}{peers}{result.ratio or 0:11.2f}{times:8.2f}×  {words}"


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fused", description=__doc__)
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="an eighth of the work, and fewer rounds")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes a while")
    parser.add_argument("--streams", action="store_true", help="chains whose shapes are new in each call, instead")
    parser.add_argument("--rounds", type=int, help=f"rounds a case (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="add what was measured to what this file keeps")
    given = parser.parse_args(arguments)
    if given.streams:
        return fused_streams.main(not given.no_compile)
    names = {name.lower() for name in given.case or ()}
    if unknown := names - {case.name.lower() for case in CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}: one of {', '.join(case.name for case in CASES)}")
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    about = machine("jax")
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("milliseconds; medians, interleaved; results are new each time, but for out=\n")
    absent = {"torch.compile": "not asked for"} if given.no_compile else {}
    results: list[Result] = []
    with_out: dict[str, float] = {}
    programs: dict[str, str] = {}
    print(header())
    for case in CASES:
        if names and case.name.lower() not in names:
            continue
        result, out, words = run_case(case, rounds, QUICK_SCALE if given.quick else SCALE, absent)
        results.append(result)
        with_out[case.name], programs[case.name] = out, words
        print(line(result, out, words), flush=True)
        gc.collect()
    ratios = [result.ratio for result in results if result.ratio]
    print(f"\ngeometric mean against the fastest peer: {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    for name, reason in absent.items():
        print(f"{name} took no part: {reason}")
    if given.json:
        names_of_all = [case.name for case in CASES]
        command = f"python -m benchmarks.fused --rounds {rounds}"
        more = {"date": datetime.date.today().isoformat(), "command": command, "programs": programs}
        keep(given.json, results, about, names_of_all, **more, absent=absent, seconds_with_out=with_out)
        print(f"kept in {given.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
