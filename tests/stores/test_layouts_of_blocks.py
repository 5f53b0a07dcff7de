"""Layers are laid out once, whatever their number, and each is read from and written to its own place."""

import os

import numpy as np
from stores.test_opening import written

from anydml import stores
from anydml.stores.planning import file_blocking as layouts


def test_layers_are_laid_out_once(tmp_path, monkeypatch):
    made, laid_out = [], layouts.block_io
    monkeypatch.setattr(layouts, "block_io", lambda *arguments: made.append(arguments) or laid_out(*arguments))
    rng = np.random.default_rng(1)
    tensors = {f"layers.{k}.w": rng.integers(0, 99, (64, 48), np.uint8) for k in range(30)}
    tensors["other"] = rng.integers(0, 99, (32, 48), np.uint8)
    for k in range(2):
        own = {name: np.ascontiguousarray(np.split(tensor, 2, 1)[k]) for name, tensor in tensors.items()}
        written(tmp_path / f"{k}.safetensors", own)
    layout = tmp_path / "layout.toml"
    layout.write_text('[[axes]]\nmatch = "*"\naxis = 1\n')
    inputs = [tmp_path / f"{k}.safetensors" for k in range(2)]
    assert len(stores.reshard(inputs, tmp_path / "out.safetensors", layout).blocks) == 1
    # With so little memory, none is small.
    made.clear()
    plan = stores.reshard(inputs, tmp_path / "out.safetensors", layout, memory="40kB")
    assert len(plan.blocks) == 31
    assert len(made) == 2
    plan.run()
    assert len(made) == 4
    found = stores.open(tmp_path / "out.safetensors")
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(found[name].read(), tensor)


def test_files_are_looked_up_once_whatever_they_have(tmp_path, monkeypatch):
    for count in (3, 300):
        written(tmp_path / f"{count}.safetensors", {f"{k}": np.zeros(4, np.uint8) for k in range(count)})
    found, realpath = {}, os.path.realpath
    for count in (3, 300):
        looked = []
        monkeypatch.setattr(os.path, "realpath", lambda path, looked=looked: looked.append(path) or realpath(path))
        stores.reshard([tmp_path / f"{count}.safetensors"], tmp_path / "out.safetensors")
        found[count] = len(looked)
    assert found[3] == found[300] > 0
