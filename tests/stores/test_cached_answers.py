"""Answers of transformers' mappings are kept for the same question alone, and read from the user's own files."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

import numpy as np
import pytest

from anydml.engines import open_engine
from anydml.moves.composer import Composer
from anydml.stores.checkpoints import mapping_cache
from anydml.stores.checkpoints.axis import Axis
from anydml.stores.checkpoints.composed import without_unread_sources
from anydml.stores.checkpoints.mapping_cache import name_of, read_cached, write_cached
from anydml.stores.checkpoints.mapping_results import Answer, answer_of, text_of
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.patterns import Pattern

ANSWER = text_of(Answer({}, Composer("convert"), ["seven"], Axes()))


def is_kept(name):
    return read_cached(name) is not None and read_cached(name).remarks == ["seven"]


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    """A folder for caches, where this system has one."""
    monkeypatch.delenv("ANYDML_CACHE", raising=False)
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "caches"))
    return mapping_cache.folder()


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model's folder, where packages of both names are installed."""
    for package in ("transformers", "torch"):
        (tmp_path / "site" / package / "models" / "llama").mkdir(parents=True)
        for file in ("__init__.py", "version.py", "models/llama/modeling.py"):
            (tmp_path / "site" / package / file).write_text("")
    search = [str(tmp_path / "site"), *sys.path]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: PathFinder.find_spec(name, search))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path / "model"


MODELING = "site/transformers/models/llama/modeling.py"

CHANGES = {
    "config.json": lambda model: (model / "config.json").write_text('{"hidden_size": 1}'),
    "another configuration": lambda model: (model / "config.4.0.0.json").write_text("{}"),
    "a file of transformers": lambda model: (model.parent / MODELING).write_text("1"),
    "its time": lambda model: os.utime(model.parent / MODELING, (1, 1)),
    "a new model": lambda model: (model.parent / "site/transformers/models/new.py").write_text(""),
    "the version of PyTorch": lambda model: (model.parent / "site/torch/version.py").write_text("__version__ = 0"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_name_is_that_of_everything_that_the_answer_depends_on(model, change):
    before = name_of(model, b"question")
    assert before == name_of(model, b"question") != name_of(model, b"other")
    CHANGES[change](model)
    assert name_of(model, b"question") not in (before, None)


def test_without_transformers_there_is_no_name(model):
    for path in sorted((model.parent / "site" / "transformers").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (model.parent / "site" / "transformers").rmdir()
    (model.parent / "site" / "transformers.py").write_text("")
    assert name_of(model, b"question") is None


def test_what_was_kept_is_found(caches):
    assert read_cached("name") is None
    write_cached("name", ANSWER)
    assert is_kept("name")
    assert os.listdir(caches) == ["name"]


def test_what_is_broken_is_not_taken(caches):
    write_cached("name", ANSWER)
    content = (caches / "name").read_bytes()
    for broken in (b"", content[:-1], content[:-2] + b"\x08.", content[32:]):
        (caches / "name").write_bytes(broken)
        assert read_cached("name") is None
    write_cached("name", b"no JSON")
    assert read_cached("name") is None
    write_cached("name", ANSWER)
    assert is_kept("name")


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_what_others_can_write_is_not_taken(caches, tmp_path):
    write_cached("name", ANSWER)
    for path in (caches, caches / "name"):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert read_cached("name") is None
        path.chmod(mode)
        assert is_kept("name")
    (caches / "name").rename(tmp_path / "elsewhere")
    (caches / "name").symlink_to(tmp_path / "elsewhere")
    assert read_cached("name") is None
    caches.chmod(0o777)
    write_cached("other", ANSWER)
    assert not (caches / "other").exists()


def test_a_folder_that_cannot_be_made_is_no_error(caches):
    caches.parent.parent.mkdir(parents=True, exist_ok=True)
    caches.parent.write_text("a file")
    write_cached("name", ANSWER)
    assert read_cached("name") is None


def test_what_was_not_used_for_longest_is_removed(caches, monkeypatch):
    monkeypatch.setattr(mapping_cache, "MAX_FILES", 3)
    for number in range(3):
        write_cached(f"{number}", ANSWER)
        os.utime(caches / f"{number}", (number, number))
    assert is_kept("0")
    write_cached("3", ANSWER)
    assert sorted(os.listdir(caches)) == ["0", "2", "3"]
    monkeypatch.setattr(mapping_cache, "MAX_BYTES", 2 * (caches / "3").stat().st_size)
    write_cached("4", ANSWER)
    assert len(os.listdir(caches)) == 2
    assert is_kept("4")


def test_a_variable_names_another_folder_or_none(model, caches, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYDML_CACHE", str(tmp_path / "own"))
    assert name_of(model, b"question") is not None
    write_cached("name", ANSWER)
    assert is_kept("name")
    assert (tmp_path / "own" / "layouts" / "name").exists()
    monkeypatch.setenv("ANYDML_CACHE", "")
    assert name_of(model, b"question") is None
    write_cached("name", ANSWER)
    assert read_cached("name") is None
    assert not caches.exists()


def composed(composer, inputs):
    """Values of every kind: whole, flipped and transposed, joined with a fill, picked, and stored in scratch."""
    x, y = (composer.input(f"x{k}", array.shape, array.strides, 4) for k, array in enumerate(inputs))
    rows = composer.constant("rows", np.array([2, 0, 2], np.int64))
    stored = composer.store(x.permute([1, 0]), "because")
    return {
        "whole": x,
        "turned": x.permute([1, 0]).slice([2, 0], [2, 3], [-1, 1]),
        "joined": composer.join([x, y, type(x).of_fill((1, 4), b"\x00\x00\x80\x3f")], 0),
        "picked": composer.pick(x, rows, "int64", 0),
        "stored": stored,
        "none": x.slice([0, 0], [0, 4], [1, 1]),
    }


def test_an_answer_is_what_its_text_says():
    inputs = [np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.float32).reshape(2, 4) + 100]
    composer = Composer("convert")
    tensors = {
        name: without_unread_sources(value, np.dtype(np.float32), range(2))
        for name, value in composed(composer, inputs).items()
    }
    tensors["same"] = tensors["whole"]
    axes = Axes([(Pattern("a.{n}.*"), Axis(0, (4, 1, 1))), (Pattern("b"), Axis(None)), (Pattern("c"), Axis(1, 2, 2))])
    answer = Answer(tensors, composer, ["said"], axes)
    found = answer_of(text_of(answer))
    assert text_of(found) == text_of(answer)
    assert found.remarks == ["said"]
    assert [(pattern.text, axis) for pattern, axis in found.axes.rules] == [
        (pattern.text, axis) for pattern, axis in axes.rules
    ]
    assert found.tensors["same"].value is found.tensors["whole"].value
    for name, tensor in tensors.items():
        assert (found.tensors[name].dtype, found.tensors[name].sources) == (tensor.dtype, tensor.sources)
        assert np.array_equal(*(made(each, inputs, name) for each in (answer, found)))


def made(answer, inputs, name):
    """What a program makes of a tensor."""
    tensor, composer = answer.tensors[name], answer.composer.copy()
    composer.output(name, tensor.value)
    result = np.zeros(tensor.shape, tensor.dtype)
    used = [inputs[source] for source in tensor.sources]
    open_engine("numpy").compile(composer.program()).bind([*used, *inputs[len(used) :], result])()
    return result


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", ANSWER.replace(b"tensors", b"tensor"), ANSWER[:-1], b"\x80\x04K\x07."]
)
def test_what_is_no_answer_is_refused_and_run_by_nobody(text):
    with pytest.raises((ValueError, TypeError, LookupError)):
        answer_of(text)
