"""Folders of DeepSpeed, Megatron and Meta's Llama: whole tensors of what ranks have."""

import itertools
import json
import random
import shutil

import numpy as np
import pytest
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from safetensors.torch import load_file, save_file  # noqa: E402
from stores.trained_folders import (  # noqa: E402
    megatron_tensors,
    write_consolidated,
    write_megatron,
    write_zero,
)


def is_same(plan, tensors):
    """Whether a plan loads these tensors, bit for bit."""
    found = plan.load()
    assert {*found} == {*tensors}
    for name, each in tensors.items():
        wanted = each.view(torch.int16).numpy() if each.dtype == torch.bfloat16 else each.numpy()
        assert found[name].shape == each.shape, name
        assert found[name].tobytes() == wanted.tobytes(), name
    return True


def some(rng, count):
    """Random tensors of 0 to 3 dimensions."""
    generator = torch.Generator().manual_seed(rng.randint(0, 999))
    shapes = ([rng.randint(1, 9) for _ in range(rng.randint(0, 3))] for _ in range(count))
    return {f"layers.{k}.weight": torch.randn(shape, generator=generator) for k, shape in enumerate(shapes)}


@pytest.mark.parametrize(("stage", "ranks"), [*itertools.product((1, 2, 3), (1, 2, 3, 8))])
def test_shards_of_zero_become_whole_tensors(stage, ranks, tmp_path):
    rng = random.Random(f"{stage} {ranks}")
    tensors = some(rng, 7)
    more = {
        "frozen.weight": torch.randn(5, 7).bfloat16(), "rotary.inv_freq": torch.randn(4), "empty": torch.zeros(3, 0)
    }  # fmt: skip
    groups = rng.choice((1, 2))
    gaps = [[rng.randint(0, 7) for _ in range(len({**tensors, "empty": 0}))[k::groups]] for k in range(groups)]
    options = {"groups": groups, "frozen": ["frozen.weight"], "buffers": ["rotary.inv_freq"], "subgroup": 20}
    if stage < 3:
        options |= {"shared": [("tied.weight", "layers.0.weight")], "paddings": gaps if ranks > 1 else None}
        more["tied.weight"] = tensors["layers.0.weight"]
    write_zero(tmp_path / "run/global_step10", {**tensors, **more}, ranks, stage, **options)
    (tmp_path / "run/latest").write_text("global_step10")
    assert is_same(stores.plan_load(tmp_path / "run/global_step10"), {**tensors, **more})
    assert is_same(stores.plan_load(tmp_path / "run"), {**tensors, **more})


def test_boxes_of_intervals_are_elements_in_order():
    from anydml.stores.formats.deepspeed import boxes

    rng = random.Random(0)
    for _ in range(300):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(0, 4))]
        numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        start = rng.randint(0, numbers.size)
        stop = rng.randint(start, numbers.size)
        found = [numbers[tuple(slice(a, a + n) for a, n in zip(first, sizes, strict=True))].ravel()
                 for first, sizes in boxes(start, stop, shape)] if stop > start else []  # fmt: skip
        assert [int(n) for box in found for n in box] == [*range(start, stop)]
        assert len(found) <= max(1, 2 * len(shape) - 1)


def test_zero_by_the_command_says_what_it_takes(tmp_path, capsys):
    tensors = some(random.Random(1), 5)
    write_zero(tmp_path / "run", tensors, 4, 2)
    code, out, _ = anydml(capsys, "reshard", tmp_path / "run", tmp_path / "out.safetensors", "--dry-run")
    assert code == 0
    assert "takes weights of float32 from the shards of 4 ranks of ZeRO's stage 2" in out
    assert anydml(capsys, "reshard", tmp_path / "run", tmp_path / "out.safetensors", "--quiet")[0] == 0
    assert is_same(stores.plan_load(tmp_path / "out.safetensors"), tensors)
    assert anydml(capsys, "verify", tmp_path / "run", tmp_path / "out.safetensors")[0] == 0
    code, out, _ = anydml(capsys, "stores", tmp_path / "run")
    assert code == 0
    assert all(name in out for name in tensors)


@pytest.mark.parametrize("stage", [2, 3])
def test_zero_is_refused_where_a_shard_is_missing(stage, tmp_path):
    write_zero(tmp_path / "run", some(random.Random(1), 5), 3, stage)
    (found,) = (tmp_path / "run").glob("*zero_pp_rank_1_*_optim_states.pt")
    found.rename(tmp_path / "kept.pt")
    with pytest.raises(ModelError, match=r"lacks the file …_optim_states\.pt of rank 1"):
        stores.plan_load(tmp_path / "run")
    for each in (tmp_path / "run").glob("*rank_2_*_optim_states.pt"):
        each.unlink()
    with pytest.raises(ModelError, match="of 1 rank, which say that 3 shared the weights"):
        stores.plan_load(tmp_path / "run")


def test_zero_whose_shapes_do_not_fit_is_refused(tmp_path):
    tensors = some(random.Random(1), 5)
    for stage in (2, 3):
        folder = tmp_path / str(stage)
        write_zero(folder, tensors, 2, stage)
        for path in folder.glob("*_model_states.pt"):
            said = torch.load(path, weights_only=False)
            said["param_shapes"][0]["more.weight"] = torch.Size([9])
            torch.save(said, path)
        with pytest.raises(ModelError, match=r"lack|shapes have"):
            stores.plan_load(folder)


def test_a_file_of_one_rank_of_zero_is_not_taken_for_the_model(tmp_path):
    write_zero(tmp_path / "run", some(random.Random(1), 3), 2, 3)
    with pytest.raises(ModelError, match="has the parts of rank 0 of DeepSpeed's ZeRO: name its folder"):
        stores.reshard(tmp_path / "run/zero_pp_rank_0_mp_rank_00_model_states.pt", tmp_path / "out.safetensors")


def test_weights_of_the_model_where_zero_keeps_no_shards(tmp_path):
    tensors = some(random.Random(1), 3)
    write_zero(tmp_path / "run", tensors, 2, 2)
    for each in (tmp_path / "run").glob("*optim*"):
        each.unlink()
    assert is_same(stores.plan_load(tmp_path / "run"), {name: each.bfloat16() for name, each in tensors.items()})


@pytest.fixture(scope="module")
def llama():
    """A small Llama by Meta's names, and its params.json."""
    generator = torch.Generator().manual_seed(0)
    shapes = {"tok_embeddings.weight": (40, 16), "norm.weight": (16,), "output.weight": (40, 16), "rope.freqs": (2,)}
    for n in range(2):
        shapes |= {f"layers.{n}.attention.{name}.weight": (16, 16) for name in ("wq", "wo")}
        shapes |= {f"layers.{n}.attention.{name}.weight": (8, 16) for name in ("wk", "wv")}
        shapes |= {f"layers.{n}.feed_forward.{name}.weight": (24, 16) for name in ("w1", "w3")}
        shapes |= {f"layers.{n}.feed_forward.w2.weight": (16, 24), f"layers.{n}.ffn_norm.weight": (16,)}
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return tensors, {"dim": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 40}


@pytest.mark.parametrize(("ranks", "embeddings", "params"), [*itertools.product((1, 2), (0, 1), (True, False))])
def test_files_of_metas_ranks_are_joined(ranks, embeddings, params, llama, tmp_path):
    tensors, said = llama
    write_consolidated(
        tmp_path, {name: each for name, each in tensors.items() if name != "rope.freqs"}, ranks, embeddings
    )
    if params:
        (tmp_path / "params.json").write_text(json.dumps(said))
    plan = stores.plan_load(tmp_path)
    assert is_same(plan, {name: each for name, each in tensors.items() if name != "rope.freqs"})
    assert any("no params.json" in each for each in plan.remarks) == (ranks > 1 and not params)


def test_a_missing_file_of_metas_ranks_is_told(llama, tmp_path):
    tensors, said = llama
    write_consolidated(tmp_path, {name: each for name, each in tensors.items() if name != "rope.freqs"}, 4)
    (tmp_path / "params.json").write_text(json.dumps({**said, "n_kv_heads": 4}))
    (tmp_path / "consolidated.03.pth").rename(tmp_path / "kept")
    with pytest.raises(ModelError, match="do not fit the heads"):
        stores.plan_load(tmp_path)
    (tmp_path / "kept").rename(tmp_path / "consolidated.03.pth")
    (tmp_path / "consolidated.01.pth").unlink()
    with pytest.raises(ModelError, match=r"lacks the files consolidated\.NN\.pth of rank 1"):
        stores.plan_load(tmp_path)
    remarks = stores.plan_load(tmp_path / "consolidated.00.pth").remarks
    assert "reads the parts of one of 3 ranks; name the folder for the whole" in remarks


KINDS = [
    {}, {"tp": 2}, {"stages": 2}, {"tp": 2, "stages": 4}, {"stages": 2, "chunks": 2},
    {"tp": 4, "stages": 2, "chunks": 2}, {"experts": 2}, {"tp": 2, "stages": 2, "experts": 2},
    {"tp": 2, "gated": False},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_ranks_of_megatron_are_joined(kind, tmp_path):
    own = {"experts": 4} if "experts" in kind else {}
    tensors = megatron_tensors(gated=kind.get("gated", True), bias=not own, **own)
    write_megatron(tmp_path / "run/iter_0000010", tensors, **kind)
    (tmp_path / "run/latest_checkpointed_iteration.txt").write_text("10")
    assert is_same(stores.plan_load(tmp_path / "run/iter_0000010"), tensors)
    plan = stores.plan_load(tmp_path / "run")
    assert is_same(plan, tensors)
    assert any("_extra_state, which are not weights" in each for each in plan.remarks)


def test_what_stages_share_must_be_equal(tmp_path):
    tensors = megatron_tensors()
    tied = {name: each for name, each in tensors.items() if name != "output_layer.weight"}
    write_megatron(tmp_path / "run", tied, 2, 2, last=["embedding.word_embeddings.weight"])
    assert is_same(stores.plan_load(tmp_path / "run"), tied)
    path = tmp_path / "run/mp_rank_01_001/model_optim_rng.pt"
    content = torch.load(path, weights_only=False)
    content["model"]["embedding.word_embeddings.weight"] += 1
    torch.save(content, path)
    with pytest.raises(ModelError, match="differs from"):
        stores.plan_load(tmp_path / "run")


def test_padded_vocabularies_are_cut_where_asked(tmp_path, capsys):
    tensors = megatron_tensors()
    write_megatron(tmp_path / "run", tensors, 2)
    out = tmp_path / "out.safetensors"
    code, said, _ = anydml(capsys, "reshard", tmp_path / "run", out, "--dry-run")
    assert code == 0
    assert "--vocab-size says how many are words" in said
    assert anydml(capsys, "reshard", tmp_path / "run", out, "--vocab-size", "29", "--quiet")[0] == 0
    found = load_file(out)
    for name, each in tensors.items():
        assert torch.equal(found[name], each[:29] if len(each) == 32 else each), name
    code, _, error = anydml(capsys, "reshard", tmp_path / "run", tmp_path / "more", "--vocab-size", "33")
    assert code == 2
    assert "32 rows" in error
    code, _, error = anydml(capsys, "reshard", tmp_path / "run", tmp_path / "more", "--vocab-size", "29", "--drop",
                            "*embeddings.weight", "--drop", "output_layer")  # fmt: skip
    assert code == 2
    assert "no tensor of a vocabulary" in error


def _args(**more):
    return {"args": more.items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: shutil.rmtree(path / "mp_rank_01_001"), "must have 2 × 2 × 1 folders of ranks, not 3"),
        (
            lambda path: [shutil.rmtree(path / f"mp_rank_0{k}_001") for k in (0, 1)],
            "but args state 2: add the missing folders",
        ),
        (lambda path: (path / "mp_rank_00_000/model_optim_rng.pt").unlink(), "in which there is no model_optim_rng.pt"),
    ],
)
def test_missing_ranks_of_megatron_are_told(change, said, tmp_path):
    write_megatron(tmp_path / "run", megatron_tensors(), 2, 2)
    change(tmp_path / "run")
    with pytest.raises(ModelError, match=said):
        stores.plan_load(tmp_path / "run")


def test_copies_of_query_groups_are_refused(tmp_path):
    write_megatron(tmp_path / "run", megatron_tensors(), 2, args={"group_query_attention": True, "num_query_groups": 1})
    with pytest.raises(ModelError, match="1 group of queries for 2 ranks"):
        stores.plan_load(tmp_path / "run")


def test_one_rank_of_megatron_is_told(tmp_path):
    write_megatron(tmp_path / "run", megatron_tensors(), 2)
    remarks = stores.plan_load(tmp_path / "run/mp_rank_00/model_optim_rng.pt").remarks
    assert any("reads one of 2 ranks of Megatron" in each for each in remarks)


def test_stages_with_names_of_their_own_are_parts_of_one_checkpoint(tmp_path):
    tensors = some(random.Random(2), 6)
    for k in range(3):
        torch.save({name: tensors[name] for name in [*tensors][2 * k : 2 * k + 2]}, tmp_path / f"stage{k}.pt")
    paths = [tmp_path / f"stage{k}.pt" for k in range(3)]
    plan = stores.plan_load(paths)
    assert is_same(plan, tensors)
    assert "takes 3 inputs as parts of one checkpoint, because no tensor is in two of them" in plan.remarks
    torch.save({**torch.load(paths[0]), "more.weight": torch.zeros(3)}, paths[1])
    with pytest.raises(ModelError, match="parts of one checkpoint have none in common"):
        stores.plan_load(paths)


@pytest.mark.parametrize("kind", ["zero", "megatron", "distributed", "model"])
def test_a_folder_of_checkpoints_names_them(kind, tmp_path):
    tensors = {f"decoder.layers.{k}.mlp.linear_fc2.weight": torch.ones(4, 4) for k in range(2)}
    folder = tmp_path / "run" / "step10"
    if kind == "zero":
        write_zero(folder, tensors, 2, 3)
    elif kind == "megatron":
        write_megatron(folder, tensors, 2)
    else:
        save_file(tensors, tmp_path / "x.safetensors")
        stores.reshard(tmp_path / "x.safetensors", folder, dcp=kind == "distributed").run()
    (tmp_path / "run" / "logs").mkdir()
    with pytest.raises(ModelError, match=r'run: has no index .*: name one of them, such as "step10"'):
        stores.reshard(tmp_path / "run", tmp_path / "out")
    assert {*stores.reshard(folder, tmp_path / "out").outputs.names.texts} == {*tensors}
