"""All differences of two checkpoints are counted, whatever their files, ranks and layouts; manifests have sums."""

import hashlib
import json
import warnings

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import ModelError
from anydml.stores.streaming import parts_of

RNG = np.random.default_rng(11)


def tensors():
    """Tensors of several shapes, empty and without dimensions among them."""
    made = {
        "layers.0.up_proj.weight": RNG.standard_normal((48, 40)).astype("f4"),
        "layers.0.down_proj.weight": RNG.standard_normal((40, 48)).astype("f4"),
        "norm.weight": RNG.standard_normal(40).astype(ml_dtypes.bfloat16),
        "ids": RNG.integers(0, 99, (3, 5, 7)),
        "none": np.zeros((0, 4), "f4"),
        "one": np.array(2.5, "f8"),
    }
    return dict(sorted(made.items()))


@pytest.mark.parametrize("memory", ["20kB", "256MB"])
def test_every_difference_is_counted(tmp_path, memory):
    one, rng = tensors(), np.random.default_rng(5)
    other = {name: each.copy() for name, each in one.items()}
    expected = {}
    for name, each in other.items():
        count = min(each.size, int(rng.integers(0, 9)))
        places = rng.choice(each.size, count, replace=False) if count else []
        each.reshape(-1).view(f"u{each.itemsize}")[places] ^= 1
        if count:
            expected[name] = [*map(int, np.unravel_index(min(places), each.shape))], count
    other["one"] = other["one"].astype("f4")
    expected.pop("one", None)
    del other["ids"]
    expected.pop("ids", None)
    save_file(one, tmp_path / "a.safetensors")
    save_file({**other, "more": other["norm.weight"]}, tmp_path / "b.safetensors")
    found = stores.compare(tmp_path / "a.safetensors", tmp_path / "b.safetensors", memory=memory)
    kinds = [(each.name, each.kind) for each in found.differences if each.kind != "elements"]
    assert kinds == [("ids", "missing"), ("more", "added"), ("one", "kind")]
    elements = {each.name: each for each in found.differences if each.kind == "elements"}
    assert {name: each.elements for name, each in elements.items()} == {name: n for name, (_, n) in expected.items()}
    assert all(f"differs at {expected[name][0]}: " in each.text for name, each in elements.items())
    assert found.compared == 4


def test_parts_are_the_elements_of_tensors_in_their_order():
    rng = np.random.default_rng(2)
    for _ in range(200):
        shapes = {f"t{k}": tuple(rng.integers(0, 6, rng.integers(0, 4)).tolist()) for k in range(3)}
        dtype, most = np.dtype(rng.choice(["u1", "f4", "f8"])), int(rng.integers(1, 200))
        numbers = {name: np.arange(np.prod(shape, dtype=int)).reshape(shape) for name, shape in shapes.items()}
        seen = {name: [] for name in shapes}
        for parts in parts_of({name: (shape, dtype) for name, shape in shapes.items()}, most):
            sizes = [int(np.prod(part.shape, dtype=int)) * dtype.itemsize for part in parts]
            assert sum(sizes) <= most or len(parts) == 1
            for part in parts:
                box = tuple(slice(at, at + n) for at, n in zip(part.start, part.shape, strict=True))
                seen[part.name] += numbers[part.name][box].reshape(-1).tolist()
                assert not part.shape or 0 in part.shape or numbers[part.name][box].reshape(-1)[0] == part.first
        assert seen == {name: each.reshape(-1).tolist() for name, each in numbers.items()}


@pytest.fixture
def worlds(tmp_path):
    """The same tensors in many forms."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import torch.distributed.checkpoint as dcp

    given = {name: each for name, each in tensors().items() if name not in ("none", "one", "ids")}
    save_file(given, tmp_path / "whole.safetensors")
    (tmp_path / "axes.toml").write_text('[[axes]]\nmatch = "*.weight"\naxis = 0\nparts = 2\n')
    state = {name: torch.from_numpy(each.view("u2" if each.itemsize == 2 else "f4").copy())
             for name, each in given.items()}  # fmt: skip
    state["norm.weight"] = state["norm.weight"].view(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    turned = {name: (each.mT.contiguous().mT if each.ndim > 1 else each) for name, each in state.items()}
    torch.save(turned, tmp_path / "turned.pt")
    made = {"dcp": tmp_path / "dcp", "turned": tmp_path / "turned.pt", "whole": tmp_path / "whole.safetensors"}
    for name, options in (
        ("ranks", {"ranks": 4, "layout": tmp_path / "axes.toml"}),
        ("fsdp", {"ranks": {"fsdp": 3}}),
        ("shards", {"shards": 2}),
        ("distributed", {"dcp": True, "ranks": {"fsdp": 2}}),
        ("x.gguf", {"extras": False}),
    ):
        stores.reshard([made["whole"]], tmp_path / name, **options).run()
        made[name] = tmp_path / name
    return made


def test_any_two_worlds_are_compared_and_have_the_same_sums(worlds, tmp_path):
    sums = stores.manifest(worlds["whole"], tmp_path / "sums.json")
    expected = {name: hashlib.sha256(each.tobytes()).hexdigest() for name, each in load_file(worlds["whole"]).items()}
    assert sums == expected
    for one in worlds.values():
        assert stores.manifest(one, memory="64kB") == expected
        assert stores.verify(one, tmp_path / "sums.json") is None
        for other in worlds.values():
            assert stores.verify(one, other) is None
    changed = load_file(worlds["whole"])
    changed["layers.0.up_proj.weight"][47, 39] += 1
    save_file(changed, tmp_path / "changed.safetensors")
    for one in (*worlds.values(), tmp_path / "sums.json"):
        for pair in (one, tmp_path / "changed.safetensors"), (tmp_path / "changed.safetensors", one):
            (difference,) = stores.compare(*pair).differences
            assert difference.name == "layers.0.up_proj.weight"
            assert difference.kind == ("checksum" if one == tmp_path / "sums.json" else "elements")


def test_a_cast_and_other_names_are_verified_by_making_them(tmp_path, capsys):
    given = tensors()
    save_file({f"model.{name}": each for name, each in given.items()} | {"rng": np.ones(2)}, tmp_path / "a.safetensors")
    made = {name: each.astype("f2") if each.dtype.kind in "fV" else each for name, each in given.items()}
    save_file(made, tmp_path / "b.safetensors")
    options = ["--only", "model", "--strip", "model.", "--dtype", "half"]
    pair = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    code, out, _ = anydml(capsys, "verify", *pair, *options)
    assert code == 0, out
    assert "casts 3 tensors from float32 to float16" in out
    made["norm.weight"][3] += 1
    save_file(made, tmp_path / "b.safetensors")
    assert anydml(capsys, "verify", *pair, *options)[0] == 1


def test_both_may_have_a_layout(tmp_path):
    up, gate = RNG.standard_normal((2, 6, 4)).astype("f4")
    save_file({"up": up, "gate": gate}, tmp_path / "a.safetensors")
    save_file({"both": np.stack([up, gate]).transpose(0, 2, 1).copy()}, tmp_path / "b.safetensors")
    (tmp_path / "a.toml").write_text('[[rules]]\njoin = ["up", "gate"]\nto = "both"\naxis = 0\n')
    (tmp_path / "b.toml").write_text(
        '[[rules]]\nmatch = "both"\npermute = [0, 2, 1]\n[[rules]]\nmatch = "both"\nflatten = [0, 1]\n'
    )
    pair = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    assert not stores.compare(*pair, tmp_path / "a.toml", second_layout=tmp_path / "b.toml").differences
    assert len(stores.compare(*pair).differences) == 3


def test_metadata_files_beside_and_sizes_of_indexes_are_said(tmp_path, capsys):
    given = tensors()
    for name, said in ("a", {"format": "pt", "own": "1"}), ("b", {"format": "pt", "own": "2", "x": "y"}):
        (tmp_path / name).mkdir()
        save_file(given, tmp_path / name / "model.safetensors", said)
        (tmp_path / name / "config.json").write_text(json.dumps({"name": name}))
    (tmp_path / "a" / "tokenizer.json").write_text("[]")
    index = {"metadata": {"total_size": 5}, "weight_map": dict.fromkeys(given, "model.safetensors")}
    (tmp_path / "b" / "model.safetensors.index.json").write_text(json.dumps(index))
    size = sum(each.nbytes for each in given.values())
    found = stores.compare(tmp_path / "a", tmp_path / "b")
    assert not found.differences
    assert found.remarks == [
        f"{tmp_path / 'b' / 'model.safetensors.index.json'}: total_size is 5, but the tensors have {size} bytes",
        f'{tmp_path / "a"}: has "tokenizer.json" beside its tensors, which the other lacks',
        'beside the tensors, "config.json" differs in content',
    ]
    found = stores.compare(tmp_path / "a", tmp_path / "b", metadata=True)
    assert [each.text for each in found.differences] == [
        'metadata "own" differ: "1" and "2"',
        'metadata "x" differ: none and "y"',
    ]
    code, out, _ = anydml(capsys, "verify", tmp_path / "a", tmp_path / "b", "--metadata")
    assert (code, "2 differences: 2 in metadata; 6 tensors compared" in out, "total_size is 5" in out) == (
        1,
        True,
        True,
    )


def test_the_command_names_the_first_or_all(tmp_path, capsys):
    given = {f"t{k:02}": np.arange(4.0) for k in range(25)}
    save_file(given, tmp_path / "a.safetensors")
    save_file({name: each + 1 for name, each in given.items()}, tmp_path / "b.safetensors")
    pair = "verify", tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    for options, count in ([], 10), (["--first", "3"], 3), (["--all"], 25):
        code, out, _ = anydml(capsys, *pair, *options)
        lines = out.splitlines()
        assert (code, len(lines)) == (1, count + 1)
        assert lines[0] == '"t00" differs at [0]: 0.0 and 1.0; 4 elements in all'
        assert lines[-1] == "25 differences: 25 with other elements; 25 tensors compared"
        # That there are more is also said if quiet.
        assert anydml(capsys, *pair, *options, "-q")[1].splitlines() == (lines if count < 25 else lines[:-1])
    report = json.loads(anydml(capsys, *pair, "--json")[1])
    assert [each["elements"] for each in report["differences"]] == [4] * 25


def test_manifests_are_written_once_and_read_with_care(tmp_path, capsys):
    save_file(tensors(), tmp_path / "a.safetensors", {"format": "pt"})
    command = "manifest", tmp_path / "a.safetensors", tmp_path / "sums.json"
    assert anydml(capsys, *command)[1] == f"written to '{tmp_path / 'sums.json'}': the sums of 6 tensors\n"
    assert anydml(capsys, "verify", *command[1:], "--metadata")[0] == 0
    code, _, err = anydml(capsys, *command)
    assert (code, "exists already" in err) == (2, True)
    assert anydml(capsys, *command, "--overwrite", "--only", "ids")[0] == 0
    assert [*json.loads((tmp_path / "sums.json").read_text())["tensors"]] == ["ids"]
    for name in ("sums.txt", "model.safetensors.index.json"):
        assert "is not a name for a manifest" in anydml(capsys, *command[:2], tmp_path / name)[2]
    whole = json.loads((tmp_path / "sums.json").read_text())
    entry = whole["tensors"]["ids"]
    for content, said in (
        ([], "is not a checkpoint or a manifest"),
        ({}, "is not a checkpoint or a manifest"),
        ({**whole, "anydml_manifest": 2}, "is a manifest of version 2, but this version of anydml reads version 1"),
        ({**whole, "tensors": []}, "is a manifest without tensors"),
        ({**whole, "files": []}, "must be an object, not"),
        ({**whole, "files": {"config.json": "00"}}, "64 hexadecimal digits"),
        ({**whole, "tensors": {"ids": 3}}, "is not an object with dtype"),
        ({**whole, "tensors": {"ids": {**entry, "dtype": "object"}}}, "must be a dtype"),
        ({**whole, "tensors": {"ids": {**entry, "dtype": "f4,("}}}, "must be a dtype"),
        ({**whole, "tensors": {"ids": {**entry, "shape": [-1]}}}, "must be a list of integers from 0"),
        ({**whole, "tensors": {"ids": {**entry, "sha256": "x"}}}, "64 hexadecimal digits"),
    ):
        (tmp_path / "other.json").write_text(json.dumps(content))
        with pytest.raises(ModelError, match=said):
            stores.verify(tmp_path / "a.safetensors", tmp_path / "other.json")
    with pytest.raises(ModelError, match="is a manifest, whose checksums are of tensors as they are"):
        stores.compare(tmp_path / "sums.json", tmp_path / "a.safetensors", dtype="bf16")


def test_a_manifest_of_a_folder_has_the_sums_of_its_small_files(tmp_path, capsys):
    given = tensors()
    for name in "ab":
        (tmp_path / name).mkdir()
        save_file(given, tmp_path / name / "model.safetensors")
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "a" / "notes.txt").write_text("é")
    sums, copy = tmp_path / "sums.json", tmp_path / "b"
    report = json.loads(anydml(capsys, "manifest", tmp_path / "a", sums, "--json")[1])
    assert report == {"model": str(tmp_path / "a"), "output": str(sums), "tensors": 6, "remarks": [], "error": None}
    files = json.loads(sums.read_text())["files"]
    assert files == {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (tmp_path / "a").iterdir()
        if each.suffix in (".json", ".txt")
    }
    code, out, _ = anydml(capsys, "verify", sums, copy)
    assert code == 0
    assert out.splitlines()[:-1] == [f'{sums}: has "notes.txt" beside its tensors, which the other lacks']
    (copy / "config.json").write_text('{"a": 1}')
    (copy / "more.json").write_text("{}")
    for pair in (sums, copy), (copy, sums):
        said = anydml(capsys, "verify", *pair)[1]
        assert f'{copy}: has "more.json" beside its tensors, which the other lacks' in said
        assert 'beside the tensors, "config.json" differs in content' in said
    said = anydml(capsys, "verify", copy / "model.safetensors", sums)[1]
    assert "is one file, so that nothing is compared with 2 small files of" in said


def test_what_a_manifest_leaves_out_is_said(tmp_path, capsys):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({"w": torch.ones(3), "step": 5}, tmp_path / "a.pt")
    out = anydml(capsys, "manifest", tmp_path / "a.pt", tmp_path / "sums.json")[1]
    assert 'leaves out 1 object that is not a tensor: "step"' in out
