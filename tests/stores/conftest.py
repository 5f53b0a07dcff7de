"""What the tests of stores share."""

import pytest

from anydml import progress


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """Let commands print the same on a busy machine as on a quiet one: tests/test_progress.py tests progress."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(progress, "LINE_SECONDS", 3600.0)
