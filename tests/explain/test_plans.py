"""Explanations of plans over files: their program, and the chunks of their arrays."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.explain import box_drawing
from anydml.explain.journeys import follow

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_plan_is_its_program_between_files(tmp_path, order):
    np.save(tmp_path / "x.npy", np.asarray(np.arange(6).reshape(2, 3), order=order))
    target = stores.create(tmp_path / "y.npy", (3, 2), np.int64)
    explanation = dml.explain(dml.fuse(np.transpose).plan(stores.open(tmp_path / "x.npy"), target))
    (section,) = explanation.sections
    came = {run.destination: run.source for run in follow(section).runs}
    pairs = {(to, at) for tos, ats in came.items() for (_, to), (_, at) in zip(tos, ats, strict=True)}
    assert pairs == {(2 * column + row, 3 * row + column) for row in range(2) for column in range(3)}
    assert "writes 48 B" in str(explanation)
    assert not (tmp_path / "y.npy").exists()


def drawn(explanation):
    """For every array in chunks: its box, by x, y, width and height, and the lines of its grid, by their paths."""
    picture = ElementTree.fromstring(explanation.svg())
    for column in picture.iter(f"{SVG}g"):
        fronts = [each for each in column.iter(f"{SVG}rect") if each.get("class") == "cell"]
        grids = [each for each in column.iter(f"{SVG}path") if each.get("class") == "cut"]
        for front, lines in zip(fronts, grids, strict=True):
            place = [int(front.get(key)) for key in ("x", "y", "width", "height")]
            yield place, re.findall("M[^M]*", lines.get("d"))


@pytest.mark.parametrize("seed", range(20))
def test_the_grids_are_those_of_the_chunks(tmp_path, monkeypatch, seed):
    zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    shape = [int(size) for size in rng.integers(40, 90, rank)]
    chunks = [[int(rng.integers(size // 3, size + 1)) for size in shape] for _ in range(2)]
    zarr.create_array("x.zarr", shape=shape, chunks=chunks[0], dtype="uint8")
    explanation = dml.explain(stores.rechunk("x.zarr", "y.zarr", chunks=chunks[1]))
    text, page = str(explanation), explanation.html()
    arrays = [zarr.open_array("x.zarr"), zarr.create_array("y.zarr", shape=shape, chunks=chunks[1], dtype="uint8")]
    for array, ((x, y, width, height), lines) in zip(arrays, drawn(explanation), strict=True):
        counts = [1, 1, *array.cdata_shape]
        ends = [re.match(r"M(\d+) (\d+)([vh])", line).groups() for line in lines]
        columns = [int(left) - x for left, top, way in ends if way == "v"]
        assert columns == [width * array.chunks[-1] * k // shape[-1] for k in range(1, counts[-1])]
        rows = [int(top) - y for left, top, way in ends if way == "h" and int(left) == x]
        assert len(rows) == counts[-2] - 1
        if rank > 1:
            assert rows == [height * array.chunks[-2] * k // shape[-2] for k in range(1, counts[-2])]
        assert len(lines) - len(rows) - len(columns) == math.prod(counts[:-2]) - 1
        assert f"chunks {list(array.chunks)}" in text
        assert f"<td>chunks {list(array.chunks)}</td>" in page


def test_a_grid_too_fine_to_be_seen_is_thinned_out(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    monkeypatch.chdir(tmp_path)
    zarr.create_array("x.zarr", shape=(10, 600, 900), chunks=(1, 1, 3), dtype="uint8")
    (_, lines), *_ = drawn(dml.explain(stores.rechunk("x.zarr", "y.zarr", chunks=[10, 200, 300])))
    assert len(lines) < box_drawing.WIDTH
    assert len(set(lines)) == len(lines)


def test_what_lies_behind_is_not_drawn_over_what_lies_before_it(tmp_path, monkeypatch):
    """Three maps become the layers of a block: the first is in front, and is drawn last."""
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        np.save(f"{k}.npy", np.zeros((30, 40), np.uint8))
    layers = stores.create("y.zarr", (3, 30, 40), np.uint8, chunks=[3, 10, 10])
    plan = dml.fuse(lambda *maps: np.stack(maps)).plan([stores.open(f"{k}.npy") for k in range(3)], layers)
    picture = ElementTree.fromstring(dml.explain(plan).svg())
    *_, target = (group for group in picture.iter(f"{SVG}g") if group.find(f"{SVG}rect") is not None)
    fronts = [rect for rect in target.iter(f"{SVG}rect") if rect.get("fill-opacity")]
    assert [rect.get("class") for rect in fronts] == ["cell f2", "cell f1", "cell f0"]
    places = [(int(rect.get("x")), -int(rect.get("y"))) for rect in fronts]
    assert places == sorted(places, reverse=True)
