"""Selection and renaming of a checkpoint's tensors, such as those of the model in a training checkpoint."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from anydml.errors import ModelError
from anydml.files.location import names, show
from anydml.stores.checkpoints.patterns import Pattern
from anydml.text import count_noun

T = TypeVar("T")

MAX_SEARCHED_NAMES = 200
"""Maximum number of names, and of their characters, in the search for a similar name."""

Strings = str | Sequence[str]
"""One string, or several."""


class Selection(NamedTuple):
    """A selection of tensors, and changes of their names; the steps are applied in the order of the fields.

    Attributes:
        only: names, prefixes of names up to a dot, or patterns of the selected tensors; all tensors if empty.
        drop: likewise, the tensors that are left out.
        strip: prefixes, up to a dot, that are removed from names.
        rename: pairs of a pattern and the new name.
    """

    only: Sequence[str] = ()
    drop: Sequence[str] = ()
    strip: Sequence[str] = ()
    rename: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(
        cls, only: Strings, drop: Strings, strip: Strings, rename: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> Selection:
        """Return a selection from arguments that may be single strings."""
        only_texts, left_prefixes, prefixes = (
            (option,) if isinstance(option, str) else (*option,) for option in (only, drop, strip)
        )
        return cls(
            only_texts, left_prefixes, prefixes, (*rename.items(),) if isinstance(rename, Mapping) else (*rename,)
        )

    def apply(
        self, name: str, tensors: Mapping[str, T], other_objects: Sequence[str]
    ) -> tuple[dict[str, T], list[str], list[str]]:
        """Return the selected tensors by their new names, the names of other selected objects, and remarks.

        Args:
            name: the name of the command, for errors.
            tensors: the tensors of a checkpoint, by name.
            other_objects: names of the checkpoint's objects that are not tensors.

        Raises:
            ModelError: a string matches no tensor, no tensor is left, or two tensors would have one name.
        """
        selected_tensors, remaining_others, remarks = {**tensors}, [*other_objects], list[str]()
        if self.only:
            selected = self._matching_names(name, "only", self.only, tensors, other_objects)
            selected_tensors = {key: tensor for key, tensor in selected_tensors.items() if key in selected}
            remaining_others = [key for key in remaining_others if key in selected]
        if self.drop:
            dropped = self._matching_names(name, "drop", self.drop, tensors, other_objects)
            selected_tensors = {key: tensor for key, tensor in selected_tensors.items() if key not in dropped}
            remaining_others = [key for key in remaining_others if key not in dropped]
        if not selected_tensors and tensors:
            raise ModelError(f"{name}: only and drop leave out all of {count_noun(len(tensors), 'tensor')}: name fewer")
        left_out = [key for key in tensors if key not in selected_tensors]
        objects = len(other_objects) - len(remaining_others)
        if left_out or objects:
            counts = [count_noun(len(left_out), "tensor")] if left_out else []
            if objects:
                counts.append(
                    f"{count_noun(objects, 'object')} that {'is not a tensor' if objects == 1 else 'are not tensors'}"
                )
            groups = Counter(key.partition(".")[0] for key in left_out)
            beginnings = ", ".join(
                f"{count} of {_quote_prefix(beginning)}" for beginning, count in groups.most_common(10)
            )
            beginnings += f" and {len(groups) - 10} more beginnings" if len(groups) > 10 else ""
            ending = f": {beginnings}" if beginnings else ""
            remarks.append(f"leaves out {' and '.join(counts)}, because of --only or --drop{ending}")
        for prefix in self.strip:
            selected_tensors, stripped = _strip(name, prefix, selected_tensors)
            remarks += stripped
        for old, new in self.rename:
            selected_tensors = _rename(name, old, new, selected_tensors)
        return selected_tensors, remaining_others, remarks

    def _matching_names(
        self, name: str, option: str, texts: Sequence[str], tensors: Iterable[str], other_objects: Iterable[str]
    ) -> set[str]:
        """Return the names that any string matches; each string must match at least one name."""
        all_names = [*tensors, *other_objects]
        selected = set[str]()
        for text in texts:
            matching = [key for key in all_names if _is_for(text, key)] if "*" not in text and "{" not in text else None
            if matching is None:
                pattern = _pattern(name, option, text)
                matching = [key for key in all_names if pattern.match(key) is not None]
            if not matching:
                raise ModelError(
                    f"{name}: {option} is {show(text)}, but no tensor has this name, or a name that begins with it"
                    f"{_nearest(text, all_names)}"
                )
            selected.update(matching)
        return selected


EVERYTHING = Selection()
"""All tensors, with unchanged names."""


def _is_for(text: str, name: str) -> bool:
    """Whether a string is a name, or a prefix of the name up to a dot."""
    beginning = text.removesuffix(".")
    return name == beginning or name.startswith(f"{beginning}.")


def _pattern(name: str, option: str, text: str) -> Pattern:
    try:
        return Pattern(text)
    except ModelError as error:
        raise ModelError(f"{name}: {option}: {error}") from None


def _nearest(text: str, all_names: Iterable[str]) -> str:
    """Return a suggestion for a string that matches nothing."""
    candidates = [key for key in islice(all_names, MAX_SEARCHED_NAMES) if len(key) <= MAX_SEARCHED_NAMES]
    beginnings = {key[:end] for key in candidates for end in (*(k for k, c in enumerate(key) if c == "."), len(key))}
    close_beginnings = difflib.get_close_matches(text[:MAX_SEARCHED_NAMES].removesuffix("."), sorted(beginnings), 1)
    first = sorted({key.partition(".")[0] for key in candidates})
    return f"; the nearest is {show(close_beginnings[0])}" if close_beginnings else f"; names begin with {names(first)}"


def _add_renamed(name: str, tensors: dict[str, T], new: str, tensor: T, option: str) -> None:
    if new in tensors:
        raise ModelError(
            f"{name}: {option} makes a second tensor of the name {show(new)}: give it another name, or drop one"
        )
    tensors[new] = tensor


def _strip(name: str, prefix: str, tensors: Mapping[str, T]) -> tuple[dict[str, T], list[str]]:
    """Return the tensors without a prefix of their names, and a remark on tensors whose names lack the prefix."""
    beginning = prefix if prefix.endswith(".") else f"{prefix}."
    stripped, unchanged_names = dict[str, T](), list[str]()
    for key, tensor in tensors.items():
        if key.startswith(beginning) and len(key) > len(beginning):
            _add_renamed(name, stripped, key.removeprefix(beginning), tensor, f"strip {show(prefix)}")
        else:
            unchanged_names.append(key)
            _add_renamed(name, stripped, key, tensor, f"strip {show(prefix)}")
    if len(unchanged_names) == len(tensors):
        raise ModelError(f"{name}: strip is {show(prefix)}, but no name begins with it{_nearest(prefix, tensors)}")
    message = (
        f"keeps the names of {count_noun(len(unchanged_names), 'tensor')} that do not begin with {show(beginning)}"
    )
    return stripped, [f"{message}: {names(unchanged_names)}"] if unchanged_names else []


def _rename(name: str, old: str, new: str, tensors: Mapping[str, T]) -> dict[str, T]:
    pattern, to, renamed, count = _pattern(name, "rename", old), _pattern(name, "rename", new), dict[str, T](), 0
    for key, tensor in tensors.items():
        if (parts := pattern.match(key)) is None:
            _add_renamed(name, renamed, key, tensor, f"rename {show(old)}")
            continue
        count += 1
        try:
            new_name = to.fill_stars(parts)
        except ModelError as error:
            raise ModelError(f"{name}: rename {show(old)}: {error}") from None
        _add_renamed(name, renamed, new_name, tensor, f"rename {show(old)}")
    if not count:
        raise ModelError(f"{name}: rename is {show(old)}, but no tensor has this name{_nearest(old, tensors)}")
    return renamed


def _quote_prefix(beginning: str) -> str:
    """Return the prefix of names, in quotes if it would be unclear in a sentence."""
    return beginning if re.fullmatch(r"[\w-]+", beginning) else show(beginning)
