"""Codecs that nobody can configure or use: one clear line, before anything is written."""

import json
import os
import random

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError
from anydml.stores.formats.zarr_codecs import Decoder

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
numcodecs = pytest.importorskip("numcodecs")
TransposeCodec = zarr.codecs.TransposeCodec

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs", "ignore:.*in cast", "ignore:Combining")

ODD = ("../../etc/passwd", "", "nan", -1, 0, 99, 10**30, -(10**30), 1.5, 1e308, True, None, [], {}, [1, "x"],
       {"a": 1}, "<f4", "|O", "f99")  # fmt: skip

V2 = [
    {"id": "adler32"},
    {"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<f4"},
    {"id": "base64"},
    {"id": "bitround", "keepbits": 20},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "bz2", "level": 1},
    {"id": "categorize", "labels": ["a"], "dtype": "<U1", "astype": "u1"},
    {"id": "crc32", "location": "start"},
    {"id": "crc32c", "location": "end"},
    {"id": "delta", "dtype": "<f4", "astype": "<f4"},
    {"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": "<f4", "astype": "<f4"},
    {"id": "fletcher32"},
    {"id": "gzip", "level": 1},
    {"id": "jenkins_lookup3", "initval": 0, "prefix": None},
    {"id": "lz4", "acceleration": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": 0, "filters": None},
    {"id": "packbits"},
    {"id": "quantize", "digits": 3, "dtype": "<f4", "astype": "<f4"},
    {"id": "shuffle", "elementsize": 4},
    {"id": "zlib", "level": 1},
    {"id": "zstd", "level": 1, "checksum": False},
]

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
V3 = [
    BYTES,
    {"name": "crc32c"},
    {"name": "gzip", "configuration": {"level": 1}},
    {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
    },
    {"name": "transpose", "configuration": {"order": [1, 0]}},
    {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [3, 2], "codecs": [BYTES], "index_codecs": [BYTES, {"name": "crc32c"}],
            "index_location": "end",
        },
    },
    {"name": "vlen-utf8"},
    {"name": "vlen-bytes"},
    *({"name": f"numcodecs.{each['id']}", "configuration": {key: value for key, value in each.items() if key != "id"}}
      for each in V2),
]  # fmt: skip


def broken(rng, said):
    """A configuration with a value that is none, or a key too many or too few."""
    said = json.loads(json.dumps(said))
    own = said.setdefault("configuration", {}) if "name" in said else said
    key = rng.choice([*own, "more"])
    if rng.random() < 0.15 and key in own:
        del own[key]
    else:
        own[key] = rng.choice(ODD)
    return said


def array(path, version, codecs):
    """An array without chunks, whose metadata say these codecs."""
    path.mkdir()
    if version == 2:
        said = {"zarr_format": 2, "shape": [5, 6], "chunks": [3, 2], "dtype": "<f4", "fill_value": 1, "order": "C",
                "compressor": None, "filters": None, **codecs}  # fmt: skip
        (path / ".zarray").write_text(json.dumps(said))
        return
    said = {
        "zarr_format": 3, "node_type": "array", "shape": [5, 6], "data_type": "float32", "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 2]}}, "fill_value": 1, "codecs": codecs,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(said))


def rechunked(capsys, source, target, *options):
    """The code of a command that leaves nothing but its output, and a line where it fails."""
    before = sorted(os.listdir(source.parent))
    with pytest.raises(SystemExit) as ended:
        main(["rechunk", "-q", str(source), str(target), *options])
    code, err = ended.value.code or 0, capsys.readouterr().err
    if code:
        assert code == 2
        assert err.startswith("anydml: ")
        assert len(err.splitlines()) == 1
        assert sorted(os.listdir(source.parent)) == before
    else:
        assert sorted(os.listdir(source.parent)) == sorted([*before, target.name])
    return code, err


@pytest.mark.parametrize("codec", V2, ids=lambda codec: codec["id"])
@pytest.mark.parametrize("field", ["compressor", "filters"])
def test_codecs_of_version_2(tmp_path, capsys, codec, field):
    rng, codes = random.Random(str((codec["id"], field))), []
    for number in range(12):
        said = broken(rng, codec) if number else codec
        array(tmp_path / f"x{number}.zarr", 2, {field: said if field == "compressor" else [said]})
        codes.append(
            rechunked(capsys, tmp_path / f"x{number}.zarr", tmp_path / f"y{number}.zarr", "--chunks", "5,5")[0]
        )
        if not codes[-1]:
            found = zarr.open_array(str(tmp_path / f"y{number}.zarr"), mode="r")[...]
            assert (found.shape, found.dtype) == ((5, 6), np.float32)
    assert set(codes) <= {0, 2}


@pytest.mark.parametrize("codec", V3, ids=lambda codec: codec["name"])
def test_codecs_of_version_3(tmp_path, capsys, codec):
    rng = random.Random(codec["name"])
    for number in range(15):
        said = broken(rng, codec) if number else codec
        codecs = rng.choice(([said], [BYTES, said], [said, BYTES], [BYTES, said, said]))
        if rng.random() < 0.3:
            inside = {"chunk_shape": [3, 1], "codecs": codecs, "index_codecs": [BYTES, {"name": "crc32c"}]}
            codecs = [{"name": "sharding_indexed", "configuration": inside}]
        array(tmp_path / f"x{number}.zarr", 3, codecs)
        rechunked(capsys, tmp_path / f"x{number}.zarr", tmp_path / f"y{number}.zarr")


@pytest.mark.parametrize("compressor", [{"id": "zstd", "level": "../../etc/passwd"}, {"id": "blosc", "clevel": {}}])
def test_what_can_be_read_but_not_written_takes_another_codec(tmp_path, capsys, compressor):
    array(tmp_path / "x.zarr", 2, {"compressor": {"id": compressor["id"]}})
    x = np.arange(30, dtype=np.float32).reshape(5, 6)
    zarr.open_array(str(tmp_path / "x.zarr"), mode="r+")[...] = x
    said = json.loads((tmp_path / "x.zarr" / ".zarray").read_text())
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps({**said, "compressor": compressor}))
    code, err = rechunked(capsys, tmp_path / "x.zarr", tmp_path / "y.zarr")
    assert code == 2
    assert "its codecs do not work" in err
    assert "name another by --codec" in err
    assert rechunked(capsys, tmp_path / "x.zarr", tmp_path / "y.zarr", "--codec", "zstd")[0] == 0
    assert rechunked(capsys, tmp_path / "x.zarr", tmp_path / "y.npy")[0] == 0
    np.testing.assert_array_equal(stores.open(tmp_path / "y.zarr").read(), x)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 8 B"),
        RuntimeError("can't start new thread"),
        RuntimeError("Zstd compression error: b'Allocation error : not enough memory'"),
    ],
)
def test_little_memory_is_not_taken_for_broken_files(tmp_path, capsys, monkeypatch, error):
    gzip = [zarr.codecs.GzipCodec()]
    for name, filters in (("x", []), ("f", [TransposeCodec(order=(1, 0))])):
        x = np.arange(64.0).reshape(8, 8)
        zarr.create_array(tmp_path / f"{name}.zarr", data=x, chunks=(2, 8), compressors=gzip, filters=filters)
    ways = {
        "opening": (zarr, "open", "x"),
        "describing": (zarr.Array, "with_config", "x"),
        "decoding": (Decoder, "decode", "x"),
        "encoding": (numcodecs.GZip, "encode", "x"),
        # zarr-python calls codecs behind a filter.
        "reading": (zarr.Array, "__getitem__", "f"),
        "writing": (zarr.Array, "__setitem__", "f"),
    }
    for way, (owner, name, source) in ways.items():
        real = getattr(owner, name)
        # The first call may be a trial on one element.
        for late in (0, 1):
            calls = iter(range(late))

            def failing(*arguments, real=real, calls=calls, **named):
                if next(calls, None) is None:
                    raise error
                return real(*arguments, **named)

            with monkeypatch.context() as patched:
                patched.setattr(owner, name, failing)
                code, err = rechunked(capsys, tmp_path / f"{source}.zarr", tmp_path / f"{way}{late}.zarr")
            assert (code, err) == (2, "anydml: there is not enough memory\n") or (late and not code), way


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("is_own", [True, False])
def test_codecs_that_do_not_take_some_elements(tmp_path, capsys, monkeypatch, version, is_own):
    """Nothing stays of a run that wrote no block; what was written stays for the same command to go on."""
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    filters = {} if is_own else {"filters": [numcodecs.Delta("<f4") if version == 2 else TransposeCodec(order=(1, 0))]}
    gzip = numcodecs.GZip(1) if version == 2 else zarr.codecs.GzipCodec(level=1)
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(8, 8), zarr_format=version, compressors=[gzip], **filters)
    assert stores.open(tmp_path / "x.zarr").layout.is_own == is_own
    encode, left = numcodecs.GZip.encode, [0]

    def failing(self, elements):
        # Codecs are tried on one element before.
        if memoryview(elements).nbytes == 8 * 8 * 4:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("an element\nis odd")
        return encode(self, elements)

    monkeypatch.setattr(numcodecs.GZip, "encode", failing)
    command = [tmp_path / "x.zarr", tmp_path / "y.zarr", "--memory", "8kB"]
    code, err = rechunked(capsys, *command)
    assert code == 2
    assert "cannot be encoded: an element" in err
    left[0] = 40
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", memory="8kB")
    assert len(plan.blocks) == 4
    with pytest.raises(ModelError, match="cannot be encoded"):
        plan.run()
    assert sorted(os.listdir(tmp_path)) == [".y.zarr.anydml-journal", ".y.zarr.anydml-part", "x.zarr"]
    left[0] = 10**6
    plan.run()
    assert plan.resumed
    assert sorted(os.listdir(tmp_path)) == ["x.zarr", "y.zarr"]
    np.testing.assert_array_equal(stores.open(tmp_path / "y.zarr").read(), x)
