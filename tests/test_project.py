"""What a project says of itself agrees: addresses, Pythons, systems, commands, links; forges can read their files."""

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
from documents import ROOT, blocks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORGE = ROOT / ".github"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(FORGE.rglob("*.md"))]
SCHEMAS = {
    "github-workflows": sorted(FORGE.glob("workflows/*.yml")),
    "github-issue-forms": [path for path in sorted(FORGE.glob("ISSUE_TEMPLATE/*.yml")) if path.stem != "config"],
    "github-issue-config": [FORGE / "ISSUE_TEMPLATE" / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
SYSTEMS = {"Microsoft :: Windows": "windows", "MacOS": "macos", "POSIX :: Linux": "ubuntu"}


def text(path):
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_forges_can_read_their_files(schema):
    if not importlib.util.find_spec("check_jsonschema"):
        pytest.skip("needs check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *SCHEMAS[schema]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def ran():
    """The rows of the platforms' table where a job ran kernels: each one's platform, and its Python."""
    table = text(ROOT / "CONTRIBUTING.md").partition("\n## Platforms that have been tested\n")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| ((?:.* \| ){8}.*) \|$", table, re.MULTILINE):
        platform, python, *_, job, date, kernels = row.split(" | ")
        if re.fullmatch(r"`\.ci/\w+`", job) and re.fullmatch(r"\d{4}-\d\d-\d\d", date) and kernels:
            assert (ROOT / job.strip("`")).exists(), row
            yield platform, python


def test_metadata_claim_the_pythons_and_systems_that_a_job_ran_on():
    classifiers = PROJECT["classifiers"]
    systems = {each.partition(" :: ")[2] for each in classifiers if each.startswith("Operating System")}
    assert systems == {each for each in SYSTEMS for platform, _ in ran() if platform.split()[0] in each.split()}
    versions = {match[1] for each in classifiers if (match := re.fullmatch(r"Programming .*:: (3\.\d+)", each))}
    assert versions == {".".join(python.split(".")[:2]) for _, python in ran()}


def test_the_workflow_has_the_pythons_of_the_metadata_and_all_systems():
    workflow = text(FORGE / "workflows" / "checks.yml")
    listed = {name: re.findall(r"[\w.-]+", found) for name, found in re.findall(r"(system|python): \[(.*)\]", workflow)}
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert listed["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert {name.removesuffix("-latest") for name in listed["system"]} == set(SYSTEMS.values())
    assert "- run: .ci/run\n" in workflow


def test_wheels_are_built_for_the_pythons_and_systems_of_the_metadata():
    built = tomllib.loads(text(ROOT / "pyproject.toml"))["tool"]["cibuildwheel"]["build"].split()
    versions = re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["classifiers"]))
    assert built == [f"cp3{version}-*" for version in versions]
    (listed,) = re.findall(r"system: \[(.*)\]", text(FORGE / "workflows" / "wheels.yml"))
    systems = {name.partition("-")[0] for name in listed.split(", ")}
    assert systems == set(SYSTEMS.values())


def test_the_address_is_that_of_the_metadata():
    address = PROJECT["urls"]["Repository"]
    assert all(url.startswith(address) for url in PROJECT["urls"].values())
    assert f"\nrepository-code: {address}\n" in text(ROOT / "CITATION.cff")
    own = re.compile(r"https://github\.com/[\w.-]+/anydml")
    for path in [*PAGES, *(ROOT / "docs").rglob("*.md"), ROOT / "mkdocs.yml"]:
        assert set(own.findall(text(path))) <= {address}, path


def test_the_citation_is_of_this_project():
    citation = text(ROOT / "CITATION.cff")
    assert f"title: {PROJECT['name']}\n" in citation
    assert f"abstract: {PROJECT['description']}\n" in citation
    assert f"license: {PROJECT['license']}\n" in citation


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)|`((?:\.ci|src|docs|tests|examples|benchmarks)/[\w./-]*\w)`", text(page)):
        path = (page.parent if target[0] else ROOT) / "".join(target)
        assert path.exists() or "X" in path.name, target


def test_the_commands_of_contributing_are_there():
    page = text(ROOT / "CONTRIBUTING.md")
    assert [block.language for block in blocks(page)] == ["sh"]
    extras = set(re.findall(r'"\.\[(\w+)\]"', page))
    assert extras <= set(PROJECT["optional-dependencies"])
    for module in re.findall(r"python -m ([\w.]+)", page.replace("-m venv", "")):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists() or (
            ROOT / module.replace(".", "/") / "__main__.py"
        ).exists(), module
    for path in re.findall(r"pytest ((?:[\w/.*]+ ?)+)`", page):
        assert all([*ROOT.glob(each)] for each in path.split()), path


def test_the_tour_names_files_and_functions_that_exist():
    source = ROOT / "src/anydml"
    rows = re.findall(r"^\| \d \| `(.*?)` \| (.*?) \|", text(ROOT / "docs/add-an-operator.md"), re.MULTILINE)
    assert 1 < len(rows) <= 5
    for path, functions in rows:
        for name in re.findall(r"`(\w+)`", functions):
            assert re.search(rf"^(def|static \w+) {name}\(", text(source / path), re.MULTILINE), f"{path}: {name}"
