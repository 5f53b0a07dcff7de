"""Files that are not models, are broken, too large, or point elsewhere: a ModelError each, and never anything else."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from anydml import ModelError
from anydml.memory import limits
from anydml.onnx import backend, load, make_portable, model_file, to_descs
from anydml.onnx.checks import check
from anydml.onnx.program import Program

MODEL = parser.parse_model("""<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
g (float[4, 2] x, int64[2] s) => (float[A, B] a, float[C, D] b) <int64[1] one = {1}> {
    t = Constant <value = float[2, 2] {1, 2, 3, 4}> ()
    j, n = com.microsoft.ConcatTraining <axis = 0> (x, t)
    g = Gather (j, one)
    k = Concat <axis = 0> (j, g)
    e = Constant <value_ints = [-1]> ()
    l = Slice (k, one, e, one)
    a, b = com.microsoft.SplitTraining <axis = 0> (j, n)
}""")


@pytest.fixture
def written(tmp_path):
    def write(data, name="model.onnx"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.SerializeToString())
        return path

    return write


def test_a_model(written):
    assert load(written(MODEL)) == MODEL


def test_every_truncation_is_refused(written):
    data = MODEL.SerializeToString()
    for length in range(1, len(data)):
        # Cut between its opset imports, a model can only be told by the nodes that need the second one.
        with pytest.raises(
            ModelError, match=r"model\.onnx: is not an ONNX model, or is truncated|No opset import for domain"
        ):
            check(load(written(data[:length])))


@pytest.mark.parametrize("data", [b"{}", b"\x08", b"not a model at all", b"\x00" * 64, bytes(range(256)), b"\x08\x08"])
def test_other_files(written, data):
    with pytest.raises(
        ModelError, match=r"is not an ONNX model, or is truncated(:| at \d+ B; copy or export it again)"
    ):
        load(written(data))


def test_an_empty_file_is_called_one(written):
    with pytest.raises(ModelError, match=r"model\.onnx: the file is empty: an ONNX model must be"):
        load(written(b""))


def test_no_file_and_no_regular_file(tmp_path):
    with pytest.raises(ModelError, match="there is no such file"):
        load(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="is a folder, not a model file"):
        load(tmp_path)


def test_models_from_the_future(written):
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.ir_version = 10_000
    with pytest.raises(ModelError, match="has IR version 10000, but the installed onnx reads versions up to"):
        load(written(model))


@pytest.mark.filterwarnings("ignore")
def test_broken_bytes_never_raise_anything_else(written):
    rng = random.Random(1)
    data = MODEL.SerializeToString()
    loaded = 0
    for _ in range(600):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            broken[rng.randrange(len(broken))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            model = load(written(bytes(broken)))
        except ModelError:
            continue
        loaded += 1
        for work in (run, to_descs, make_portable):
            with contextlib.suppress(ModelError):
                work(model)
    assert loaded > 50


def run(model):
    return Program(model).run({"x": np.zeros((4, 2), np.float32), "s": np.array([1, 3])})


def test_files_beyond_protobufs_limit_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(
        ModelError, match=r"has 2\.15 GB, but an ONNX file has less than 2 GiB; store its tensors as ext"
    ):
        load(path)


def test_files_beyond_the_memory_are_refused_before_they_are_read(written, monkeypatch):
    path = written(MODEL)
    size = path.stat().st_size
    monkeypatch.setattr(limits, "available_memory", lambda: 2 * size)
    load(path)
    monkeypatch.setattr(limits, "available_memory", lambda: 2 * size - 1)
    monkeypatch.setattr(model_file.Path, "read_bytes", None)
    with pytest.raises(ModelError, match="of memory are available"):
        load(path)


def external(location="w.bin", sizes=(3,), **entries):
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[N] x) => (float[M] y) { y = Concat <axis = 0> (x, w) }""")
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=sizes)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def test_external_data(written, tmp_path):
    np.arange(8, dtype="f").tofile(tmp_path / "w.bin")
    for entries, expected in (
        ({"offset": 8, "length": 12}, [2, 3, 4]),
        ({"offset": 20}, [5, 6, 7]),
        ({"length": 12, "checksum": "0"}, [0, 1, 2]),
    ):
        path = written(external(**entries))
        model = load(path)
        assert not model.graph.initializer[0].external_data
        assert backend.run_model(model, [np.float32([9])]).y.tolist() == [9, *expected]
        assert load(path, external_data=False) == external(**entries)
    with pytest.raises(
        ModelError, match=r'tensor "w" is stored in another file; read the model with onnx\.load or any'
    ):
        backend.prepare(external())


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "none.bin"}, '"none.bin": there is no such file or folder'),
        ({"location": ""}, "has no location"),
        ({"location": "."}, "is not a file"),
        ({"offset": 24, "length": 12}, r'12 bytes from byte 24 on, but "w\.bin" has 32 bytes'),
        ({"offset": 33}, "has 32 bytes"),
        ({"length": 10**15}, "has 32 bytes"),
        ({"length": 10**30}, "not a number of bytes"),
        ({"offset": -4}, "not a number of bytes"),
        ({"offset": "0x4"}, "not a number of bytes"),
    ],
)
def test_external_data_that_is_not_there(written, tmp_path, entries, message):
    np.arange(8, dtype="f").tofile(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=message) as error:
        load(written(external(**entries)))
    assert 'model.onnx: tensor "w"' in str(error.value)


@pytest.mark.parametrize("way", ["parent", "absolute", "link"])
def test_external_data_outside_of_the_folder(written, tmp_path, way):
    outside = tmp_path / "w.bin"
    np.arange(3, dtype="f").tofile(outside)
    folder = tmp_path / "folder"
    folder.mkdir()
    location = {"parent": "../w.bin", "absolute": str(outside), "link": "link.bin"}[way]
    (folder / "link.bin").symlink_to(outside)
    path = written(external(location), "folder/model.onnx")
    with pytest.raises(ModelError, match=r"leaves the model's folder .*; allow it with --allow-outside"):
        load(path)
    assert backend.run_model(load(path, allow_outside=True), [np.float32([9])]).y.tolist() == [9, 0, 1, 2]


def test_external_data_in_other_places(written, tmp_path):
    np.arange(3, dtype="f").tofile(tmp_path / "w.bin")
    model = external()
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    assert backend.run_model(load(written(model)), [np.float32([9])]).y.tolist() == [9, 0, 1, 2]


def test_external_data_beyond_the_memory(written, tmp_path, monkeypatch):
    (tmp_path / "w.bin").write_bytes(bytes(4000))
    path = written(external(sizes=(1000,)))
    monkeypatch.setattr(limits, "available_memory", lambda: 7999)
    with pytest.raises(ModelError, match=r"loading it takes 8000 B, but 7999 B of memory are available"):
        load(path)


def test_data_that_does_not_fit_its_sizes(written, tmp_path):
    np.arange(8, dtype="f").tofile(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=r'tensor "w" \(FLOAT, sizes \[3\]\) cannot be read|breaks a rule'):
        backend.prepare(load(written(external())))
    huge = external(sizes=(2**40, 2**20))
    with pytest.raises(ModelError):
        backend.prepare(load(written(huge)))


def calling(depth, body="t = my.F{next} (a) b = my.F{next} (t)", last="b = Identity (a)"):
    """A model of functions that each call the next, which makes 2 to the power of their number of calls."""
    imports = 'opset_import: ["": 18, "my": 1]>'
    called = [body.format(next=i + 1) for i in range(depth)]
    functions = "".join(
        f'<domain: "my", {imports} F{i} (a) => (b) {{ {one} }}' for i, one in enumerate([*called, last])
    )
    text = f"<ir_version: 9, {imports} g (float[N] x) => (float[M] y) {{ y = my.F0 (x) }} {functions}"
    return parser.parse_model(text)


def test_functions_that_call_each_other(written, tmp_path):
    x = np.float32([1, 2])
    assert backend.run_model(load(written(calling(10))), [x]).y.tolist() == [1, 2]
    # A file of 4 KiB that would come to 2 to the power of 60 nodes.
    model = load(written(calling(60)))
    for use in (backend.prepare, to_descs):
        with pytest.raises(
            ModelError, match="functions, which call each other, come to more than 100000 nodes or 2 GiB"
        ):
            use(model)
    assert not backend.is_compatible(model)
    weights = ", ".join("1" * 9 for _ in range(2000))
    heavy = calling(18, last=f"w = Constant <value_ints = [{weights}]> () b = Identity (a)")
    with pytest.raises(ModelError, match="or 2 GiB"):
        backend.prepare(load(written(heavy)))
    nested = (
        "one = Constant <value = bool {{1}}> () b = If (one) <then_branch = t () => (float[N] p) {{ u = my.F{next} (a) "
    )
    nested += "p = my.F{next} (u) }}, else_branch = e () => (float[N] q) {{ q = Identity (a) }}>"
    with pytest.raises(ModelError, match="come to more than 100000 nodes"):
        backend.prepare(load(written(calling(40, nested))))


def test_graphs_with_other_values(written):
    maybe = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (sparse_tensor(float[N]) x) => (sparse_tensor(float[N]) y) { y = Identity (x) }""")
    with pytest.raises(ModelError, match='"x" is a sparse_tensor; anydml moves tensors'):
        backend.prepare(load(written(maybe)))
    sparse = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[N] x) => (float[N] y) { y = Identity (x) }""")
    values = numpy_helper.from_array(np.float32([1]), "w")
    indices = numpy_helper.from_array(np.array([0]), "i")
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    with pytest.raises(ModelError, match='initializer "w" is sparse; anydml moves dense tensors'):
        backend.prepare(load(written(sparse)))
