"""The documentation's site in a real browser: light, dark, narrow, searched, and silent."""

import functools
import http.server
import os
import subprocess
import sys
import threading

import pytest
import screenshots
from documents import ROOT, blocks
from in_browser import chromium

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright and Chromium")
pytest.importorskip("material", reason="needs mkdocs-material")

PAGES = ("index", "arrays", "operators/split", "benchmarks", "directml", "reference")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser():
    with chromium(playwright) as found:
        yield found


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    """The site, built and served on this machine."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def visit(browser, address):
    """Open a page; at the end, nothing may have been said in the console, nor fetched from elsewhere."""
    said, contexts = [], []

    def opened(page, scheme="light", width=1300, **more):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda asked: None if asked.url.startswith(address) else said.append(asked.url))
        tab.goto(f"{address}/{page}.html")
        return tab

    yield opened
    for context in contexts:
        context.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_narrow_page_does_not_scroll_sideways(visit, page, scheme):
    tab = visit(page, scheme, 390)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.locator("h1").is_visible()
    assert tab.locator("body").get_attribute("data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]


LOOKS = {"light": ("light", 1300), "dark": ("dark", 1300), "narrow": ("light", 390)}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("page", ["index", "operators/gather", "benchmarks"])
def test_a_page_looks_as_before(visit, page, look):
    pytest.importorskip("PIL", reason="needs Pillow")
    screenshots.check(visit(page, *LOOKS[look]), f"site_{page.rpartition('/')[2]}_{look}")


# What test_docs sees in the search's index, for every public name, is found by typing.
@pytest.mark.parametrize("name", ["total_tensor_size_in_bytes", "set_num_threads", "TensorDesc", "dml.fuse"])
def test_a_public_name_is_found(visit, name):
    tab = visit("index")
    tab.keyboard.press("/")
    # At once: of a busy browser's first letters alone, the search says that they are no query.
    tab.keyboard.insert_text(name)
    tab.locator(".md-search-result__link").first.wait_for()
    found = [link.get_attribute("href") for link in tab.locator(".md-search-result__link").all()]
    assert any(link.partition("#")[0].endswith("reference.html") for link in found)


@pytest.mark.parametrize(("first", "then"), [("light", "Dark"), ("dark", "Light")])
def test_pictures_follow_the_page_whatever_the_system_prefers(visit, first, then):
    pytest.importorskip("PIL", reason="needs Pillow")
    tab = visit("operators/gather", first)
    picture = tab.locator("article img").first
    before = screenshots.small(picture).resize((1, 1)).getpixel((0, 0))
    tab.locator(f"label[title={then}]").click()
    tab.wait_for_function(
        "then => document.body.dataset.mdColorScheme === then", arg={"Dark": "slate"}.get(then, "default")
    )
    after = screenshots.small(picture).resize((1, 1)).getpixel((0, 0))
    assert (sum(after) < sum(before)) == (then == "Dark")
    assert abs(sum(after) - sum(before)) > 300


def test_what_is_copied_can_be_run(visit):
    tab = visit("files", permissions=["clipboard-read", "clipboard-write"])
    buttons = tab.locator(".md-code__button[data-md-type=copy]").all()
    assert len(buttons) == len(blocks((ROOT / "docs/files.md").read_text(encoding="utf-8")))
    copied = []
    for button in buttons:
        button.click()
        tab.wait_for_function(
            "last => navigator.clipboard.readText().then(text => text !== last)", arg="".join(copied[-1:])
        )
        copied.append(tab.evaluate("navigator.clipboard.readText()"))
    for text in copied:
        compile(text, "copied", "exec")
    assert "array(" not in copied[4], "what is printed stays"


LINES = "names => names.map(name => [name.textContent, name.getClientRects().length])"


@pytest.mark.parametrize("page", ["benchmarks", "onnx", "formats"])
def test_a_name_with_hyphens_stays_whole(visit, page):
    names = visit(page, width=390).locator("p code .whole").evaluate_all(LINES)
    assert names
    assert [name for name, lines in names if lines > 1] == []


def test_names_stay_whole(visit):
    tab = visit("arrays", width=390)
    names = tab.locator("td code").evaluate_all(LINES)
    assert {lines for name, lines in names if " " not in name} == {1}


@pytest.mark.parametrize("page", ["arrays", "benchmarks", "explain", "operators/index", "engines", "reference"])
def test_tables_have_room_on_a_wide_page(visit, page):
    tab = visit(page, width=1280)
    tables = tab.locator("article .md-typeset__scrollwrap")
    assert tables.count()
    assert tables.evaluate_all("tables => tables.filter(table => table.scrollWidth > table.clientWidth).length") == 0


def test_output_wraps(visit):
    tab = visit("directml", width=390)
    shown = tab.locator(".language-text code")
    assert shown.count() > 2
    assert shown.evaluate_all("shown => shown.filter(each => each.scrollWidth > each.clientWidth).length") == 0


def test_only_names_longer_than_a_line_are_broken(visit):
    tab = visit("reference", width=390)
    names = {name: lines for name, lines in tab.locator("p > code").evaluate_all(LINES) if " " not in name}
    assert len(names) > 100
    assert max(names.values()) > 1
    assert [name for name, lines in names.items() if lines > 1 and len(name) <= 40] == []
