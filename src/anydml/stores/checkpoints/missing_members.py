"""Tensors that are missing among those that become one, by the numbers in their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from anydml.errors import ModelError
from anydml.files.json_path import names, show
from anydml.text import count_noun

MAX_MEMBERS = 1 << 16
"""Maximum number of members that are counted."""

_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
"""A part of a name that is a number."""


def missing_members(members: Mapping[str, Sequence[str]], count: int = 0) -> list[str]:
    """Names that would complete others, such as those of a missing expert.

    Args:
        members: names by a pattern that they match, such as one for gate and one for up projections, of which each has
            the same numbers.
        count: how many numbers from 0 there must be, if only one number in the names varies; 0 if the names tell.
    """
    keys = {pattern: [tuple(_NUMBER.findall(name)) for name in of_pattern] for pattern, of_pattern in members.items()}
    all_keys = {key for of_pattern in keys.values() for key in of_pattern}
    if len(lengths := {len(key) for key in all_keys}) != 1:
        return []
    varying = [k for k in range(lengths.pop()) if len({key[k] for key in all_keys}) > 1]
    if len(varying) == 1:
        at, example = varying[0], next(iter(all_keys))
        count = max(count, *(1 + int(key[at]) for key in all_keys))
        all_keys |= {(*example[:at], str(k), *example[at + 1 :]) for k in range(min(count, MAX_MEMBERS))}
    return [
        "".join(part + number for part, number in zip_longest(_NUMBER.split(members[pattern][0]), key, fillvalue=""))
        for pattern, of_pattern in keys.items()
        for key in sorted(all_keys - {*of_pattern}, key=lambda key: [*map(int, key)])
    ]


def refused_for(composed_name: str, missing: Sequence[str]) -> ModelError:
    """The error of a tensor that cannot be made because others are missing."""
    count = count_noun(len(missing), "tensor")
    return ModelError(f"convert: there is no {names(missing)}: {count} of those that {show(composed_name)} is made of")
