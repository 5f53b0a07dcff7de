"""The benchmark of images: all libraries that are here do the same work, and what is measured is kept."""

import json

import numpy as np
import pytest

from benchmarks import images
from benchmarks.image_cases import CASES


@pytest.mark.parametrize("size", [(67, 81), (3, 67, 81)], ids=["image", "batch"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_everybody_does_the_same_work(case, size, monkeypatch):
    monkeypatch.setitem(images.SIZES, "224", size)
    result = images.run_case(case, "224", 1)
    assert {"anydml", "numpy"} <= set(result.seconds)
    assert result.bytes > 3 * 19 * 33


def test_a_wrong_result_is_told():
    runs = {"numpy": lambda: np.zeros(3), "cv2": lambda: np.ones(3)}
    with pytest.raises(SystemExit, match="flip: the result of cv2 differs"):
        images.check("flip", runs)


def test_what_is_measured_is_kept_and_who_took_no_part_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(images.SIZES, "224", (64, 64))
    monkeypatch.setattr(images.importlib.util, "find_spec", lambda name: None)
    kept = tmp_path / "images.json"
    assert images.main(["--case", "flip", "--size", "224", "--rounds", "2", "--json", str(kept)]) == 0
    shown = capsys.readouterr().out
    assert "OpenCV took no part: it is not installed" in shown
    (case,) = json.loads(kept.read_text())["cases"]
    assert (case["name"], sorted(case["seconds"])) == ("flip 224", ["anydml", "numpy"])
