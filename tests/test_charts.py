"""Pictures of benchmarks: nothing is cut, axis and peers are named, and they are read in grey, on light and on dark."""

import json
import re
from xml.etree import ElementTree

import pytest
from documents import ROOT

from benchmarks import chart
from benchmarks.report import Result, as_json, keep

SVG = "{http://www.w3.org/2000/svg}"
KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.svg"))
NARROW = 6.0
"""Pixels of a letter of 12 pixels' height at least, on average."""

RESULTS = [
    Result("L1", "a label of so many words that it was cut once <&>", 8, {"anydml": 0.1, "numpy take": 0.2}, 0.05),
    Result("L2", "faster than a plain copy", 8, {"anydml": 0.1, "torch copy_": 0.08, "numpy": 0.3}, 0.14),
    Result("L3", "nobody else", 8, {"anydml": 0.1}, 0.05),
    Result("small", "too small for a copy", 8, {"anydml": 1e-6, "numpy": 2e-6}, None),
]


@pytest.fixture
def drawn(tmp_path):
    """A chart drawn from what is kept, and its texts."""
    kept = tmp_path / "cpu.json"
    about = {"processor": "A processor", "threads": 2}
    kept.write_text(as_json(RESULTS, about, date="2026-01-02", command="python -m benchmarks.cpu"), encoding="utf-8")
    assert chart.main([str(kept)]) == 0
    return tmp_path / "cpu.svg"


def texts(path):
    """The elements of text of a picture."""
    return [*ElementTree.fromstring(path.read_text(encoding="utf-8")).iter(f"{SVG}text")]


def assert_whole(path):
    """Every line of text lies within the picture."""
    width, height = map(float, ElementTree.fromstring(path.read_text(encoding="utf-8")).get("viewBox").split()[2:])
    for text in texts(path):
        x, length = float(text.get("x")), len(text.text or "") * NARROW * float(text.get("font-size", 12)) / 12
        start = {"start": x, "middle": x - length / 2, "end": x - length}[text.get("text-anchor")]
        assert start >= 0, text.text
        assert start + length <= width, text.text
        assert 0 < float(text.get("y")) <= height - 2, text.text


def assert_follows_the_page(path):
    """No ground, and text in the page's colour, which is another one where dark is preferred."""
    found = path.read_text(encoding="utf-8")
    width = ElementTree.fromstring(found).get("viewBox").split()[2]
    assert all(rect.get("width") != width for rect in ElementTree.fromstring(found).iter(f"{SVG}rect"))
    assert ".chart text{fill:currentColor}" in found
    assert re.search(r"@media\(prefers-color-scheme:dark\)\{\.chart\{color:#d", found)
    assert not re.search(r'<(?:text|path)[^>]* (?:fill|stroke)="#', found)


def test_a_chart_says_everything(drawn):
    said = [text.text for text in texts(drawn)]
    assert_whole(drawn)
    assert_follows_the_page(drawn)
    for text in (
        "A processor, 2 threads, 2026-01-02, python -m benchmarks.cpu",
        "speed as a share of a plain copy of as many bytes",
        "plain copy",
        "L1  a label of so many words that it was cut once <&>",
        "2.00 × numpy take",
        "0.80 × torch copy_",
    ):
        assert said.count(text) == 1, text
    assert [text for text in said if re.fullmatch(r"\d+%", text or "")] == [f"{25 * k}%" for k in range(8)]
    assert not any("small" in (text or "") for text in said)


def test_bars_are_to_the_axis(drawn):
    found = ElementTree.fromstring(drawn.read_text(encoding="utf-8"))
    at = {text.text: float(text.get("x")) for text in texts(drawn)}
    bars = [(bar.get("class"), float(bar.get("x")), float(bar.get("width"))) for bar in found.iter(f"{SVG}rect")][2:]
    whole = at["100%"] - at["0%"]
    shares = [(kind, round(length / whole, 2)) for kind, _, length in bars]
    assert shares == [("ours", 0.5), ("peer", 0.25), ("ours", 1.4), ("peer", 1.75), ("ours", 0.5), ("peer", 0.0)]
    assert {x for _, x, _ in bars} == {at["0%"]}


def test_ours_is_full_and_a_peer_is_hollow():
    assert ".chart .peer{fill:none;stroke:currentColor}" in chart.STYLE
    red, green, blue = bytes.fromhex(re.search(r"\.ours\{fill:#(\w+)\}", chart.STYLE)[1])
    assert 80 < 0.3 * red + 0.59 * green + 0.11 * blue < 160, "a grey that is seen on white and on black"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_what_is_kept_is_whole_and_follows_the_page(path):
    assert_whole(path)
    assert_follows_the_page(path)


@pytest.mark.parametrize("name", [path.stem for path in KEPT if not path.stem.startswith("sizes")])
def test_what_is_kept_is_drawn_from_what_was_measured(name, tmp_path):
    kept = KEPT[0].with_name(f"{name}.json")
    (tmp_path / kept.name).write_text(kept.read_text(encoding="utf-8"), encoding="utf-8")
    assert json.loads(kept.read_text(encoding="utf-8"))["cases"]
    message = f"run python -m benchmarks.chart benchmarks/results/{name}.json"
    assert chart.draw(tmp_path / kept.name).read_text("utf-8") == kept.with_suffix(".svg").read_text("utf-8"), message


def test_pieces_of_a_benchmark_are_kept_in_one_file(tmp_path):
    path, about = tmp_path / "kept.json", {"processor": "P"}
    first, second, other = (Result(name, "", 8, {"anydml": 1.0, "numpy": 2.0}, 0.5) for name in "BAB")
    other.seconds["anydml"] = 0.25
    order = ["A", "B"]
    keep(path, [first], about, order, date="1", more={"B": 1})
    keep(path, [second], about, order, date="2", more={"A": 2})
    kept = json.loads(path.read_text())
    assert [case["name"] for case in kept["cases"]] == order
    assert kept["date"] == "2"
    assert kept["more"] == {"A": 2, "B": 1}
    keep(path, [other], about, order, date="3", more={})
    assert [case["ratio"] for case in json.loads(path.read_text())["cases"]] == [2, 8]
    before = path.read_text()
    with pytest.raises(SystemExit, match="give --json another file"):
        keep(path, [first], {"processor": "Q"}, order)
    assert path.read_text() == before
