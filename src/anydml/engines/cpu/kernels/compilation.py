"""From a kernel's Python function to machine code: typed by Numba, filled in, optimised by LLVM.

A kernel with blanks (see `blanks`) is typed once, and compiled for each set of constants from one intermediate code.
Importing this module imports Numba.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import types
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from anydml.engines.cpu.kernels.blanks import PREFIX, Filling, code_of_blank, filled
from anydml.engines.cpu.kernels.ir import I64
from anydml.engines.cpu.kernels.kept import MachineCode
from anydml.engines.cpu.kernels.language import OPTIONS, put_real
from anydml.engines.cpu.kernels.loading import (
    ERROR,
    FOR_PYTHON,
    NUMBER,
    RESTORE,
    SAVE,
    WORD,
    Kernel,
    prepare,
)
from anydml.engines.cpu.kernels.passes import KernelCompiler


@dataclass(frozen=True)
class _Template:
    """A kernel's intermediate code, optimised function by function, Numba's description of it, and what it calls."""

    text: str
    description: Any
    libraries: tuple[Any, ...]


_templates: dict[CodeType, _Template] = {}
"""Of kernels with blanks."""


def machine_code(function: FunctionType, name: str, blanks: Mapping[str, Filling], nogil: bool) -> MachineCode:
    """Compile a kernel.

    Args:
        function: of 64-bit words, to one.
        name: its machine code's.
        blanks: what its blanks stand for.
        nogil: whether other threads of Python go on meanwhile.
    """
    put_real(function)
    prepare()
    with global_compiler_lock:
        template = _templates.get(function.__code__) or _typed(function)
        if blanks:
            _templates[function.__code__] = template
        library = _target().codegen().create_library(name)
        library.enable_object_caching()
        code = binding.parse_assembly(template.text)
        # One process has one table of names for all that Numba compiles.
        mangled = f"{template.description.mangled_name}.{name}"
        own = [*code.functions, *code.global_variables]
        for part in own:
            if part.name in (template.description.mangled_name, template.description.env_name):
                part.name = f"{part.name}.{name}"
        definitions = library.create_ir_module(f"{PREFIX}{name}")
        _define_blanks(definitions, code, blanks)
        described = copy.copy(template.description)
        described.mangled_name = mangled
        _define_entries(definitions, described, name, nogil)
        library._final_module.link_in(code)
        library.add_ir_module(definitions)
        library._final_module.get_function(mangled).linkage = "internal"
        for other in template.libraries:
            library.add_linking_library(other)
        library.finalize()
        _, _, (content, _) = library.serialize_using_object_code()
    return MachineCode(name, content)


def plain(function: FunctionType, blanks: Mapping[str, Filling], nogil: bool) -> Kernel:
    """Compile a kernel for this process alone, with nothing of Numba's but what it documents (see `machine_code`)."""
    put_real(function)
    words = [types.uint64] * function.__code__.co_argcount
    with filled(blanks):
        code: Any = numba.cfunc(types.uint64(*words), error_model=OPTIONS["error_model"])(function)
    form = (ctypes.CFUNCTYPE if nogil else ctypes.PYFUNCTYPE)(*[ctypes.c_uint64] * (1 + len(words)))
    return Kernel(code.address, form(code.address), code)


def _target() -> Any:
    return cpu_target.target_context


def _typed(function: FunctionType) -> _Template:
    """The template of a function."""
    cpu_target.typing_context.refresh()
    _target().refresh()
    flags: Any = Flags()
    cpu_target.options.parse_as_flags(flags, OPTIONS)
    flags.no_compile = True
    words = (types.uint64,) * function.__code__.co_argcount
    with filled(None):
        made = compile_extra(
            cpu_target.typing_context,
            _target(),
            function,
            words,
            types.uint64,
            flags,
            {},
            pipeline_class=KernelCompiler,
        )
    libraries = tuple(made.library._linking_libraries)
    module = binding.parse_assembly(made.library.get_llvm_str())
    # Numba does this with all that is added to a library; here once for all variants.
    made.library._optimize_functions(module)
    return _Template(str(module), made.fndesc, libraries)


def _define_blanks(module: Any, template: Any, blanks: Mapping[str, Filling]) -> None:
    """Define all blanks of a template in a module; it must not be left to the linker, which ends the process."""
    for declared in template.functions:
        if declared.name.startswith(PREFIX):
            filling = blanks[declared.name.removeprefix(PREFIX)]
            function = ir.Function(module, _of_words(len(list(declared.arguments))), declared.name)
            function.linkage = "linkonce_odr"
            function.attributes.add("alwaysinline")
            builder = ir.IRBuilder(function.append_basic_block())
            builder.ret(code_of_blank(filling, builder, list(function.args)))


def _define_entries(module: Any, description: Any, name: str, nogil: bool) -> None:
    """Define a kernel's own function of C, and the one that Python calls: with the addresses of a count of integers."""
    kinds, convention = description.argtypes, _target().call_conv
    called = ir.Function(module, convention.get_function_type(description.restype, kinds), description.mangled_name)
    entry = ir.Function(module, _of_words(len(kinds)), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    _, result = convention.call_function(builder, called, description.restype, kinds, entry.args)
    builder.ret(result)

    function = ir.Function(module, _of_words(3), name + FOR_PYTHON)
    builder = ir.IRBuilder(function.append_basic_block())
    zero = ir.Constant(I64, 0)
    _, given, count = function.args
    with builder.if_then(builder.icmp_unsigned("!=", count, ir.Constant(I64, len(kinds))), likely=False):
        builder.ret(zero)
    python = {one: ir.Function(module, _of_words(1), one) for one in (NUMBER, WORD, RESTORE)}
    python |= {one: ir.Function(module, _of_words(0), one) for one in (ERROR, SAVE)}
    items = builder.inttoptr(given, I64.as_pointer())
    items = [builder.load(builder.gep(items, [ir.Constant(I64, k)])) for k in range(len(kinds))]
    words = [builder.call(python[WORD], [item]) for item in items]
    failed = builder.icmp_unsigned("!=", builder.call(python[ERROR], []), zero)
    with builder.if_then(failed, likely=False):
        builder.ret(zero)
    state = builder.call(python[SAVE], []) if nogil else None
    result = builder.call(entry, words, attrs=("noinline",))
    if nogil:
        builder.call(python[RESTORE], [state])
    builder.ret(builder.call(python[NUMBER], [result]))


def _of_words(count: int) -> Any:
    return ir.FunctionType(I64, [I64] * count)
