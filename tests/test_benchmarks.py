"""The benchmarks of sizes: every case is right at every size that is quick, and what is kept can be read."""

import json

import pytest

from benchmarks import size_cases, sizes


@pytest.mark.parametrize("size", [256, 1024, 4096, 100_000, 600_000])
@pytest.mark.parametrize("case", size_cases.CASES)
def test_everybody_does_the_same_work(case, size):
    work = size_cases.CASES[case](size)
    assert size / 4 <= work.bytes <= 3 * size or size == 256
    assert {"bound", "out", "new"} <= set(work.runs)
    for way, runs in work.runs.items():
        assert {"anydml", "numpy" if way != "tensor" else "anydml"} <= set(runs)
        sizes.check(case, way, work)


def test_a_wrong_result_is_told():
    work = size_cases.z1(4096)
    work.runs["out"]["numpy"] = lambda: None
    with pytest.raises(SystemExit, match="Z1, out: the result of numpy differs"):
        sizes.check("Z1", "out", work)


def test_what_is_measured_is_kept_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sizes, "WARM", 0.001)
    kept = tmp_path / "sizes.json"
    sizes.main(["--case", "Z1", "--size", "256", "--size", "4K", "--rounds", "2", "--json", str(kept)])
    cells = json.loads(kept.read_text())["cells"]
    assert {(cell["case"], cell["size"]) for cell in cells} == {("Z1", 256), ("Z1", 4096)}
    assert all(cell["ratio"] > 0 and cell["seconds"]["anydml"] > 0 for cell in cells)
    shown = capsys.readouterr().out
    assert f"{sum(cell['ratio'] < 0.99 for cell in cells) or 'no'}" in shown
    assert "geometric mean" in shown


def test_cells_below_one_are_named():
    fast = sizes.Cell("Z1", "split", 4096, "out", {"anydml": 1e-6, "numpy": 2e-6}, 2.0)
    slow = sizes.Cell("Z2", "reverse", 256, "new", {"anydml": 2e-6, "numpy": 1e-6, "torch": 3e-6}, 0.5)
    text = sizes.summary([fast, slow])
    assert "1 of 2 cells are below 1" in text
    assert "Z2   256 new    0.50  ours 2.00 µs, numpy 1.00 µs" in text
    assert "(0.50)" in sizes.table([fast, slow])
    assert "(2.00)" not in sizes.table([fast, slow])
