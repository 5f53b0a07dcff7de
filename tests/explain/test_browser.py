"""Pages in a real browser."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import screenshots
from in_browser import chromium

import anydml as dml
from anydml import dxdispatch
from anydml.explain.journeys import follow, is_small

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright and Chromium")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 390, "height": 800}
HOSTILE = "<img src=x onerror=alert(1)><script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def browser():
    with chromium(playwright) as found:
        yield found


@pytest.fixture
def show(browser, tmp_path):
    """Open an explanation; at the end, nothing may have been said in the console, nor fetched."""
    page = browser.contexts[0].pages[0] if browser.contexts and browser.contexts[0].pages else browser.new_page()
    said = []

    def console(message):
        said.append(message.text)

    def failed(error):
        said.append(str(error))

    def request(asked):
        if not asked.url.startswith("file:"):
            said.append(asked.url)

    listeners = (("console", console), ("pageerror", failed), ("request", request), ("dialog", failed))
    for event, listener in listeners:
        page.on(event, listener)

    def opened(explanation, scheme="light", viewport=WIDE):
        file = tmp_path / "page.html"
        file.write_text(explanation.html(), encoding="utf-8")
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)
        page.goto(file.as_uri())
        return page

    yield opened
    for event, listener in listeners:
        page.remove_listener(event, listener)
    assert said == []


def example(name):
    explanation = dml.explain(dxdispatch.load(next(path for path in EXAMPLES if path.stem == name)))
    # Pictures that are kept show no folder of whoever drew them.
    explanation.title = f"{name}.json"
    return explanation


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_element_is_seen(show, path):
    explanation = dml.explain(dxdispatch.load(path))
    page = show(explanation)
    (section,) = explanation.sections
    if not is_small(section):
        assert page.locator("svg rect[fill-opacity]").count() > 0
        return
    cells = page.locator("[data-c]")
    assert cells.count() == sum(tensor.count for tensor in section.tensors)
    # Fills come from nowhere, and what is skipped goes nowhere.
    drawn = [run for run in follow(section).runs if run.source and run.destination]
    assert page.locator("path.line").count() == len(drawn)
    boxes = [cells.nth(k).bounding_box() for k in range(3)]
    assert all(box["width"] > 10 and box["height"] > 10 for box in boxes)
    values = page.locator("svg .value").all_text_contents()
    assert sorted(filter(None, values)) == sorted(filter(None, follow(section).labels.values()))


def test_a_pointer_shows_the_lines_of_an_element(show):
    page = show(example("gather_1"))
    page.locator('[data-c="0-3"]').hover()
    assert page.locator("path.line.on").count() == 2
    assert page.locator("path.line.off").count() == 3
    assert {cell.get_attribute("data-c") for cell in page.locator(".cell.on").all()} == {
        *("0-3", "1-0", "1-2", "2-0", "2-2"),
    }
    page.mouse.move(1, 1)
    assert page.locator(".on, .off").count() == 0


def test_a_keyboard_walks_through_the_elements(show):
    page = show(example("split"))
    page.locator("tr[data-row]").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.row") == "1-2"
    assert page.locator("path.line.on").count() == 1
    assert page.locator('.cell.on[data-c="1-2"]').count() == 1
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.row") == "1-1"


def test_what_does_not_see_hears(show):
    page = show(example("split"))
    picture = page.get_by_role("img")
    assert picture.count() == 1
    names = picture.get_attribute("aria-labelledby").split()
    assert all(page.locator(f"#{name}").text_content() for name in names)
    table = page.get_by_role("table", name="Where every element comes from")
    assert table.get_by_role("row").count() == 13
    assert page.get_by_role("heading", level=1).count() == 1


def brightness(colour):
    """Relative luminance of ``rgb(…)`` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(show, scheme):
    page = show(example("split"), scheme)
    fill = "element => getComputedStyle(element).fill"
    paper = brightness(page.locator("svg .paper").evaluate(fill))
    assert (paper > 0.5) == (scheme == "light")
    texts = [page.locator("svg .head").first.evaluate(fill), page.locator("svg .value").first.evaluate(fill)]
    fills = [paper, *(brightness(page.locator(f".cell.f{k}").first.evaluate(fill)) for k in range(3))]
    for text, behind in [(texts[0], paper), *((texts[1], each) for each in fills)]:
        light, dark = sorted((brightness(text), behind), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("name", ["split", "gather_2", "concat_training"])
def test_a_narrow_page_does_not_scroll_sideways(show, name):
    page = show(example(name), viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("svg").first.bounding_box()["height"] > 100


@pytest.mark.parametrize("name", ["gather_2", "concat_training", "depth_to_space", "tile", "large"])
def test_a_narrow_page_shows_tensors_below_each_other(show, name):
    page = show(SEEN["large"]() if name == "large" else example(name), viewport=NARROW)
    columns = [part.bounding_box() for part in page.locator("svg g.part").all() if part.locator("rect").count()]
    for above, below in itertools.pairwise(columns):
        assert above["y"] + above["height"] <= below["y"]
    picture = page.locator("svg").bounding_box()
    last = page.locator("svg g.part").last.bounding_box()
    ends = [box["y"] + box["height"] for box in (columns[-1], last)]
    assert picture["y"] + picture["height"] - 40 <= max(ends) <= picture["y"] + picture["height"]
    assert not any(line.is_visible() for line in page.locator("path.line").all())
    page.set_viewport_size(WIDE)
    left, right = page.locator("svg g.part").first.bounding_box(), page.locator("svg rect.cell").last.bounding_box()
    assert left["x"] + left["width"] < right["x"]


def test_a_pointer_shows_the_line_of_an_element_that_has_none(show):
    page = show(example("depth_to_space"))
    assert not any(line.is_visible() for line in page.locator("path.line").all())
    page.locator('[data-c="1-7"]').hover()
    shown = [line.get_attribute("data-t") for line in page.locator("path.line").all() if line.is_visible()]
    assert shown == ["1-7"]


def test_large_tensors_are_boxes(show):
    whole, parts = dml.TensorDesc("FLOAT32", [4, 300, 200]), [dml.TensorDesc("FLOAT32", [4, n, 200]) for n in (75, 225)]
    page = show(dml.explain(dml.SplitOperatorDesc(whole, parts, 1), device=""))
    boxes = [box.bounding_box() for box in page.locator("svg rect[fill-opacity]").all()]
    assert boxes[1]["height"] == pytest.approx(3 * boxes[0]["height"], abs=4)
    assert page.locator("path.line").count() == 2


def test_markup_in_values_is_text(show):
    page = show(dml.explain(dml.fuse(lambda x: x[::-1]), np.array([HOSTILE, "b"])))
    assert "taken" not in page.title()
    assert page.locator("img, svg script").count() == 0


LARGE = [dml.TensorDesc("FLOAT32", [4, n, 200]) for n in (300, 75, 225)]
SEEN = {
    "split": lambda: example("split"),
    "gather": lambda: example("gather_2"),
    "large": lambda: dml.explain(dml.SplitOperatorDesc(LARGE[0], LARGE[1:], 1), device=""),
}


@pytest.mark.parametrize(("look", "scheme", "viewport"), LOOKS := [
    ("light", "light", WIDE), ("dark", "dark", WIDE), ("narrow", "light", NARROW),
])  # fmt: skip
@pytest.mark.parametrize("name", SEEN)
def test_a_page_looks_as_before(show, name, look, scheme, viewport):
    pytest.importorskip("PIL", reason="needs Pillow")
    page = show(SEEN[name](), scheme, viewport)
    screenshots.check(page, f"explain_{name}_{look}")


def test_another_look_is_noticed(show):
    pytest.importorskip("PIL", reason="needs Pillow")
    page = show(example("split"))
    before = screenshots.small(page)
    assert screenshots.far(before, screenshots.small(page)) == 0
    page.evaluate("document.querySelectorAll('.cell.f1').forEach(cell => cell.remove())")
    assert screenshots.far(before, screenshots.small(page)) > screenshots.MAX_FAR / 10
    page.emulate_media(color_scheme="dark")
    assert screenshots.far(before, screenshots.small(page)) > 0.5
