"""Arrays at addresses: a real S3 server on the loopback, plain HTTP, and the memory of this process."""

import functools
import http.server
import io
import itertools
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest
from s3_server import s3_server

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError
from anydml.files.located import locate
from anydml.stores.running import journal_elsewhere

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
obstore = pytest.importorskip("obstore", reason='obstore is not installed: pip install "anydml[remote]"')

WAYS = {
    "plain": {"compressors": None},
    "zstd": {},
    "shards": {"shards": (20, 24)},
    "version 2": {"zarr_format": 2},
    "version 2 in other order": {"zarr_format": 2, "order": "F", "compressors": None},
    "transposed": {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
}


class Server:
    """An S3 server, and the folder of its bucket that a test has for itself."""

    def __init__(self, child):
        self._child = child
        self.folder = ""

    def say(self, line):
        self._child.stdin.write(f"{line}\n")
        self._child.stdin.flush()

    def count(self):
        self.say("count")
        return [int(text) for text in self._child.stdout.readline().split()]


@pytest.fixture(scope="module")
def server():
    with s3_server() as child:
        yield Server(child)


@pytest.fixture
def s3(server, request):
    """The server, with a folder of its own."""
    server.folder = f"s3://bucket/{request.node.name}"
    yield server
    server.say("hold 1")
    server.say("go")


@pytest.fixture
def local(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = {
    "npy": (".npy", np.save), "npy in other order": (".npy", np.save), "npz": (".npz", np.savez),
    "npz in other order": (".npz", np.savez_compressed),
}  # fmt: skip


def array(shape=(35, 22), dtype="f4"):
    return np.random.default_rng(5).integers(-99, 99, shape).astype(dtype)


def opened(url, mode="r"):
    """zarr-python's view of an address."""
    path = locate("test", url)
    return zarr.storage.ObjectStore(path.store, read_only=mode == "r"), path.key


def written(url, x, **options):
    """Write an array by zarr-python."""
    store, key = opened(url, "w")
    options = {"chunks": (20, 12), "attributes": {"units": "K"}, **options}
    made = zarr.create_array(store, name=key, shape=x.shape, dtype=x.dtype, fill_value=7, **options)
    made[...] = x


def put(url, content):
    path = locate("test", url)
    obstore.put(path.store, path.key, content)


def saved(save, x):
    file = io.BytesIO()
    save(file, x)
    return file.getvalue()


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    found = capsys.readouterr()
    return ended.value.code or 0, found.out, found.err


@pytest.mark.parametrize("way", [*WAYS, *FILES])
def test_sources(s3, local, way):
    x, memory = array(), "200kB"
    url = f"{s3.folder}/x"
    if way in FILES:
        suffix, save = FILES[way]
        put(url + suffix, saved(save, np.asfortranarray(x) if "other" in way else x))
        url += suffix + "/arr_0" * (suffix == ".npz")
    else:
        written(url, x, **WAYS[way])
    assert (stores.open(url).read() == x).all()
    stores.rechunk(url, "y.zarr", chunks=[6, 22], permute=[1, 0], slices="3:30:2,:", flip=[0], memory=memory).run()
    assert (zarr.open_array("y.zarr")[...] == x[3:30:2][::-1].T).all()
    stores.rechunk(url, "y.npy", memory=memory).run()
    assert (np.load("y.npy") == x).all()
    assert stores.verify(url, "y.npy", memory="1MB") is None
    y = x.copy()
    y[20, 3] += 1
    np.save("y.npy", y)
    assert "[20, 3]" in stores.verify("y.npy", url)


def test_missing_chunks_are_fill_values(s3, local):
    x = np.full((35, 22), 7, "f4")
    x[12, 3] = 1
    for way in "plain", "zstd", "shards":
        written(f"{s3.folder}/{way}", x, **WAYS[way])
        stores.rechunk(f"{s3.folder}/{way}", f"{way}.npy").run()
        assert (np.load(f"{way}.npy") == x).all()


def test_a_group(s3, local):
    x, root = array(), f"{s3.folder}/g"
    store, key = opened(root, "w")
    group = zarr.create_group(store, path=key, attributes={"title": "t"})
    for name, dims in ("a", ("t", "x")), ("t", ("t",)):
        values = x if name == "a" else x[:, 0]
        made = group.create_array(name, shape=values.shape, chunks=[10] * values.ndim, dtype="f4", dimension_names=dims)
        made[...] = values
    stores.rechunk(root, "y", chunks={"a": [35, 2]}).run()
    found = zarr.open_group("y", mode="r")
    assert found.attrs["title"] == "t"
    assert found["a"].chunks == (35, 2)
    assert (found["a"][...] == x).all()
    assert (found["t"][...] == x[:, 0]).all()
    assert stores.verify(root, "y") is None


def test_many_requests_at_once(s3, local):
    x = np.zeros((64, 512), "f4")
    written(f"{s3.folder}/x", x, chunks=(1, 512), compressors=None)
    s3.count()
    s3.say("hold 32")
    stores.rechunk(f"{s3.folder}/x", "y.npy").run()
    assert s3.count() == [32, 64]


def test_refused_requests_are_repeated(s3, local):
    x = array()
    written(f"{s3.folder}/x", x)
    s3.say("fail 3")
    stores.rechunk(f"{s3.folder}/x", "y.npy").run()
    assert (np.load("y.npy") == x).all()


def test_reads_are_merged(s3, local):
    """Rows that lie close to each other are read at once."""
    put(f"{s3.folder}/c/x.npy", saved(np.save, array((500, 100))))
    s3.count()
    stores.rechunk(f"{s3.folder}/c/x.npy", "y.npy", slices=":,10:20").run()
    assert (np.load("y.npy") == array((500, 100))[:, 10:20]).all()
    assert s3.count()[1] < 15


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_chunks_of_a_shard_are_read_together(s3, local, codec):
    x = array((64, 64))
    x[16:24, 8:40] = 7
    written(f"{s3.folder}/x", x, chunks=(8, 8), shards=(32, 64), compressors=None if codec == "none" else "auto")
    s3.count()
    stores.rechunk(f"{s3.folder}/x", "y.npy").run()
    assert (np.load("y.npy") == x).all()
    assert s3.count()[1] <= 6
    stores.rechunk(f"{s3.folder}/x", "z.npy", slices="3:20,60:").run()
    assert (np.load("z.npy") == x[3:20, 60:]).all()
    stores.rechunk("y.npy", f"{s3.folder}/y", chunks=[8, 4], shards=[16, 64], codec=codec).run()
    assert stores.verify(f"{s3.folder}/y", "y.npy") is None
    put(f"{s3.folder}/x/c/1/0", b"abc")
    with pytest.raises(ModelError, match=r"x/c/1/0: cannot be read as chunk \[4, 0\] of a shard"):
        stores.rechunk(f"{s3.folder}/x", "w.npy").run()


def test_changed_sources(s3, local):
    x = array()
    for name in "x", "x.npy":
        url = f"{s3.folder}/{name}"
        put(url, saved(np.save, x)) if name.endswith("npy") else written(url, x)
        plan = stores.rechunk(url, f"y-{name}.npy")
        chunk = url if name.endswith("npy") else f"{url}/c/0/0"
        put(chunk, saved(np.save, x + 1))
        with pytest.raises(BindingError, match="has changed since it was opened"):
            plan.run()
        assert [*local.iterdir()] == []


def test_broken_chunks(s3, local, capsys):
    written(f"{s3.folder}/plain", array(), compressors=None)
    written(f"{s3.folder}/zstd", array())
    for way in "plain", "zstd":
        put(f"{s3.folder}/{way}/c/1/1", b"abc")
        code, _, error = said(capsys, "rechunk", f"{s3.folder}/{way}", "y.npy", "-q")
        assert code == 2
        assert f"{s3.folder}/{way}/c/1/1" in error
        assert error.count("\n") == 1


def test_commands(s3, local, capsys):
    x, url = array(), f"{s3.folder}/x"
    written(url, x)
    code, out, _ = said(capsys, "stores", url)
    assert (code, out.splitlines()[0].split()[:3]) == (0, ["float32", "[35,", "22]"])
    code, _, error = said(capsys, "rechunk", url, "y.zarr", "--chunks", "35,2", "--verify", "-q")
    assert (code, error) == (0, "")
    assert said(capsys, "verify", url, "y.zarr")[0] == 0
    assert (zarr.open_array("y.zarr")[...] == x).all()
    assert zarr.open_array("y.zarr").attrs["units"] == "K"


def test_no_traceback(s3, local, capsys):
    group, key = opened(f"{s3.folder}/g", "w")
    zarr.create_group(group, path=key)
    put(f"{s3.folder}/x.txt", b"abc")
    put(f"{s3.folder}/b.npy", b"abc")
    for name, wrong in {
        f"{s3.folder}/none": "there is no such file or folder",
        f"{s3.folder}/none.npy": "there is no such file or folder",
        f"{s3.folder}/x.txt": "is not a file of arrays: expected .npy",
        f"{s3.folder}/b.npy": "is not a .npy file",
        "s3://nobucket/x": "404",
        "s3://name:secret@bucket/x": "has a name or password",
        "https://name:secret@h/x.zarr": "has a name or password",
        "s3://bucket/x?key=secret": "has a query",
        "s3://bucket/a//x": "is empty",
        "s3://bucket/../x": "two dots",
        "http://127.0.0.1:9/x.zarr": "cannot be read",
        "az://container/x": "Account must be specified",
        "hf://datasets/o/m/x.npy": "must be a model in the hub: hf://OWNER/NAME",
        "memory://a/x": "memory of this process",
    }.items():
        code, _, error = said(capsys, "stores", name)
        assert code == 2
        assert wrong in error
        assert error.count("\n") == 1
        assert "secret" not in error


def names(url):
    """Names of all objects in a folder and its subfolders, and beside it those of journals."""
    path = locate("test", url)
    return sorted(each["path"].removeprefix(f"{path.key}/") for each in path.inside())


@pytest.mark.parametrize("way", WAYS)
def test_destinations(s3, local, way):
    x, options = array(), WAYS[way]
    made = zarr.create_array("x.zarr", shape=x.shape, chunks=(20, 12), dtype="f4", attributes={"a": [1]}, **options)
    made[...] = x
    plan = stores.rechunk("x.zarr", f"{s3.folder}/y", chunks=[10, 6], permute=[1, 0])
    plan.run()
    store, key = opened(f"{s3.folder}/y")
    found = zarr.open_array(store, path=key, mode="r")
    assert (found[...] == x.T).all()
    assert found.attrs["a"] == [1]
    assert plan.verify() is None
    assert not any("anydml" in name for name in names(s3.folder))
    stores.rechunk(f"{s3.folder}/y", "z.zarr", permute=[1, 0], chunks=[20, 12]).run()
    assert stores.verify("z.zarr", "x.zarr") is None


def test_a_group_as_a_destination(s3, local):
    x = array()
    group = zarr.create_group("g", attributes={"title": "t"})
    for name, values in ("a", x), ("sub/b", x + 1):
        dims = ("t", "x")
        made = group.create_array(name, shape=x.shape, chunks=(10, 22), dtype="f4", dimension_names=dims)
        made[...] = values
    with warnings.catch_warnings(action="ignore"):
        zarr.consolidate_metadata("g")
    stores.rechunk("g", f"{s3.folder}/g", chunks={"a": [35, 2]}).run()
    store, key = opened(f"{s3.folder}/g")
    found = zarr.open_group(store, path=key, mode="r")
    assert found.attrs["title"] == "t"
    assert found["a"].chunks == (35, 2)
    assert (found["a"][...] == x).all()
    assert (found["sub/b"][...] == x + 1).all()
    assert stores.verify("g", f"{s3.folder}/g") is None
    stores.rechunk(f"{s3.folder}/g", f"{s3.folder}/h", chunks={"a": [10, 10]}).run()
    assert stores.verify(f"{s3.folder}/h", "g") is None


def test_nothing_is_replaced_unless_it_may_be(s3, local):
    x, url = array(), f"{s3.folder}/y"
    np.save("x.npy", x)
    written(url, x + 1)
    before = names(url)
    with pytest.raises(ModelError, match="exists already"):
        stores.rechunk("x.npy", url).run()
    put(f"{url}/notes.txt", b"mine")
    with pytest.raises(ModelError, match=r"notes\.txt"):
        stores.rechunk("x.npy", url, overwrite=True).run()
    put(f"{s3.folder}/other/notes.txt", b"mine")
    for overwrite in False, True:
        with pytest.raises(ModelError, match=r"exists already|is not a Zarr array"):
            stores.rechunk("x.npy", f"{s3.folder}/other", overwrite=overwrite).run()
    assert names(url) == sorted([*before, "notes.txt"])
    assert names(f"{s3.folder}/other") == ["notes.txt"]
    locate("test", f"{url}/notes.txt").unlink()
    stores.rechunk("x.npy", url, overwrite=True, chunks=[35, 22]).run()
    assert names(url) == ["c/0/0", "zarr.json"]
    assert stores.verify("x.npy", url) is None
    with pytest.raises(BindingError, match="is an input, too"):
        stores.rechunk(url, url, overwrite=True)


CHILD_PLAN = """
import sys
import anydml as dml
from anydml import stores
stores.rechunk("x.npy", sys.argv[1], chunks=[1, 4000], memory="170kB", codec="none").run()
"""


def killed(s3, url):
    """Run a plan in a process that is killed when some of its blocks are finished."""
    np.save("x.npy", array((40, 4000), "u1"))
    s3.say("stop 25")
    journal = locate("test", f"{s3.folder}/.y.zarr.anydml-journal")
    with subprocess.Popen([sys.executable, "-c", CHILD_PLAN, url]) as child:
        while not (journal.is_file() and b"-" in journal.read_bytes().partition(b"\n")[2]):
            assert child.poll() is None
        child.kill()
    s3.say("go")


def test_a_killed_run_goes_on_and_nobody_finds_half_an_array(s3, local):
    url = f"{s3.folder}/y.zarr"
    killed(s3, url)
    with pytest.raises(ModelError, match=r"does not exist|is a group|no metadata"):
        stores.open(url)
    s3.count()
    plan = stores.rechunk("x.npy", url, chunks=[1, 4000], memory="170kB", codec="none")
    plan.run()
    assert 0 < plan.resumed < len(plan.blocks)
    assert s3.count()[1] < 40 + 3
    assert stores.verify("x.npy", url) is None
    assert names(s3.folder) == sorted(["y.zarr/zarr.json", *(f"y.zarr/c/{k}/0" for k in range(40))])


def test_what_another_plan_has_begun_is_removed(s3, local):
    url = f"{s3.folder}/y.zarr"
    killed(s3, url)
    put(f"{url}/notes.txt", b"mine")
    with pytest.raises(ModelError, match=r"notes\.txt"):
        stores.rechunk("x.npy", url, chunks=[40, 100]).run()
    locate("test", f"{url}/notes.txt").unlink()
    stores.rechunk("x.npy", url, chunks=[40, 4000]).run()
    assert names(s3.folder) == ["y.zarr/c/0/0", "y.zarr/zarr.json"]


def test_two_runs_at_once(s3, local, monkeypatch):
    x, url = array((40, 4000), "u1"), f"{s3.folder}/y.zarr"
    np.save("x.npy", x)
    plan = stores.rechunk("x.npy", url, chunks=[1, 4000], memory="170kB", codec="none")
    other = stores.rechunk("x.npy", url, chunks=[2, 4000], memory="170kB", codec="none")
    refused = []

    def meanwhile(_size):
        if not refused:
            with pytest.raises(ModelError, match="another process is writing"):
                other.run()
            refused.append(True)

    monkeypatch.setattr("anydml.stores.running.journal_elsewhere.AT_MOST", 0.5)
    plan.run(meanwhile)
    assert refused
    assert stores.verify("x.npy", url) is None


@pytest.mark.parametrize("is_over", [False, True])
def test_another_run_that_begins_first(s3, local, monkeypatch, is_over):
    """Between the look at an output and the first version of the journal; what the other one writes stays as it is."""
    x, y, take = array(), f"{s3.folder}/y.zarr", journal_elsewhere.JournalElsewhere.take
    written(f"{s3.folder}/x.zarr", x)

    def begin_later(journal):
        if is_over:
            written(y, x + 1)
        else:
            put(f"{s3.folder}/.y.zarr.anydml-journal", b"{}\n")
        take(journal)

    monkeypatch.setattr(journal_elsewhere.JournalElsewhere, "take", begin_later)
    plan = stores.rechunk(f"{s3.folder}/x.zarr", y, (7, 22))
    with pytest.raises(ModelError, match="exists already" if is_over else "another process is writing the same output"):
        plan.run()
    if is_over:
        assert (zarr.open_array(*opened(y)[:1], path=opened(y)[1], mode="r")[...] == x + 1).all()
        assert not any("journal" in name for name in names(s3.folder))
    else:
        assert not locate("test", y).is_dir()
        assert locate("test", f"{s3.folder}/.y.zarr.anydml-journal").read_bytes() == b"{}\n"


def test_a_run_that_lost_its_output_stops_and_removes_nothing(s3, local):
    x, url = array((40, 4000), "u1"), f"{s3.folder}/y.zarr"
    np.save("x.npy", x)
    plan = stores.rechunk("x.npy", url, chunks=[1, 4000], memory="170kB", codec="none")

    def meanwhile(_size):
        put(f"{s3.folder}/.y.zarr.anydml-journal", b"{}\n")
        time.sleep(0.1)

    with pytest.raises(ModelError, match="another process is writing"):
        plan.run(meanwhile)
    assert len(names(url)) > 1
    assert names(s3.folder)[0] == ".y.zarr.anydml-journal"


def test_sources_that_change_leave_nothing(s3, local):
    np.save("x.npy", array())
    plan = stores.rechunk("x.npy", f"{s3.folder}/y", chunks=[5, 22], memory="170kB")

    def meanwhile(_size):
        np.save("x.npy", array() + 1)

    with pytest.raises(BindingError, match="has changed"):
        plan.run(meanwhile)
    assert names(s3.folder) == []


def test_the_environment_may_name_another_server_meanwhile(s3, local):
    url = f"{s3.folder}/x"
    written(url, array())
    assert stores.open(url).shape == (35, 22)
    with s3_server(), pytest.raises(ModelError):
        stores.open(url)
    assert stores.open(url).shape == (35, 22)


def test_where_nothing_is_written(s3, local, capsys):
    np.save("x.npy", array())
    for target, wrong in {
        f"{s3.folder}/y.npy": "is a .npy file",
        "s3://bucket": "is a whole bucket",
        "https://host/y.zarr": "is only read",
        "memory://m/y.zarr": "memory of this process",
        "s3://nobucket/y.zarr": "404",
        f"{s3.folder}/y.h5": "which is not written",
    }.items():
        code, _, error = said(capsys, "rechunk", "x.npy", target, "-q")
        assert code == 2
        assert wrong in error
        assert error.count("\n") == 1
    stores.rechunk("x.npy", "memory://m/x.zarr", array().shape).run()
    for inside in ("y", "of/y"):
        with pytest.raises(ModelError, match="would be in a Zarr array"):
            stores.rechunk("x.npy", f"memory://m/x.zarr/{inside}")
    with pytest.raises(ModelError, match="only Zarr arrays"):
        stores.create(f"{s3.folder}/y.npy", [2], "f4")
    with pytest.raises(BindingError, match="leave out the scheduler"):
        stores.rechunk("x.npy", f"{s3.folder}/y").run(scheduler="tcp://127.0.0.1:1")
    assert names(s3.folder) == []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def web(local):
    """The address of the folder of a test, as a plain web server has it, which neither lists nor reads parts."""
    handler = functools.partial(_Quiet, directory=str(local))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_http(web, local):
    x = array()
    made = zarr.create_array("a b/x.zarr", shape=x.shape, dtype=x.dtype, chunks=(10, 5), attributes={"a": 1})
    made[...] = x
    plan = stores.rechunk(f"{web}/a%20b/x.zarr", "y.zarr", chunks=[35, 2])
    assert any("cannot be listed" in remark for remark in plan.remarks)
    plan.run()
    assert (zarr.open_array("y.zarr")[...] == x).all()
    assert stores.verify("y.zarr", f"{web}/a%20b/x.zarr") is None
    with pytest.raises(ModelError, match="there is no such file or folder"):
        stores.open(f"{web}/none.zarr")
    zarr.create_group("g")
    with pytest.raises(ModelError, match="nothing can be listed"):
        stores.rechunk(f"{web}/g", "z", chunks=[5, 5])


def test_memory(local):
    x, content = array(), bytearray(b"own")
    locate("test", "memory://m/own").write_bytes(memoryview(content))
    content[:] = b"new"
    assert locate("test", "memory://m/own").read_bytes() == b"own"
    written("memory://m/x", x)
    stores.rechunk("memory://m/x", "y.npy").run()
    assert (np.load("y.npy") == x).all()
    assert stores.verify("memory://m/x", "y.npy") is None
    stores.rechunk("y.npy", "memory://m/z", chunks=[5, 22]).run()
    assert stores.verify("memory://m/x", "memory://m/z") is not None
    assert stores.verify("memory://m/z", "y.npy") is None
    target = stores.create("memory://m/t.zarr", like=stores.open("y.npy"), chunks=[35, 2])
    dml.fuse(lambda x: np.flip(x, 0)).plan(stores.open("memory://m/z"), target).run()
    assert (stores.open("memory://m/t.zarr").read() == x[::-1]).all()
    mixed = [target, stores.create("b.npy", like=target)]
    with pytest.raises(BindingError, match="write all to one place"):
        dml.fuse(lambda x: (x, x)).plan(stores.open("y.npy"), mixed, overwrite=True).run()


def test_any_request_may_fail(local, monkeypatch):
    """Whichever request a store refuses, the error is one of anydml, and the next run ends with the whole array."""
    x, left = array(), 0
    written("memory://m/failing", x, **WAYS["shards"])
    for name, seconds in ("SECONDS", 0.005), ("AT_MOST", 0.01), ("WATCHED", 0.05):
        monkeypatch.setattr(journal_elsewhere, name, seconds)

    def refusing(call):
        def refused(*arguments, **named):
            nonlocal left
            left -= 1
            if not left:
                raise obstore.exceptions.GenericError("made up")
            return call(*arguments, **named)

        return refused

    for name in "get", "put", "list", "head", "delete":
        monkeypatch.setattr(obstore, name, refusing(getattr(obstore, name)))
    for number in itertools.count(1):
        left = number
        with suppress(ModelError, BindingError):
            stores.rechunk("memory://m/failing", "memory://m/whole", [35, 5], overwrite=number > 1).run()
        is_over, left = left > 0, 0
        stores.rechunk("memory://m/failing", "memory://m/whole", [35, 5], overwrite=True).run()
        assert (stores.open("memory://m/whole").read() == x).all()
        if is_over:
            break


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_shards_of_half_the_memory(local, codec):
    """Threads leave room for shards of 134 MB in 256 MB."""
    zarr.create_array("x", shape=(512, 512, 512), chunks=(64, 64, 64), shards=(512, 256, 256), dtype="f4")
    plan = stores.rechunk("x", "memory://m/shards", permute=[2, 1, 0], codec=codec, memory="256MB")
    assert plan.totals.block_bytes == 512 * 256 * 256 * 4


def test_files(local):
    x = array()
    np.save("a b.npy", x)
    url = (local / "a b.npy").as_uri()
    assert "%20" in url
    assert (stores.open(url).read() == x).all()
    stores.rechunk(url, (local / "y.npy").as_uri()).run()
    assert (np.load("y.npy") == x).all()
    with pytest.raises(ModelError, match="without a host"):
        stores.open("file://host/x.npy")


@pytest.mark.parametrize("door", ["open", "rechunk", "verify"])
def test_without_obstore(local, monkeypatch, door):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    call = {
        "open": stores.open,
        "rechunk": lambda url: stores.rechunk(url, "y"),
        "verify": lambda url: stores.verify(url, url),
    }
    with pytest.raises(ModelError, match=r'pip install "anydml\[remote\]"'):
        call[door]("s3://bucket/x")
