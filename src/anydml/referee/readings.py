"""The reading of an ambiguous text that each engine takes, as measured by `python -m benchmarks.referee`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

READINGS_FILE = Path(__file__).with_name("readings.json")
"""For each operator and question, the engines that took each reading in at least one case."""


@lru_cache(None)
def readings() -> dict[tuple[str, str], dict[str, Sequence[str]]]:
    """Return the engines by reading, for each operator and question."""
    readings_by_engine = json.loads(READINGS_FILE.read_text(encoding="utf-8"))
    return {(reading["operator"], reading["question"]): reading["taken"] for reading in readings_by_engine}


def engines_by_reading(operator: str, question: str, words: str) -> list[str]:
    """Return the engines that took a reading."""
    return [*readings().get((operator, question), {}).get(words, ())]
