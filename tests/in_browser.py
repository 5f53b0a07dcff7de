"""Chromium for the tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

INSTALLED = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium(playwright: Any) -> Iterator[Any]:
    """A browser: the one that ANYDML_BROWSER names (a program, or a DevTools address), Playwright's, or the system's.

    Where there is none, the tests that ask are skipped.
    """
    with playwright.sync_playwright() as started:
        named = os.environ.get("ANYDML_BROWSER", "")
        if "://" in named:
            yield started.chromium.connect_over_cdp(named)
            return
        programs = [named] if named else [None, *filter(None, map(shutil.which, INSTALLED))]
        for program in programs:
            try:
                found = started.chromium.launch(executable_path=program)
                break
            except playwright.Error as error:
                reason = str(error).splitlines()[0]
        else:
            pytest.skip(f"there is no browser: {reason}")
        yield found
        found.close()
