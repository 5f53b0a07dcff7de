"""Ranks of all kinds: what each has is what NumPy slices, they go back, and no byte is asked for that nobody needs."""

import itertools
import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from anydml import stores
from anydml.errors import ModelError
from anydml.stores.checkpoints.placements import Placement

LAYERS, EXPERTS, WIDE = 2, 12, 24
AXES = """
[[axes]]
match = "*.qkv_proj.weight"
axis = 0
heads = [12, 1, 1]
[[axes]]
match = "*.experts.gate_up_proj"
axis = 1
parts = 2
[[axes]]
match = "*.experts.down_proj"
axis = 2
"""


def architecture(name):
    """Tensors of a model: dense, or with experts one by one or as one tensor."""
    rng = np.random.default_rng(3)

    def tensor(*shape):
        return rng.integers(0, 256, shape, np.uint8)

    found = {"model.embed_tokens.weight": tensor(WIDE, 4), "lm_head.weight": tensor(WIDE, 4)}
    found["model.norm.weight"] = tensor(4)
    for n in range(LAYERS):
        layer = f"model.layers.{n}"
        found[f"{layer}.input_layernorm.weight"] = tensor(4)
        found[f"{layer}.self_attn.qkv_proj.weight"] = tensor(28, 4)
        found[f"{layer}.self_attn.o_proj.weight"] = tensor(4, WIDE)
        if name == "dense":
            found[f"{layer}.mlp.up_proj.weight"] = tensor(WIDE, 4)
        elif name == "fused":
            found[f"{layer}.mlp.experts.gate_up_proj"] = tensor(EXPERTS, 2 * 12, 4)
            found[f"{layer}.mlp.experts.down_proj"] = tensor(EXPERTS, 4, 12)
        for k in range(EXPERTS if name == "apart" else 0):
            found[f"{layer}.mlp.experts.{k}.up_proj.weight"] = tensor(12, 2)
            found[f"{layer}.mlp.experts.{k}.down_proj.weight"] = tensor(2, 12)
    return found


def shared(name, each, own, tp):
    """What a tensor-parallel rank has of a tensor."""
    if "qkv" in name:
        q, *others = np.split(each, [24, 26])
        return np.concatenate([np.split(q, tp)[own], *others])
    if "gate_up" in name:
        return np.concatenate([np.split(half, tp, 1)[own] for half in np.split(each, 2, 1)], 1)
    if "norm" in name:
        return each
    return np.split(each, tp, each.ndim - 1 if "down" in name or "o_proj" in name else 0)[own]


def sliced(tensors, rank, pp, ep, tp):
    """What a rank has, by the words of who trains models."""
    expert, own = rank // tp % ep, rank % tp
    stage = rank // tp // ep
    found = {}
    for name, each in tensors.items():
        layer, number = (re.search(rf"\b{what}\.(\d+)\.", name) for what in ("layers", "experts"))
        stages = int(layer[1]) * pp // LAYERS if layer else 0 if "embed" in name else pp - 1
        if stages != stage or (number and int(number[1]) * ep // EXPERTS != expert):
            continue
        found[name] = shared(name, each, own, tp)
        if "experts" in name and not number:
            found[name] = np.split(found[name], ep)[expert]
    return found


PLACEMENTS = [*itertools.product((1, 2), (1, 2, 3), (1, 2, 3)), (2, 4, 4)]


@pytest.mark.parametrize("name", ["dense", "apart", "fused"])
def test_every_small_placement_goes_there_and_back(name, tmp_path):
    tensors = architecture(name)
    (tmp_path / "in").mkdir()
    save_file(tensors, tmp_path / "in" / "model.safetensors")
    (tmp_path / "axes.toml").write_text(AXES)
    source = stores.open(tmp_path / "in")
    for pp, ep, tp in PLACEMENTS:
        if name == "dense" and ep > 1:
            continue
        ranks, out = {"pp": pp, "ep": ep, "tp": tp}, tmp_path / f"{pp}-{ep}-{tp}"
        stores.reshard([tmp_path / "in"], out, tmp_path / "axes.toml", ranks).run()
        files = sorted(out.glob("*.safetensors"))
        assert len(files) == pp * ep * tp
        for rank, file in enumerate(files):
            wanted, found = sliced(tensors, rank, pp, ep, tp), load_file(file)
            assert {*found} == {*wanted}
            for key, each in wanted.items():
                np.testing.assert_array_equal(found[key], each, key)
            plan = stores.plan_load(source, rank, ranks, tmp_path / "axes.toml")
            asked = sum(int(np.diff(own).sum()) for own in plan.ranges().values())
            assert asked == sum(each.nbytes for each in wanted.values())
        stores.reshard([out], tmp_path / f"{pp}-{ep}-{tp}.safetensors").run()
        back = load_file(tmp_path / f"{pp}-{ep}-{tp}.safetensors")
        assert {*back} == {*tensors}
        for key, each in tensors.items():
            np.testing.assert_array_equal(back[key], each, key)


def test_ranks_of_others_with_heads_of_three_kinds_are_joined(tmp_path):
    tensors = architecture("dense")
    (tmp_path / "axes.toml").write_text(AXES)
    files = [tmp_path / f"{rank}.safetensors" for rank in range(12)]
    for rank, file in enumerate(files):
        own = {key: np.ascontiguousarray(each) for key, each in sliced(tensors, rank, 1, 1, 12).items()}
        save_file({key: each for key, each in own.items() if "qkv" in key}, file)
    stores.reshard(files, tmp_path / "out.safetensors", tmp_path / "axes.toml").run()
    for key, each in load_file(tmp_path / "out.safetensors").items():
        np.testing.assert_array_equal(each, tensors[key])


@pytest.mark.parametrize(("count", "tp"), [(2, 1), (3, 2), (5, 1), (32, 1)])
def test_fsdp_ranks_have_the_rows_that_pytorch_gives_them(count, tp, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = architecture("fused")
    save_file(tensors, tmp_path / "in.safetensors")
    (tmp_path / "axes.toml").write_text(AXES)
    stores.reshard(
        [tmp_path / "in.safetensors"], tmp_path / "out", tmp_path / "axes.toml", {"fsdp": count, "tp": tp}
    ).run()
    for rank, file in enumerate(sorted((tmp_path / "out").glob("*.safetensors"))):
        found = load_file(file)
        for key, each in sliced(tensors, rank % tp, 1, 1, tp).items():
            chunks = torch.from_numpy(each).chunk(count)
            wanted = chunks[rank // tp].numpy() if rank // tp < len(chunks) else each[:0]
            np.testing.assert_array_equal(found[key], wanted, key)
    stores.reshard([tmp_path / "out"], tmp_path / "back.safetensors").run()
    assert stores.verify(tmp_path / "in.safetensors", tmp_path / "back.safetensors") is None


def test_parts_that_are_no_parts_are_refused(tmp_path):
    tensors = {"w": np.arange(6.0)}
    for said in ('{"w": [[[0, 5]]]}', '{"w": [[[0, -1], [3, 7]]]}', '{"w": []}', "{}", "[]", '{"w": [[[0]]]}', "x"):
        metadata = {"anydml_rank": "0", "anydml_ranks": "1", "anydml_parts": said}
        save_file(tensors, tmp_path / "x.safetensors", metadata)
        with pytest.raises(ModelError, match=r"must be intervals of 1 axes|not JSON"):
            stores.reshard([tmp_path], tmp_path / "out")
    for parts in ([[0, 6]], [[6, 6]]):
        metadata["anydml_parts"] = json.dumps({"w": [parts]})
        save_file(tensors, tmp_path / "x.safetensors", metadata)
        if parts[0][0]:
            with pytest.raises(ModelError, match="overlap or leave holes"):
                stores.reshard([tmp_path], tmp_path / "out")


def test_copies_that_differ_are_refused(tmp_path):
    save_file(architecture("dense"), tmp_path / "in.safetensors")
    (tmp_path / "axes.toml").write_text(AXES)
    stores.reshard([tmp_path / "in.safetensors"], tmp_path / "out", tmp_path / "axes.toml", 12).run()
    file = tmp_path / "out" / "model-rank-00001-of-00012.safetensors"
    tensors, metadata = load_file(file), stores.open(file).metadata
    tensors["model.layers.1.self_attn.qkv_proj.weight"][3, 1] += 1  # of k, which all ranks have
    save_file(tensors, file, dict(metadata))
    with pytest.raises(ModelError, match=r'qkv_proj.weight"\]: differs from'):
        stores.reshard([tmp_path / "out"], tmp_path / "back")


@pytest.mark.parametrize(
    ("ranks", "error"),
    [
        ({"pp": 3}, r"in.safetensors has 2 layers, too few for 3 stages: --pp \(pp=\) can be 1 or 2"),
        ({"ep": 5}, "has 12 experts, which 5 ranks cannot share evenly"),
        ({"cp": 2}, 'ranks has the unknown key "cp": use pp, fsdp, ep, tp'),
        ({"tp": 0}, "tp is 0, but must be 1 to 4096"),
        ({"tp": 4096, "pp": 2}, "must be from 1 to 4096, not 8192"),
        ({"tp": 5}, "not a multiple of|cannot share evenly|divided evenly among"),
    ],
)
def test_placements_that_do_not_fit_are_refused(ranks, error, tmp_path):
    save_file(architecture("apart"), tmp_path / "in.safetensors")
    (tmp_path / "axes.toml").write_text(AXES)
    with pytest.raises(ModelError, match=error):
        stores.reshard([tmp_path / "in.safetensors"], tmp_path / "out", tmp_path / "axes.toml", ranks)


def test_ranks_are_numbered_with_tensor_parallel_ones_side_by_side():
    placement = Placement(pp=2, fsdp=3, ep=2, tp=4)
    every = [placement.indices_of(rank) for rank in range(placement.ranks)]
    assert every == [Placement(*at) for at in itertools.product(range(2), range(3), range(2), range(4))]
