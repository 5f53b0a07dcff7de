"""Less usual states that a function reads: results are those of the function itself, whatever changes."""

import collections
import ctypes
import functools
import glob
import io
import mmap
import multiprocessing
import os
import threading
import types
import weakref
import xml.etree.ElementTree
from configparser import ConfigParser

import numpy as np
import pytest
import safetensors.numpy
from tracing.test_surroundings import check, nothing

import anydml as dml

torch = pytest.importorskip("torch")


def counting():
    counting.count += 1
    return counting.count


def made(read, change):
    """Return what makes a function of x that begins at what is read, and what changes that."""
    return lambda: (lambda x: x[read() :], change)


def late(change):
    """Return what does not change anything before the fifth call."""
    return lambda k: change(k) if k > 3 else None


def of_class(**attributes):
    """Return a new class and an object of it."""
    kind = type("Kind", (), attributes)
    return kind, kind()


def class_cases():
    """Yield cases of methods, classes and what they have."""
    kind, each = of_class(number=lambda self: 0)
    yield "a method that is replaced", lambda: +each.number(), lambda k: setattr(kind, "number", lambda self: k)
    _, each1 = of_class(number=lambda self: 0)
    yield "a method of an object", lambda: +each1.number(), late(lambda k: setattr(each1, "number", lambda: k))
    kind2, each2 = of_class(number=property(lambda self: 0))
    yield "a property", lambda: each2.number, lambda k: setattr(kind2, "number", property(lambda self: k))
    kind3, _ = of_class(number=staticmethod(lambda: 0))
    yield "a static method", lambda: +kind3.number(), lambda k: setattr(kind3, "number", staticmethod(lambda: k))
    kind4, each4 = of_class(number=1)
    kind5, _ = of_class(number=2)
    yield "a class", lambda: each4.number, lambda k: setattr(each4, "__class__", (kind4, kind5)[k % 2])
    _, each6 = of_class(__getattr__=lambda self, name: 0)
    yield "an attribute that a method gave", lambda: each6.number, late(lambda k: setattr(each6, "number", k))
    kind7, _ = of_class()
    yield "hasattr of a class", lambda: hasattr(kind7, "number"), late(lambda k: setattr(kind7, "number", k))
    box = [0]
    kind8, _ = of_class(__new__=lambda cls: box[0])
    yield "what makes an object", kind8, lambda k: box.__setitem__(0, k)

    class Table(dict):
        number = 0

        def __missing__(self, name):
            return self.number

    table = Table()
    yield "an item that is missing", lambda: table["a"], lambda k: setattr(Table, "number", k)
    default = collections.defaultdict(lambda: box[0])
    yield "an item that is made", lambda: (default["a"], default.clear())[0], lambda k: box.__setitem__(0, k)
    for base in (str, int, float, np.ndarray):
        of_base = type("Sub", (base,), {})(*((2,) if base is np.ndarray else ()))
        name = f"an attribute of a {base.__name__}"
        yield name, lambda each=of_base: getattr(each, "number", 0), lambda k, each=of_base: setattr(each, "number", k)


def missing_cases():
    """Yield cases of what is not there at first."""
    kind, each = of_class()

    def attribute():
        try:
            return each.number
        except AttributeError:
            return 0

    yield "an attribute", attribute, late(lambda k: setattr(each, "number", k))

    def of_a_class():
        try:
            kind.count += 1
        except AttributeError:
            kind.count = 0
        return kind.count

    yield "a counter of a class", of_a_class, nothing

    def variable():
        try:
            return NEW_NUMBER
        except NameError:
            return 0

    yield "a variable", variable, late(lambda k: globals().__setitem__("NEW_NUMBER", k))

    def own():
        own.number = getattr(own, "number", 0) + 1
        return own.number

    yield "an attribute of a function", own, nothing


def function_cases():
    """Yield cases of functions and what stands for them."""

    def positional(number=0):
        return number

    def named(*, number=0):
        return number

    yield "defaults", positional, lambda k: setattr(positional, "__defaults__", (k,))
    yield "named defaults", named, lambda k: named.__kwdefaults__.update(number=k)
    wrappers = {"lru_cache": functools.lru_cache(positional), "partial": functools.partial(positional)}
    for name, wrapper in wrappers.items():
        wrapper.number = 0
        yield (
            f"an attribute of a {name}",
            lambda each=wrapper: each.number,
            lambda k, each=wrapper: setattr(each, "number", k),
        )
    generic = functools.singledispatch(lambda each: 0)
    yield "what a generic function calls", lambda: generic(0), lambda k: generic.register(int)(lambda each: k)
    counting.count = 0
    yield "a counter of a helper", counting, nothing


def object_cases():
    """Yield cases of objects that are not Python's own."""
    names = {"a": 0}
    values = names.values()
    yield "a view of a dict", lambda: next(iter(values)), lambda k: names.update(a=k)
    content = bytearray(2)
    view = memoryview(content)
    yield "a view of bytes", lambda: view[0], lambda k: content.__setitem__(0, k)
    array = np.zeros(3, int)
    yield "an array", lambda: int(array[0]), lambda k: array.__setitem__(0, k)
    tensor = torch.zeros(1000, dtype=torch.int64)
    yield "a tensor", lambda: int(tensor[0]), lambda k: tensor.__setitem__(0, k)
    named = tensor.as_subclass(type("Named", (torch.Tensor,), {}))
    named.number = 0
    yield "an attribute of a tensor", lambda: named.number, lambda k: setattr(named, "number", k)
    module = torch.nn.Module()
    module.number = torch.nn.Parameter(torch.zeros(1))
    yield "a parameter", lambda: int(module.number), lambda k: torch.nn.init.constant_(module.number, k)
    number = ctypes.c_int(0)
    yield "a number of C", lambda: number.value, lambda k: setattr(number, "value", k)
    shared = multiprocessing.Value("i", 0)
    yield "a shared number", lambda: shared.value, lambda k: setattr(shared, "value", k)
    mapped = mmap.mmap(-1, 8)
    yield "mapped memory", lambda: mapped[0], lambda k: mapped.__setitem__(0, k)
    key = types.SimpleNamespace()
    weak = weakref.WeakValueDictionary()
    held = []

    def hold(k):
        held.append(type("Number", (), {"number": k})())
        weak["a"] = held[-1]

    yield "a weak dict", lambda: weak["a"].number, hold
    event = threading.Event()
    yield "an event", lambda: int(event.is_set()), lambda k: event.set() if k % 2 else event.clear()
    settings = ConfigParser()
    settings["a"] = {"number": "0"}
    yield "settings", lambda: int(settings["a"]["number"]), lambda k: settings["a"].update(number=str(k))
    element = xml.etree.ElementTree.Element("a")
    element.text = "0"
    yield "an element of a tree", lambda: int(element.text), lambda k: setattr(element, "text", str(k))
    lines = io.StringIO("\n".join(map(str, range(30))))
    yield "a file that is read", lambda: int(lines.readline()), nothing
    folders = ["/", "/usr"]
    yield "the folder", lambda: len(os.getcwd()), lambda k: os.chdir(folders[k % 2])
    del key


ALL = [class_cases, missing_cases, function_cases, object_cases]
NAMES = [(cases, name) for cases in ALL for name, *_ in cases()]


@pytest.mark.parametrize(("cases", "name"), NAMES, ids=[name for _, name in NAMES])
def test_states_are_noticed(cases, name, monkeypatch):
    globals().pop("NEW_NUMBER", None)
    monkeypatch.chdir(os.getcwd())

    def make():
        globals().pop("NEW_NUMBER", None)
        read, change = next((read, change) for each, read, change in cases() if each == name)
        return made(read, change)()

    check(make)


def test_attributes_of_fused_functions_are_noticed():
    @dml.fuse
    def cropped(x):
        count()
        return x[cropped.start : cropped.start + 2]

    def count():
        cropped.start += 1

    cropped.start = 0
    outer = dml.fuse(lambda x: inner(x)[::-1])
    inner = dml.fuse(lambda x: x[inner.start :][:2])
    for k in range(9):
        assert cropped(np.arange(20)).tolist() == [k + 1, k + 2]
        inner.start = k
        assert outer(np.arange(20)).tolist() == [k + 1, k]


def test_the_default_dtype_of_pytorch_is_noticed():
    @dml.fuse
    def repeated(x):
        rows = torch.zeros(2, 3)
        rows[:] = x
        return rows

    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            assert repeated(torch.ones(3, dtype=dtype)).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "each",
    [
        threading.Lock(),
        types.SimpleNamespace(a=1),
        open(os.devnull, "w"),  # noqa: SIM115
        range(3),
        types.MethodType(functools.partial(max), 1),
    ],
)
def test_what_does_not_change_is_traced_once(each):
    def tail(x):
        return x[bool(each) :]

    fused = dml.fuse(tail)
    for k in range(4, 12):
        fused(np.arange(k))
    assert fused.counts.traces == 1


def read(path):
    with io.FileIO(path) as file:
        return file.read()


def output(path):
    with os.popen(f"cat {path}") as file:
        return file.read()


FILES = {
    "bytes": read,
    "array": lambda path: np.lib.format.open_memmap(f"{path}.npy")[0],
    "tensor": lambda path: torch.load(f"{path}.pt"),
    "names": lambda path: len(glob.glob(f"{path}.part*")),
    "permission": lambda path: os.access(f"{path}.part5", os.F_OK),
    "link": lambda path: os.path.lexists(f"{path}.part5"),
    "command": output,
    "compiled code": lambda path: safetensors.safe_open(f"{path}.safetensors", "np").get_tensor("x")[0],
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_in_every_call(name, tmp_path):
    folders, read_file = iter(("function", "fused")), FILES[name]

    def make():
        path = str(tmp_path / next(folders))

        def change(k):
            with open(path, "w") as text, open(f"{path}.part{k}", "w"):
                text.write(str(k))
            np.save(f"{path}.npy", [k])
            torch.save(torch.tensor(k), f"{path}.pt")
            safetensors.numpy.save_file({"x": np.array([k])}, f"{path}.safetensors")

        return lambda x: x[int(read_file(path)) :], change

    check(make)
