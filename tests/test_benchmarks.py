"""The benchmarks of sizes: every case is right at every size that is quick, and what is kept can be read."""

import json
from xml.etree import ElementTree

import pytest

import anydml as dml
from benchmarks import heat_map, size_cases, size_cells, sizes


@pytest.mark.parametrize("size", [256, 1024, 4096, 100_000, 600_000])
@pytest.mark.parametrize("case", size_cases.CASES)
def test_everybody_does_the_same_work(case, size):
    work = size_cases.CASES[case](size)
    assert size / 4 <= work.bytes <= 3 * size or size == 256
    assert {"bound", "out", "new"} <= set(work.runs)
    for way, runs in work.runs.items():
        assert {"anydml", "torch" if way in ("tensor", "ops") else "numpy"} <= set(runs)
        sizes.check(case, way, work)


def test_a_wrong_result_is_told():
    work = size_cases.z1(4096)
    work.runs["out"]["numpy"] = lambda: None
    with pytest.raises(SystemExit, match="Z1, out: the result of numpy differs"):
        sizes.check("Z1", "out", work)


def _measure(kept, *more):
    sizes.main([*more, "--rounds", "2", "--json", str(kept)])


@pytest.mark.parametrize("state", size_cells.STATES)
def test_what_is_measured_is_kept_and_shown(tmp_path, capsys, monkeypatch, state):
    monkeypatch.setattr(sizes, "WARM", 0.001)
    kept, threads = tmp_path / "sizes.json", dml.get_num_threads()
    _measure(kept, "--case", "Z1", "--size", "256", "--size", "4K", "--way", "out", "--way", "ops", "--state", state)
    cells = json.loads(kept.read_text())["cells"]
    assert {(cell["case"], cell["size"], cell["state"]) for cell in cells} == {("Z1", 256, state), ("Z1", 4096, state)}
    assert all(cell["ratio"] > 0 and cell["seconds"]["anydml"] > 0 for cell in cells)
    assert all((cell["alone"] is not None) == (state == "taken") for cell in cells)
    shown = capsys.readouterr().out
    assert f"{sum(cell['ratio'] < 0.99 for cell in cells) or 'no'}" in shown
    assert "geometric mean" in shown
    assert dml.get_num_threads() == threads


def test_slices_add_up_to_one_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sizes, "WARM", 0.001)
    kept = tmp_path / "sizes.json"
    for way in ("out", "bound", "out"):
        _measure(kept, "--case", "Z6", "--size", "1K", "--way", way)
    _measure(kept, "--case", "Z5", "--size", "1K", "--way", "out", "--state", "idle")
    found = size_cells.Kept.read(kept)
    expected = [("hot", "Z6", "bound"), ("hot", "Z6", "out"), ("idle", "Z5", "out")]
    assert [(cell.state, cell.case, cell.way) for cell in found.cells] == expected
    assert sum("--way bound" in run["command"] for run in found.runs) == 1
    other = size_cells.Kept({**found.machine, "threads": -1}, [], [])
    with pytest.raises(SystemExit, match=r"another machine \(threads differ\)"):
        found.and_also(other)
    capsys.readouterr()
    sizes.main(["--report", str(kept)])
    shown = capsys.readouterr().out
    assert "each call after 5 ms of idleness" in shown
    for name, ways in (("sizes.svg", 2), ("sizes-idle.svg", 1)):
        drawn = ElementTree.fromstring((tmp_path / name).read_text())
        words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert words.count("1K") == ways


def test_the_picture_says_all_without_colours_and_cuts_nothing(tmp_path):
    cells = [
        size_cells.Cell(f"Z{k}", "words " * 6, 1 << size, way, {"anydml": 1e-6, "numpy": 2e-6}, ratio)
        for k in (1, 2)
        for way in size_cases.WAYS
        for size, ratio in ((8, 0.25), (10, 0.97), (12, 1.0), (14, 12.0))
    ]
    heat_map.write_heat_map(tmp_path / "map.svg", cells, "Times", "a machine")
    drawn = ElementTree.fromstring((tmp_path / "map.svg").read_text())
    width, height = map(int, drawn.get("viewBox").split()[2:])
    texts = [*drawn.iter("{http://www.w3.org/2000/svg}text")]
    for number, count in (("0.25", 10), ("0.97", 10), ("1.00", 10), ("12", 10)):
        assert sum(text.text == number for text in texts) == count
    for text in texts:
        x, length = int(text.get("x")), len(text.text) * 6
        start = {"start": x, "middle": x - length / 2, "end": x - length}[text.get("text-anchor")]
        assert start >= 0
        assert start + length <= width
        assert 0 < int(text.get("y")) <= height
    framed = [each for each in drawn.iter("{http://www.w3.org/2000/svg}rect") if each.get("stroke")]
    assert len(framed) == 20
    grey = [
        sum(int(ground[i : i + 2], 16) * share for i, share in ((1, 0.3), (3, 0.59), (5, 0.11)))
        for _, ground, _ in heat_map.SHADES
    ]
    assert grey == sorted(grey)


def test_cells_below_one_are_named():
    fast = size_cells.Cell("Z1", "split", 4096, "out", {"anydml": 1e-6, "numpy": 2e-6}, 2.0)
    slow = size_cells.Cell("Z2", "reverse", 256, "new", {"anydml": 2e-6, "numpy": 1e-6, "torch": 3e-6}, 0.5)
    text = size_cells.summary([fast, slow])
    assert "1 of 2 cells are below 1" in text
    assert "Z2   256 new    0.50  ours 2.00 µs, numpy 1.00 µs" in text
    assert "(0.50)" in size_cells.table([fast, slow])
    assert "(2.00)" not in size_cells.table([fast, slow])
