"""Machine code made callable by LLVM's loader, for Python and for other compiled code."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding

from anydml.engines.cpu.c_functions import FAST_CALL, MethodDef, address, builtin
from anydml.engines.cpu.kernels.kept import MachineCode

FOR_PYTHON = ".python"
"""What follows a kernel's name in that of the function that Python calls."""

NUMBER, WORD, ERROR, SAVE, RESTORE = (
    "PyLong_FromUnsignedLongLong",
    "PyLong_AsUnsignedLongLongMask",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
"""Functions of Python's that such functions call."""


class Kernel:
    """A compiled function of 64-bit words. It stays loaded until the process ends.

    Args:
        entry: the address of its machine code, a function of C.
        run: what Python calls with integers; gives an integer.
        kept: what it needs.
    """

    __slots__ = ("_kept", "entry", "run")

    def __init__(self, entry: int, run: Any, kept: object) -> None:
        self.entry, self.run, self._kept = entry, run, kept

    def __call__(self, *words: int) -> int:
        """The function's value."""
        found: int = self.run(*words)
        return found


class _Loader:
    """One of LLVM's, and the names that it knows. It is never taken down: threads may be in its code until the end."""

    def __init__(self) -> None:
        prepare()
        machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self.names: set[str] = set()


_loaders: list[_Loader] = []

_methods: list[MethodDef] = []
"""What functions of C are made of, for as long as anybody may call one."""


def load(code: MachineCode) -> Kernel:
    """Make machine code callable.

    Raises:
        RuntimeError: it has not the functions that it should have.
    """
    loader = next((each for each in _loaders if code.name not in each.names), None)
    if loader is None:
        # What is compiled anew has the name of what was there before.
        loader = _Loader()
        _loaders.append(loader)
    loader.names.add(code.name)
    loader.engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code.content))
    loader.engine.finalize_object()
    entry, for_python = (loader.engine.get_function_address(code.name + end) for end in ("", FOR_PYTHON))
    if not entry or not for_python:
        raise RuntimeError(f"{code.name} is not in its machine code")
    method = MethodDef(code.name.encode(), for_python, FAST_CALL, None)
    _methods.append(method)
    return Kernel(entry, builtin(method, None), loader)


@cache
def prepare() -> None:
    """Let LLVM know this machine, and Python's functions."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name in (NUMBER, WORD, ERROR, SAVE, RESTORE):
        binding.add_symbol(name, address(name))
