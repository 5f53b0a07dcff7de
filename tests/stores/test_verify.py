"""`verify`: equal checkpoints are equal however they are divided, and each change of a byte is found and named."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError

GATE_UP = """
[[rules]]
join = ["layers.{n}.gate", "layers.{n}.up"]
to = "layers.{n}.gate_up"
axis = 0
[[rules]]
match = "layers.{n}.down"
permute = [1, 0]
"""


@pytest.fixture
def whole(tmp_path):
    """A checkpoint in one file, and its tensors."""
    rng = np.random.default_rng(3)
    tensors = {
        f"layers.{n}.{part}": rng.integers(0, 1000, (48, 40)).astype(np.float32)
        for n in range(3)
        for part in ("gate", "up", "down")
    }
    save_file(tensors, tmp_path / "whole.safetensors")
    return tmp_path / "whole.safetensors", tensors


def test_the_same_in_other_files_and_ranks(whole, tmp_path):
    path, _ = whole
    stores.reshard([path], tmp_path / "shards", shard_size="20kB").run()
    axes = tmp_path / "axes.toml"
    axes.write_text('[[axes]]\nmatch = "*"\naxis = 1\n')
    stores.reshard([path], tmp_path / "ranks", axes, ranks=4).run()
    for other in ("shards", "ranks"):
        assert stores.verify(path, tmp_path / other) is None
        assert stores.verify(tmp_path / other, path, memory="64kB") is None


def test_a_layout_says_what_the_second_holds(whole, tmp_path):
    path, tensors = whole
    rules = tmp_path / "rules.toml"
    rules.write_text(GATE_UP)
    made = {}
    for n in range(3):
        made[f"layers.{n}.gate_up"] = np.concatenate([tensors[f"layers.{n}.gate"], tensors[f"layers.{n}.up"]])
        made[f"layers.{n}.down"] = np.ascontiguousarray(tensors[f"layers.{n}.down"].T)
    save_file(made, tmp_path / "made.safetensors")
    assert stores.verify(path, tmp_path / "made.safetensors", rules) is None
    assert "is only in the first" in stores.verify(path, tmp_path / "made.safetensors")
    made["layers.1.down"][7, 5] += 1
    save_file(made, tmp_path / "made.safetensors")
    before = tensors["layers.1.down"][5, 7]
    found = stores.verify(path, tmp_path / "made.safetensors", rules)
    assert found == f'"layers.1.down" differs at [7, 5]: {before!s} and {before + 1!s}'


@pytest.mark.parametrize("memory", ["17kB", "256MB"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_each_byte_counts(whole, tmp_path, memory, ranks):
    path, tensors = whole
    axes = tmp_path / "axes.toml"
    axes.write_text('[[axes]]\nmatch = "*"\naxis = 1\n')
    stores.reshard([path], tmp_path / "other", axes, ranks=ranks).run()
    files = sorted((tmp_path / "other").glob("*.safetensors"))
    rng = np.random.default_rng(ranks)
    for _ in range(30):
        rank = int(rng.integers(ranks))
        store = stores.open(files[rank])[f"layers.{rng.integers(3)}.up"]
        byte = int(rng.integers(store.nbytes))
        content = bytearray(files[rank].read_bytes())
        content[store.offset + byte] ^= 0x11
        kept = files[rank].read_bytes()
        files[rank].write_bytes(content)
        index = [*map(int, np.unravel_index(byte // 4, store.shape))]
        index[1] += rank * store.shape[1]
        first = tensors[store.name][tuple(index)]
        second = np.frombuffer(content, np.float32, 1, store.offset + byte // 4 * 4)[0]
        expected = f'"{store.name}" differs at {index}: {first!s} and {second!s}'
        assert stores.verify(path, tmp_path / "other", memory=memory) == expected
        files[rank].write_bytes(kept)
    assert stores.verify(path, tmp_path / "other", memory=memory) is None


def test_the_first_of_several_differences_is_named(whole, tmp_path):
    path, tensors = whole
    other = {name: each + (name != "layers.0.down") for name, each in tensors.items()}
    save_file(other, tmp_path / "other.safetensors")
    first = next(name for name in stores.open(path) if name != "layers.0.down")
    assert stores.verify(path, tmp_path / "other.safetensors").startswith(f'"{first}" differs at [0, 0]: ')


def test_names_shapes_and_dtypes(whole, tmp_path):
    path, tensors = whole
    up = tensors["layers.1.up"]
    for name, change, message in (
        ("layers.1.up", up.T.copy(), '"layers.1.up" differs: float32 [48, 40] and float32 [40, 48]'),
        ("layers.1.up", up.astype(np.int32), '"layers.1.up" differs: float32 [48, 40] and int32 [48, 40]'),
        ("more", up, '"more" is only in the second'),
    ):
        save_file({**tensors, name: change}, tmp_path / "other.safetensors")
        assert stores.verify(path, tmp_path / "other.safetensors") == message


def test_elements_that_look_alike_are_told_by_their_bytes(tmp_path):
    for name, bits in (("a", 0x7FC00000), ("b", 0x7FC00001)):
        save_file({"w": np.array([bits], np.uint32).view(np.float32)}, tmp_path / f"{name}.safetensors")
    found = stores.verify(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert found == '"w" differs at [0]: 0000c07f and 0100c07f'


def test_links_to_the_same_files_are_equal(whole, tmp_path):
    path, _ = whole
    (tmp_path / "link.safetensors").symlink_to(path)
    assert stores.verify(path, tmp_path / "link.safetensors") is None


def test_refusals(whole, tmp_path):
    path, _ = whole
    with pytest.raises(ModelError, match="layout and to are both given"):
        stores.verify(path, path, layout=path, to="original")
    with pytest.raises(BindingError, match="must be at least"):
        stores.verify(path, path, memory="1kB")
    with pytest.raises(ModelError, match="there is no such file or folder"):
        stores.verify(path, tmp_path / "none.safetensors")


def test_the_command(whole, tmp_path, capsys):
    path, tensors = whole
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(path), str(path)])
    assert not ended.value.code
    assert "hold the same tensors" in capsys.readouterr().out
    del tensors["layers.2.up"]
    save_file(tensors, tmp_path / "less.safetensors")
    with pytest.raises(SystemExit) as ended:
        main(["verify", str(path), str(tmp_path / "less.safetensors"), "--quiet"])
    assert ended.value.code == 1
    assert capsys.readouterr().out == '"layers.2.up" is only in the first\n'


def test_a_cast_of_the_second_is_said(whole, tmp_path, capsys):
    path, _ = whole
    stores.reshard([path], tmp_path / "half.safetensors", dtype="half").run()
    for pair, code in ((path, tmp_path / "half.safetensors"), 0), ((tmp_path / "half.safetensors", path), 1):
        with pytest.raises(SystemExit) as ended:
            main(["verify", *map(str, pair), "--dtype", "half"])
        assert ended.value.code == code
        said = f"{pair[1]}: has no tensor of float16, to which {pair[0]} is cast: name the uncast one first"
        assert (said in capsys.readouterr().out) == bool(code)
