"""Uploads to S3 that are killed: what has arrived is not sent again. The server is moto's, on the loopback."""

import importlib.util
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from s3_server import s3_server
from stores.test_opening import written

from anydml import stores
from anydml.files.addresses import Address
from anydml.files.multipart import PartedUploads, why_restarted
from anydml.files.object_paths import MAX_PARTS, PART_BYTES, part_bytes

pytest.importorskip("obstore", reason='obstore is not installed: pip install "anydml[remote]"')
boto3 = pytest.importorskip("boto3", reason='boto3 is not installed: pip install "moto[s3]"')
if os.name != "posix":
    pytest.skip("SIGKILL", allow_module_level=True)

PARTS = 6
"""Parts of a file of 44 MiB and a header."""


@pytest.fixture(scope="module")
def server():
    with s3_server() as child:
        yield child


@pytest.fixture
def client(server):
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    yield client
    for entry in client.list_multipart_uploads(Bucket="bucket").get("Uploads", []):
        client.abort_multipart_upload(Bucket="bucket", Key=entry["Key"], UploadId=entry["UploadId"])


def ask(server, line):
    server.stdin.write(f"{line}\n")
    server.stdin.flush()
    return [*map(int, server.stdout.readline().split())] if line == "count" else None


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """44 MiB in two tensors."""
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    tensors = {f"layers.{k}.weight": rng.integers(0, 1 << 15, (11 << 10, 1 << 10)).astype("i2") for k in range(2)}
    return written(folder / "model.safetensors", tensors) or folder / "model.safetensors"


def pending(client):
    """The numbers of parts of unfinished uploads, by key."""
    return {
        entry["Key"]: len(
            client.list_parts(Bucket="bucket", Key=entry["Key"], UploadId=entry["UploadId"]).get("Parts", ())
        )
        for entry in client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
    }


def kill_after(server, client, parts, *command):
    """Kill a command when so many parts of its uploads have arrived; returns how many have."""
    ask(server, f"stop {parts}")
    with subprocess.Popen(
        [sys.executable, "-m", "anydml", *map(str, command)],
    ) as child:
        end = time.monotonic() + 300
        try:
            while sum(pending(client).values()) < parts and child.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            child.kill()
        assert child.wait() == -signal.SIGKILL
    ask(server, "go")
    while (before := pending(client)) != (time.sleep(0.5) or pending(client)):
        pass
    ask(server, "count")
    return sum(before.values())


@pytest.mark.parametrize(
    ("parts", "name"), [(1, "one.safetensors"), (3, "folder"), (4, "one.safetensors"), (5, "folder")]
)
def test_only_missing_parts_are_sent(server, client, model, tmp_path, parts, name):
    url = f"s3://bucket/{parts}/{name}"
    command = ["reshard", model, url, "--scratch", tmp_path / "scratch"]
    kill_after(server, client, parts, *command)
    (key,) = pending(client)
    (entry,) = client.list_multipart_uploads(Bucket="bucket")["Uploads"]
    listed = client.list_parts(Bucket="bucket", Key=key, UploadId=entry["UploadId"])["Parts"]
    # A part that was on its way when the command died may be cut off, which Amazon's server would not keep.
    whole = sum(part["Size"] == PART_BYTES or part["PartNumber"] == PARTS for part in listed)
    assert whole >= parts
    plan = stores.reshard(model, url, scratch=tmp_path / "scratch")
    plural = "s" * (whole != 1)
    assert f'resumes the upload of "{key.rpartition("/")[2]}": {whole} part{plural} arrived' in plan.remarks
    plan.run()
    assert ask(server, "count")[1] == PARTS - whole
    assert stores.verify(model, url) is None
    stores.reshard(model, tmp_path / "wanted.safetensors").run()
    expected = (tmp_path / "wanted.safetensors").read_bytes()
    assert client.get_object(Bucket="bucket", Key=key)["Body"].read() == expected
    assert not pending(client)
    assert not os.listdir(tmp_path / "scratch")


def test_an_upload_of_another_source_begins_again(server, client, model, tmp_path):
    url, scratch = "s3://bucket/changed.safetensors", tmp_path / "scratch"
    kill_after(server, client, 3, "reshard", model, url, "--scratch", scratch)
    (entry,) = client.list_multipart_uploads(Bucket="bucket")["Uploads"]
    tensors = {name: store.read() + 1 for name, store in stores.open(model).items()}
    written(tmp_path / "other.safetensors", tensors)
    # The same size, and the same names.
    plan = stores.reshard(tmp_path / "other.safetensors", url, scratch=scratch, overwrite=True)
    plan.run()
    assert ask(server, "count")[1] == PARTS
    assert stores.verify(tmp_path / "other.safetensors", url) is None
    assert not pending(client)
    with pytest.raises(client.exceptions.NoSuchUpload):
        client.list_parts(Bucket="bucket", Key="changed.safetensors", UploadId=entry["UploadId"])


def test_an_abandoned_upload_is_aborted_by_the_run_that_replaces_it(server, client, model, tmp_path):
    url, scratch = "s3://bucket/abandoned", tmp_path / "scratch"
    kill_after(server, client, 1, "reshard", model, url, "--scratch", scratch, "--shards", 2)
    assert [*pending(client)] == ["abandoned/model-00001-of-00002.safetensors"]
    stores.reshard(model, url, scratch=scratch, shards=1, overwrite=True).run()
    assert not pending(client)
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="bucket", Prefix="abandoned/")["Contents"]]
    assert keys == ["abandoned/model.safetensors"]


def test_an_upload_that_the_server_has_removed_begins_again(server, client, model, tmp_path):
    url, scratch = "s3://bucket/removed.safetensors", tmp_path / "scratch"
    kill_after(server, client, 3, "reshard", model, url, "--scratch", scratch)
    (entry,) = client.list_multipart_uploads(Bucket="bucket")["Uploads"]
    client.abort_multipart_upload(Bucket="bucket", Key=entry["Key"], UploadId=entry["UploadId"])
    plan = stores.reshard(model, url, scratch=scratch)
    assert 'sends "removed.safetensors" again from its beginning: the server has none of its parts' in plan.remarks
    plan.run()
    assert ask(server, "count")[1] == PARTS
    assert stores.verify(model, url) is None


def test_what_cannot_be_resumed_is_said_and_sent_again(server, client, model, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    url, scratch = "s3://bucket/encrypted.safetensors", tmp_path / "scratch"
    plan = stores.reshard(model, url, scratch=scratch)
    why = 'uploads with the setting "AWS_SERVER_SIDE_ENCRYPTION" are not resumed'
    assert f"would send a file again from its beginning if this is interrupted: {why}" in plan.remarks
    kill_after(server, client, 1, "reshard", model, url, "--scratch", scratch)
    plan = stores.reshard(model, url, scratch=scratch)
    assert f'sends "encrypted.safetensors" again from its beginning: {why}' in plan.remarks
    plan.run()
    assert ask(server, "count")[1] == PARTS
    assert client.head_object(Bucket="bucket", Key="encrypted.safetensors")["ServerSideEncryption"] == "AES256"
    assert stores.verify(model, url) is None


def test_why_an_upload_is_not_resumed(model, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    to = Address("s3:/bucket/x")
    assert why_restarted(to) is None
    for other in "gs:/bucket/x", "az:/bucket/x", "memory:/bucket/x":
        assert why_restarted(Address(other)) == "only uploads to s3:// are resumed"
    for name in "AWS_SSE_KMS_KEY_ID", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_PROXY_URL", "AWS_ENDPOINT_URL_S3":
        with monkeypatch.context() as context:
            context.setenv(name, "x")
            assert name in why_restarted(to)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "botocore" else find_spec(name))
    assert 'botocore, by which uploads are resumed, is not installed: pip install "anydml[remote]"' in why_restarted(to)


def test_files_of_botocore_are_not_read(server, client, model, tmp_path, monkeypatch):
    """obstore does not read them, and one command sends to one server."""
    (tmp_path / "config").write_text("[profile other]\nendpoint_url = http://127.0.0.1:9\nregion = nowhere-1\n")
    for name in "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE":
        monkeypatch.setenv(name, str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "other")
    ask(server, "count")
    stores.reshard(model, "s3://bucket/own.safetensors", scratch=tmp_path / "scratch").run()
    assert ask(server, "count")[1] == PARTS
    assert stores.verify(model, "s3://bucket/own.safetensors") is None


def test_requests_that_are_refused_are_repeated_or_an_error(server, client, model, tmp_path):
    ask(server, "fail 2")
    stores.reshard(model, "s3://bucket/repeated.safetensors", scratch=tmp_path / "scratch").run()
    assert stores.verify(model, "s3://bucket/repeated.safetensors") is None
    with pytest.raises(OSError, match=r"NoSuchBucket"):
        next(PartedUploads().send(model, Address("s3:/none/x"), None))


@pytest.mark.parametrize("size", [1, PART_BYTES, PART_BYTES * MAX_PARTS, PART_BYTES * MAX_PARTS + 1, 5 << 40])
def test_no_object_has_more_parts_than_s3_allows(size):
    assert -(-size // part_bytes(size)) <= 10_000
    assert part_bytes(size) >= 5 << 20
