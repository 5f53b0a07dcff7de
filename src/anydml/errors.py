"""The exceptions of anydml, each a `ValueError` that names where the error is.

`DescError` is raised before any buffer is touched, `BindingError` before anything is written, `ModelError` before any
command of a model file runs, and `FuseError` while a function is traced.
"""

from __future__ import annotations

import os


class AnydmlError(ValueError):
    """Base class of anydml's exceptions. Wrong types and indices also raise Python's own, as functions say.

    Args:
        message: one line: operator, field, values, and how to fix the call.
        operator: the operator's name, such as ``"DML_SPLIT"``, if known.
        field: the field's name in DirectML's spelling, such as ``"OutputTensors[1].Sizes"``, if known.
        rule: the rule that was broken, as a sentence, if known. It is appended to messages that suggest no fix.

    Examples:
        >>> try:
        ...     dml.flip(np.arange(4), axis=3)
        ... except dml.AnydmlError as error:
        ...     print(error.operator, error.field)
        flip axis
    """

    operator: str | None
    field: str | None
    rule: str | None

    def __init__(
        self, message: str, operator: str | None = None, field: str | None = None, rule: str | None = None
    ) -> None:
        # Equivalent to super().__init__, but torch.compile can show the message.
        self.args = (_with_rule(message, rule),)
        self.operator = operator
        self.field = field
        self.rule = rule


class DescError(AnydmlError):
    """An operator desc or a function's arguments break a rule of the operator's document.

    Examples:
        >>> try:
        ...     dml.split(np.arange(5), 2)
        ... except dml.DescError as error:
        ...     print(error.field, error.rule, sep=": ")
        sizes_or_sections: equal parts must divide the axis
    """


class DescTypeError(DescError, TypeError):
    """A field of a desc has the wrong type. Also a `TypeError`."""


class BindingError(AnydmlError):
    """A buffer, or an option such as the memory of a plan, does not fit, or buffers overlap. Nothing was written.

    Examples:
        >>> x = np.arange(4)
        >>> try:
        ...     dml.flip(x, out=x)
        ... except dml.BindingError as error:
        ...     print(error)
        flip: out overlaps x in memory: an output must overlap no input and no other output
    """


class ModelError(AnydmlError):
    """A model file cannot be read, or requests something impossible.

    Args:
        message: as for `AnydmlError`.
        operator: as for `AnydmlError`.
        field: a path in the file.
        rule: as for `AnydmlError`.
        line: the line number in a JSON file, from 1, if known.

    Examples:
        >>> try:
        ...     dml.dxdispatch.load("none.json")
        ... except dml.ModelError as error:
        ...     print(error)
        none.json: there is no such file or folder
    """

    line: int | None

    def __init__(
        self,
        message: str,
        operator: str | None = None,
        field: str | None = None,
        rule: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message, operator, field, rule)
        self.line = line


PATH_NOT_FOUND = "there is no such file or folder"
"""What is said of a path where nothing is."""


def nothing_at(path: str | os.PathLike[str]) -> str:
    """Return the text of an error for a path that does not exist, or for a symbolic link that leads nowhere."""
    return "is a symbolic link that leads nowhere" if os.path.islink(path) else PATH_NOT_FOUND


class FuseError(AnydmlError):
    """A function cannot be fused: it computes, branches on values, mutates, or calls an unsupported function.

    Attributes:
        reason: the message without the caller's line.
        argument: the position or keyword of an argument without dimensions whose number is needed; None if none is.

    Examples:
        >>> try:
        ...     dml.fuse(lambda x: x + 1)(np.arange(3))
        ... except dml.FuseError as error:
        ...     print(error.rule)
        anydml moves elements and does not compute
    """

    reason: str = ""
    argument: int | str | None = None


class FuseIndexError(FuseError, IndexError):
    """An index or axis of a traced array is out of range. Also an `IndexError`."""


class FuseTypeError(FuseError, TypeError):
    """A traced array without dimensions has no length. Also a `TypeError`."""


class FuseAttributeError(FuseError, AttributeError):
    """A traced array has no such attribute. Also an `AttributeError`."""


def _with_rule(message: str, rule: str | None) -> str:
    """Append the rule, unless the message contains it or suggests a fix (after a second colon, or after ``;``)."""
    has_step = "; " in message or ": " in message.partition(": ")[2]
    return message if rule is None or has_step or rule in message else f"{message}: {rule}"
