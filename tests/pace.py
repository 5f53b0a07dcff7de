"""Which tests begin first, because they take longest, and which are quick and tell most: paths below this folder."""

import functools
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

SLOW = (
    "engines/cuda/test_compile.py",
    "torch_operators/test_compile.py",
    "trust/test_many_at_once.py",
    "test_docs.py",
    "stores/test_groups.py",
    "trust/test_hostile_files.py",
    "test_cli.py",
    "torch_operators/test_traced.py",
    "arrays/test_memory.py",
    "stores/test_memory.py",
    "stores/test_kept_metadata.py",
    "fuzz/test_fuzz.py",
    "memory/test_results.py",
    "trust/test_layouts.py",
    "torch_operators/test_operators.py",
    "engines/cuda/test_functions.py",
    "trust/test_guard_pages.py",
    "stores/test_declared_plans.py",
    "stores/test_descs.py",
    "stores/test_zarr.py",
    "test_building.py",
    "engines/cuda/test_programs.py",
    "engines/cuda/test_agreement.py",
    "operators/test_family.py",
    "stores/test_written_before.py",
    "stores/test_rows.py",
)
"""Files that take five seconds of a processor or more, the slowest first; or that wait as long."""

QUICK = (
    "arrays/test_dlpack.py",
    "arrays/test_lazy.py",
    "cli/test_explaining.py",
    "core/test_program.py",
    "dxdispatch/test_descs.py",
    "dxdispatch/test_runner.py",
    "engines/cpu/test_plan.py",
    "engines/cuda/test_plan.py",
    "engines/test_memory.py",
    "engines/test_reference.py",
    "explain/test_journeys.py",
    "files/test_folder.py",
    "files/test_npy.py",
    "graph/test_graph_rules.py",
    "tracing/test_patterns.py",
    "moves/test_moves.py",
    "moves/test_order.py",
    "moves/test_value.py",
    "onnx_graphs/test_commands.py",
    "onnx_graphs/test_descs.py",
    "operators/test_descs.py",
    "operators/test_family_examples.py",
    "operators/test_family_rules.py",
    "operators/test_gather.py",
    "operators/test_slice1.py",
    "operators/test_support.py",
    "pydirectml/test_pydirectml.py",
    "stores/test_targets.py",
    "test_binding.py",
    "test_examples.py",
    "test_feature_level.py",
    "test_function_errors.py",
    "test_readme.py",
    "test_seeds.py",
    "test_tensor.py",
    "torch_operators/test_batching.py",
    "trust/test_supply.py",
)
"""Files whose tests are marked `quick`: together twenty seconds in one process, some of every package."""

QUICK_SECONDS = 10.0
"""Of a processor in the main thread: several times what any quick test takes. Other processes' work does not count, so
that a busy machine makes no test slow."""


def file_of(item):
    """The path of a test's file below this folder."""
    return _below(item.path)


@functools.cache
def _below(path):
    return path.relative_to(TESTS).as_posix()


def in_order(items, processes=1):
    """Tests with the slow ones first, so that nobody is left with one in the end; and the quick ones marked.

    Args:
        items: collected tests.
        processes: that share them: each is given a stretch of the list, and takes from the others' when it is done.
    """
    for item in items:
        if file_of(item) in QUICK:
            item.add_marker(pytest.mark.quick)
    slow = sorted((item for item in items if file_of(item) in SLOW), key=lambda item: SLOW.index(file_of(item)))
    others = [item for item in items if file_of(item) not in SLOW]
    result = []
    for number in range(processes):
        result += [item for item in slow if SLOW.index(file_of(item)) % processes == number]
        end = len(items) * (number + 1) // processes - len(result)
        taken = max(0, end) if number < processes - 1 else len(others)
        result += others[:taken]
        del others[:taken]
    return result


def is_left_out(path, expression):
    """Whether a file need not be read for what `-m` asks for: to read all takes as long as the quick tests."""
    if expression != "quick" or not path.name.startswith("test_") or not path.is_relative_to(TESTS):
        return False
    return path.relative_to(TESTS).as_posix() not in QUICK


def keep_quick(item, seconds):
    """Fail a test that is marked quick and took so many seconds, if that is slow."""
    if item.get_closest_marker("quick") and seconds > QUICK_SECONDS:
        pytest.fail(f"{seconds:.1f} s are not quick: take {file_of(item)} off QUICK in tests/pace.py, or mend it")
