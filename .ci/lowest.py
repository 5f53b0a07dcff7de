"""Prints the lowest versions that pyproject.toml allows, as constraints for pip: python .ci/lowest.py [EXTRA …]."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
wanted = list(project["dependencies"])
for extra in sys.argv[1:]:
    wanted += project["optional-dependencies"][extra]
for requirement in wanted:
    if match := re.match(r"([\w.-]+)(?:\[[\w,-]+\])?\s*>=\s*([\w.]+)", requirement):
        print(f"{match[1]}=={match[2]}")
