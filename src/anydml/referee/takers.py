"""Engines by the reading of an ambiguous text that they take: results of `python -m benchmarks.referee`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

READINGS_FILE = Path(__file__).with_name("readings.json")
"""For each operator and question, the engines by the reading that they took in at least one case."""


@lru_cache(None)
def readings() -> dict[tuple[str, str], dict[str, Sequence[str]]]:
    """Engines by reading, by operator and question."""
    readings_by_engine = json.loads(READINGS_FILE.read_text(encoding="utf-8"))
    return {(reading["operator"], reading["question"]): reading["taken"] for reading in readings_by_engine}


def takers(operator: str, question: str, words: str) -> list[str]:
    """The engines that took a reading."""
    return [*readings().get((operator, question), {}).get(words, ())]
