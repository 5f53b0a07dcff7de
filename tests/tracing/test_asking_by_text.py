"""What functions reach by names that are texts, or that are not there yet, and by wrappers of containers."""

import importlib
import operator
import sys
import types
from collections import ChainMap, UserDict, UserList

import numpy as np
import pytest

import anydml as dml

INNER_AT, SHIFTED = operator.attrgetter("inner.at"), operator.methodcaller("do_a", np.arange(9))

HELPER = types.ModuleType("anydml_tests_helper")
HELPER.at, LATER = 1, {"later": 1}
HELPER.__getattr__ = lambda name: LATER[name]


class Meta(type):
    at = 1


class Settings(metaclass=Meta):
    """Settings that are read by names."""

    def __init__(self):
        self.mode, self.start, self.at_a, self.at_b, self.inner = "a", 1, 1, 2, types.SimpleNamespace(at=1)
        self.user, self.items, self.layers, self.shown = (
            UserDict(at=1),
            UserList([1]),
            ChainMap({}, {"at": 1}),
            {"at": 1},
        )
        vars(self)["a b"] = 1
        self.proxy, self.cls = types.MappingProxyType(self.shown), type(self)

    def do_a(self, x):
        return x[self.start :]

    def do_b(self, x):
        return x[::-1][self.start :]


READERS = {
    "a composed method": lambda s, x: getattr(s, f"do_{s.mode}")(x),
    "a method by %": lambda s, x: getattr(s, "do_%s" % s.mode)(x),  # noqa: UP031
    "a composed number": lambda s, x: x[getattr(s, "at_" + s.mode) :],
    "a composed number that is missing": lambda s, x: x[getattr(s, f"new_{s.mode}", 1) :],
    "a default": lambda s, x: x[getattr(s, "new_a", 1) :],
    "a question": lambda s, x: x[2:] if hasattr(s, "new_a") else x,
    "a path": lambda s, x: x[operator.attrgetter("inner.at")(s) :],
    "a path that is given": lambda s, x: x[INNER_AT(s) :],
    "a method that is given": lambda s, x: x[SHIFTED(s).size % 5 :],
    "all attributes": lambda s, x: x[max(value for value in vars(s).values() if type(value) is int) :],
    "all attributes as keywords": lambda s, x: x[dict(**s.__dict__)["start"] :],
    "a module by its name": lambda s, x: x[importlib.import_module("anydml_tests_helper").at :],
    "a loaded module": lambda s, x: x[sys.modules["anydml_tests_helper"].at :],
    "a module's method": lambda s, x: x[HELPER.later :],
    "no identifier": lambda s, x: x[vars(s)["a b"] :],
    "a metaclass": lambda s, x: x[s.cls.at :],
    "a UserDict": lambda s, x: x[s.user["at"] :],
    "a UserList": lambda s, x: x[s.items[0] :],
    "a ChainMap": lambda s, x: x[s.layers["at"] :],
    "a proxy": lambda s, x: x[s.proxy["at"] :],
}

CHANGES = {
    "mode": lambda s: setattr(s, "mode", "b"),
    "start": lambda s: setattr(s, "start", 3),
    "at_a": lambda s: setattr(s, "at_a", 4),
    "new_a": lambda s: setattr(s, "new_a", 3),
    "inner": lambda s: setattr(s.inner, "at", 3),
    "a b": lambda s: vars(s).update({"a b": 3}),
    "metaclass": lambda s: setattr(Meta, "at", Meta.at % 5 + 1),
    "user": lambda s: s.user.update(at=3),
    "items": lambda s: s.items.insert(0, 3),
    "layers": lambda s: s.layers.update(at=3),
    "a lower layer": lambda s: s.layers.maps[1].update(at=3),
    "a helper": lambda s: setattr(HELPER, "at", HELPER.at % 5 + 1),
    "what a helper returns": lambda s: LATER.update(later=LATER["later"] % 5 + 1),
    "shown": lambda s: s.shown.update(at=3),
}


@pytest.mark.parametrize("reader", READERS)
def test_changes_of_what_is_read_are_noticed(reader, monkeypatch):
    monkeypatch.setitem(sys.modules, HELPER.__name__, HELPER)
    read, x = READERS[reader], np.arange(9)
    for name, change in CHANGES.items():
        settings = Settings()
        fused = dml.fuse(lambda x: read(settings, x))  # noqa: B023
        for _ in range(2):
            np.testing.assert_array_equal(fused(x), read(settings, x))
        assert fused.counts.traces == 1, name
        change(settings)
        np.testing.assert_array_equal(fused(x), read(settings, x), name)
