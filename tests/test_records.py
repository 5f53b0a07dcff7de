"""Records are what `dataclasses` makes of the same class, but for the way that their methods are made."""

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

import anydml as dml
from anydml.records import Record, record

frozen = dataclass(frozen=True, slots=True)


def pair(name, annotations, **more):
    """A record and a dataclass of the same name and fields; pickle finds neither, so none is pickled here."""
    made = {"__annotations__": annotations, "__module__": __name__, "__qualname__": name, **more}
    return record(type(name, (Record,), dict(made))), frozen(type(name, (), dict(made)))


def given_init(self, a, b=2):
    object.__setattr__(self, "a", [a])
    object.__setattr__(self, "b", b)


PAIRS = [
    (pair("One", {"a": "int"}), [(1,), (2,), ((1, 2),)]),
    (pair("Two", {"a": "int", "b": "str"}, b="x"), [(1,), (1, "y"), (2, "x"), (1, "x")]),
    (pair("Hidden", {"a": "int", "b": "int"}, b=field(default=3, repr=False)), [(1,), (1, 4), (2,)]),
    (pair("None_", {}), [()]),
    (pair("Own", {"a": "list", "b": "int"}, __init__=given_init), [(1,), (1, 3), (2,)]),
]


@pytest.mark.parametrize(("kinds", "arguments"), PAIRS, ids=[kinds[0].__name__ for kinds, _ in PAIRS])
def test_a_record_is_like_a_frozen_dataclass(kinds, arguments):
    mine, theirs = kinds
    assert [f.name for f in fields(mine)] == [f.name for f in fields(theirs)]
    assert mine.__match_args__ == theirs.__match_args__
    assert mine.__slots__ == theirs.__slots__
    for first in arguments:
        assert repr(mine(*first)) == repr(theirs(*first))
        assert mine(*first) != theirs(*first)
        assert copy.deepcopy(mine(*first)) == mine(*first)
        for second in arguments:
            assert (mine(*first) == mine(*second)) == (theirs(*first) == theirs(*second))
        if mine.__name__ != "Own":
            assert hash(mine(*first)) == hash(theirs(*first))
            assert replace(mine(*first)) == mine(*first)
    for name in ("a", "other"):
        for change in (lambda made, name=name: setattr(made, name, 1), lambda made, name=name: delattr(made, name)):
            for kind in kinds:
                with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
                    change(kind(*arguments[0]))
    if "a" in mine.__match_args__:
        with pytest.raises(FrozenInstanceError) as own:
            mine(*arguments[0]).a = 1
        with pytest.raises(FrozenInstanceError) as others:
            theirs(*arguments[0]).a = 1
        assert str(own.value) == str(others.value)
    assert not hasattr(mine(*arguments[0]), "__dict__")


def test_records_of_different_classes_differ():
    class More(dml.TensorDesc):
        pass

    assert dml.TensorDesc("INT8", [4]) != More("INT8", [4])
    assert dml.InputGraphEdgeDesc(0, 0, 0) != dml.OutputGraphEdgeDesc(0, 0, 0)


@pytest.mark.parametrize("made", [dml.TensorDesc("INT8", [4]), dml.InputGraphEdgeDesc(0, 1, 2, "x")], ids=str)
def test_records_travel(made):
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(made, protocol)) == made
    assert copy.copy(made) == made
    assert len({made, copy.deepcopy(made)}) == 1


def test_slots_leave_no_room_for_others():
    with pytest.raises(AttributeError):
        object.__setattr__(dml.TensorDesc("INT8", [4]), "name", "x")


def test_a_record_has_its_signature_before_the_first_is_made():
    code = "import anydml as dml, inspect; print(*inspect.signature(dml.Problem).parameters)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [each.name for each in fields(dml.Problem)]
