"""A long run: anydml over many cases of the referee, in memory, in one process.

python -m tests.referee.many --onnx 700000 --directml 300000 --seed 1 [--webnn N] [--chunk 10000]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from anydml.device import Device
from anydml.errors import AnydmlError
from anydml.onnx import backend
from anydml.referee import make_cases
from anydml.referee.cases import are_equal, engine_value
from anydml.referee.directml.cases import directml_cases, tensor_view
from anydml.referee.directml.model_folders import without_undefined
from anydml.referee.protos import model_of
from anydml.referee.verdicts import as_array
from anydml.referee.webnn.cases import as_wpt_test, webnn_cases
from anydml.referee.webnn.run_graphs import run


class Outcome(NamedTuple):
    """What anydml makes of a case.

    Attributes:
        operator: its operator.
        agrees: whether the outputs are those of the text, or of a reading of it.
        words: the case and what was found.
    """

    operator: str
    agrees: bool
    words: Callable[[], str]


def _agree(found: Any, expected: Any) -> bool:
    return len(found) == len(expected) and all(map(are_equal, map(as_array, found), expected))


def onnx(count: int, seed: int) -> Iterator[Outcome]:
    """Cases of ONNX, by the backend."""
    for case in make_cases(count=count, seed=seed):
        node = case.node
        model = model_of(node, case.outputs)
        found: Any = None
        try:
            found = [*backend.prepare(model).run([*map(engine_value, node.run_inputs)])]
            known = [case.outputs, *(each.outputs for each in case.alternatives if each.outputs is not None)]
            agrees = any(_agree(found, each) for each in known)
        except AnydmlError as error:
            found, agrees = error, any(each.outputs is None for each in case.alternatives)
        yield Outcome(case.operator, agrees, lambda case=case, found=found: f"{case.name} {case.node}: {found}")


def directml(count: int, seed: int) -> Iterator[Outcome]:
    """Cases of DirectML, by the engine of the CPU, with the strides of their descs."""
    cpu = Device("cpu")
    for case in directml_cases(count=count, seed=seed):
        tensors = [tensor for _, tensor in (*case.desc.inputs, *case.desc.outputs)]
        memory = [np.zeros(-(-tensor.size_in_bytes // 8) * 8, np.uint8) for tensor in tensors]
        first = len(case.inputs)
        for target, given in zip(memory, case.inputs, strict=False):
            target[:] = given.view(np.uint8)
        found: Any = None
        try:
            cpu.compile_operator(case.desc).bind(memory[:first], memory[first:]).dispatch()
            written = zip(memory[first:], tensors[first:], strict=True)
            found = [tensor_view(flat.view(tensor.data_type.dtype), tensor) for flat, tensor in written]
            agrees = _agree(without_undefined(case.desc, found), without_undefined(case.desc, [*case.outputs]))
        except AnydmlError as error:
            found, agrees = error, False
        yield Outcome(case.operator, agrees, lambda case=case, found=found: f"{case.name} {case.desc}: {found}")


def webnn(count: int, seed: int) -> Iterator[Outcome]:
    """Cases of WebNN, by functions on arrays."""
    for case in webnn_cases(count=count, seed=seed):
        found: Any = None
        try:
            found = run(as_wpt_test(case)["graph"])
            agrees = _agree(found, case.outputs)
        except AnydmlError as error:
            found, agrees = error, False
        yield Outcome(case.operator, agrees, lambda case=case, found=found: f"{case.name} {case.call}: {found}")


def main() -> int:
    """Run chunks of cases, each with a seed of its own, and print how many agree; 0 where all do."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee.many", description=__doc__.splitlines()[0])
    kinds = {each.__name__: each for each in (onnx, directml, webnn)}
    for name in kinds:
        parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help="so many cases")
    parser.add_argument("--seed", type=int, default=1, help="of the first chunk; the next ones have the next seeds")
    parser.add_argument("--chunk", type=int, default=10_000, help="cases of a chunk")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = {name: getattr(options, name) for name in kinds}
    done, failed = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
    operators: Counter[str] = Counter()
    chunks = -(-sum(wanted.values()) // options.chunk)
    started = time.perf_counter()
    for k in range(chunks):
        for name, make in kinds.items():
            count = wanted[name] * (k + 1) // chunks - wanted[name] * k // chunks
            for outcome in make(count, options.seed + k):
                done[name] += 1
                operators[f"{name} {outcome.operator}"] += 1
                if not outcome.agrees:
                    failed[name] += 1
                    print(f"seed {options.seed + k}: {outcome.words()}", flush=True)
        counts = ", ".join(f"{done[name]} of {name} ({failed[name]} differ)" for name in kinds if wanted[name])
        print(
            f"seeds {options.seed} to {options.seed + k}, {time.perf_counter() - started:.0f} s: {counts}", flush=True
        )
    print(", ".join(f"{operator} {count}" for operator, count in operators.items()))
    return int(any(failed.values()))


if __name__ == "__main__":
    sys.exit(main())
