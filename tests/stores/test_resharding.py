"""Checkpoints as other ones: consolidated, shared among ranks, laid out anew; always compared with NumPy's slices."""

import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from stores.test_opening import indexed, written

import anydml as dml
from anydml import stores
from anydml.stores import reshard
from anydml.stores.resharding import consolidate

HEADS, KV_HEADS, SIZE, HIDDEN = 8, 2, 4, 48


def llama(layers=2, dtype=ml_dtypes.bfloat16, seed=0):
    """The tensors of a small Llama."""
    rng = np.random.default_rng(seed)
    width = HEADS * SIZE
    shapes = {"model.embed_tokens.weight": (64, width), "model.norm.weight": (width,), "lm_head.weight": (64, width)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        shapes |= {
            f"{name}.self_attn.q_proj.weight": (width, width),
            f"{name}.self_attn.k_proj.weight": (KV_HEADS * SIZE, width),
            f"{name}.self_attn.v_proj.weight": (KV_HEADS * SIZE, width),
            f"{name}.self_attn.o_proj.weight": (width, width),
            f"{name}.mlp.gate_proj.weight": (HIDDEN, width),
            f"{name}.mlp.up_proj.weight": (HIDDEN, width),
            f"{name}.mlp.down_proj.weight": (width, HIDDEN),
            f"{name}.input_layernorm.weight": (width,),
        }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def hugging_face(folder, tensors, count=3):
    """A folder with an index."""
    folder.mkdir()
    names, weight_map = [*tensors], {}
    for k in range(count):
        file = f"model-{k + 1:05}-of-{count:05}.safetensors"
        own = {name: tensors[name] for name in names[k::count]}
        written(folder / file, own, {"format": "pt"})
        weight_map |= dict.fromkeys(own, file)
    indexed(folder, weight_map)
    return folder


def assert_equal(checkpoint, tensors):
    assert {*checkpoint} == {*tensors}
    for name, array in tensors.items():
        assert (checkpoint[name].shape, checkpoint[name].dtype) == (array.shape, array.dtype), name
        assert checkpoint[name].read().tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_shards_become_one_file_that_the_library_reads(tmp_path):
    tensors = llama()
    reshard([hugging_face(tmp_path / "in", tensors)], tmp_path / "out.safetensors", memory="20KB").run()
    assert_equal(stores.open(tmp_path / "out.safetensors"), tensors)
    torch = pytest.importorskip("safetensors.torch")
    found = torch.load_file(tmp_path / "out.safetensors")
    for name, array in tensors.items():
        assert found[name].view(dtype=__import__("torch").uint8).numpy().tobytes() == array.tobytes()


def test_a_folder_is_sharded_by_size_with_an_index(tmp_path):
    tensors = llama()
    source = written(tmp_path / "in.safetensors", tensors, {"format": "pt", "who": "me"})
    reshard([source], tmp_path / "out", shard_size="10KB").run()
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["metadata"] == {"total_size": sum(array.nbytes for array in tensors.values())}
    files = sorted({*index["weight_map"].values()})
    assert files == [f"model-{k + 1:05}-of-{len(files):05}.safetensors" for k in range(len(files))]
    assert len(files) > 2
    assert sorted(os.listdir(tmp_path / "out")) == [*files, "model.safetensors.index.json"]
    found = stores.open(tmp_path / "out")
    assert found.metadata == {"format": "pt", "who": "me"}
    assert_equal(found, tensors)
    reshard([tmp_path / "out"], tmp_path / "whole").run()
    assert os.listdir(tmp_path / "whole") == ["model.safetensors"]
    assert_equal(stores.open(tmp_path / "whole"), tensors)


def heads_layout(folder, heads=HEADS, kv_heads=KV_HEADS):
    path = folder / "layout.toml"
    path.write_text(
        "".join(
            f'[[axes]]\nmatch = "*.{name}_proj.weight"\naxis = 0\nheads = {count}\n'
            for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
    )
    return path


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_ranks_have_what_slices_have_and_go_back(tmp_path, count):
    tensors = llama()
    source = hugging_face(tmp_path / "in", tensors)
    reshard([source], tmp_path / "ranks", heads_layout(tmp_path), ranks=count, memory="30KB").run()
    files = [tmp_path / "ranks" / f"model-rank-{k:05}-of-{count:05}.safetensors" for k in range(count)]
    assert sorted(os.listdir(tmp_path / "ranks")) == [file.name for file in files]
    for rank, file in enumerate(files):
        wanted = {}
        for name, array in tensors.items():
            parts, at = count, rank
            if "norm" in name:
                parts = 1
            elif ".k_proj" in name or ".v_proj" in name:
                parts = min(count, KV_HEADS)
                at = rank * parts // count
            axis = 1 if "o_proj" in name or "down_proj" in name else 0
            wanted[name] = np.split(array, parts, axis)[at if parts > 1 else 0]
        assert_equal(stores.open(file), wanted)
    reshard([tmp_path / "ranks"], tmp_path / "back.safetensors", memory="30KB").run()
    assert_equal(stores.open(tmp_path / "back.safetensors"), tensors)
    assert stores.open(tmp_path / "back.safetensors").metadata == {"format": "pt"}
    reshard(files, tmp_path / "again.safetensors", heads_layout(tmp_path)).run()
    assert_equal(stores.open(tmp_path / "again.safetensors"), tensors)


def test_ranks_become_other_ranks(tmp_path):
    tensors = {
        "model.layers.0.mlp.up_proj.weight": np.arange(24 * 5, dtype=np.int32).reshape(24, 5),
        "model.layers.0.mlp.down_proj.weight": np.arange(5 * 24, dtype=np.int16).reshape(5, 24),
    }
    reshard([written(tmp_path / "in.safetensors", tensors)], tmp_path / "three", ranks=3).run()
    reshard([tmp_path / "three"], tmp_path / "two", ranks=2, memory=4200).run()
    for k in range(2):
        up, down = (np.split(array, 2, axis)[k] for axis, array in enumerate(tensors.values()))
        wanted = dict(zip(tensors, (up, down), strict=True))
        assert_equal(stores.open(tmp_path / "two" / f"model-rank-{k:05}-of-00002.safetensors"), wanted)


def rules(text, tensors, folder, **options):
    """The tensors after a layout's rules."""
    (folder / "rules.toml").write_text(text)
    written(folder / "in.safetensors", tensors)
    out = folder / f"out{len(os.listdir(folder))}.safetensors"
    reshard([folder / "in.safetensors"], out, folder / "rules.toml", **options).run()
    return stores.open(out)


def test_fused_projections_are_taken_apart_and_put_together(tmp_path):
    tensors = {f"l.{k}.{name}.w": a for k in range(2) for name, a in (("qkv", np.arange(80.0 + k)[k:].reshape(16, 5)),)}
    apart = ["l.{n}.q.w", "l.{n}.k.w", "l.{n}.v.w"]
    found = rules(
        f'[[rules]]\nmatch = "l.{{n}}.qkv.w"\nsplit = {apart}\naxis = 0\nsizes = [8, 4, 4]',
        tensors,
        tmp_path,
        memory=4200,
    )
    wanted = {
        f"l.{k}.{name}.w": part
        for k in range(2)
        for name, part in zip("qkv", np.split(tensors[f"l.{k}.qkv.w"], [8, 12]), strict=True)
    }
    assert_equal(found, wanted)
    back = rules(
        '[[rules]]\njoin = ["l.{n}.q.w", "l.{n}.k.w", "l.{n}.v.w"]\nto = "l.{n}.qkv.w"\naxis = 0', wanted, tmp_path
    )
    assert_equal(back, tensors)


def test_groups_of_heads_in_a_fused_projection(tmp_path):
    fused = np.arange(2 * 6 * 4 * 7).reshape(2 * 6 * 4, 7)
    layout = """
        [[rules]]
        match = "qkv"
        unflatten = 0
        sizes = [2, 6, 4]
        [[rules]]
        match = "qkv"
        split = ["q", "k", "v"]
        axis = 1
        sizes = [4, 1, 1]
        [[rules]]
        match = "{x}"
        flatten = [0, 2]
    """
    groups = fused.reshape(2, 6, 4, 7)
    wanted = {"q": groups[:, :4], "k": groups[:, 4:5], "v": groups[:, 5:]}
    found = rules(layout, {"qkv": fused}, tmp_path, memory=4200)
    assert_equal(found, {name: array.reshape(-1, 7) for name, array in wanted.items()})


def test_the_order_of_rotary_embeddings(tmp_path):
    weight = np.arange(32 * 6, dtype=np.float32).reshape(32, 6)
    layout = """
        [[rules]]
        match = "*q_proj.weight"
        unflatten = 0
        sizes = [4, -1, 2]
        [[rules]]
        match = "*q_proj.weight"
        permute = [0, 2, 1, 3]
        [[rules]]
        match = "*q_proj.weight"
        flatten = [0, 2]
    """
    wanted = weight.reshape(4, 4, 2, 6).transpose(0, 2, 1, 3).reshape(32, 6)
    assert_equal(rules(layout, {"a.q_proj.weight": weight}, tmp_path), {"a.q_proj.weight": wanted})


def test_experts_are_stacked_and_unstacked(tmp_path):
    experts = {f"l.3.experts.{k}.w": np.arange(6, dtype=np.int16).reshape(2, 3) + 10 * k for k in range(12)}
    layout = '[[rules]]\nstack = "l.{n}.experts.{k}.w"\nto = "l.{n}.experts"'
    stacked = {"l.3.experts": np.stack([*experts.values()])}
    assert_equal(rules(layout, experts, tmp_path), stacked)
    layout = '[[rules]]\nmatch = "l.{n}.experts"\nunstack = "l.{n}.experts.{k}.w"'
    assert_equal(rules(layout, stacked, tmp_path), experts)


def test_the_other_rules(tmp_path):
    tensors = {name: np.arange(60).reshape(12, 5) + 100 * k for k, name in enumerate(["a", "b", "c", "d", "e"])}
    layout = """
        [[rules]]
        match = "a"
        drop = true
        [[rules]]
        match = "b"
        rename = "z"
        [[rules]]
        match = "c"
        slice = -2
        start = -2
        step = -3
        [[rules]]
        match = "d"
        permute = [1, 0]
        [[rules]]
        match = "e"
        gather = 0
        indices = [3, 4, 5, 0, -1, 3]
    """
    wanted = {
        "z": tensors["b"], "c": tensors["c"][-2::-3], "d": tensors["d"].T, "e": tensors["e"][[3, 4, 5, 0, -1, 3]],
    }  # fmt: skip
    assert_equal(rules(layout, tensors, tmp_path, memory=4200), wanted)


def distributed(folder, tensors, cuts):
    """Pieces as PyTorch's HuggingFaceStorageWriter leaves them: each tensor cut along an axis."""
    folder.mkdir()
    for k in range(cuts):
        own, said = {}, {}
        for number, (name, array) in enumerate(tensors.items()):
            axis = number % array.ndim
            own[name] = np.ascontiguousarray(np.array_split(array, cuts, axis)[k])
            offset = sum(part.shape[axis] for part in np.array_split(array, cuts, axis)[:k])
            said[name] = {"saved_offsets": [offset if d == axis else 0 for d in range(array.ndim)]}
        metadata = {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0", "format": "pt"}
        written(folder / f"shard-{k:05}-model-00001-of-00001.safetensors", own, metadata)


def test_pieces_of_a_distributed_checkpoint_become_whole(tmp_path):
    tensors = {name: array for name, array in llama(1, np.float32).items() if array.size > 8}
    distributed(tmp_path / "in", tensors, 4)
    reshard([tmp_path / "in"], tmp_path / "out", memory="20KB").run()
    found = stores.open(tmp_path / "out")
    assert_equal(found, tensors)
    assert found.metadata == {"format": "pt"}


def test_pytorch_consolidates_to_the_same(tmp_path):
    theirs = pytest.importorskip("torch.distributed.checkpoint._consolidate_hf_safetensors")
    tensors = {name: array for name, array in llama(1, np.float32).items() if array.size > 8}
    distributed(tmp_path / "in", tensors, 3)
    (tmp_path / "theirs").mkdir()
    theirs.consolidate_safetensors_files(str(tmp_path / "in"), str(tmp_path / "theirs"), dict.fromkeys(tensors, 1))
    reshard([tmp_path / "in"], tmp_path / "ours").run()
    ours = stores.open(tmp_path / "ours")
    (file,) = (tmp_path / "theirs").glob("*.safetensors")
    assert_equal(ours, {name: store.read() for name, store in stores.open(file).items()})


def test_the_function_of_pytorch_is_replaced(tmp_path):
    theirs = pytest.importorskip("torch.distributed.checkpoint._consolidate_hf_safetensors")
    from anydml.torch import consolidate_safetensors_files

    tensors = {name: array for name, array in llama(1, np.float32).items() if array.size > 8}
    distributed(tmp_path / "in", tensors, 3)
    numbers = {name: 1 + k % 2 for k, name in enumerate([*tensors][:-1])}
    for name, function in (("theirs", theirs.consolidate_safetensors_files), ("ours", consolidate_safetensors_files)):
        (tmp_path / name).mkdir()
        for _ in range(2):
            function(str(tmp_path / "in"), str(tmp_path / name), numbers, 2)
    assert sorted(os.listdir(tmp_path / "ours")) == sorted(os.listdir(tmp_path / "theirs"))
    indexes = [
        json.loads((tmp_path / name / "model.safetensors.index.json").read_text()) for name in ("ours", "theirs")
    ]
    assert indexes[0] == indexes[1]
    theirs = stores.open(tmp_path / "theirs")
    assert_equal(stores.open(tmp_path / "ours"), {name: store.read() for name, store in theirs.items()})
    with pytest.raises(dml.ModelError, match='no tensor "none"'):
        consolidate_safetensors_files(str(tmp_path / "in"), str(tmp_path / "ours"), {"none": 1})


@pytest.mark.parametrize("number", [0, -1])
def test_files_are_numbered_from_one(tmp_path, number):
    written(tmp_path / "in.safetensors", {"a": np.ones(3), "b": np.zeros(3)})
    with pytest.raises(dml.ModelError, match=f"would have file {number}: the numbers of files begin at 1"):
        consolidate(tmp_path / "in.safetensors", tmp_path / "out", {"a": 1, "b": number})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "x: is not a table of a layout"),
        ("[[rules]]\n", "rules[0]: has no action: each rule must have exactly one of rename"),
        ('[[rules]]\nmatch = "a"\ndrop = true\nrename = "b"', "rules[0]: has both rename and drop"),
        ('[[rules]]\nmatch = "q"\ndrop = true', "matches no tensor"),
        ('[[rules]]\nmatch = "{n}.weigth"\ndrop = true', 'the nearest name is "m.0.weight"'),
        ('[[rules]]\nmatch = "{n}.weight"\nrename = "{n}.w"', '"m.0.weight" is not, because {…} stands for one part'),
        ('[[rules]]\njoin = ["{n}.weight", "a"]\nto = "c"\naxis = 0', '"m.0.weight" is not, because {…} stands'),
        ('[[rules]]\nmatch = "a"\nrename = "b"', 'makes a second tensor of the name "b"'),
        ('[[rules]]\nmatch = "*"\nrename = "x{n}"', "{n}, which the matched pattern"),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y"]\naxis = 0\nsizes = [1, 2]', "which add up to 3, not "),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y", "z"]\naxis = 0', "into 3 equal parts, but 4 elements do not"),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y"]\naxis = 0\nsizes = [1, 2, 3]', "[1, 2, 3], for 2 names"),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y"]\naxis = 0\nsizes = [-1, 5]', "one of which is negative"),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y"]\naxis = 7', 'is axis 7, but "a" has shape [4, 6]'),
        ('[[rules]]\nmatch = "a"\nsplit = ["x", "y"]', "has no axis, which split needs"),
        ('[[rules]]\nmatch = "a"\npermute = [0, 0]', "has shape [4, 6]"),
        ('[[rules]]\nmatch = "a"\nunflatten = 0\nsizes = [3, -1]', "axis 0 of \"a\" has size 4"),
        ('[[rules]]\nmatch = "a"\nflatten = [1, 0]', "before the first"),
        ('[[rules]]\nmatch = "a"\ngather = 0\nindices = [4]', "have 4, but axis 0"),
        ('[[rules]]\nmatch = "a"\nslice = 0\nstep = 0', "step: is 0"),
        ('[[rules]]\nmatch = "a"\nslice = 0\nstart = 3\nstop = 1', "selects no element of axis 0 of"),
        ('[[rules]]\njoin = ["a", "b"]\nto = "c"\naxis = 0', "joins \"a\""),
        ('[[rules]]\njoin = ["a", "q"]\nto = "c"\naxis = 0', 'needs "q"'),
        ('[[rules]]\njoin = ["a", "a"]\nto = "c"\naxis = 0', 'uses "a" twice'),
        ('[[rules]]\nstack = "{n}"\nto = "all"', 'must be a number, but is "a"'),
        ('[[rules]]\nmatch = "{"\ndrop = true', "is not a pattern"),
        ('[[rules]]\nmatch = "*"\ndrop = true', "would have no tensor"),
        ('[[rules]]\nmatch = "a"\ndrop = false', "but must be true"),
        ("[[axes]]\nmatch = 1", "must be a pattern"),
        ('[[axes]]\nmatch = "a"\naxis = 0\nheads = 0', "number of heads, at least 1"),
        ("= 1", "is not TOML"),
    ],
)  # fmt: skip
def test_a_layout_that_does_not_fit_is_refused(tmp_path, text, said):
    tensors = {"a": np.zeros((4, 6)), "b": np.zeros((3, 5)), "m.0.weight": np.zeros(2)}
    with pytest.raises(dml.ModelError) as refused:
        rules(text, tensors, tmp_path)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors", "rules.toml"]


def test_ranks_that_cannot_share_are_refused(tmp_path):
    source = written(tmp_path / "in.safetensors", {"a.q_proj.weight": np.zeros((10, 4)), "strange": np.zeros((4, 4))})
    with pytest.raises(dml.ModelError, match='"strange", whose axis is not known'):
        reshard([source], tmp_path / "out", ranks=2)
    layout = tmp_path / "layout.toml"
    layout.write_text('[[axes]]\nmatch = "strange"\nreplicate = true')
    with pytest.raises(dml.ModelError, match="its axis 0 cannot be divided evenly among 3 ranks"):
        reshard([source], tmp_path / "out", layout, ranks=3)
    layout.write_text('[[rules]]\nmatch = "strange"\nreplicate = true\n[[axes]]\nmatch = "*"\naxis = 0\nheads = 4')
    with pytest.raises(dml.ModelError, match="4 heads, which 6 ranks cannot share"):
        reshard([source], tmp_path / "out", layout, ranks=6)
    with pytest.raises(dml.ModelError, match="is one file"):
        reshard([source], tmp_path / "out.safetensors", ranks=2)
    with pytest.raises(dml.ModelError, match="tp is 0, but must be 1 to 4096"):
        reshard([source], tmp_path / "out", ranks=0)


def test_ranks_that_do_not_agree_are_refused(tmp_path):
    one, other = ({"model.norm.weight": np.full(4, k)} for k in range(2))
    files = [written(tmp_path / f"{k}.safetensors", each) for k, each in enumerate((one, other))]
    with pytest.raises(dml.ModelError, match="every rank has all of it"):
        reshard(files, tmp_path / "out.safetensors")
    written(files[1], {"model.norm.weight": np.zeros(4), "other": np.zeros(2)})
    with pytest.raises(dml.ModelError, match="differ in"):
        reshard(files, tmp_path / "out.safetensors")


@pytest.mark.parametrize("offsets", [[[0, 0], [1, 0]], [[0, 0], [3, 0]], [[0, 0], None], [[0, 0], [0, -1]]])
def test_pieces_that_make_no_tensor_are_refused(tmp_path, offsets):
    for k, offset in enumerate(offsets):
        said = {"DCP_SHARDING_INFO": json.dumps({"x": {"saved_offsets": offset}})}
        written(tmp_path / f"{k}.safetensors", {"x": np.zeros((2, 3))}, said)
    with pytest.raises(dml.ModelError, match=r"overlap or leave holes|saved_offsets"):
        reshard([tmp_path], tmp_path.with_suffix(".out.safetensors"))


def test_a_folder_is_replaced_only_if_it_may_be(tmp_path):
    tensors = llama(1)
    source = written(tmp_path / "in.safetensors", tensors)
    reshard([source], tmp_path / "out", shard_size="5KB").run()
    with pytest.raises(dml.ModelError, match="exists already"):
        reshard([source], tmp_path / "out").run()
    reshard([source], tmp_path / "out", overwrite=True).run()
    assert os.listdir(tmp_path / "out") == ["model.safetensors"]
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(dml.ModelError, match=r"mine\.txt"):
        reshard([source], tmp_path / "out", overwrite=True).run()
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors", "out"]
    with pytest.raises(dml.BindingError, match="is an input, too"):
        reshard([tmp_path / "out"], tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("rows", range(20, 60, 3))
def test_ranks_are_joined_in_the_least_memory(rows, tmp_path):
    # Among these sizes are some of which little more than one block fits.
    rng = np.random.default_rng(rows)
    tensors = {
        "w": rng.integers(0, 255, (rows, 4, 9), np.uint8),
        "v": rng.integers(0, 255, (rows, 9), np.uint8),
    }
    written(tmp_path / "in.safetensors", tensors)
    reshard([tmp_path / "in.safetensors"], tmp_path / "ranks", ranks={"fsdp": 5}).run()
    reshard([tmp_path / "ranks"], tmp_path / "out.safetensors", memory=4096).run()
    assert_equal(stores.open(tmp_path / "out.safetensors"), tensors)


@pytest.mark.parametrize("kind", [str, Path])
def test_one_input_need_not_be_in_a_list(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    for name, fill in ("a", 0), ("b", 1), ("ab", 7):
        (tmp_path / name).mkdir()
        written(tmp_path / name / "x.safetensors", {"w": np.full(2, fill)})
    stores.reshard(kind("ab"), "out.safetensors").run()
    assert stores.open("out.safetensors")["w"].read().tolist() == [7, 7]
