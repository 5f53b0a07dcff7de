"""Checkpoints at addresses: a real S3 server on the loopback, a web server, and the memory of this process."""

import functools
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from documents import ROOT
from s3_server import s3_server
from safetensors.numpy import load_file
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.files.addresses import Address
from anydml.files.located import locate
from anydml.stores.running.uploading import Upload

pytest.importorskip("obstore", reason='obstore is not installed: pip install "anydml[remote]"')


@pytest.fixture(scope="module")
def server():
    with s3_server() as child:
        yield child


@pytest.fixture
def bucket(request):
    """An address in memory that a test has for itself."""
    return f"memory://checkpoints/{request.node.name}"


@pytest.fixture
def s3(server, request):
    """One of the server."""
    return f"s3://bucket/{re.sub('[^a-z0-9]+', '-', request.node.name.lower()).strip('-')}"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small Llama in three files, with an index and small files."""
    folder = tmp_path_factory.mktemp("model") / "whole"
    stores.reshard(ROOT / "examples" / "llama", folder, shards=3).run()
    (folder / "tokenizer.json").write_text("{}")
    return folder


def upload(folder, url):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            locate("test", f"{url}/{path.relative_to(folder).as_posix()}").write_bytes(path.read_bytes())


MADE = {
    "folder": {"shards": 3},
    "ranks": {"ranks": 2},
    "pieces": {"ranks": {"fsdp": 2}, "dcp": True},
}


def test_a_folder_is_read_by_every_door(s3, model, tmp_path, capsys):
    upload(model, s3)
    code, out, _ = anydml(capsys, "reshard", s3, tmp_path / "out")
    assert code == 0, out
    assert stores.verify(model, tmp_path / "out") is None
    assert (tmp_path / "out" / "config.json").read_bytes() == (model / "config.json").read_bytes()
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "{}"
    again = stores.reshard(s3, tmp_path / "out")
    again.run()
    assert again.already_complete
    assert anydml(capsys, "verify", s3, model)[0] == 0
    assert anydml(capsys, "stores", s3)[0] == 0
    assert anydml(capsys, "manifest", s3, tmp_path / "sums.json", "-q")[0] == 0
    assert stores.manifest(model) == stores.manifest(s3)
    upload_one(s3, "sums.json", (tmp_path / "sums.json").read_bytes())
    assert stores.verify(f"{s3}/sums.json", model) is None
    assert anydml(capsys, "reshard", s3, tmp_path / "cast.safetensors", "--dtype", "fp32", "-q")[0] == 0
    assert stores.compare(model, tmp_path / "cast.safetensors", dtype="fp32").differences == []


@pytest.mark.parametrize("kind", MADE)
def test_folders_of_every_kind_are_read(bucket, model, tmp_path, kind):
    stores.reshard(model, tmp_path / "in", **MADE[kind]).run()
    upload(tmp_path / "in", bucket)
    stores.reshard(bucket, tmp_path / "out", ranks={"fsdp": 2}).run()
    assert stores.verify(model, tmp_path / "out") is None
    assert stores.verify(bucket, model) is None
    found = stores.plan_load(bucket, rank=1, ranks=2).load()
    wanted = stores.plan_load(model, rank=1, ranks=2).load()
    assert all(found[name].tobytes() == each.tobytes() for name, each in wanted.items())


def upload_one(url, name, content):
    locate("test", f"{url}/{name}").write_bytes(content)


def files(folder, model):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = {name: torch.from_numpy(each) for name, each in model.items()}
    torch.save(tensors, folder / "x.pt")
    torch.save(tensors, folder / "old.bin", _use_new_zipfile_serialization=False)
    np.savez(folder / "x.npz", **model)
    np.savez_compressed(folder / "packed.npz", **model)
    stores.reshard(folder / "x.npz", folder / "x.safetensors").run()
    stores.reshard(folder / "x.npz", folder / "x.gguf", extras=False).run()


def test_files_of_every_format_are_read(bucket, tmp_path):
    rng = np.random.default_rng(1)
    model = {f"layers.{k}.weight": rng.standard_normal((40, 30 + k)).astype("f4") for k in range(6)}
    files(tmp_path, model)
    upload(tmp_path, bucket)
    for name in ("x.pt", "old.bin", "x.npz", "packed.npz", "x.safetensors", "x.gguf"):
        found = stores.plan_load(f"{bucket}/{name}").load()
        assert all(found[key].tobytes() == each.tobytes() for key, each in model.items()), name
        assert stores.verify(f"{bucket}/{name}", tmp_path / name) is None
        one = stores.open(f"{bucket}/{name}")
        assert [*one] == [*stores.open(tmp_path / name)]
    store = stores.open(f"{bucket}/x.safetensors")["layers.2.weight"]
    assert store.read().tobytes() == model["layers.2.weight"].tobytes()


def test_a_source_that_changes_is_noticed(bucket, model, tmp_path):
    upload(model, bucket)
    plan = stores.reshard(bucket, tmp_path / "out")
    file = sorted(model.glob("*.safetensors"))[0]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    upload_one(bucket, file.name, bytes(content))
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run()
    assert not (tmp_path / "out").exists()


def test_what_is_missing_or_leads_out_is_refused(bucket, model, tmp_path):
    with pytest.raises(ModelError, match="there is no such file or folder"):
        stores.reshard(f"{bucket}/none", tmp_path / "out")
    upload(model, bucket)
    index = json.loads((model / "model.safetensors.index.json").read_text())
    for wrong in "../x.safetensors", "gone.safetensors", "/etc/passwd", "":
        index["weight_map"] = dict.fromkeys(index["weight_map"], wrong)
        upload_one(bucket, "model.safetensors.index.json", json.dumps(index).encode())
        with pytest.raises(ModelError, match="which is not a file of"):
            stores.reshard(bucket, tmp_path / "out")


def names(url):
    path = locate("test", url)
    return sorted(each["path"].removeprefix(f"{path.key}/") for each in path.inside())


@pytest.mark.parametrize("options", [{"shards": 2}, {"ranks": 2}, {"ranks": {"fsdp": 2}, "dcp": True}, None], ids=str)
def test_outputs_are_sent_when_they_are_whole(bucket, model, tmp_path, options):
    name = bucket if options else f"{bucket}/x.safetensors"
    plan = stores.reshard(model, name, scratch=tmp_path / "scratch", **(options or {}))
    plan.run()
    assert stores.verify(model, name) is None
    stores.reshard(model, tmp_path / "out" if options else tmp_path / "x.safetensors", **(options or {})).run()
    assert names(bucket) == (sorted(os.listdir(tmp_path / "out")) if options else ["x.safetensors"])
    assert os.listdir(tmp_path / "scratch") == []
    for _ in range(2):
        with pytest.raises(ModelError, match="exists already"):
            stores.reshard(model, name, scratch=tmp_path / "scratch", **(options or {}))
    with pytest.raises(ModelError, match="--scratch DIR"):
        stores.reshard(model, f"{bucket}/other")
    with pytest.raises(ModelError, match="is only read"):
        stores.reshard(model, "https://127.0.0.1:9/x", scratch=tmp_path)


@pytest.mark.parametrize("at", range(6))
def test_what_was_interrupted_while_it_was_sent_goes_on(bucket, model, tmp_path, monkeypatch, at):
    sent, copy_from = [], Address.copy_from

    def failing(self, path):
        sent.append(self.name)
        if len(sent) == at:
            raise OSError(5, "the network is gone")
        return copy_from(self, path)

    monkeypatch.setattr(Address, "copy_from", failing)
    if at:
        with pytest.raises(ModelError, match="network is gone; repeat the command to resume"):
            stores.reshard(model, bucket, scratch=tmp_path / "scratch", shards=3).run()
        assert not any(name.endswith(".index.json") for name in names(bucket))
    before = sent[: at - 1] if at else []
    sent.clear()
    at = -1
    stores.reshard(model, bucket, scratch=tmp_path / "scratch", shards=3).run()
    assert not {*before} & {*sent}, "what was sent is not sent again"
    assert sent[-1] == "model.safetensors.index.json"
    assert stores.verify(model, bucket) is None
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.skipif(os.name != "posix", reason="locks")
def test_of_two_processes_that_send_the_same_output_the_second_is_refused(bucket, model, tmp_path, monkeypatch):
    sent, copy_from, ended = [], Address.copy_from, []

    def slow(self, path):
        sent.append(self.name)
        time.sleep(0.05)
        return copy_from(self, path)

    monkeypatch.setattr(Address, "copy_from", slow)
    uploads = [Upload(locate("test", bucket), tmp_path) for _ in range(2)]
    shutil.copytree(model, uploads[0].local_path)

    def send(upload):
        try:
            upload.send()
        except ModelError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=send, args=(upload,)) for upload in uploads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 1
    assert "exists already" in ended[0]
    assert sorted(sent) == sorted(each.name for each in model.iterdir())


KILLED = """
import os, signal, sys
import obstore
from anydml import stores
from anydml.files.addresses import Address

model, url, scratch, files = *sys.argv[1:4], int(sys.argv[4])
sent, copy_from = [], Address.copy_from

def copy(self, path):
    sent.append(self)
    if len(sent) <= files:
        return copy_from(self, path)
    def parts():
        yield bytes(6 << 20)
        yield bytes(6 << 20)
        os.kill(os.getpid(), signal.SIGKILL)
    obstore.put(self.store, self.key, parts(), chunk_size=5 << 20, max_concurrency=1)

Address.copy_from = copy
stores.reshard(model, url, scratch=scratch, shards=3).run()
"""
"""A program that is killed when some files have been sent, and two parts of another."""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("files", [0, 2])
def test_after_a_kill_on_the_way_what_has_arrived_is_not_sent_again(s3, model, tmp_path, files):
    import boto3

    command = [sys.executable, "-c", KILLED, model, s3, tmp_path / "scratch", files]
    assert subprocess.run([*map(str, command)], check=False).returncode == -signal.SIGKILL
    client, prefix = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]), s3.removeprefix("s3://bucket/")

    def arrived():
        """Names and versions of the objects, of which one that is written again gets another."""
        return {
            one["Key"]: client.head_object(Bucket="bucket", Key=one["Key"])["LastModified"]
            for one in client.list_objects_v2(Bucket="bucket", Prefix=f"{prefix}/").get("Contents", [])
        }

    before = arrived()
    # What is on its way has no name yet.
    assert len(before) == files
    time.sleep(1.1)
    plan = stores.reshard(model, s3, scratch=tmp_path / "scratch", shards=3)
    again = [remark.split('"')[1] for remark in plan.remarks if remark.startswith("sends ")]
    # What had arrived is not among these, and what was not begun is sent for the first time.
    assert again == [sorted({each.name for each in model.iterdir()} - {"model.safetensors.index.json"})[files]]
    plan.run()
    after = arrived()
    assert {name: after[name] for name in before} == before
    assert all(after[name] > max(before.values()) for name in after.keys() - before.keys() if before)
    assert stores.verify(model, s3) is None
    assert os.listdir(tmp_path / "scratch") == []


def test_what_is_sent_after_another_run_was_interrupted_is_of_one_run(bucket, model, tmp_path, monkeypatch):
    count, copy_from = [], Address.copy_from

    def failing(self, path):
        count.append(1)
        if len(count) == 3:
            raise OSError(5, "the network is gone")
        return copy_from(self, path)

    monkeypatch.setattr(Address, "copy_from", failing)
    with pytest.raises(ModelError, match="network is gone"):
        stores.reshard(model, bucket, scratch=tmp_path / "scratch", shards=3).run()
    options = {"dtype": "float16", "shards": 2}
    with pytest.raises(ModelError, match="exists already"):
        stores.reshard(model, bucket, scratch=tmp_path / "scratch", **options).run()
    stores.reshard(model, bucket, scratch=tmp_path / "scratch", overwrite=True, **options).run()
    stores.reshard(model, tmp_path / "right", **options).run()
    assert stores.verify(tmp_path / "right", bucket) is None
    assert {*names(bucket)} == {each.name for each in (tmp_path / "right").iterdir()}


def test_commands_send_to_a_server(s3, model, tmp_path, capsys):
    code, out, err = anydml(capsys, "reshard", model, f"{s3}/m", "--scratch", tmp_path / "scratch")
    assert code == 0, err
    assert f"and sends them to {s3}/m" in out + err
    assert anydml(capsys, "verify", model, f"{s3}/m")[0] == 0
    code, _, err = anydml(capsys, "reshard", model, f"{s3}/m", "--scratch", tmp_path / "scratch")
    assert (code, err.count("\n")) == (2, 1)
    assert "exists already" in err
    assert anydml(capsys, "reshard", model, f"{s3}/n")[0] == 2


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """A web server that answers requests for parts of files, as those of models do."""

    def log_message(self, *_):
        pass

    def send_head(self):
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = self.translate_path(self.path)
        if found is None or not shutil.os.path.isfile(path):
            return super().send_head()
        with open(path, "rb") as file:
            content = file.read()
        first, last = int(found[1]), min(int(found[2]), len(content) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Last-Modified", self.date_time_string(shutil.os.stat(path).st_mtime))
        self.end_headers()
        self.wfile.write(content[first : last + 1])
        return None


@pytest.fixture
def web(tmp_path):
    handler = functools.partial(_Ranges, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_web_server_is_asked_for_usual_names(web, model, tmp_path):
    shutil.copytree(model, tmp_path / "web" / "m")
    stores.reshard(f"{web}/m", tmp_path / "out").run()
    assert stores.verify(model, tmp_path / "out") is None
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "config.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    assert stores.verify(f"{web}/m", model) is None
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == stores.open(f"{web}/m").keys()
    with pytest.raises(ModelError, match="there is no such file or folder"):
        stores.reshard(f"{web}/none", tmp_path / "out2")


def test_the_hub_gets_its_token_and_nobody_else(web, model, tmp_path, monkeypatch):
    """A server like the hub, which sends whoever asks for a file to another one."""
    shutil.copytree(model, tmp_path / "web" / "files")
    asked = []

    class Hub(_Ranges):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            name = self.path.rpartition("/")[2]
            if (model / name).is_file():
                self.send_response(302)
                self.send_header("Location", f"{web.replace('127.0.0.1', 'localhost')}/files/{name}")
            else:
                self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

    elsewhere, send_head = [], _Ranges.send_head
    monkeypatch.setattr(_Ranges, "send_head", lambda self: elsewhere.append(self.headers) or send_head(self))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("HF_TOKEN", "secret")
        try:
            stores.reshard("hf://owner/name@v1", tmp_path / "out").run()
            assert stores.verify("hf://owner/name", model) is None
        finally:
            server.shutdown()
            thread.join()
    assert stores.verify(model, tmp_path / "out") is None
    assert {path.rpartition("/")[0] for path, _ in asked} >= {"/owner/name/resolve/v1", "/owner/name/resolve/main"}
    assert {token for _, token in asked} == {"Bearer secret"}
    assert elsewhere
    assert not any("Authorization" in headers for headers in elsewhere)
    for wrong in "hf://datasets/a/b", "hf://owner", "hf://a/b@c@d":
        with pytest.raises(ModelError, match="must be a model in the hub: hf:"):
            stores.open(wrong)
    with pytest.raises(ModelError, match="is only the beginning of an address"):
        stores.open("hf://")


def test_arrays_at_addresses_are_what_they_are_in_files(bucket, tmp_path):
    big = np.arange(4096, dtype=">i4")
    np.savez(tmp_path / "plain.npz", a=big, b=np.asfortranarray(big.reshape(64, 64)))
    np.savez_compressed(tmp_path / "packed.npz", a=big, b=np.asfortranarray(big.reshape(64, 64)))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    value = torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]])
    torch.save({"conj": value.conj(), "turned": value.t(), "neg": value.conj().imag.contiguous()}, tmp_path / "x.pt")
    for path in sorted(tmp_path.iterdir()):
        upload_one(bucket, path.name, path.read_bytes())
        for name, store in stores.open(path).items():
            found, expected = stores.open(f"{bucket}/{path.name}")[name].read(), store.read()
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert found.tobytes() == expected.tobytes()
