"""A few hundred random cases on every engine; that they reach every kernel; and that a wrong kernel is found."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from how_many import how_many
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import binding, core
from anydml.engines.cpu import engine
from anydml.moves import simplify
from fuzz.case import FLAT, Case, How, Memory
from fuzz.check import Mismatch, check, script
from fuzz.draw import Drawn, Seeded
from fuzz.forced import CPU_WAYS, OTHER_WAYS
from fuzz.generate import OPERATORS, random_case
from fuzz.seen import Seen

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {"runs", "rows", "elements", "transpose", "interleave", "repeat", "look-up"}
UNSTREAMED = {"runs"}
HANG = 600


@pytest.mark.parametrize("operator", OPERATORS)
@settings(max_examples=how_many(30), deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_every_way_agrees_with_numpy(operator, data):
    check(random_case(Drawn(data.draw), [*CPU_WAYS, OTHER_WAYS["reference"]], operator))


@pytest.mark.skipif(core.program is None, reason="there is no compiled core")
def test_every_kernel_is_reached():
    seen = Seen()
    for number in range(1200):
        check(random_case(Seeded(number), CPU_WAYS), seen)
    wanted = {"numpy", *KERNELS, *(f"{kernel}, streamed" for kernel in KERNELS - UNSTREAMED)}
    assert min(seen.counts[name] for name in wanted) >= 3, seen.counts


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_gpu_engine_agrees_too():
    limits = ["--cases", "30", "--minutes", "60"]
    command = [sys.executable, "-m", "tests.fuzz", "--engine", "cuda", "--seed", "1", *limits]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    assert "30 cases of seed 1" in done.stdout


@pytest.mark.parametrize("way", CPU_WAYS[:2])
def test_a_wrong_program_is_found_and_its_script_finds_it_again(way):
    memory = Memory((500, 3), "u2", (6, 2), 7, 3050)
    case = Case("slice1", "device", (memory,), (memory,),
                {"offsets": (0, 0), "windows": (500, 3), "strides": (-1, 1), "sizes": (500, 3)}, way, 1)  # fmt: skip
    check(case)

    def shifted(moves):
        (move,) = simplify(moves)
        return (move._replace(destination=move.destination._replace(offset=move.destination.offset + 1)),)

    with mock.patch.object(engine, "simplify", shifted):
        with pytest.raises(Mismatch) as caught:
            check(case)
        text = str(caught.value)
        assert text.endswith(script(case))
        assert len(script(case).splitlines()) == 2
        with pytest.raises(Mismatch):
            exec(script(case).replace("tests.fuzz", "fuzz"), {})
    check(case)


@pytest.mark.parametrize("interface", ["device", "model"])
def test_a_flat_buffer_that_is_taken_as_it_lies_is_found(interface):
    wrong = 0
    for number in range(6000):
        case = random_case(Seeded(number), [How(kernels="numpy")])
        if case.interface == interface and any(len(memory.sizes) == 1 and memory.flat for memory in case.inputs):
            try:
                with mock.patch.object(binding, "_is_flat", return_value=False):
                    check(case)
            except Mismatch:
                wrong += 1
                check(case)
                if wrong == 3:
                    break
    assert wrong == 3


def test_the_script_runs_from_the_root():
    case = random_case(Seeded(5), [How(kernels="numpy")])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", script(case)], cwd=ROOT, env=environment, timeout=HANG, check=False)
    assert done.returncode == 0


def test_cases_are_varied():
    cases = [random_case(Seeded(number), CPU_WAYS) for number in range(2000)]
    assert all(eval(repr(case)) == case for case in cases[:50])
    memories = [memory for case in cases for memory in (*case.inputs, *case.outputs)]
    assert {case.operator for case in cases} == set(OPERATORS)
    assert {case.interface for case in cases} == {"device", "model", "function", "new"}
    assert {memory.flat for memory in memories} == {"", *FLAT}
    assert {len(memory.sizes) for memory in memories} >= set(range(1, 9))
    for what in (
        [memory for memory in memories if memory.flat],
        [memory for memory in memories if memory.flat and 0 in memory.strides],
        [memory for memory in memories if memory.desc],
        [case for case in cases if case.interface == "model"],
        [memory for memory in memories if min(memory.strides, default=0) < 0],
        [memory for memory in memories if 0 in memory.strides],
        [memory for memory in memories if memory.offset % 8],
        [case for case in cases if case.bytes > 100_000],
        [case for case in cases if case.bytes < 100],
    ):
        assert len(what) > 100
