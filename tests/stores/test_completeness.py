"""Checkpoints of which files, pieces or signs are missing are refused, and what is left out is said."""

import dataclasses
import itertools
import json
import pickle
import random
import shutil
import warnings

import pytest
from stores.test_commands import anydml

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError
from anydml.stores.loading import plan_load
from anydml.stores.verifying import compare

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

LAYER = "model.layers.{}.self_attn.{}_proj.weight"
WHOLE = {
    **{LAYER.format(layer, each): torch.arange(512.0).reshape(64, 8) + layer for layer in (0, 1) for each in "ov"},
    "model.norm.weight": torch.arange(8.0),
}
RANKS = {"fsdp": {"fsdp": 4}, "tp": {"tp": 4}, "pp": {"pp": 2}, "tp and pp": {"tp": 2, "pp": 2}}


def read(path):
    return {name: store.read() for name, store in stores.open(path).items()}


def assert_whole(path, wanted=WHOLE):
    found = safetensors.load_file(path)
    assert {*found} == {*wanted}
    for name, each in wanted.items():
        assert torch.equal(found[name], each)


@pytest.fixture
def ranks(tmp_path, request):
    """Files of ranks."""
    safetensors.save_file(WHOLE, tmp_path / "whole.safetensors")
    stores.reshard([tmp_path / "whole.safetensors"], tmp_path / "ranks", ranks=RANKS[request.param]).run()
    return sorted((tmp_path / "ranks").iterdir())


@pytest.mark.parametrize("ranks", RANKS, indirect=True)
def test_files_of_ranks_say_themselves_what_they_hold(ranks, tmp_path):
    random.Random(1).shuffle(ranks)
    for number, file in enumerate(ranks):
        # Names of files say nothing.
        ranks[number] = file.rename(tmp_path / f"{number}.safetensors")
    out = tmp_path / "out.safetensors"
    stores.reshard(ranks, out).run()
    assert_whole(out)
    loaded = plan_load(ranks).load()
    assert all((loaded[name] == each.numpy()).all() for name, each in WHOLE.items())
    assert stores.verify(out, tmp_path / "whole.safetensors") is None


@pytest.mark.parametrize("ranks", RANKS, indirect=True)
@pytest.mark.parametrize("keeps_names", [True, False])
def test_ranks_in_a_folder_each_are_joined(ranks, tmp_path, keeps_names):
    folders = []
    for number, file in enumerate(ranks):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        file.rename(folders[-1] / (file.name if keeps_names else "model.safetensors"))
    out = tmp_path / "out.safetensors"
    stores.reshard(folders[::-1], out).run()
    assert_whole(out)
    with pytest.raises(ModelError, match=r"name the files of all ranks|that their names count"):
        stores.reshard(folders[1:], tmp_path / "less.safetensors")


@pytest.mark.parametrize("ranks", RANKS, indirect=True)
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_rank_that_is_missing_is_an_error(ranks, tmp_path, is_folder):
    for lost in range(len(ranks)):
        left = [file for number, file in enumerate(ranks) if number != lost]
        if is_folder:
            folder = tmp_path / f"without {lost}"
            folder.mkdir()
            for file in left:
                shutil.copy(file, folder / f"x{file.name[-13:]}")
            left = [folder]
        for make in (
            lambda left=left: stores.reshard(left, tmp_path / "out.safetensors"),
            lambda left=left: plan_load(left),
        ):
            with pytest.raises(ModelError, match=r"name the files of all ranks|name the files of one set"):
                make()
    if is_folder:
        with pytest.raises(ModelError, match=r"name the files of all ranks|in both"):
            stores.open(folder)


@pytest.mark.parametrize("ranks", ["fsdp"], indirect=True)
def test_ranks_that_do_not_belong_together_are_refused(ranks, tmp_path):
    out = tmp_path / "out.safetensors"
    for paths, words in (
        (ranks[:1], r"is rank 0 of \d: name the files of all ranks, each once, or their folder"),
        ([*ranks[:3], tmp_path / "whole.safetensors"], "is none"),
        ([*ranks[:3], shutil.copy(ranks[0], tmp_path / "again.safetensors")], "ranks 0, 0, 1, 2"),
    ):
        with pytest.raises(ModelError, match=words):
            stores.reshard(paths, out)
        with pytest.raises(ModelError, match=words):
            plan_load(paths)
    with pytest.raises(ModelError, match=r"is rank 0 of \d: name the files of all ranks, each once, or their folder"):
        stores.verify(ranks[0], tmp_path / "whole.safetensors")
    with pytest.raises(ModelError, match=r"is rank 0 of \d: name the files of all ranks, each once, or their folder"):
        plan_load(stores.open(ranks[0]))


@pytest.mark.parametrize("ranks", ["fsdp"], indirect=True)
def test_ranks_of_several_runs_are_told_where_anything_tells(ranks, tmp_path):
    said = "joins ranks of 2 folders, whose files do not state whether they were written together"
    for name, change in ("values", lambda x: x + 1), ("sizes", lambda x: x[: len(x) // 2].clone()):
        whole, folder = tmp_path / f"{name}.safetensors", tmp_path / name
        safetensors.save_file({each: change(x) for each, x in WHOLE.items()}, whole)
        stores.reshard([whole], folder, ranks=RANKS["fsdp"]).run()
        mixed = [*ranks[:3], folder / ranks[3].name]
        if name == "values":
            assert said in stores.reshard(mixed, tmp_path / "out.safetensors").remarks
            assert said in plan_load(mixed).remarks
        else:
            with pytest.raises(ModelError, match="overlap or leave holes"):
                stores.reshard(mixed, tmp_path / "out.safetensors")
    assert said not in stores.reshard(ranks, tmp_path / "out.safetensors").remarks


@pytest.mark.parametrize("ranks", ["tp"], indirect=True)
def test_a_rank_is_listed_as_one(ranks, capsys):
    with pytest.raises(SystemExit):
        main(["stores", str(ranks[2])])
    assert f"{ranks[2].name} holds the parts of rank 2 of 4" in capsys.readouterr().out


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("lost", range(3))
def test_numbers_in_names_are_complete(tmp_path, first, lost):
    folder = tmp_path / "in"
    folder.mkdir()
    files = [folder / f"model-{number + first:05}-of-00003.safetensors" for number in range(3)]
    for number, file in enumerate(files):
        safetensors.save_file({f"x{number}": torch.ones(2)}, file)
    assert [*stores.open(folder)] == ["x0", "x1", "x2"]
    files[lost].unlink()
    for make in (
        lambda: stores.open(folder),
        lambda: plan_load(folder),
        lambda: stores.reshard([folder], tmp_path / "out.safetensors"),
    ):
        with pytest.raises(ModelError, match="has 2 of 3 files that their names count, and lacks"):
            make()
    alone = stores.reshard([files[lost - 1]], tmp_path / "out.safetensors")
    assert "reads one of 3 files of a checkpoint, without the tensors of the others" in alone.remarks
    two = stores.reshard([files[lost - 1], files[lost - 2]], tmp_path / "out.safetensors")
    assert "reads 2 of 3 files of a checkpoint, without the tensors of the others" in two.remarks
    safetensors.save_file({f"x{lost}": torch.ones(2)}, files[lost])
    assert not any("of the others" in remark for remark in stores.reshard(files, tmp_path / "out.safetensors").remarks)


@pytest.mark.parametrize(
    "name",
    [
        "model_{:05}_of_{:05}.safetensors",
        "MODEL-{:05}-OF-{:05}.safetensors",
        "diffusion_pytorch_model-{:05}-of-{:05}.fp16.safetensors",
        "model.{}.of.{}.safetensors",
    ],
)
def test_names_of_other_forms_are_complete(tmp_path, name):
    for number in (1, 3):
        safetensors.save_file({f"x{number}": torch.ones(2)}, tmp_path / name.format(number, 3))
    with pytest.raises(ModelError, match=f"has 2 of 3 files that their names count, and lacks.*{name.format(2, 3)}"):
        stores.open(tmp_path)
    alone = stores.reshard(tmp_path / name.format(1, 3), tmp_path / "out" / "x.safetensors")
    assert "reads one of 3 files of a checkpoint, without the tensors of the others" in alone.remarks


@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 1, 2), (1, 2, 7)])
def test_more_files_than_their_names_count_are_refused(tmp_path, numbers):
    for number in numbers:
        safetensors.save_file({f"x{number}": torch.ones(2)}, tmp_path / f"model-{number:05}-of-00002.safetensors")
    with pytest.raises(ModelError, match=f"has number {numbers[-1]} of 2 files model-….safetensors"):
        stores.open(tmp_path)


@pytest.mark.parametrize("is_there", [False, True])
def test_what_an_index_leaves_out_is_said(tmp_path, is_there, capsys):
    folder, out = tmp_path / "in", tmp_path / "out.safetensors"
    folder.mkdir()
    files = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
    for number, name in enumerate(files[: 2 + is_there]):
        safetensors.save_file({f"x{number}": torch.ones(2)}, folder / name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x0": files[0], "x1": files[1]}}))
    expected = ["reads 2 of 3 files that their names count, because the index names no others"]
    if is_there:
        expected.insert(0, f'leaves out 1 other file in the folder: "{files[2]}"')
    for path in folder, index:
        assert stores.reshard([path], out).remarks[: len(expected)] == expected
        assert plan_load(path).remarks == json.loads(plan_load(path).to_json())["remarks"] == expected
    with pytest.raises(SystemExit):
        main(["stores", str(folder)])
    printed = capsys.readouterr().out
    assert all(each in printed for each in expected)
    index.unlink()
    if is_there:
        assert plan_load(folder).remarks == []


SHARDS = 4


def shards_of(folder, wanted):
    """Files as `HuggingFaceStorageWriter` writes them, of rows that ranks share."""
    folder.mkdir()
    files = []
    for rank in range(SHARDS):
        own = {name: (each.chunk(SHARDS)[rank], rank * -(-len(each) // SHARDS)) for name, each in wanted.items()}
        said = {name: {"saved_offsets": [at, *[0] * (part.ndim - 1)]} for name, (part, at) in own.items()}
        files.append(folder / f"shard-{rank + 1:05}-model-00001-of-00001.safetensors")
        parts = {name: part.clone() for name, (part, _) in own.items()}
        safetensors.save_file(parts, files[-1], {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0"})
    return files


EMBEDDED, DOWN = "model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight"
MODEL = {
    EMBEDDED: torch.arange(128.0).reshape(16, 8),
    "model.layers.0.input_layernorm.weight": torch.arange(8.0),
    DOWN: torch.arange(192.0).reshape(8, 24),
    "model.layers.0.mlp.up_proj.weight": torch.arange(192.0).reshape(24, 8),
    "model.norm.weight": torch.arange(8.0),
}


def test_shards_of_files_that_say_their_places(tmp_path):
    files = shards_of(tmp_path / "in", MODEL)
    for paths in ([tmp_path / "in"], files, files[::-1]):
        plan = stores.reshard(paths, tmp_path / "out.safetensors", overwrite=True)
        assert "takes the ends of tensors from 4 files, which do not state whether there are more" in plan.remarks
        plan.run()
        assert_whole(tmp_path / "out.safetensors", MODEL)


@pytest.mark.parametrize("lost", range(SHARDS))
@pytest.mark.parametrize("shorter", [name for name in MODEL if name != DOWN])
def test_shards_that_are_missing_are_told_by_others(tmp_path, lost, shorter):
    files = shards_of(tmp_path / "in", {name: MODEL[name] for name in {shorter: 0, EMBEDDED: 0, DOWN: 0}})
    if shorter == EMBEDDED:
        (tmp_path / "in" / "config.json").write_text(json.dumps({"vocab_size": 16, "hidden_size": 8}))
    files.pop(lost).unlink()
    for paths in ([tmp_path / "in"], files):
        with pytest.raises(ModelError, match=r"files are missing|leave holes|but none of [123]"):
            stores.reshard(paths, tmp_path / "out.safetensors")


@pytest.mark.parametrize("single", [name for name in MODEL if name != DOWN])
def test_no_end_is_expected_of_numbers_that_are_no_rows(tmp_path, single):
    said = {name: {"saved_offsets": [0] * (0 if name == single else each.ndim)} for name, each in MODEL.items()}
    parts = {**MODEL, single: torch.tensor(1.0)}
    path = tmp_path / "shard-00000-model-00001-of-00001.safetensors"
    safetensors.save_file(parts, path, {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0"})
    stores.reshard(path, tmp_path / "out.safetensors").run()
    assert_whole(tmp_path / "out.safetensors", parts)


@pytest.fixture
def distributed(tmp_path):
    """A distributed checkpoint, and a way to change what its metadata say."""
    import torch.distributed.checkpoint as dcp

    folder = tmp_path / "dcp"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {
            "x": torch.arange(10.0),
            "y": torch.ones(2, 3),
            "epoch": 3,
            "optimizer": {"m": torch.ones(2), "lr": 0.1},
        }
        dcp.save(state, checkpoint_id=folder, no_dist=True)
    file = folder / ".metadata"

    def change(function):
        said = pickle.loads(file.read_bytes())
        function(said)
        file.write_bytes(pickle.dumps(said))

    return folder, change


def cut(chunk, start, size):
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

    return ChunkStorageMetadata(torch.Size(start), torch.Size(size))


def resize(*sizes):
    return lambda said: setattr(said.state_dict_metadata["x"], "size", torch.Size(sizes))


def stored_at(said, start):
    """Add a place for a piece of x that its entry does not have."""
    index = next(each for each in said.storage_data if each.fqn == "x")
    said.storage_data[dataclasses.replace(index, offset=torch.Size([start]))] = said.storage_data[index]


@pytest.mark.parametrize(
    "change, words",
    [
        (resize(11), r"leave holes in shape \[11\]"),
        (resize(9), r"has pieces up to \[10\], outside its shape \[9\]"),
        (resize(0), r"outside its shape \[0\]"),
        (resize(), r"outside its shape \[\]"),
        (resize(10, 1), r"outside its shape \[10, 1\]"),
        (lambda said: setattr(said.state_dict_metadata["x"], "chunks", []), "has no pieces for its shape"),
        (lambda said: delattr(said.state_dict_metadata["x"], "size"), "has no size"),
        (lambda said: said.state_dict_metadata.pop("y"), r"y: has a stored piece at \[0, 0\], which no chunk"),
        (lambda said: stored_at(said, 10), r"x: has a stored piece at \[10\], which no chunk of the tensor declares"),
    ],
)
def test_declared_sizes_are_the_truth(distributed, tmp_path, change, words):
    folder, changed = distributed
    changed(change)
    for make in (
        lambda: stores.reshard([folder], tmp_path / "out.safetensors"),
        lambda: plan_load(folder),
        lambda: stores.verify(folder, folder),
    ):
        with pytest.raises(ModelError, match=words):
            make()
    with pytest.raises(SystemExit) as ended:
        main(["stores", str(folder)])
    assert ended.value.code == 2


def test_declared_dtypes_are_the_truth(distributed, tmp_path, capsys):
    folder, changed = distributed

    def declare(said):
        entry = said.state_dict_metadata["x"]
        entry.properties = dataclasses.replace(entry.properties, dtype=torch.int32)

    changed(declare)
    for make in (
        lambda: stores.reshard([folder], tmp_path / "out.safetensors"),
        lambda: plan_load(folder),
        lambda: stores.verify(folder, folder),
    ):
        with pytest.raises(ModelError, match=r"x: has \w+ at \d+ of .*, but int32 is declared"):
            make()
    with pytest.raises(SystemExit):
        main(["stores", str(folder)])
    assert "but int32 is declared" in "".join(capsys.readouterr())


def test_what_is_not_an_array_or_not_of_the_model_is_said(distributed, tmp_path, capsys):
    folder, _ = distributed
    nested = {"model": {"w": torch.ones(2)}, "optimizer": {"state": {0: {"m": torch.ones(2), "step": 4}},
              "param_groups": [{"lr": 0.1}]}, "epoch": 3, (1, "a"): {"rest": None}}  # fmt: skip
    torch.save(nested, tmp_path / "t.pt")
    for path, counts, others in (
        (folder, "1 of optimizer", '2 objects that are not tensors: "epoch", "optimizer.lr"'),
        (
            tmp_path / "t.pt",
            "1 of optimizer",
            '4 objects that are not tensors: "optimizer.state.0.step", "optimizer.param_groups", "epoch", "(1, \'a\')"',
        ),
    ):
        training = "contains tensors that train a model, under their own names: "
        expected = [f"{training}{counts}; drop of reshard leaves them out", f"leaves out {others}"]
        assert stores.reshard([path], tmp_path / "out.safetensors").remarks[:2] == expected
        assert plan_load(path).remarks == json.loads(plan_load(path).to_json())["remarks"] == expected
        found = compare(path, path)
        assert (found.differences, found.remarks) == ([], [f"{path}: {each}" for each in expected * 2])
        for command in ["stores", str(path)], ["reshard", "--dry-run", str(path), str(tmp_path / "out.safetensors")]:
            with pytest.raises(SystemExit) as ended:
                main(command)
            assert not ended.value.code
            printed = capsys.readouterr()
            assert all(each in printed.out + printed.err for each in expected)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.RMSprop])
def test_what_trains_a_model_is_known_below_other_names(tmp_path, optimizer):
    import torch.distributed.checkpoint as dcp

    model = torch.nn.Linear(2, 2)
    trained = optimizer(model.parameters())
    model(torch.ones(2)).sum().backward()
    trained.step()
    own = len(trained.state[model.weight]) * 2
    torch.save(trained.state_dict(), tmp_path / "alone.pt")
    torch.save({"client": {"rng_state": torch.ones(1)}, "module": model.state_dict()}, tmp_path / "client.pt")
    torch.save({"layer": model.state_dict(), "scale": torch.ones(2)}, tmp_path / "none.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {"app": {"model": model.state_dict(), "optim": trained.state_dict()}}
        dcp.save(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    said = "contains tensors that train a model, under their own names: "
    for name, groups in (
        ("dcp", [f"{own} of app.optim"]),
        ("alone.pt", [f"{own} of state"]),
        ("client.pt", ["1 of client.rng_state"]),
        ("none.pt", []),
    ):
        remarks = stores.reshard([tmp_path / name], tmp_path / "out.safetensors").remarks
        found = [each.removeprefix(said).partition("; ")[0] for each in remarks if each.startswith(said)]
        assert found == groups


DENSE = {
    "channels last": lambda: torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels last in 3-D": lambda: torch.ones(2, 3, 4, 5, 2).cumsum(3).to(memory_format=torch.channels_last_3d),
    "permuted": lambda: torch.arange(24).reshape(2, 3, 4).permute(1, 2, 0),
    "transposed": lambda: torch.arange(6.0).bfloat16().reshape(2, 3).T,
    "sizes of 1": lambda: torch.arange(6.0).reshape(1, 2, 1, 3).permute(3, 2, 1, 0),
    "empty": lambda: torch.ones(2, 0, 3).permute(2, 0, 1),
    "part of a storage": lambda: torch.arange(48.0).reshape(2, 2, 3, 4)[1].permute(2, 0, 1),
}


@pytest.mark.parametrize("name, is_distributed", [*itertools.product(DENSE, [False, True])])
def test_tensors_are_read_in_the_order_of_their_storage(tmp_path, name, is_distributed):
    import torch.distributed.checkpoint as dcp

    x, out = DENSE[name](), tmp_path / "out.safetensors"
    path = tmp_path / "in" if is_distributed else tmp_path / "in.pt"
    if is_distributed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save({"x": x}, checkpoint_id=path, no_dist=True)
    else:
        torch.save({"x": x}, path)
        assert (stores.open(path)["x"].read() == (x.float() if x.is_floating_point() else x).numpy()).all()
    stores.reshard([path], out).run()
    assert torch.equal(safetensors.load_file(out)["x"], x)
    assert stores.verify(path, out) is None
    halves = [plan_load(path, rank, {"fsdp": 2}).load()["x"] for rank in (0, 1)]
    assert torch.equal(torch.cat([torch.from_numpy(each.astype("f4")) for each in halves]), x.float())


@pytest.mark.parametrize("x", [torch.ones(2, 1).expand(2, 3), torch.ones(4, 6)[:, ::2], torch.ones(9).unfold(0, 3, 1)])
def test_tensors_that_skip_or_repeat_elements_are_refused(tmp_path, x):
    torch.save({"x": x}, tmp_path / "in.pt")
    said = "skip or repeat elements of its storage: save a contiguous copy"
    with pytest.raises(ModelError, match=said):
        stores.open(tmp_path / "in.pt")["x"]
    with pytest.raises(ModelError, match=f"{said}; drop leaves it out"):
        stores.reshard([tmp_path / "in.pt"], tmp_path / "out.safetensors")


LAZY = {
    "conj": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
    "neg": lambda: torch._neg_view(torch.ones(3)),
    "imag": lambda: torch.tensor([1 + 2j, 3 - 1j]).conj().imag,
    "parameter": lambda: torch.nn.Parameter(torch.tensor([1 + 2j]).conj()),
    "both": lambda: torch._neg_view(torch.tensor([1 + 2j]).conj()),
    "bfloat16": lambda: torch._neg_view(torch.ones(3).bfloat16()),
    "uint8": lambda: torch._neg_view(torch.ones(3, dtype=torch.uint8)),
}


@pytest.mark.parametrize("name, is_distributed", [*itertools.product(LAZY, [False, True])])
def test_signs_that_files_leave_to_their_readers_are_set(tmp_path, name, is_distributed):
    import torch.distributed.checkpoint as dcp

    x = LAZY[name]()
    path = tmp_path / "in" if is_distributed else tmp_path / "in.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if is_distributed:
            dcp.save({"x": x}, checkpoint_id=path, no_dist=True)
        else:
            torch.save({"x": x}, path)
            assert torch.equal(torch.load(path)["x"], x)
    if is_distributed and name == "imag":
        # PyTorch copies a part of a larger storage, and so makes its signs real.
        assert plan_load(path).ranges()
    elif name != "imag":
        with pytest.raises(ModelError, match="is cast, decoded or swapped when it is read"):
            plan_load(path).ranges()
    elif not is_distributed:
        with pytest.raises(ModelError, match="skip or repeat elements"):
            plan_load(path)
        return
    x = x.resolve_conj().resolve_neg()
    stores.reshard([path], tmp_path / "out.safetensors").run()
    assert_whole(tmp_path / "out.safetensors", {"x": x})
    assert stores.verify(path, tmp_path / "out.safetensors") is None
    found = torch.from_numpy(plan_load(path).load()["x"].view("u1"))
    assert torch.equal(found, x.detach().view(torch.uint8))
    if not is_distributed:
        assert torch.equal(torch.from_numpy(stores.open(path)["x"].read().view("u1")), x.detach().view(torch.uint8))
    if x.dtype == torch.float32:
        stores.reshard([path], tmp_path / "half.safetensors", dtype="half").run()
        assert_whole(tmp_path / "half.safetensors", {"x": x.half()})


def test_signs_are_set_in_arrays_of_chunks(tmp_path):
    import zarr

    x = torch._neg_view(torch.arange(60.0).reshape(6, 10))
    torch.save({"before": torch.ones(3), "x": x}, tmp_path / "in.pt")
    target = stores.create(tmp_path / "x.zarr", (10, 6), "float32", chunks=(4, 5))
    dml.fuse(lambda x: x.T).plan(stores.open(tmp_path / "in.pt")["x"], target, memory="64kB").run()
    assert (zarr.open(tmp_path / "x.zarr")[:] == x.resolve_neg().T.numpy()).all()


@pytest.mark.parametrize(
    "files",
    [
        ("model", "consolidated"), ("model", "adapter_model"), ("model.fp16", "model.ema"), ("stage", "pytorch_model"),
        ("model-00001-of-00001", "extra"), ("a-00001-of-00001", "b-00001-of-00001"),
    ],
)  # fmt: skip
def test_several_checkpoints_in_one_folder_are_not_mixed(files, tmp_path, capsys):
    for number, name in enumerate(files):
        safetensors.save_file({f"{number}.weight": torch.zeros(3)}, tmp_path / f"{name}.safetensors")
    for command in (["stores", tmp_path], ["reshard", tmp_path, tmp_path / "out"], ["verify", tmp_path, tmp_path]):
        code, _, error = anydml(capsys, *command)
        assert code == 2
        assert "which may be several checkpoints" in error
    paths = [tmp_path / f"{name}.safetensors" for name in files]
    plan = stores.reshard(paths, tmp_path / "out")
    assert "takes 2 inputs as parts of one checkpoint, because no tensor is in two of them" in plan.remarks
    plan.run()
    assert {*stores.open(tmp_path / "out")} == {"0.weight", "1.weight"}


@pytest.mark.parametrize(
    ("files", "is_said"),
    [
        (("consolidated.00", "consolidated.01"), False), (("model.00", "model.01", "model.02"), False),
        (("model_0", "model_1"), False), (("block1x2", "block3x4"), False), (("ae", "flux1-dev"), True),
        (("pytorch_lora_weights", "x_emb"), True),
    ],
)  # fmt: skip
def test_files_of_one_checkpoint_are_read_and_different_names_said(files, is_said, tmp_path, capsys):
    for number, name in enumerate(files):
        safetensors.save_file({f"{number}.weight": torch.zeros(3)}, tmp_path / f"{name}.safetensors")
    listed = ", ".join(f'"{name}.safetensors"' for name in files)
    said = [f"reads 2 files of different names as parts of one checkpoint: {listed}"] * is_said
    plan = stores.reshard(tmp_path, tmp_path / "out")
    assert plan.remarks[: len(said) or None] == said
    assert plan_load(tmp_path).remarks == plan_load(stores.open(tmp_path)).remarks == said
    assert all(each in anydml(capsys, "stores", tmp_path)[1] for each in said)
    assert [*stores.open(tmp_path)] == [f"{number}.weight" for number, _ in enumerate(files)]


def with_index(folder, name, values, variant=""):
    """Two files and an index of their names."""
    files = {f"{k}.weight": f"{name}{variant}-0000{k}-of-00002.safetensors" for k in (1, 2)}
    for tensor, file in files.items():
        safetensors.save_file({tensor: torch.full((3,), values)}, folder / file)
    index = folder / f"{name}{variant}.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": files}))
    return index


@pytest.mark.parametrize("name", ["model", "consolidated", "diffusion_pytorch_model"])
@pytest.mark.parametrize("other", ["model", "itself"])
def test_a_file_that_others_read_before_the_index_is_not_left_out_in_silence(name, other, tmp_path, capsys):
    index = with_index(tmp_path, name, 1.0)
    whole = tmp_path / f"{name if other == 'itself' else other}.safetensors"
    safetensors.save_file({"1.weight": torch.zeros(3)}, whole)
    said = f'has "{whole.name}" beside "{index.name}", which does not name it: name one of the two'
    for command in (["stores", tmp_path], ["reshard", tmp_path, tmp_path / "out"], ["verify", tmp_path, tmp_path]):
        code, _, error = anydml(capsys, *command)
        assert (code, said in error) == (2, True)
    assert stores.open(index)["2.weight"].read()[0] == 1
    assert stores.open(whole)["1.weight"].read()[0] == 0


def test_the_index_without_a_variant_is_read(tmp_path, capsys):
    for variant, values in (".fp16", 1.0), (".ema", 2.0):
        with_index(tmp_path, "diffusion_pytorch_model", values, variant)
    assert "has several indexes" in anydml(capsys, "reshard", tmp_path, tmp_path / "out")[2]
    with_index(tmp_path, "diffusion_pytorch_model", 3.0)
    plan = stores.reshard(tmp_path, tmp_path / "out")
    assert any(each.startswith("leaves out 4 other files in the folder") for each in plan.remarks)
    plan.run()
    assert {float(store.read()[0]) for store in stores.open(tmp_path / "out").values()} == {3.0}
    with_index(tmp_path, "consolidated", 4.0)
    assert "has several indexes" in anydml(capsys, "stores", tmp_path)[2]
    with_index(tmp_path, "model", 5.0)
    assert stores.open(tmp_path)["2.weight"].read()[0] == 5


def test_safetensors_are_read_before_an_index_of_other_files(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}))
    assert stores.open(tmp_path)["a"].read()[0] == 0
    safetensors.save_file({"lora": torch.ones(3)}, tmp_path / "adapter_model.safetensors")
    assert list(stores.open(tmp_path)) == ["a"]
    said = 'leaves out 1 other file in the folder: "adapter_model.safetensors"'
    assert said in stores.reshard(tmp_path, tmp_path / "out").remarks
    (tmp_path / "adapter_model.safetensors").unlink()
    safetensors.save_file({"a": torch.ones(3)}, tmp_path / "model.safetensors")
    assert stores.open(tmp_path)["a"].read()[0] == 1
    plan = stores.reshard(tmp_path, tmp_path / "out")
    assert any(
        each.startswith('leaves out 1 other file in the folder: "pytorch_model-00001-of-00001.bin"')
        for each in plan.remarks
    )
    plan.run()
    assert stores.open(tmp_path / "out")["a"].read()[0] == 1
    assert stores.open(index)["a"].read()[0] == 0


@pytest.mark.parametrize("files", [("model.00", "model.fp16"), ("model.fp16", "model.fp8"), ("model.1.2", "model.2.1")])
def test_other_numbers_in_names_do_not_make_one_checkpoint(files, tmp_path):
    for number, name in enumerate(files):
        safetensors.save_file({f"{number}.weight": torch.zeros(3)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(
        ModelError, match=r"several checkpoints.* config.json and the tokenizer then come by --extras-from"
    ):
        stores.open(tmp_path)


@pytest.mark.parametrize("name", ["rank_{}.safetensors", "mp_rank_{:02}/model.safetensors", "r{}-of-12.safetensors"])
def test_ranks_out_of_the_order_of_their_names_are_refused(tmp_path, name):
    parts = dict(enumerate(WHOLE[LAYER.format(0, "o")].chunk(8, dim=1)))
    paths = [tmp_path / name.format(rank) for rank in parts]
    for rank, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        safetensors.save_file({LAYER.format(0, "o"): parts[rank].contiguous()}, path)
    plan = stores.reshard(paths, tmp_path / "out.safetensors")
    assert f'ranks, in this order: "{paths[0].parent.name}/{paths[0].name}", ' in str(plan)
    plan.run()
    assert_whole(tmp_path / "out.safetensors", {LAYER.format(0, "o"): WHOLE[LAYER.format(0, "o")]})
    for shuffled in (random.Random(seed).sample(paths, 8) for seed in range(10)):
        with pytest.raises(ModelError, match=r"comes after .*: name the inputs in the order of the numbers"):
            stores.reshard(shuffled, tmp_path / "again.safetensors")


def test_links_give_ranks_another_order_than_the_numbers_in_their_names(tmp_path):
    first, second = (tensor.contiguous() for tensor in WHOLE[LAYER.format(0, "o")].chunk(2, dim=1))
    paths = [tmp_path / "2024-05-02/m.safetensors", tmp_path / "2024-05-01/m.safetensors"]
    links = [tmp_path / "first.safetensors", tmp_path / "second.safetensors"]
    for path, link, tensor in zip(paths, links, (first, second), strict=True):
        path.parent.mkdir()
        safetensors.save_file({LAYER.format(0, "o"): tensor}, path)
        link.symlink_to(path)
    words = r"comes after .*2024-05-02.*: name the inputs in the order of .*, rename the inputs, or name links to them"
    with pytest.raises(ModelError, match=words):
        stores.reshard(paths, tmp_path / "out.safetensors")
    stores.reshard(links, tmp_path / "out.safetensors").run()
    assert_whole(tmp_path / "out.safetensors", {LAYER.format(0, "o"): WHOLE[LAYER.format(0, "o")]})


def test_files_without_a_common_tensor_are_taken_in_any_order(tmp_path):
    paths = [tmp_path / "a_2.safetensors", tmp_path / "a_1.safetensors"]
    tensors = {LAYER.format(layer, "o"): WHOLE[LAYER.format(0, "o")] + layer for layer in range(2)}
    for path, name in zip(paths, tensors, strict=True):
        safetensors.save_file({name: tensors[name]}, path)
    stores.reshard(paths, tmp_path / "out.safetensors").run()
    assert_whole(tmp_path / "out.safetensors", tensors)


def test_ranks_whose_names_count_nothing_are_joined_as_they_are_named(tmp_path):
    first, second = (tensor.contiguous() for tensor in WHOLE[LAYER.format(0, "o")].chunk(2, dim=1))
    paths = [tmp_path / "z_of_2024.safetensors", tmp_path / "a_of_2023.safetensors"]
    for path, tensor in zip(paths, (first, second), strict=True):
        safetensors.save_file({LAYER.format(0, "o"): tensor}, path)
    stores.reshard(paths, tmp_path / "out.safetensors").run()
    assert_whole(tmp_path / "out.safetensors", {LAYER.format(0, "o"): WHOLE[LAYER.format(0, "o")]})
