"""Which tensors of a checkpoint are taken, and their new names: a model of what a training run keeps."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from anydml.errors import ModelError
from anydml.files.json_path import names, show
from anydml.stores.checkpoints.patterns import Pattern
from anydml.text import counted

T = TypeVar("T")

FEW = 200
"""Most names, and characters of them, that are searched for one similar to an unknown one."""

Texts = str | Sequence[str]
"""A text, or several."""


class Selection(NamedTuple):
    """The tensors that are taken, and changes of their names, which are made in this order.

    Attributes:
        only: names, beginnings of names up to a dot, or patterns of what is taken; everything if there are none.
        drop: likewise, of what is left out.
        strip: beginnings of names, up to a dot, that are removed.
        rename: pairs of a pattern and the name that it gets.
    """

    only: Sequence[str] = ()
    drop: Sequence[str] = ()
    strip: Sequence[str] = ()
    rename: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(
        cls, only: Texts, drop: Texts, strip: Texts, rename: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> Selection:
        """A selection of arguments that may be single texts."""
        every, left, prefixes = ((each,) if isinstance(each, str) else (*each,) for each in (only, drop, strip))
        return cls(every, left, prefixes, (*rename.items(),) if isinstance(rename, Mapping) else (*rename,))

    def apply(
        self, name: str, tensors: Mapping[str, T], others: Sequence[str]
    ) -> tuple[dict[str, T], list[str], list[str]]:
        """The tensors that are taken, by their new names; names of other objects that are; and remarks.

        Args:
            name: of the command, for errors.
            tensors: of a checkpoint, by name.
            others: names of its objects that are not tensors.

        Raises:
            ModelError: something is for no tensor, nothing is left, or two tensors would have one name.
        """
        taken, kept, remarks = {**tensors}, [*others], list[str]()
        if self.only:
            found = self._found(name, "only", self.only, tensors, others)
            taken = {each: tensor for each, tensor in taken.items() if each in found}
            kept = [each for each in kept if each in found]
        if self.drop:
            gone = self._found(name, "drop", self.drop, tensors, others)
            taken = {each: tensor for each, tensor in taken.items() if each not in gone}
            kept = [each for each in kept if each not in gone]
        if not taken and tensors:
            raise ModelError(f"{name}: only and drop leave none of {counted(len(tensors), 'tensor')}")
        left = [each for each in tensors if each not in taken]
        more = len(others) - len(kept)
        if left or more:
            said = [counted(len(left), "tensor")] if left else []
            if more:
                said.append(f"{counted(more, 'object')} that {'is not a tensor' if more == 1 else 'are not tensors'}")
            groups = Counter(each.partition(".")[0] for each in left)
            some = ", ".join(f"{count} of {each}" for each, count in groups.most_common(10))
            remarks.append(f"leaves out {' and '.join(said)}, as only and drop say{f': {some}' if some else ''}")
        for prefix in self.strip:
            taken, own = _stripped(name, prefix, taken)
            remarks += own
        for old, new in self.rename:
            taken = _renamed(name, old, new, taken)
        return taken, kept, remarks

    def _found(
        self, name: str, what: str, texts: Sequence[str], tensors: Iterable[str], others: Iterable[str]
    ) -> set[str]:
        """The names that any of the texts is for; each must be for one."""
        every = [*tensors, *others]
        found = set[str]()
        for text in texts:
            own = [each for each in every if _is_for(text, each)] if "*" not in text and "{" not in text else None
            if own is None:
                pattern = _pattern(name, what, text)
                own = [each for each in every if pattern.match(each) is not None]
            if not own:
                raise ModelError(f"{name}: {what} is {show(text)}, which no tensor has{_nearest(text, every)}")
            found.update(own)
        return found


EVERYTHING = Selection()
"""All tensors, under their own names."""


def _is_for(text: str, name: str) -> bool:
    """Whether a text is a name, or its beginning up to a dot."""
    beginning = text.removesuffix(".")
    return name == beginning or name.startswith(f"{beginning}.")


def _pattern(name: str, what: str, text: str) -> Pattern:
    try:
        return Pattern(text)
    except ModelError as error:
        raise ModelError(f"{name}: {what}: {error}") from None


def _nearest(text: str, every: Iterable[str]) -> str:
    """A suggestion for a text that is for nothing."""
    few = [each for each in islice(every, FEW) if len(each) <= FEW]
    beginnings = {each[:at] for each in few for at in (*(k for k, c in enumerate(each) if c == "."), len(each))}
    near = difflib.get_close_matches(text[:FEW].removesuffix("."), sorted(beginnings), 1, 0.3)
    first = sorted({each.partition(".")[0] for each in few})
    return f"; the nearest is {show(near[0])}" if near else f"; names begin with {names(first)}"


def _put(name: str, made: dict[str, T], new: str, tensor: T, what: str) -> None:
    if new in made:
        raise ModelError(f"{name}: {what} makes a second tensor of the name {show(new)}")
    made[new] = tensor


def _stripped(name: str, prefix: str, tensors: Mapping[str, T]) -> tuple[dict[str, T], list[str]]:
    """The tensors without a beginning of their names, and a remark on those that do not have it."""
    beginning = prefix if prefix.endswith(".") else f"{prefix}."
    made, others = dict[str, T](), list[str]()
    for each, tensor in tensors.items():
        if each.startswith(beginning) and len(each) > len(beginning):
            _put(name, made, each.removeprefix(beginning), tensor, f"strip {show(prefix)}")
        else:
            others.append(each)
            _put(name, made, each, tensor, f"strip {show(prefix)}")
    if len(others) == len(tensors):
        raise ModelError(f"{name}: strip is {show(prefix)}, with which no name begins{_nearest(prefix, tensors)}")
    said = f"keeps the names of {counted(len(others), 'tensor')} that do not begin with {show(beginning)}"
    return made, [f"{said}: {names(others)}"] if others else []


def _renamed(name: str, old: str, new: str, tensors: Mapping[str, T]) -> dict[str, T]:
    pattern, to, made, count = _pattern(name, "rename", old), _pattern(name, "rename", new), dict[str, T](), 0
    for each, tensor in tensors.items():
        if (parts := pattern.match(each)) is None:
            _put(name, made, each, tensor, f"rename {show(old)}")
            continue
        count += 1
        try:
            given = to.filled(parts)
        except ModelError as error:
            raise ModelError(f"{name}: rename {show(old)}: {error}") from None
        _put(name, made, given, tensor, f"rename {show(old)}")
    if not count:
        raise ModelError(f"{name}: rename is {show(old)}, which no tensor is called{_nearest(old, tensors)}")
    return made
