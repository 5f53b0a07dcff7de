"""Layouts as Python files, whose functions are traced."""

import ml_dtypes
import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

TENSORS = {
    "l.0.qkv.weight": np.arange(48 * 4, dtype=np.float32).reshape(48, 4).astype(ml_dtypes.bfloat16),
    "l.0.e.0.weight": np.arange(12, dtype=np.int64).reshape(3, 4),
    "l.0.e.1.weight": np.arange(12, 24, dtype=np.int64).reshape(3, 4),
}

LAYOUT = """
import numpy as np
from pathlib import Path
import anydml as dml

axes = {"*.q.weight": 0, "*.k.weight": (0, 4), "*.v.weight": (-2, 4), "e": None, "half": (1, None), "zeros": None}

def layout(tensors):
    qkv = tensors["l.0.qkv.weight"].reshape(4, 6, 2, 4)
    q, k, v = dml.split(qkv, [4, 1, 1], axis=1)
    made = {f"l.0.{name}.weight": x.reshape(-1, 4) for name, x in {"q": q, "k": k, "v": v}.items()}
    made["e"] = np.stack([tensors[f"l.0.e.{n}.weight"] for n in (1, 0)])
    made["half"] = np.take(made["e"][0], [2, 0], 0)
    made["zeros"] = np.zeros((2, 2), np.float32)
    return made
"""


def made(tensors):
    q, k, v = np.split(tensors["l.0.qkv.weight"].reshape(4, 6, 2, 4), [4, 5], axis=1)
    e = np.stack([tensors["l.0.e.1.weight"], tensors["l.0.e.0.weight"]])
    found = {f"l.0.{name}.weight": x.reshape(-1, 4) for name, x in {"q": q, "k": k, "v": v}.items()}
    return {**found, "e": e, "half": e[0][[2, 0]], "zeros": np.zeros((2, 2), np.float32)}


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "in.safetensors", TENSORS)
    (tmp_path / "layout.py").write_text(LAYOUT)


def test_it_is_as_numpy_makes_it_whole_and_for_ranks(checkpoint):
    wanted = made(TENSORS)
    stores.reshard(["in.safetensors"], "out.safetensors", "layout.py").run()
    stores.reshard(["in.safetensors"], "ranks", "layout.py", ranks=2, memory="10kB").run()
    stores.reshard(["ranks"], "back.safetensors").run()
    for path in ("out.safetensors", "back.safetensors"):
        found = stores.open(path)
        assert {*found} == {*wanted}
        for name, each in wanted.items():
            assert found[name].dtype == each.dtype
            np.testing.assert_array_equal(found[name].read(), each)
    first = stores.open("ranks/model-rank-00000-of-00002.safetensors")
    assert first["l.0.k.weight"].shape == (4, 4)
    assert first["e"].shape == (2, 3, 4)
    assert first["half"].shape == (2, 2)


@pytest.mark.parametrize(
    "text, said",
    [
        ("def layout(:", "is not Python: line 1"),
        ("x = 1", "has no function layout(tensors)"),
        ("import nothing_of_the_kind", "line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "line 1: SystemExit: 3"),
        ("def layout(t):\n    return t['none']", "line 2: KeyError: 'none'"),
        ("def layout(t):\n\n    return {'a': t['l.0.e.0.weight'] + 1}", "py: line 3: + of a traced int64 array"),
        ("def layout(t):\n    return list(t.values())", "layout must return a dict of arrays by name, not list"),
        (
            "def layout(t):\n    return {1: t['l.0.e.0.weight']}",
            "layout must return a dict of arrays by name, but has the key 1",
        ),
        ("def layout(t):\n    return {'a': 3}", "a: must be an array, not int"),
        ("def layout(t):\n    return {'a': [t['l.0.e.0.weight']]}", "a: must be an array, not list"),
        ("def layout(t):\n    return {}", "would have no tensor"),
        ("axes = 3\ndef layout(t):\n    return t", "axes: must be a dict of patterns, not 3"),
        (
            "axes = {'a': 'b'}\ndef layout(t):\n    return t",
            "axes.a: must be an axis, an axis and counts of heads, or None, not 'b'",
        ),
        ("axes = {'a': (0, 0)}\ndef layout(t):\n    return t", "or None, not (0, 0)"),
        ("axes = {'{': 0}\ndef layout(t):\n    return t", "is not a pattern"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(checkpoint, capsys, tmp_path, text, said):
    (tmp_path / "layout.py").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["reshard", "in.safetensors", "out.safetensors", "--layout", "layout.py"])
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert err.startswith("anydml: ")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "out.safetensors").exists()


def test_a_file_that_is_not_there(checkpoint):
    with pytest.raises(ModelError, match=r"none\.py: cannot be read: No such file"):
        stores.reshard(["in.safetensors"], "out.safetensors", "none.py")
