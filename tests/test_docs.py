"""The documentation tells the truth: its code runs and prints what it shows, its pictures are the moves'."""

import contextlib
import importlib
import importlib.util
import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from documents import (
    ROOT,
    anchors,
    blocks,
    copy_of_sources,
    edited,
    run_commands,
    run_session,
    run_session_apart,
    sections,
    untimed,
)
from s3_server import s3_server

DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
RECIPES = [page for page, text in PAGES.items() if any(block.title for block in blocks(text))]
RUN = {"python", "sh"}
SHOWN = {"text", "json", "yaml"}
OPTIONAL = ("torch", "jax", "onnx", "onnxruntime", "einops", "dask", "xarray", "transformers", "zarr", "obstore")


def missing(text):
    """The libraries that a document's code imports, or that its commands name, and that are not here."""
    imported = set(re.findall(r"^>>> (?:import|from) (?:anydml\.)?(\w+)", text, re.M))
    imported |= {"onnx"} if re.search(r"^anydml .*\.onnx", text, re.M) else set()
    return [name for name in OPTIONAL if name in imported and not importlib.util.find_spec(name)]


SECTIONS = {
    f"{page}: {heading}": text
    for page, whole in PAGES.items()
    if page not in RECIPES
    for heading, text in sections(whole).items()
    if blocks(text) and not missing(text)
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where code runs: a place of its own, with the examples and the benchmarks."""
    for name in ("examples", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_shell(commands, following, folder, sources=None):
    """Run a block of commands, and compare what it prints with the block of text after it."""
    if commands.startswith("pip install"):
        check_installation(commands)
        return
    printed = run_commands(commands, folder, sources)
    if following is not None and following.language == "text":
        assert untimed(printed) == untimed(following.body)


def check_installation(commands):
    """Installing is what the checks begin with, so here only names are checked: every extra exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for line in commands.splitlines():
        asked = re.fullmatch(r'pip install (?:-e )?(?:\.|"(?:\.|anydml)\[([\w,]+)\]")', line)
        assert asked, line
        assert set(asked[1].split(",") if asked[1] else ()) <= set(extras), line


def run_in_order(text, folder):
    """First the session of a section, then its commands, each block by itself."""
    session = "\n".join(block.body for block in blocks(text, "python"))
    if session:
        run_session(session, "page")
    found = blocks(text)
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.language == "sh":
            run_shell(block.body, following, folder)


@pytest.mark.parametrize("name", SECTIONS)
def test_section(name, folder):
    if "import cupy" in SECTIONS[name] and not importlib.util.find_spec("cupy"):
        pytest.skip("there is no CuPy, which needs a GPU")
    is_of_bucket = any("s3://" in block.body for block in blocks(SECTIONS[name]) if block.language in RUN)
    with s3_server() if is_of_bucket else contextlib.nullcontext():
        run_in_order(SECTIONS[name], folder)


@pytest.mark.parametrize("page", RECIPES)
def test_recipe(page, folder):
    """A page that changes anydml: its files and edits go into a copy, and its code runs there."""
    sources = folder / "src"
    copy_of_sources(sources)
    found = blocks(PAGES[page])
    session = []
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.title:
            file = folder / block.title
            is_diff = block.language == "diff"
            text = edited(file.read_text(encoding="utf-8"), block.body) if is_diff else block.body
            file.write_text(text, encoding="utf-8")
        elif block.language == "python":
            session.append(block.body)
        elif block.language == "sh":
            run_shell(block.body, following, folder, sources)
    run_session_apart("\n".join(session), folder, sources)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_shown(page):
    found = blocks(PAGES[page])
    assert PAGES[page].count("\n```") == 2 * len(found), "a fence has a language and begins a line"
    for block in found:
        assert block.language in RUN | SHOWN or block.title, block
        if block.language == "python" and not block.title:
            assert block.body.startswith(">>> "), block.body
            assert block.body.endswith("\n\n"), "the empty line ends the last output"
        if block.language == "json" and not block.title:
            included = re.fullmatch(r'--8<-- "(examples/\w+\.json)"\n', block.body)
            assert included, "what is shown is a file that is tested"
            assert (ROOT / included[1]).exists()


def test_every_text_block_follows_a_command():
    for page, text in PAGES.items():
        for before, block in itertools.pairwise([None, *blocks(text)]):
            assert block.language != "text" or (before and before.language == "sh"), f"{page}: {block.body}"


def test_workflows_can_be_read_and_name_options_that_are_there(tmp_path):
    from anydml.cli import anydml

    found = [block.body for text in PAGES.values() for block in blocks(text, "yaml")]
    assert found
    for body in found:
        for name, options in re.findall(r"- run: anydml (\w+)(.*)", body):
            known = {option for parameter in anydml.commands[name].params for option in parameter.opts}
            assert set(re.findall(r"--[\w-]+", options)) <= known
        if importlib.util.find_spec("check_jsonschema"):
            (tmp_path / "workflow.yml").write_text(body, encoding="utf-8")
            command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
            done = subprocess.run([*command, tmp_path / "workflow.yml"], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def test_pictures_are_those_of_the_moves(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import pictures

    kept = {path.name: path.read_text(encoding="utf-8") for path in pictures.PICTURES.glob("*.svg")}
    assert kept == pictures.pictures(), "run python docs/pictures.py"


def test_every_picture_is_on_a_page():
    shown = {name for text in PAGES.values() for name in re.findall(r"pictures/(\w+\.svg)", text)}
    assert shown == {path.name for path in (DOCS / "pictures").glob("*.svg")}


def test_tables_are_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import tables

    asked = [found for text in PAGES.values() for found in tables.TABLE.findall(text)]
    assert {name for name, _ in asked} == set(tables.TABLES)
    for page, text in PAGES.items():
        assert tables.filled(text) == text, f"{page}: run python docs/tables.py"
    outdated = "a\n<!-- levels -->\n\nold\n\n<!-- end of levels -->\nb\n"
    assert "old" not in tables.filled(outdated)
    assert "`6_4`" in tables.filled(outdated)


def test_every_operator_has_its_page():
    from anydml.operators import REGISTRY

    assert {f"operators/{name.split('OPERATOR_')[1].lower()}.md" for name in REGISTRY} <= set(PAGES)


def moved_pages(site):
    """Return where pages of a built site lead that only name a new address."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    moved = {page: re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', html) for page, html in pages.items()}
    return {page: match[1] for page, match in moved.items() if match}


def test_the_site_is_built_and_fetches_nothing(tmp_path):
    pytest.importorskip("material", reason="needs mkdocs-material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', html), page
        assert not re.findall(r'<link[^>]+rel="(?!canonical)[^"]+"[^>]+href="(?:https?:)?//', html), page
        assert "<p>[[" not in html, page
    for old, url in moved_pages(tmp_path).items():
        target, _, heading = url.partition("#")
        if target.startswith("https://"):
            source = ROOT / target.removeprefix("https://github.com/anydml/anydml/blob/main/")
            assert heading in anchors(source.read_text(encoding="utf-8")), f"{old} leads to {url}"
            continue
        html = (old.parent / target).read_text(encoding="utf-8")
        assert not heading or f'id="{heading}"' in html, f"{old} leads to {url}"
    found = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    pages = " ".join(f"{p['title']} {p['text']}" for p in found if p["location"].startswith("reference"))
    missing = {name for _, name in PUBLIC if not re.search(rf"\b{name}\b", pages)}
    assert missing == set()
    assert "total_tensor_size_in_bytes" in pages


MODULES = ("anydml", "dxdispatch", "explain", "tracing", "moves", "pydirectml", "stores", "onnx", "torch")
REFERENCE = PAGES["reference.md"]
LISTS = dict(re.findall(r"^<!-- names (\w+) -->\n(.*?)^<!-- end of names -->$", REFERENCE, re.M | re.S))
PROSE = re.sub(r"^<!-- names \w+ -->\n.*?^<!-- end of names -->$", "", REFERENCE, flags=re.M | re.S)
HEADING = {"onnx": "ONNX", "torch": "PyTorch", "pydirectml": "PyDirectML", "moves": "Moves and programs"}


def public_names():
    """Yield modules, and the public names of each."""
    for module in MODULES:
        if module in ("onnx", "torch") and not importlib.util.find_spec(module):
            continue
        package = importlib.import_module(module if module == "anydml" else f"anydml.{module}")
        yield from ((module, name) for name in package.__all__ if not name.startswith("__"))


PUBLIC = list(public_names())


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_every_public_name_is_in_the_reference(module, name):
    if module == "anydml":
        listed = "".join(text for section, text in LISTS.items() if section not in MODULES)
    else:
        heading = HEADING.get(module, "Explanations")
        listed = LISTS.get(module, "") + PROSE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert re.search(rf"`(anydml\.{module}\.)?{name}[`(]", listed)


@pytest.mark.parametrize("section", LISTS)
def test_every_listed_name_says_what_it_is(section):
    entries = LISTS[section].strip().splitlines()
    assert entries
    for entry in map(str.strip, entries):
        assert re.match(r"- (\[`\w+`\]\(operators/\w+\.md\)(`\(.*?\)`)?|`\.?\w+(\(.*?\))?`): \S.* \S", entry), entry
        assert " at 0x" not in entry, "its signature has an address of memory, which is another in each process"


def test_figures_are_those_of_the_results(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    monkeypatch.syspath_prepend(ROOT)
    import tables

    from benchmarks.report import Result, as_json

    assert tables.benchmark("none") == "Not measured yet.\n"
    results = [
        Result("S1", "axis 0 into 4", 4 * 10**9, {"anydml": 0.1, "numpy": 0.4, "torch copy_": 0.2}, 0.05),
        Result("small", "a call", 96, {"anydml": 2e-6, "numpy copyto": 1e-6}, None),
        Result("small", "planning", 96, {"anydml": 3e-6}, None),
    ]
    more = {"date": "2026-01-02", "command": "python -m benchmarks.cpu", "growth": {"bytes": [{"bytes": 1024}]}}
    (tmp_path / "cpu.json").write_text(as_json(results, {"processor": "P"}, **more), encoding="utf-8")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    text = tables.benchmark("cpu")
    for line in (
        "| command | python -m benchmarks.cpu |",
        "| date | 2026-01-02 |",
        "| machine | processor P |",
        "| S1 | axis 0 into 4 | 40.0 | 20.0 torch copy_ | 2.00 | 50% |",
        "| small | a call | 2.00 | 1.00 numpy copyto | 0.50 |",
        "| small | planning | 3.00 | – | – |",
        "| 1,024 |",
    ):
        assert f"{line}\n" in text
    seconds = '{"anydml": 2, "a": 4, "copy": 1}'
    gpu = f'{{"machine": {{}}, "cases": [{{"name": "S1", "about": "", "bytes": 8, "seconds": {seconds}}}]}}'
    (tmp_path / "gpu.json").write_text(gpu, encoding="utf-8")
    assert "| S1 |  | 0.0 | 0.0 a | 2.00 | 50% |\n" in tables.benchmark("gpu")


@pytest.mark.parametrize(
    ("struct", "members"),
    {
        "SPLIT": "InputTensor OutputCount OutputTensors Axis",
        "SLICE1": "InputTensor OutputTensor DimensionCount InputWindowOffsets InputWindowSizes InputWindowStrides",
        "GATHER": "InputTensor IndicesTensor OutputTensor Axis IndexDimensions",
        "JOIN": "InputCount InputTensors OutputTensor Axis",
        "TILE": "InputTensor OutputTensor RepeatsCount Repeats",
    }.items(),
)
def test_fields_are_those_of_the_structs(struct, members, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    import tables

    _, _, text = tables.fields().partition(f"`DML_{struct}_OPERATOR_DESC`")
    rows = text.partition("_OPERATOR_DESC`")[0].splitlines()[1:-1]
    found = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert list(dict.fromkeys(found)) == members.split()
