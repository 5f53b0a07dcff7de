"""What is installed is what was asked for: lower bounds everywhere, and a lock with hashes that satisfies them."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ALL = [requirements.Requirement(text) for text in (*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values()))]
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize("requirement", ALL, ids=str)
def test_every_requirement_has_a_lower_bound(requirement):
    if requirement.name != PROJECT["name"]:
        assert any(bound.operator in (">=", "==") for bound in requirement.specifier)


def test_the_lock_holds_every_requirement_of_a_developer():
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK, re.MULTILINE))
    needed = [requirements.Requirement(text) for text in (*PROJECT["dependencies"], *EXTRAS["test"])]
    for requirement in needed:
        if requirement.name != PROJECT["name"]:
            assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_every_pin_has_hashes():
    pins = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(pins) > 20
    assert all("--hash=sha256:" in pin for pin in pins)
