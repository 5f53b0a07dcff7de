"""Explanations of programs: text, pictures, pages, and output in notebooks.

They are made from programs and their moves alone, so the same code explains operators, graphs and fused functions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anydml.text import a, escape_controls

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.explain.section import Section


class Explanation:
    """An explanation of one or more programs: ``print`` shows it as text, a notebook as pictures.

    Attributes:
        title: the title of the page.
        sections: one per program.
        notes: lines after the sections, such as a list of omissions.

    Examples:
        >>> explanation = dml.explain(dml.fuse(lambda x: x[::-1]), np.arange(3))
        >>> explanation.save("flip.html")
    """

    def __init__(self, title: str, sections: Sequence[Section], notes: Sequence[str] = ()) -> None:
        self.title = title
        self.sections = tuple(sections)
        self.notes = tuple(notes)

    def svg(self, number: int = 0) -> str:
        """Draw one section: every element if it is small, else boxes to scale.

        Raises:
            IndexError: there is no such section.
        """
        from anydml.explain.page import drawing

        return drawing(self.sections[number])

    def html(self) -> str:
        """Return a self-contained page with pictures, tables and compiled programs. It loads nothing."""
        from anydml.explain.page import page

        return page(self.title, self.sections, self.notes)

    def save(self, path: str | Path) -> None:
        """Write the page, or the picture of the first section, depending on the suffix: ``.html`` or ``.svg``.

        Raises:
            ValueError: the suffix is another one.
            IndexError: there are no sections.
            ModelError: the file cannot be written.
        """
        from pathlib import Path

        from anydml.errors import ModelError
        from anydml.files.folder import write_whole
        from anydml.files.location import Location
        from anydml.paths import path_text

        makers = {".html": self.html, ".svg": self.svg}
        target = Path(path_text("save", path))
        if not target.parent.is_dir():
            raise ModelError(f"{path}: there is no folder {target.parent}")
        make = makers.get(target.suffix.lower())
        if make is None:
            raise ValueError(f"{path} ends in {target.suffix!r}, but pages end in .html and pictures in .svg")
        text = make().encode("utf-8")
        write_whole(target, lambda file: file.write(text), Location(str(path)))

    def __str__(self) -> str:
        from anydml.explain.terminal import as_text

        return "\n\n".join([*map(as_text, self.sections), *map(escape_controls, self.notes)])

    def __repr__(self) -> str:
        return f"Explanation({self.title})"

    def _repr_html_(self) -> str:
        from anydml.explain.page import fragment

        return fragment(self.sections, self.notes)

    def _repr_svg_(self) -> str | None:
        return self.svg() if len(self.sections) == 1 else None


def explain(subject: Any, *arguments: Any, device: str = "cpu", **keywords: Any) -> Explanation:
    """Explain what moves where.

    Args:
        subject: an operator desc, a compiled or bound operator, a function (explained as `fuse` compiles it), a program
            or an object whose method `program` returns one, a plan over files, or a model that `dxdispatch.load` or
            `anydml.onnx.load` returned.
        arguments: for a desc, a compiled operator or a program: arrays for its first inputs, whose values are shown
            and whose indices are followed; for a function: its arguments.
        device: the device to compile for, whose kernels are named; an empty string compiles nothing. A compiled or
            bound operator has its own device.
        keywords: keyword arguments of a function, or sizes for the named dimensions of an ONNX model.

    Returns:
        An explanation, which can be printed, displayed in a notebook, and saved.

    Raises:
        DescError: a desc breaks a rule.
        ModelError: a model cannot be run, or has operators that anydml does not have.
        FuseError: a function does more than move.
        ValueError: arrays do not fit, or the device does not exist.
        TypeError: objects of this type cannot be explained.

    Examples:
        >>> import anydml as dml
        >>> x = dml.TensorDesc("FLOAT32", [2, 3])
        >>> print(dml.explain(dml.SliceOperatorDesc(x, dml.TensorDesc("FLOAT32", [2, 1]), [0, 1], [2, 1], [1, 1])))
        SliceOperatorDesc(FLOAT32 [2, 3] → FLOAT32 [2, 1], offsets [0, 1], sizes [2, 1], strides [1, 1])
          #0 input InputTensor: float32 [2, 3], 24 bytes
          #1 output OutputTensor: float32 [2, 1], 8 bytes
          2 of 4 B: #1[4·c0] = #0[4 + 12·c0]
        DML_SLICE on cpu: 8 B to read, 8 B to write, 1 thread
          elements: 1 move in 1 part
            2 of 4 B: #1[4·c0] = #0[4 + 12·c0]
    """
    from inspect import isroutine

    from anydml.device import BoundOperator, CompiledOperator
    from anydml.dxdispatch.model import Model
    from anydml.explain import subjects
    from anydml.moves import Program
    from anydml.operators.base import OperatorDesc
    from anydml.tracing.fused import Fused, fuse

    is_called = isroutine(subject) and (arguments or keywords)
    if isinstance(subject, Fused) or is_called:
        return _explain_section(subjects.of_fused(fuse(subject) if is_called else subject, arguments, keywords))
    if type(subject).__name__ == "ModelProto" and not arguments:
        return _explain_all("ONNX model", subjects.of_onnx(subject, device, keywords))
    if keywords:
        names = ", ".join(keywords)
        raise TypeError(f"explain takes keywords for functions and ONNX models only, not {names}")
    if isinstance(subject, OperatorDesc):
        return _explain_section(subjects.of_desc(subject, arguments, device))
    if isinstance(subject, CompiledOperator):
        return _explain_section(subjects.of_desc(subject.desc, arguments, subject.device.name, str(subject)))
    program = subject.program() if callable(getattr(subject, "program", None)) else subject
    if isinstance(program, Program):
        return _explain_section(subjects.of_program(program, arguments, device))
    if isroutine(subject):
        raise TypeError("explain takes a function with its arguments: dml.explain(function, x, …)")
    if arguments:
        raise TypeError(f"explain takes arrays for descs, operators and programs, not for {a(type(subject).__name__)}")
    if isinstance(subject, BoundOperator):
        return _explain_section(subjects.of_bound(subject.desc, subject._operands, subject))
    if isinstance(subject, Model):
        return _explain_all(str(subject.location), subjects.of_model(subject, device))
    if isinstance(getattr(subject, "program", None), Program):
        return _explain_section(subjects.of_plan(subject))
    message = (
        f"explain takes a desc, an operator, a function, a program, a plan or a model, not {type(subject).__name__}"
    )
    if isinstance(subject, str | os.PathLike):
        message += "; anydml.dxdispatch.load reads a model file"
    raise TypeError(message)


def _explain_section(section: Section) -> Explanation:
    return Explanation(section.title, [section])


def _explain_all(title: str, items: Any) -> Explanation:
    from anydml.explain import subjects

    sections, notes = subjects.first_sections(items)
    return Explanation(title, sections, notes if sections or notes else ["Nothing moves."])


__all__ = ["Explanation", "explain"]
