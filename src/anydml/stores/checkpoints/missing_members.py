"""Missing members of groups of tensors that become one, found by the numbers in their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from anydml.errors import ModelError
from anydml.files.location import names, show
from anydml.text import count_noun

MAX_MEMBERS = 1 << 16
"""Maximum number of members of a group that are checked."""

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
"""A number in a name."""


def missing_members(members: Mapping[str, Sequence[str]], count: int = 0) -> list[str]:
    """Return missing names of a group, such as those of a missing expert.

    Args:
        members: names by the pattern that they match, such as patterns of gate and up projections; all patterns must
            have the same numbers.
        count: the expected number of members if only one number in the names varies; 0 to infer it from the names.
    """
    keys = {pattern: [tuple(_NUMBER.findall(name)) for name in of_pattern] for pattern, of_pattern in members.items()}
    all_keys = {key for of_pattern in keys.values() for key in of_pattern}
    if len(lengths := {len(key) for key in all_keys}) != 1:
        return []
    varying = [k for k in range(lengths.pop()) if len({key[k] for key in all_keys}) > 1]
    if len(varying) == 1:
        position, example = varying[0], next(iter(all_keys))
        count = max(count, *(1 + int(key[position]) for key in all_keys))
        all_keys |= {(*example[:position], str(k), *example[position + 1 :]) for k in range(min(count, MAX_MEMBERS))}
    return [
        "".join(part + number for part, number in zip_longest(_NUMBER.split(members[pattern][0]), key, fillvalue=""))
        for pattern, of_pattern in keys.items()
        for key in sorted(all_keys - {*of_pattern}, key=lambda key: [*map(int, key)])
    ]


def refused_for(composed_name: str, missing: Sequence[str]) -> ModelError:
    """Return the error of a tensor that cannot be made because members are missing."""
    count = count_noun(len(missing), "tensor")
    return ModelError(f"convert: there is no {names(missing)}: {count} of those that {show(composed_name)} is made of")
