"""The benchmark of fused chains: both spellings of each chain agree, and it measures what it says."""

import importlib.util
import json
import re

import numpy as np
import pytest

import anydml as dml
from benchmarks import fused
from benchmarks.fused_cases import CASES


def flat(results):
    return results if isinstance(results, tuple) else (results,)


def small(case):
    """Its arguments, less of them."""
    arguments = case.make(1)
    if case.name in ("F1", "F2"):
        return (arguments[0][..., :96, :],)
    if case.name == "F8":
        table, ids, positions = arguments
        return table[:1000], ids[:2] % 1000, positions
    return arguments


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_chain_is_one_program_and_both_spellings_agree(case):
    arguments = small(case)
    expected, fused_ones = flat(case.numpy(*arguments)), dml.fuse(case.numpy)
    assert fused_ones.lower(*arguments).scratch_bytes == 0
    found = [flat(fused_ones(*arguments))]
    if importlib.util.find_spec("torch"):
        import torch

        tensors = [
            torch.from_numpy(each) if isinstance(each, np.ndarray)
            else [torch.from_numpy(one) for one in each] if isinstance(each, list) else each
            for each in arguments
        ]  # fmt: skip
        # Traced as PyTorch's as well: one spelling, both ways to run it.
        results = (case.torch(*tensors), dml.fuse(case.torch)(*tensors))
        found += [[each.contiguous().numpy() for each in flat(result)] for result in results]
    for each in found:
        for one, other in zip(each, expected, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


def test_what_it_prints_and_keeps(tmp_path, capsys):
    path = tmp_path / "fused.json"
    assert fused.main(["--case", "F3", "--quick", "--rounds", "1", "--no-compile", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^F3 .* 9 moves, 0 B of scratch$", printed, re.M)
    assert "torch.compile took no part: not asked for" in printed
    kept = json.loads(path.read_text())
    (case,) = kept["cases"]
    assert case["name"] == "F3"
    assert {"anydml", "numpy"} <= case["seconds"].keys()
    assert case["ratio"] > 0
    assert kept["seconds_with_out"]["F3"] > 0
    assert kept["absent"]["torch.compile"] == "not asked for"


def test_an_unknown_case(capsys):
    with pytest.raises(SystemExit):
        fused.main(["--case", "F99"])
    assert "no case f99: one of F1, F2" in capsys.readouterr().err
