"""The family's benchmark: every function has a case, everybody's results are the same, and cells are kept and shown."""

import json

import pytest

from anydml.operators import FUNCTIONS
from benchmarks import family, family_cases


def test_every_function_has_a_case():
    cases = {name.split()[0] for name in family_cases.CASES}
    assert cases >= set(FUNCTIONS) - set(family_cases.SAME_AS)
    assert set(family_cases.SAME_AS.values()) <= cases


@pytest.mark.parametrize("case", family_cases.CASES)
def test_everybody_does_the_same_work(case):
    runs = family.runs_of(family_cases.CASES[case](20_000))
    assert {"anydml", "numpy"} <= set(runs)
    family.check(case, runs)
    with pytest.raises(SystemExit, match=f"{case}: the result of torch differs"):
        family.check(case, {**runs, "torch": lambda: runs["numpy"]()[0]})


def test_cells_are_kept_and_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.sizes.WARM", 0.001)
    monkeypatch.setattr(family, "SIZES", (4096, 8192))
    kept = tmp_path / "family.json"
    limits = ["--rounds", "2", "--json", str(kept)]
    family.main(["--case", "tile", "--case", "flip", *limits])
    family.main(["--case", "flip", "--size", "8K", *limits])
    cells = json.loads(kept.read_text())["cells"]
    assert [(cell["case"], cell["size"]) for cell in cells] == [
        ("tile", 4096), ("flip", 4096), ("tile", 8192), ("flip", 8192)
    ]  # fmt: skip
    assert all(ratio > 0 for cell in cells for ratio in cell["ratios"].values())
    capsys.readouterr()
    family.main(["--show", str(kept)])
    shown = capsys.readouterr().out
    assert "geometric mean of 2" in shown
    assert shown.count("tile") >= 2
