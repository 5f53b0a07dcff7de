"""Links of the documents lead to files and headings that there are; addresses are well formed. Nothing is fetched."""

import re
from urllib.parse import urlsplit

import pytest
from documents import ROOT, anchors

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)$|`[^`\n]+`", re.S | re.M)
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|<(https?://[^>\s]+)>|^\[[^\]]+\]:\s+(\S+)|(?:href|src)=\"([^\"]+)\"", re.M
)
SCHEMES = {"https", "mailto"}


def prose(text):
    """A document without its code, where nothing is a link."""
    return CODE.sub("", text)


def links(text):
    """What a document's links and pictures name."""
    return ["".join(found) for found in LINK.findall(prose(text))]


def broken(page, text):
    """The links of a page's text that lead nowhere, each with why."""
    for link in links(text):
        parts = urlsplit(link)
        if parts.scheme:
            if parts.scheme not in SCHEMES:
                yield f"{link}: not one of {', '.join(sorted(SCHEMES))}"
            elif parts.scheme == "https" and not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", parts.netloc):
                yield f"{link}: no such host can be"
            continue
        path = page.parent / parts.path if parts.path else page
        if link.startswith("/") or not path.exists():
            yield f"{link}: there is no such file"
        elif not path.resolve().is_relative_to(ROOT):
            yield f"{link}: outside of the project"
        elif path.parent.resolve() == ROOT / "benchmarks" / "results" and path.suffix == ".svg":
            # The site has charts in its pages (see docs/tables.py).
            continue
        elif ROOT / "docs" in page.parents and ROOT / "docs" not in path.resolve().parents:
            yield f"{link}: not a part of the site"
        elif parts.fragment and (path.suffix != ".md" or parts.fragment not in anchors(path.read_text("utf-8"))):
            yield f"{link}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    assert list(broken(page, page.read_text(encoding="utf-8"))) == []


def test_links_are_found():
    assert sum(len(links(page.read_text(encoding="utf-8"))) for page in PAGES) > 100


@pytest.mark.parametrize(
    "text",
    [
        "[a](nowhere.md)", "[a](#nowhere)", "![a](docs/nowhere.svg)", "[a](docs/rechunk.md#nowhere)", "[a](/README.md)",
        "[a](LICENSE#nowhere)", "[a](../elsewhere)", "[a](http://example.org)", "[a](https://example)",
        "[a](https:/x.org)", "<http://example.org>", "[a]: nowhere.md", '<img src="nowhere.svg">',
    ],
)  # fmt: skip
def test_a_broken_link_is_told(text):
    assert len(list(broken(ROOT / "README.md", text))) == 1


@pytest.mark.parametrize(
    "text",
    ["`[a](nowhere.md)`", "```text\n[a](nowhere.md)\n```", "[a](docs/rechunk.md#tasks)", "[a](https://example.org/b)"],
)
def test_a_whole_link_is_not_told(text):
    assert list(broken(ROOT / "README.md", text)) == []
