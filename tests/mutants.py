"""Breaks the checks and the moves in small ways, one at a time, and asks the tests whether they notice.

    python -m tests.mutants --sample 200 --seed 1 [--only operators/gather.py] [--like "text of a mutant"]

Each mutant lives in a copy of the repository, where the core is built again. A line is printed for each: noticed, and
by which test; SURVIVED; or equivalent, because tests/equivalent_mutants.py says why no test can notice it.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .equivalent_mutants import EQUIVALENT

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/anydml"
FILES = ("moves/*.py", "fields.py", "tensor.py", "binding.py", "feature_level.py", "operators/*.py", "core/*.py")
TESTS = (
    "tests/operators", "tests/moves", "tests/test_tensor.py", "tests/test_feature_level.py",
    "tests/test_seeds.py", "tests/test_device.py", "tests/test_function_errors.py", "tests/engines/test_agreement.py",
    "tests/test_function_properties.py", "tests/test_functions.py", "tests/fuzz/test_fuzz.py", "tests/test_binding.py",
    "tests/test_family_functions.py", "tests/core/test_calls.py",
)  # fmt: skip
"""The cheap ones first, because the first failure ends a run; those that are named like the broken file before all."""
CORE_TESTS = (
    "tests/core", "tests/memory", "tests/test_in_place.py", "tests/test_functions.py", "tests/test_family_functions.py",
    "tests/fuzz", "tests/tracing/test_fuse.py",
)  # fmt: skip
"""Those of what is compiled."""
COPIED = (
    "src", "tests", "examples", "build", "pyproject.toml", "setup.py", "building.py", "rule_sources", "README.md",
    "LICENSE",
)  # fmt: skip
BUILD = (sys.executable, "setup.py", "build_ext", "--inplace")
SECONDS = 300
"""Of processor time; a mutant that takes more hangs."""
HANG = 7200
"""Of any time: the machine may have other work, and a mutant may wait for what never comes."""
MEMORY = 8 << 30
"""Bytes that a mutant may hold."""

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """A change of one file.

    Attributes:
        file: relative to the package.
        line: where.
        before: the statement's first line.
        after: what it became.
        text: the whole file, changed.
    """

    file: str
    line: int
    before: str
    after: str
    text: str

    @property
    def name(self) -> str:
        """What it is listed as, if it is equivalent: lines may move."""
        return f"{self.file}: {self.before}  →  {self.after}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  →  {self.after}"


def changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """The ways to break a node of its kind in place."""
    match node:
        case ast.Compare():
            for i, kind in enumerate(node.ops):
                if type(kind) in SWAPS:
                    yield lambda n, i=i: n.ops.__setitem__(i, SWAPS[type(n.ops[i])]())
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in SWAPS:
            yield lambda n: setattr(n, "op", SWAPS[type(n.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield lambda n: setattr(n, "op", ast.UAdd() if isinstance(n.op, ast.USub) else ast.Not())
        case ast.Constant() if type(node.value) in (int, bool):
            yield lambda n: setattr(n, "value", not n.value if isinstance(n.value, bool) else n.value + 1)
        case ast.Call(func=ast.Name()) if node.func.id in NAMES:
            yield lambda n: setattr(n.func, "id", NAMES[n.func.id])
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Compare):
            yield lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
    for field in ("body", "orelse"):
        for i, statement in enumerate(getattr(node, field, None) or () if isinstance(node, ast.stmt) else ()):
            if isinstance(statement, ast.Raise | ast.Continue | ast.Break) or _is_yield(statement):
                yield lambda n, i=i, field=field: getattr(n, field).__setitem__(i, ast.Pass())


def _is_yield(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield | ast.YieldFrom)


def _breakable(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that decide something: no annotations, no texts, nothing that only types see."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.JoinedStr | ast.ImportFrom | ast.Import | ast.arguments):
            continue
        if isinstance(child, ast.keyword) and child.arg == "strict":
            # An assertion that holds for all callers.
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        for name, value in ast.iter_fields(child):
            if name in ("annotation", "returns", "decorator_list"):
                for node in value if isinstance(value, list) else [value] if value else []:
                    node._skipped = True
        if not getattr(child, "_skipped", False):
            yield from (node for node in _breakable(child) if not getattr(node, "_skipped", False))


def mutants(file: str) -> list[Mutant]:
    """Every mutant of a file."""
    text = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
    tree = ast.parse(text)
    # Cython reads what the first lines say.
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    whole = ast.unparse(tree).splitlines()
    found = []
    nodes = [node for node in _breakable(tree) if not getattr(node, "_skipped", False)]
    for node in nodes:
        before = {name: list(value) if isinstance(value, list) else value for name, value in vars(node).items()}
        target = vars(node.func).copy() if isinstance(node, ast.Call) else {}
        for change in changes(node):
            change(node)
            text = ast.unparse(ast.fix_missing_locations(tree))
            for name, value in before.items():
                setattr(node, name, list(value) if isinstance(value, list) else value)
            if target:
                vars(node.func).update(target)
            lines = text.splitlines()
            at = next((i for i, pair in enumerate(zip(whole, lines, strict=False)) if pair[0] != pair[1]), None)
            if at is not None:
                line = getattr(node, "lineno", 0)
                found.append(Mutant(file, line, whole[at].strip(), lines[at].strip(), head + text + "\n"))
    return list({mutant.text: mutant for mutant in found}.values())


def tests_for(file: str) -> list[str]:
    """The tests of a file; first those that are named like it."""
    tests = CORE_TESTS if file.startswith("core/") else TESTS
    return sorted(tests, key=lambda test: Path(file).stem not in test and not (file.startswith(Path(test).name)))


def noticed_by(mutant: Mutant | None, copies: list[Path], tests: list[str]) -> str | None:
    """What notices a mutant, or the lack of one: a test, the compiler, or that it hangs; None if every test passes."""
    place = copies.pop()
    environment = {**os.environ, "PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    path = place / PACKAGE / mutant.file if mutant else None
    original = path.read_text(encoding="utf-8") if path else ""
    try:
        if mutant:
            path.write_text(mutant.text, encoding="utf-8")
        # What was a mutant before is newer than what was built of it, too.
        built = subprocess.run(BUILD, cwd=place, env=environment, capture_output=True, text=True, check=False)
        if built.returncode:
            return "the compiler" if mutant else built.stderr
        with subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True) as process:
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
            try:
                out, _ = process.communicate(timeout=HANG)
            except subprocess.TimeoutExpired:
                process.kill()
                return "its hanging"
        failed = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - |$)", out, re.M)
        return None if not process.returncode else failed[0] if failed else f"its end with {process.returncode}"
    finally:
        if path:
            path.write_text(original, encoding="utf-8")
        copies.append(place)


def judged(mutant: Mutant, copies: list[Path]) -> str:
    """What became of a mutant, printed as soon as it is known."""
    start = time.monotonic()
    test, reason = noticed_by(mutant, copies, tests_for(mutant.file)), EQUIVALENT.get(mutant.name)
    verdict = "noticed" if test else "equivalent" if reason else "SURVIVED"
    how = f" by {test}" + (", though it is listed as equivalent" if reason else "") if test else ""
    because = f", because {reason}" if verdict == "equivalent" else ""
    print(f"{verdict}{how} after {time.monotonic() - start:.0f} s: {mutant}{because}", flush=True)
    return verdict


def main() -> int:
    """Try a sample of mutants; 0 where 90 % of them were noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=0, help="as many as that, at random; all if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", action="append", help="files, relative to the package")
    parser.add_argument("--like", action="append", help="only mutants whose line holds this")
    options = parser.parse_args()
    files = [path for pattern in options.only or FILES for path in sorted((ROOT / PACKAGE).glob(pattern))]
    todo = [mutant for path in files for mutant in mutants(str(path.relative_to(ROOT / PACKAGE)))]
    print(f"{len(todo)} mutants of {len(files)} files", flush=True)
    if options.like:
        todo = [mutant for mutant in todo if any(text in str(mutant) for text in options.like)]
    if options.sample:
        todo = random.Random(options.seed).sample(todo, min(options.sample, len(todo)))
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / str(number) for number in range(options.jobs)]
        for place in copies:
            for part in filter(lambda part: (ROOT / part).exists(), COPIED):
                target = place / part
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(ROOT / part, target) if (ROOT / part).is_dir() else shutil.copy2(ROOT / part, target)
        needed = dict.fromkeys(test for mutant in todo for test in tests_for(mutant.file))
        if test := noticed_by(None, copies, [*needed]):
            print(f"the tests fail without a mutant: {test}")
            return 2
        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = Counter(pool.map(lambda mutant: judged(mutant, copies), todo))
    noticed = verdicts["noticed"]
    print(f"{noticed} of {len(todo)} noticed ({100 * noticed / len(todo):.1f} %), ", end="")
    print(f"{verdicts['equivalent']} equivalent, {verdicts['SURVIVED']} survived")
    return 0 if noticed >= 0.9 * len(todo) else 1


if __name__ == "__main__":
    sys.exit(main())
