"""Patterns of tensor names: ``{layer}`` matches a part without dots, ``*`` any characters.

In a new name, the first ``*`` is replaced by what the pattern's first ``*`` matched, and so on.
"""

from __future__ import annotations

import re
from itertools import count as count_from

from anydml.errors import ModelError
from anydml.files.location import show

_STAR = "_star_"
"""The prefix of the names of groups for stars."""

_PARTS = re.compile(r"\{([A-Za-z_]\w*)\}|(\*)|([^{}*]+)|([{}])")


class Pattern:
    """A pattern of names.

    Args:
        text: the pattern, such as ``"model.layers.{layer}.*.weight"``.

    Attributes:
        names: the names of its parts in braces.
        sees_numbers: whether the pattern may distinguish names that differ only in numbers.

    Raises:
        ModelError: braces do not contain a name.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        self._stars = 0
        written = ""
        for name, star, plain, brace in _PARTS.findall(text):
            if brace:
                raise ModelError(f"{show(text)} is not a pattern: write {{name}}, or * for anything")
            if name:
                written += f"(?P={name})" if name in self.names else f"(?P<{name}>[^.]+)"
                self.names += [name] if name not in self.names else []
            elif star:
                written += f"(?P<{_STAR}{self._stars}>.*)"
                self._stars += 1
            else:
                written += re.escape(plain)
        self.sees_numbers = re.search(r"[0-9]|\(\?P=", written) is not None
        self._expression = re.compile(written, re.DOTALL)

    def match(self, name: str) -> dict[str, str] | None:
        """Return the parts of a matching name; None if it does not match."""
        match = self._expression.fullmatch(name)
        return match.groupdict() if match else None

    def is_nearly(self, name: str) -> bool:
        """Whether a name would match if parts could contain dots."""
        return re.fullmatch(self._expression.pattern.replace("[^.]+", ".+"), name, re.DOTALL) is not None

    def fill_stars(self, parts: dict[str, str]) -> str:
        """Return the name of a pattern with parts in place of its stars."""
        try:
            if not self._stars:
                return self.text.format_map(parts)
            if (count := sum(part.startswith(_STAR) for part in parts)) != self._stars:
                raise ModelError(
                    f"{show(self.text)} has {self._stars} times *, but the pattern that is matched {count} times"
                )
            stars = count_from(0)
            text = re.sub(r"\*", lambda _: f"{{{_STAR}{next(stars)}}}", self.text)
            return text.format_map(parts)
        except KeyError as error:
            name = f"{{{error.args[0]}}}"
            raise ModelError(f"{show(self.text)} has {name}, which the matched pattern lacks") from None
