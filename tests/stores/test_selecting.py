"""A model of a training run: tensors that are taken or left out, their new names, and the files that they get."""

import importlib.util
import json
import random
import shutil
import warnings

import numpy as np
import pytest
from documents import ROOT
from safetensors.numpy import load_file, save_file
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import ModelError
from anydml.stores.checkpoints.selecting import Selection

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The tensors of a tiny Llama, and the folder of what a training run keeps of it."""
    import torch.distributed.checkpoint as dcp

    folder = tmp_path_factory.mktemp("trained")
    (folder / "base").mkdir()
    shutil.copy(ROOT / "examples/llama/config.json", folder / "base")
    (folder / "base" / "tokenizer.json").write_text("[1]")
    read = safetensors.load_file(ROOT / "examples/llama/model.safetensors")
    model = {name: torch.nn.Parameter(each.float()) for name, each in read.items()}
    optimizer = torch.optim.AdamW(model.values())
    sum(each.sum() for each in model.values()).backward()
    optimizer.step()
    tensors = {name: each.detach() for name, each in model.items()}
    state = {"model": tensors, "optimizer": optimizer.state_dict(), "epoch": 3, "rng": torch.ones(5)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=folder / "dcp", no_dist=True)
    torch.save(state, folder / "run.pt")
    return folder, tensors


@pytest.mark.parametrize("source", ["dcp", "run.pt"])
@pytest.mark.parametrize("dtype", ["bf16", "half", "float32"])
def test_one_command_makes_a_model_that_transformers_loads(trained, tmp_path, capsys, source, dtype):
    folder, model = trained
    options = ["--only", "model", "--strip", "model.", "--dtype", dtype, "--shards", "3"]
    code, out, err = anydml(
        capsys, "reshard", folder / source, tmp_path / "out", *options, "--extras-from", folder / "base"
    )
    assert (code, err) == (0, "")
    objects = {"dcp": " and 13 objects that are not tensors", "run.pt": " and 2 objects that are not tensors"}[source]
    assert f"leaves out 64 tensors{objects}, because of --only or --drop: 63 of optimizer, 1 of rng\n" in out
    given = {"bf16": torch.bfloat16, "half": torch.float16, "float32": torch.float32}[dtype]
    found = {}
    for file in (tmp_path / "out").glob("*.safetensors"):
        found |= safetensors.load_file(file)
    assert {*found} == {*model}
    assert all(torch.equal(found[name], model[name].to(given)) for name in model)
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert [each.name for each in files] == [f"model-{k:05}-of-00003.safetensors" for k in (1, 2, 3)]
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(each.nbytes for each in found.values())
    assert (tmp_path / "out/tokenizer.json").read_text() == "[1]"
    assert not [each.name for each in (tmp_path / "out").iterdir() if "distcp" in each.name]
    if importlib.util.find_spec("transformers"):
        from transformers import LlamaForCausalLM

        loaded, info = LlamaForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert loaded.dtype == given


def test_what_is_dropped_is_everything_else(trained, tmp_path, capsys):
    folder, model = trained
    command = "reshard", folder / "dcp", tmp_path / "x.safetensors"
    assert anydml(capsys, *command, "--drop", "optimizer", "--drop", "rng", "--rename", "model.*=*")[0] == 0
    found = load_file(tmp_path / "x.safetensors")
    assert {name: each.tobytes() for name, each in found.items()} == {
        name: each.numpy().tobytes() for name, each in model.items()
    }


NAMES = [
    "model.a.weight",
    "model.a.bias",
    "model.b.0.w",
    "model.b.1.w",
    "model.b.10.w",
    "ema.a.weight",
    "modeling",
    "x",
]


@pytest.mark.parametrize(
    ("only", "drop", "expected"),
    [
        ("model", (), NAMES[:5]),
        ("model.", (), NAMES[:5]),
        ("model.b.1", (), ["model.b.1.w"]),
        ("x", (), ["x"]),
        ("*.weight", (), ["model.a.weight", "ema.a.weight"]),
        ("model.b.{k}.w", (), NAMES[2:5]),
        (["model.a", "x"], "*.bias", ["model.a.weight", "x"]),
        ((), ["model", "ema"], ["modeling", "x"]),
        ("model*", "model.*", ["modeling"]),
    ],
)
def test_names_are_beginnings_up_to_a_dot_or_patterns(only, drop, expected):
    found, others, _ = Selection.of(only, drop, (), {}).apply("t", dict.fromkeys(NAMES), ["ema.step"])
    assert [*found] == expected
    assert others == (["ema.step"] if not only and "ema" not in drop else [])


def test_random_names_are_taken_as_their_definition_says():
    rng = random.Random(5)
    for _ in range(300):
        parts = [rng.choice(["a", "b", "ab", "0", "1"]) for _ in range(rng.randint(1, 4))]
        given = {".".join(rng.choice(parts) for _ in range(rng.randint(1, 4))): k for k in range(12)}
        text = ".".join(rng.choice([*given]).split(".")[: rng.randint(1, 2)])
        inside = {name: k for name, k in given.items() if name.split(".")[: len(text.split("."))] == text.split(".")}
        assert Selection.of(text, (), (), ()).apply("t", given, [])[0] == inside
        if outside := {name: k for name, k in given.items() if name not in inside}:
            assert Selection.of((), text, (), ()).apply("t", given, [])[0] == outside
        else:
            with pytest.raises(ModelError, match="only and drop leave out all"):
                Selection.of((), text, (), ()).apply("t", given, [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"only": "modle"},
            'only is "modle", but no tensor has this name, or a name that begins with it; the nearest is "model"',
        ),
        ({"drop": "optim*"}, 'drop is "optim.", but no tensor has this name'),
        ({"only": "a{"}, 'only: "a{" is not a pattern'),
        ({"strip": "module."}, 'strip is "module.", but no name begins with it; the nearest is "model"'),
        ({"strip": ["model.", "ema."]}, 'strip "ema." makes a second tensor of the name "a.weight"'),
        ({"rename": {"*.gamma": "*.weight"}}, 'rename is ".*.gamma", but no tensor has this name'),
        ({"rename": {"*.weight": "w"}}, 'rename "..weight" makes a second tensor of the name "w"'),
        ({"rename": {"model.*": "*.*"}}, r'rename "model..": "..." has 2 times \*, but the pattern .* 1 times'),
        ({"rename": {"model.*": "{n}.*"}}, 'rename "model..": "{n}..* has {n}, which the matched pattern'),
    ],
)
def test_what_fits_nothing_is_refused(given, said):
    selection = Selection.of(*(given.get(key, ()) for key in Selection._fields))
    with pytest.raises(ModelError, match=said.replace("{", r"\{")):
        selection.apply("t", dict.fromkeys(NAMES), [])


def test_names_that_do_not_begin_so_are_said():
    found, _, remarks = Selection.of((), (), "model", {}).apply("t", dict.fromkeys(NAMES), [])
    assert [*found] == ["a.weight", "a.bias", "b.0.w", "b.1.w", "b.10.w", "ema.a.weight", "modeling", "x"]
    said = 'keeps the names of 3 tensors that do not begin with "model."'
    assert remarks == [f'{said}: "ema.a.weight", "modeling", "x"']


def test_stars_stand_for_what_the_stars_of_the_pattern_matched(tmp_path):
    renames = [("*._orig_mod.*", "*.*"), ("model.*", "*"), ("{x}.{n}.*", "{n}.*.{x}")]
    given = {"model._orig_mod.b.3.w.v": 1, "model.b._orig_mod.4.w": 2}
    assert Selection.of((), (), (), renames).apply("t", given, [])[0] == {"3.w.v.b": 1, "4.w.b": 2}
    save_file({"model.a": np.ones(2, "f4"), "model.b.c": np.zeros(2, "f4")}, tmp_path / "x.safetensors")
    (tmp_path / "rules.toml").write_text('[[rules]]\nmatch = "model.*"\nrename = "*"\n')
    stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", tmp_path / "rules.toml").run()
    assert {*load_file(tmp_path / "y.safetensors")} == {"a", "b.c"}


@pytest.mark.parametrize("seed", range(20))
def test_shards_are_as_equal_as_files_in_order_can_be(tmp_path, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, rng.integers(1, 9)).tolist()
    count = int(rng.integers(1, len(sizes) + 1))
    save_file({f"t{k}": np.full(n, k, "u1") for k, n in enumerate(sizes)}, tmp_path / "x.safetensors")
    plan = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "out", shards=count)
    plan.run()
    files = sorted((tmp_path / "out").glob("*.safetensors"))
    assert len(files) == count
    found = [sum(each.nbytes for each in load_file(file).values()) for file in files]

    def least(first, left):
        if left == 1:
            return sum(sizes[first:])
        ends = range(first + 1, len(sizes) - left + 2)
        return min(max(sum(sizes[first:end]), least(end, left - 1)) for end in ends)

    order = [each.shape[0] for each in stores.open(tmp_path / "x.safetensors").values()]
    sizes[:] = order
    assert max(found) == least(0, count)
    assert stores.verify(tmp_path / "x.safetensors", tmp_path / "out") is None


def test_shards_that_cannot_be_are_refused(tmp_path, capsys):
    save_file({"a": np.ones(2), "b": np.ones(2)}, tmp_path / "x.safetensors")
    for more, said in (
        (["--shards", "3"], "shards is 3, but there are 2 tensors"),
        (["--shards", "0"], "shards must be a number of files, at least 1, not 0"),
        (["--shards", "2", "--shard-size", "1GB"], "--shards and --shard-size exclude each other"),
        (["--shards", "2", "--fsdp", "2"], "shards is the number of files of whole tensors in a folder"),
        (["--shards", "2", "--dcp"], "shards is the number of files of whole tensors in a folder"),
        (["--extras-from", tmp_path / "none"], "there is no such file or folder"),
        (["--extras-from", tmp_path / "x.safetensors"], "is not a folder with config.json"),
        (["--extras-from", tmp_path, "--no-extras"], "exclude each other"),
        (["--rename", "a"], "'a' is not OLD=NEW"),
        (["--rename", "a="], "'a=' is not OLD=NEW"),
    ):
        code, _, err = anydml(capsys, "reshard", tmp_path / "x.safetensors", tmp_path / "out", *more)
        assert (code, said in err) == (2, True), err
        assert not (tmp_path / "out").exists()


NAMED = {
    "bfloat16": ["bf16", "BF16", "torch.bfloat16", torch.bfloat16],
    "float16": ["fp16", "half", "F16", "torch.half", np.float16, torch.float16],
    "float32": ["fp32", "float", "F32", "torch.float32", np.dtype("f4")],
    "float64": ["fp64", "double", float],
    "float8_e4m3fn": ["fp8_e4m3", "F8_E4M3", "torch.float8_e4m3fn", "fp8-e4m3", torch.float8_e4m3fn],
    "float8_e5m2": ["fp8_e5m2", "F8_E5M2", torch.float8_e5m2],
}


@pytest.mark.parametrize("dtype", NAMED)
def test_dtypes_have_the_names_that_people_write(tmp_path, dtype):
    save_file({"w": np.array([1.5, -3], "f4")}, tmp_path / "x.safetensors")
    for given in (dtype, *NAMED[dtype]):
        (target,) = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", dtype=given).outputs
        assert str(target.dtype) == dtype


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fp8", "there are two of 8 bits"), ("int8", "does not quantize"), ("q4_k_m", "does not quantize"),
        ("Q8_0", "does not quantize"), ("nf4", "does not quantize"), ("awq", "does not quantize"),
        ("auto", "dtypes stay as they are"), ("complex64", "must be one of"), ("", "must be one of"),
        (int, "must be one of"), (object, "must be one of"),
    ],
)  # fmt: skip
def test_dtypes_that_are_not_cast_to_are_refused(tmp_path, given, said):
    save_file({"w": np.array([1.5, -3], "f4")}, tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match=said):
        stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", dtype=given)


def test_different_metadata_of_files_are_said(tmp_path, capsys):
    (tmp_path / "m").mkdir()
    save_file({"a": np.zeros(4, "f4")}, tmp_path / "m/a.safetensors", {"format": "pt", "k": "1", "step": "5"})
    save_file({"b": np.ones(4, "f4")}, tmp_path / "m/b.safetensors", {"format": "pt", "k": "2", "step": "5"})
    save_file({"c": np.ones(4, "f4")}, tmp_path / "m/c.safetensors", {"step": "6", "only": "c"})
    said = [
        'files differ in their metadata "k": the values of b.safetensors are taken',
        'files differ in their metadata "step": the values of c.safetensors are taken',
    ]
    out = tmp_path / "y.safetensors"
    for inputs in (tmp_path / "m",), [tmp_path / f"m/{name}.safetensors" for name in "abc"]:
        report = json.loads(anydml(capsys, "reshard", *inputs, out, "--json", "--overwrite")[1])
        assert [each for each in report["remarks"] if "metadata" in each] == said
        assert stores.open(out).metadata == {"format": "pt", "k": "2", "step": "6", "only": "c"}
    assert all(f"  {each}\n" in anydml(capsys, "stores", tmp_path / "m")[1] for each in said)
    found = stores.open(tmp_path / "m").metadata
    assert (sorted(found), found["format"], found["only"], found.get("none")) == (
        ["format", "k", "only", "step"],
        "pt",
        "c",
        None,
    )
    with pytest.raises(
        ModelError, match=r'm: files differ in their metadata "k": a.safetensors says "1", b.safetensors "2"'
    ):
        found["k"]
    with pytest.raises(ModelError, match="differ in their metadata"):
        stores.create(tmp_path / "z.safetensors", like=stores.open(tmp_path / "m"))
    (tmp_path / "m/c.safetensors").unlink()
    assert stores.reshard([tmp_path / "m"], out, overwrite=True).remarks[1:] == said[:1]


def test_beginnings_of_names_are_said_whole_and_counted(tmp_path):
    left = ["", "new\nline", "with space", "a/b", *(f"n{k}.w" for k in range(8))]
    save_file({name: np.zeros(1, np.float32) for name in ["kept", *left]}, tmp_path / "x.safetensors")
    plan = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", only=["kept"])
    (remark,) = [each for each in plan.remarks if each.startswith("leaves out")]
    assert "\n" not in remark
    assert remark.endswith(" and 2 more beginnings")
    few = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors", drop=left[:4])
    (remark,) = [each for each in few.remarks if each.startswith("leaves out")]
    assert {part.removeprefix("1 of ") for part in remark.split("--drop: ")[1].split(", ")} == {
        '""',
        '"new\\nline"',
        '"with space"',
        '"a/b"',
    }
