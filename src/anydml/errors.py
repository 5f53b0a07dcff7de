"""The errors of anydml, each a `ValueError` that says where it happened.

`DescError` is raised before any buffer is touched, `BindingError` before anything is written, `ModelError` before any
command of a model file runs, and `FuseError` while a function is traced.
"""

from __future__ import annotations


class AnydmlError(ValueError):
    """Base of the errors.

    Args:
        message: one line for a person: operator, field, values, and what to do.
        operator: the operator's name, such as ``"DML_SPLIT"``, where one is known.
        field: the field's name as DirectML writes it, such as ``"OutputTensors[1].Sizes"``, where one is known.
        rule: the rule that was broken, as a sentence, where one is known. It ends the text of an error whose message
            does not say what to do.
    """

    operator: str | None
    field: str | None
    rule: str | None

    def __init__(
        self, message: str, operator: str | None = None, field: str | None = None, rule: str | None = None
    ) -> None:
        # What super().__init__ does; torch.compile shows the message of an error that is made like this.
        self.args = (_told(message, rule),)
        self.operator = operator
        self.field = field
        self.rule = rule


class DescError(AnydmlError):
    """An operator desc, or the arguments of a function, break a rule of the operator's document.

    Examples:
        >>> try:
        ...     dml.split(np.arange(5), 2)
        ... except dml.DescError as error:
        ...     print(error.field, error.rule, sep=": ")
        sizes_or_sections: equal parts must divide the axis
    """


class DescTypeError(DescError, TypeError):
    """A field of a desc is not even of its type; whoever expects Python's TypeError gets one."""


class BindingError(AnydmlError):
    """A buffer does not fit its tensor, or overlaps where it must not. Nothing was written.

    Examples:
        >>> x = np.arange(4)
        >>> try:
        ...     dml.flip(x, out=x)
        ... except dml.BindingError as error:
        ...     print(error)
        flip: out overlaps x in memory: an output must overlap no input and no other output
    """


class ModelError(AnydmlError):
    """A model file cannot be read, or says something that cannot be done.

    Args:
        message: as for `AnydmlError`.
        operator: likewise.
        field: a path in the file.
        rule: as for `AnydmlError`.
        line: the line of a JSON file that the error is about, from 1, where one is known.

    Examples:
        >>> try:
        ...     dml.dxdispatch.load("none.json")
        ... except dml.ModelError as error:
        ...     print(error)
        none.json: there is no such file
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


class FuseError(AnydmlError):
    """A function cannot be fused: it computes, decides by values, writes, or calls what is not known to move only.

    Examples:
        >>> try:
        ...     dml.fuse(lambda x: x + 1)(np.arange(3))
        ... except dml.FuseError as error:
        ...     print(error.rule)
        anydml moves elements and does not compute
    """


class FuseIndexError(FuseError, IndexError):
    """The same for an index or an axis out of range; whoever expects Python's IndexError gets one."""


class FuseAttributeError(FuseError, AttributeError):
    """The same for what a traced array lacks; whoever expects Python's AttributeError gets one."""


def _told(message: str, rule: str | None) -> str:
    """A message with the rule after it, unless it says that already, or a next step: after a second colon, or ``;``."""
    has_step = "; " in message or ": " in message.partition(": ")[2]
    return message if rule is None or has_step or rule in message else f"{message}: {rule}"
