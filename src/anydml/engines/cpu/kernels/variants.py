"""Kernels that differ in constants: typed once, compiled for each set of constants from one intermediate code.

Before LLVM begins, Numba takes three quarters of the time that a kernel takes to compile. So where a kernel depends on
constants, its code says a *blank*: a call of a function that each variant defines for itself, and that LLVM puts in the
place of the call before it does anything else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler import CompilerBase, compile_extra, compile_result
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.environment import Environment
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from anydml.engines.cpu.kernels.ir import I64, literal_value

Filling = int | Callable[[Any, list[Any]], Any]
"""What a blank stands for: a number, or what builds its code from LLVM's builder and the arguments."""

PREFIX = "blank."
"""Of the names of blanks in intermediate code."""

_now: dict[str, Filling] | None = None
"""What blanks are filled with where they stand; None while a template is made. Compilers work one at a time."""


@intrinsic
def constant(typing: Any, name: Any) -> Any:
    """A number of the variant."""
    return types.uint64(name), blank(literal_value(name))


def blank(name: str) -> Callable[[Any, Any, Any, list[Any]], Any]:
    """What generates the code of an intrinsic that each variant defines: of 64-bit words, to a word or nothing."""

    def generate(context: Any, builder: Any, kind: Any, arguments: list[Any]) -> Any:
        words = [value for value in arguments if value.type == I64]
        if _now is not None:
            result = _filled(_now[name], builder, words)
        else:
            function = builder.module.globals.get(PREFIX + name)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(I64, [I64] * len(words)), PREFIX + name)
            result = builder.call(function, words)
        return context.get_dummy_value() if kind.return_type == types.void else result

    return generate


def _filled(filling: Filling, builder: Any, arguments: list[Any]) -> Any:
    if isinstance(filling, int):
        return ir.Constant(I64, filling)
    result = filling(builder, arguments)
    return ir.Constant(I64, 0) if result is None else result


def one_of(numbers: Sequence[int]) -> Filling:
    """What a blank of one argument stands for: the number of that place."""

    def generate(builder: Any, arguments: list[Any]) -> Any:
        found = ir.Constant(I64, numbers[0])
        for place, number in enumerate(numbers[1:], 1):
            is_here = builder.icmp_unsigned("==", arguments[0], ir.Constant(I64, place))
            found = builder.select(is_here, ir.Constant(I64, number), found)
        return found

    return generate


@contextmanager
def filled(fillings: Mapping[str, Filling]) -> Iterator[None]:
    """Within this, what is compiled has its blanks filled."""
    global _now  # noqa: PLW0603
    before, _now = _now, dict(fillings)
    try:
        yield
    finally:
        _now = before


@dataclass(frozen=True)
class _Template:
    """A kernel's intermediate code, optimised function by function, Numba's description of it, and what it calls."""

    text: str
    description: Any
    libraries: tuple[Any, ...]


_templates: dict[CodeType, _Template] = {}


def _template(state: Any) -> _Template:
    """The template of the function that is compiled, made when it is needed first."""
    global _now  # noqa: PLW0603
    code = state.func_id.func.__code__
    if (known := _templates.get(code)) is not None:
        return known
    flags = state.flags.copy()
    flags.no_compile = True
    before, _now = _now, None
    try:
        made = compile_extra(
            state.typingctx, state.targetctx, state.func_id.func, state.args, state.return_type, flags, {}
        )
    finally:
        _now = before
    libraries = tuple(made.library._linking_libraries)
    module = binding.parse_assembly(made.library.get_llvm_str())
    # Numba does this with all that is added to a library; here once for all variants.
    made.library._optimize_functions(module)
    _templates[code] = _Template(str(module), made.fndesc, libraries)
    return _templates[code]


@register_pass(mutates_CFG=True, analysis_only=False)
class _FillTemplate(LoweringPass):
    """All that is left of compiling a variant."""

    _name = "anydml_fill_template"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Make what Numba's own passes would have made."""
        template, context = _template(state), state.targetctx
        name = state.func_id.func_name
        description = copy.copy(template.description)
        library = context.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        module = binding.parse_assembly(template.text)
        # One process has one table of names for all that is compiled.
        names = {part.name: f"{part.name}.{name}" for part in module.functions if not part.is_declaration}
        names[description.env_name] = f"{description.env_name}.{name}"
        for part in (*module.functions, *module.global_variables):
            part.name = names.get(part.name, part.name)
        description.mangled_name = names[description.mangled_name]
        description.env_name = names[description.env_name]
        # They are linked into the library, which takes them.
        definitions = _definitions(library.create_ir_module(f"{PREFIX}{name}"), module)
        library._final_module.link_in(module)
        library.add_ir_module(definitions)
        for other in template.libraries:
            library.add_linking_library(other)
        environment = Environment.from_fndesc(description)
        state.library = library
        state.cr = compile_result(
            typing_context=state.typingctx,
            target_context=context,
            entry_point=context.get_executable(library, description, environment),
            typing_error=None,
            type_annotation=None,
            library=library,
            call_helper=None,
            signature=signature(state.return_type, *state.args),
            objectmode=False,
            lifted=(),
            fndesc=description,
            environment=environment,
            metadata=state.metadata,
            reload_init=[],
        )
        return True


def _definitions(module: Any, template: Any) -> Any:
    """Define all blanks of a template in a module; it must not be left to the linker, which ends the process."""
    for declared in template.functions:
        if not declared.name.startswith(PREFIX):
            continue
        assert _now is not None
        filling = _now[declared.name.removeprefix(PREFIX)]
        count = len(list(declared.arguments))
        function = ir.Function(module, ir.FunctionType(I64, [I64] * count), declared.name)
        function.linkage = "linkonce_odr"
        function.attributes.add("alwaysinline")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(_filled(filling, builder, list(function.args)))
    return module


class VariantCompiler(CompilerBase):
    """What Numba's `njit` compiles variants by, within `filled`."""

    def define_pipelines(self) -> list[Any]:
        """The passes: one, which has a template made if there is none."""
        passes = PassManager("anydml_variant")
        passes.add_pass(_FillTemplate, "fill a template")
        passes.finalize()
        return [passes]
