"""Gives hostile files to the command line, in one process with little memory; the first that misbehaves ends it.

    python -m trust.hostile_child json|onnx|npy|safetensors|zarr FIRST COUNT FOLDER

FOLDER holds the files of the last case. A case may take two seconds of processor time (the longest take 0.6), and
200 MiB; the whole process has ADDRESS_SPACE, which whoever starts it sets, with ENVIRONMENT.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import shutil
import signal
import sys
import unicodedata
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import anydml.cli
from anydml.memory import limits

from .hostile_json import hostile_text, lying_npy, sparse_npy

MEMORY = 200 << 20
SECONDS = 2.0
ADDRESS_SPACE = 1 << 30
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "ANYDML_NUM_THREADS": "1"}
"""Stacks and arenas of threads take address space that nobody uses, more on a machine with more cores."""
OUTSIDE = b"nobody may touch this"
PAGE = "page.html"
TAGS = {
    *(
        "a",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "p",
        "section",
        "div",
        "details",
        "summary",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "script"),
    *("svg", "g", "desc", "rect", "text", "path"),
}
"""What a page is made of; nothing in a file makes another element."""

WARNING = re.compile(r"anydml: warning: .*\n")
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def prepare(folder: Path) -> Path:
    """A folder for models, with files beside it and links that lead out of it."""
    inside = folder / "model"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    outside = folder / "outside.bin"
    outside.write_bytes(OUTSIDE)
    (inside / "link.bin").symlink_to(outside)
    (inside / "up").symlink_to(folder)
    (inside / "w.bin").write_bytes(bytes(32))
    for name, data in lying_npy().items():
        (inside / name).write_bytes(data)
    for name, (data, size) in sparse_npy().items():
        with (inside / name).open("wb") as file:
            file.write(data)
            file.truncate(size)
    np.save(inside / "x.npy", np.zeros((4, 2), np.float32))
    return inside


def arguments(kind: str, rng: random.Random, inside: Path) -> tuple[list[str], set[int]]:
    """Write one hostile file; the command for it, and the codes that it may end with."""
    if kind == "json":
        model = inside / "model.json"
        model.write_bytes(hostile_text(rng))
        if rng.random() < 0.3:
            return ["check", str(model)], {0, 1, 2}
        if rng.random() < 0.3:
            return ["explain", str(model), *rng.choice([[], [], ["--html", str(inside / PAGE)]])], {0, 2}
        return ["run", str(model), *rng.choice([[], [], ["--explain"], ["--device", "reference"]])], {0, 2}
    if kind != "onnx":
        from .hostile_stores import hostile_command

        return hostile_command(kind, rng, inside), {0, 2}
    from .hostile_onnx import hostile_model

    model = inside / "model.onnx"
    model.write_bytes(hostile_model(rng))
    return rng.choice(
        [
            (["run", str(model), "--input", f"x={inside / 'x.npy'}", *rng.choice([[], [], ["--explain"]])], {0, 2}),
            (["check", str(model), *rng.choice([[], [], ["--size", "N=4"]])], {0, 1, 2, 3}),
            (["explain", str(model), "--html", str(inside / PAGE)], {0, 2}),
            (["onnx", "portable", str(model), str(inside / "out.onnx")], {0, 2}),
            (
                [
                    "slim",
                    str(model),
                    "-o",
                    str(inside / "out.onnx"),
                    *rng.choice([[], ["--report", str(inside / PAGE)]]),
                ],
                {0, 2},
            ),
        ]
    )


def run(command: list[str]) -> tuple[int, str, str]:
    """The command line's code, and what it printed."""
    out, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            anydml.cli.main(command)
    except SystemExit as end:
        return end.code or 0, out.getvalue(), errors.getvalue()
    raise AssertionError("the command line returned")


def look_at_lines(out: str, errors: str, folder: Path) -> None:
    """Nothing in a file's names may be taken for a line of the command's own, nor change how one is shown."""
    hidden = {c for c in {*out, *errors} - {"\n"} if unicodedata.category(c) in HIDDEN}
    assert not hidden, f"this is shown as something else: {hidden}"
    begins = (
        "Output '",
        "Program of node ",
        "Alone, because ",
        f"'{folder / 'model' / 'model.onnx'}' is explained in '",
        f"{folder / 'model' / 'model.onnx'}: ",
        "    ",
    )
    for line in out.splitlines():
        assert line.startswith(begins), line
        assert not line.strip().startswith("FORGED"), line


class Tags(HTMLParser):
    """The elements of a page, and the attributes that they have."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags[tag] += 1
        # Links lead to places in the page alone.
        self.attributes |= {
            name for name, value in attrs if name != "href" or not re.fullmatch(r"#section-\d+", value or "")
        }


def look_at_page(page: Path) -> None:
    """A page has no elements, scripts or addresses but its own."""
    text = page.read_text(encoding="utf-8")
    found = Tags(text)
    assert set(found.tags) <= TAGS, set(found.tags) - TAGS
    assert found.tags["script"] == found.tags["h1"] == 1
    assert not {name for name in found.attributes if name.startswith("on") or name in ("src", "href")}
    assert not {c for c in set(text) - {"\n"} if unicodedata.category(c) in HIDDEN}


def look(code: int, allowed: set[int], out: str, errors: str, folder: Path) -> None:
    """A case must end well, or with one line; and nothing outside of its folder may change."""
    assert all(line.isprintable() for line in (out + errors).split("\n")), "this commands a terminal"
    assert len(out.splitlines()) == out.count("\n"), "a name ends a line"
    errors = WARNING.sub("", errors)
    assert code in allowed, f"ended with {code}: {errors}"
    if code == 2:
        assert errors.startswith("anydml: "), errors
        assert errors.count("\n") == 1, errors
        assert errors.endswith("\n"), errors
        assert len(errors) < 2_100, f"a line of {len(errors)} characters"
    else:
        assert not errors, errors
    assert "Traceback" not in errors
    assert (folder / "outside.bin").read_bytes() == OUTSIDE
    assert sorted(os.listdir(folder)) == ["model", "outside.bin"]


def main() -> None:
    """Run some cases."""
    kind, first, count, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    if kind == "onnx":
        import anydml.onnx
        import anydml.onnx.backend  # noqa: F401
    sys.stdin = open(os.devnull)  # noqa: SIM115
    run(["run", str(prepare(folder) / "none.json")])
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    assert resource.getrlimit(resource.RLIMIT_AS)[1] <= ADDRESS_SPACE, "whoever starts this limits its address space"
    assert used + MEMORY < ADDRESS_SPACE, f"{used >> 20} MiB are taken before the first case"
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    available_memory = limits.available_memory
    codes: Counter[int] = Counter()
    for number in range(first, first + count):
        inside = prepare(folder)
        command, allowed = arguments(kind, random.Random(number), inside)
        print(number, file=sys.__stderr__)
        # In some cases nobody knows how much memory there is, as on some systems, until there is none.
        limits.available_memory = (lambda: None) if number % 4 == 3 else available_memory
        # Kills the process, wherever it is.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        code, out, errors = run(command)
        signal.setitimer(signal.ITIMER_PROF, 0)
        look(code, allowed, out, errors, folder)
        if (inside / PAGE).exists():
            look_at_page(inside / PAGE)
        if kind == "onnx":
            look_at_lines(out, errors, folder)
        codes[code] += 1
    print(*(f"{code}:{codes[code]}" for code in sorted(codes)))


if __name__ == "__main__":
    main()
