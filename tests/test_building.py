"""What builds the package asks for a compiler only where none works, and says what to do where nothing compiles."""

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig

import pytest
from documents import ROOT

import anydml as dml

pytest.importorskip("setuptools", minversion="77.0.3")

FAILS = f"'{sys.executable}' -c 'raise SystemExit(1)'"
MISSING = "no-such-compiler -x"
ONLY_TRIALS = f"""'{sys.executable}' -c 'import sys; sys.exit("trial.c" not in str(sys.argv))'"""


def python(*arguments, folder=ROOT, **variables):
    """Python's end in a folder where no program is found, with these variables in the environment."""
    kept = {name: text for name, text in os.environ.items() if name not in ("CC", "ANYDML_PURE", "PATH")}
    command = [sys.executable, *arguments]
    environment = {**kept, "PATH": "", **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "variables, asks",
    [
        ({"CC": ONLY_TRIALS}, False),
        ({"CC": FAILS}, True),
        ({"CC": MISSING}, True),
        ({}, True),
        ({"ANYDML_PURE": "1", "CC": FAILS}, False),
        ({"ANYDML_PURE": "0"}, True),
    ],
    ids=str,
)
def test_a_compiler_is_asked_for_where_none_works(variables, asks):
    hooks = [f"building.get_requires_for_build_{kind}()" for kind in ("wheel", "editable")]
    done = python("-c", f"import building, json; print(json.dumps([{', '.join(hooks)}]))", **variables)
    assert [[text.partition(">")[0] for text in asked] for asked in json.loads(done.stdout)] == [["ziglang"] * asks] * 2


@pytest.mark.parametrize("compiler", [MISSING, FAILS, ONLY_TRIALS], ids=["missing", "fails", "fails-later"])
def test_what_is_not_compiled_ends_with_what_to_do(tmp_path, compiler):
    if importlib.util.find_spec("ziglang"):
        pytest.skip("ziglang is installed")
    # One small module is enough to fail.
    core = [f"src/anydml/{name}" for name in ("_version.py", "core/verbs.py", "core/verbs.pxd")]
    core += [f"src/anydml/{name}" for name in ("functions/copying.py", "infer.py", "fields.py", "symbols.py")]
    core += [str(path.relative_to(ROOT)) for path in (ROOT / "src/anydml/operators").glob("*.py")]
    core += [str(path.relative_to(ROOT)) for path in (ROOT / "rule_sources").glob("*.py")]
    for name in ("setup.py", "building.py", "README.md", *core):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    done = python("setup.py", "build_ext", "--inplace", folder=tmp_path, CC=compiler)
    assert done.returncode == 1
    last = done.stderr.rstrip().split("\n")[-1]
    assert last.startswith("error: ")
    assert "ANYDML_PURE=1" in last
    assert "Traceback" not in done.stderr


def test_missing_headers_of_python_are_named(tmp_path):
    code = f"""
import runpy, sys, sysconfig
real = sysconfig.get_path
sysconfig.get_path = lambda name, *more, **kw: {str(tmp_path)!r} if name == "include" else real(name, *more, **kw)
sys.argv[1:] = ["build_ext", {f"--build-lib={tmp_path}"!r}]
runpy.run_path("setup.py", run_name="__main__")
"""
    done = python("-c", code, CC=ONLY_TRIALS)
    assert done.returncode == 1
    last = done.stderr.rstrip().split("\n")[-1]
    assert last.startswith("error: ")
    assert f"{tmp_path} has no Python.h (Debian has it in python3-dev" in last
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_compiled_for_a_pure_package(tmp_path):
    done = python("setup.py", "build_ext", f"--build-lib={tmp_path}", ANYDML_PURE="1", CC=MISSING)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


def test_the_page_of_a_package_index_has_no_paths():
    done = python("-c", "import building, json; print(json.dumps(building.readme()))")
    assert done.returncode == 0, done.stderr
    own, shown = ((ROOT / "README.md").read_text(encoding="utf-8")), json.loads(done.stdout)
    links = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", own)
    found = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", shown)
    assert len(links) == len(found) > 25
    for (is_picture, link), (_, address) in zip(links, found, strict=True):
        if link.startswith(("https:", "#")):
            assert address == link
        else:
            kind = "raw" if is_picture else "blob"
            assert address == f"https://github.com/anydml/anydml/{kind}/v{dml.__version__}/{link}"


@pytest.mark.parametrize("header", ["kernels.h", "pool.h", "ranges.h", "pages.h"])
def test_modules_depend_on_the_headers_that_a_compiler_includes(tmp_path, monkeypatch, header):
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    core = "src/anydml/core"
    source = tmp_path / "module.c"
    source.write_text(f'#include <stdint.h>\n#include "Python.h"\n  # include "{header}"\n', encoding="utf-8")
    includes = [f"-I{folder}" for folder in (core, sysconfig.get_path("include"))]
    rule = subprocess.run([compiler, "-M", *includes, source], check=True, capture_output=True, text=True).stdout
    expected = {word for word in rule.split() if word.startswith(core)}
    assert {path.as_posix() for path in runpy.run_path("setup.py")["headers_of"](source)} == expected
    assert f"{core}/{header}" in expected
