"""Arguments of wrong types are refused by name, with what to pass, by every public function of `anydml.stores`."""

import inspect
import json

import numpy as np
import pytest

import anydml as dml
from anydml import stores

VALUES = (3, "2,2", b"z", [], [None], {"a": 1}, object(), (1, 2), np.arange(3), float("nan"))
"""Values of many types, most of which fit no argument."""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """Valid arguments by function."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(6).reshape(2, 3))
    files = stores.create("c.safetensors", shape={"w": [2, 3]}, dtype="int64")
    x = stores.open("x.npy")
    dml.fuse(lambda w: {"w": w}).plan(x, files).run()
    sizes = dml.TensorDesc("INT64", [2, 3])
    flip = dml.Slice1OperatorDesc(sizes, sizes, [0, 0], [2, 3], [-1, 1])
    return {
        "open": {"path": "x.npy"},
        "create": {"path": "n.npy", "shape": [2], "dtype": "float32"},
        "plan": {"desc": flip, "inputs": [x], "outputs": [stores.create("n.npy", [2, 3], "int64")]},
        "rechunk": {"source": "x.npy", "target": "y.zarr"},
        "reshard": {"inputs": "c.safetensors", "output": "o"},
        "plan_load": {"model": "c.safetensors"},
        "plan_tasks": {"file": "p.json", "source": "x.npy", "target": "y.zarr"},
        "verify": {"first": "x.npy", "second": "x.npy"},
        "compare": {"first": "c.safetensors", "second": "c.safetensors"},
        "manifest": {"model": "c.safetensors"},
        "run_task": {"file": "p.json", "number": 0},
        "finish_tasks": {"file": "p.json"},
    }


def test_no_value_of_an_argument_raises_an_error_from_inside(calls):
    raised = []
    for name, arguments in calls.items():
        function = getattr(stores, name)
        for parameter, kind in inspect.signature(function).parameters.items():
            for value in VALUES if kind.kind is not kind.VAR_KEYWORD else ():
                try:
                    function(**{**arguments, parameter: value})
                except (dml.BindingError, dml.ModelError, dml.DescError):
                    pass
                except Exception as error:
                    if not (isinstance(error, TypeError) and "takes the path of a file" in str(error)):
                        raised.append((name, parameter, value, error))
    assert not raised


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("plan", {"desc": 3}, "plan: desc is 3: pass an operator's desc"),
        ("plan", {"inputs": "x.npy"}, "plan: inputs is the string 'x.npy': pass a list"),
        ("reshard", {"ranks": "2"}, "reshard: ranks is the string '2': pass an integer, or numbers by name"),
        ("rechunk", {"chunks": "2,2"}, r"rechunk: chunks is the string '2,2': pass a list of sizes, such as \[2, 2\]"),
        ("rechunk", {"overwrite": "no"}, "rechunk: overwrite is the string 'no': pass True or False"),
    ],
)
def test_texts_are_refused_with_what_to_pass(calls, name, change, message):
    with pytest.raises(dml.BindingError, match=message):
        getattr(stores, name)(**{**calls[name], **change})


def test_a_path_in_place_of_a_store_is_refused_with_the_call_that_opens_it(calls):
    with pytest.raises(dml.BindingError, match=r"inputs is the string 'a.npy': pass stores.open\('a.npy'\)"):
        dml.fuse(lambda x: x).plan("a.npy", stores.create("b.npy", [2], "f4"))


def test_what_is_not_there_is_said_to_be_not_there(calls):
    for pair in (("x.npy", "nosuch"), ("nosuch", "x.npy")):
        with pytest.raises(dml.ModelError, match=r"^nosuch: there is no such file or folder"):
            stores.verify(*pair)


def test_json_that_is_no_manifest_is_refused_with_the_command_that_writes_one(calls, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(
        dml.ModelError, match=r"is not a checkpoint or a manifest: `anydml manifest MODEL s.json` writes one"
    ):
        stores.verify("s.json", "c.safetensors")


@pytest.mark.parametrize("text", ["// comment\n{}", "", "{", "\xff", '["x"]'])
def test_what_is_not_even_json_is_not_called_broken(calls, tmp_path, text):
    (tmp_path / "s.json").write_text(text, "latin-1")
    for pair in ("s.json", "c.safetensors"), ("c.safetensors", "s.json"):
        with pytest.raises(dml.ModelError, match=r"s.json: is not a checkpoint or a manifest: `anydml manifest"):
            stores.verify(*pair)
    stores.manifest("c.safetensors", "sums.json")
    (tmp_path / "s.json").write_text((tmp_path / "sums.json").read_text()[:-4])
    with pytest.raises(dml.ModelError, match=r"s.json: is not JSON: "):
        stores.verify("s.json", "c.safetensors")


@pytest.mark.parametrize(
    ("name", "argument", "message"),
    [
        ("reshard", "tp", 'reshard: tp is one of the kinds of ranks: pass ranks={"tp": 2}'),
        ("plan_load", "fsdp", 'plan_load: fsdp is one of the kinds of ranks: pass ranks={"fsdp": 2}'),
        ("rechunk", "chunk", "rechunk: there is no argument chunk; did you mean chunks?; there are source, target, "),
        ("verify", "tp", "verify: there is no argument tp; there are first, second, "),
        ("reshard", "max_shard_size", "reshard: there is no argument max_shard_size; did you mean shard_size?"),
    ],
)
def test_an_argument_that_does_not_exist_is_answered(calls, name, argument, message):
    with pytest.raises(TypeError) as raised:
        getattr(stores, name)(**calls[name], **{argument: 2})
    assert str(raised.value).startswith(message)


def test_every_function_answers_arguments_that_are_missing_or_unknown(calls):
    for name, arguments in calls.items():
        for wrong in {}, {**arguments, "no_such_argument": 1}:
            with pytest.raises(TypeError, match=rf"^({name}|rechunk): (missing a req|there is no argument no_such)"):
                getattr(stores, name)(**wrong)


def test_a_tensor_that_does_not_exist_is_named_with_what_is_meant(calls):
    opened = stores.open("c.safetensors")
    for name, meant in ("W", "; did you mean w?"), ("other.weight", ""):
        with pytest.raises(KeyError) as raised:
            opened[name]
        assert str(raised.value) == f'c.safetensors: has no tensor "{name}"{meant}'
        assert name not in opened
        assert opened.get(name) is None


def test_a_folder_that_is_named_like_a_file_is_said(calls):
    said = "writes a folder named {}: {} is not the suffix of a file that is written here"
    assert said.format("o.txt", ".txt") in stores.reshard("c.safetensors", "o.txt").remarks
    assert said.format("out.foo", ".foo") in stores.rechunk("x.npy", "out.foo").remarks
    for plan in stores.reshard("c.safetensors", "model-3.5"), stores.rechunk("x.npy", "y.zarr"):
        assert not any("folder named" in remark for remark in plan.remarks)


def test_ranks_that_would_divide_nothing_are_refused_or_said(calls):
    with pytest.raises(dml.ModelError, match=r"c.safetensors has no tensor of experts.*leave out --ep \(ep=\)"):
        stores.reshard("c.safetensors", "o", ranks={"ep": 2})
    array = stores.create("n.safetensors", {"model.norm.weight": [3]}, "int64")
    dml.fuse(lambda x: {"model.norm.weight": x[0]}).plan(stores.open("x.npy"), array).run()
    plan = stores.reshard("n.safetensors", "o", ranks=2)
    assert "divides no tensor among 2 tensor-parallel ranks: each gets all that the others get" in plan.remarks


def test_a_missing_file_of_ranks_is_to_be_added_not_left_out(calls, tmp_path):
    stores.reshard("c.safetensors", "r2", ranks={"fsdp": 2}).run()
    first, second = sorted((tmp_path / "r2").glob("*.safetensors"))
    second.unlink()
    with pytest.raises(dml.ModelError, match=r"has 1 of 2 files that their names count, and lacks .*: add them"):
        stores.reshard("r2", "o")
    with pytest.raises(dml.ModelError, match="is rank 0 of 2: name the files of all ranks, each once, or their folder"):
        stores.reshard(first, "o")


def test_an_option_of_other_tools_is_answered(calls, capsys):
    from anydml.cli import main

    with pytest.raises(SystemExit):
        main(["rechunk", "x.npy", "y.npy", "--axes", "1,0"])
    assert "Did you mean '--permute'?" in capsys.readouterr().err
