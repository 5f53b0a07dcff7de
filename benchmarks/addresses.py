"""Arrays at addresses: ``rechunk`` beside obstore alone: ``python -m benchmarks.addresses``.

A server of this machine speaks as much of S3's protocol as both need, keeps objects in memory, and waits 20 ms before
each answer. obstore reads all chunks of the source and writes as many of the result, 32 at a time, and moves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

import numpy as np

from benchmarks.measure import machine

AT_ONCE = 32
"""Requests that obstore alone has under way."""

CASES = {
    "chunks of 8 MiB": ((128, 1024, 2048), (1, 1024, 2048), (8, 1024, 256)),
    "chunks of 0.5 MiB": ((128, 1024, 1024), (1, 256, 512), (8, 128, 128)),
}
"""Shape, chunks of the source and chunks of the result, of float32."""


class Server(BaseHTTPRequestHandler):
    """Answers GET, HEAD, PUT, DELETE and lists of one bucket."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    objects: ClassVar[dict[str, bytearray]] = {}
    delay = 0.0

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _answer(self, status: int, data: Any = b"", **headers: str) -> None:
        time.sleep(self.delay)
        self.send_response(status)
        length = headers.pop("Content_Length", str(len(data)))
        for name, text in {**headers, "Content-Length": length}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).partition("/bucket")[2].strip("/")

    def do_HEAD(self) -> None:
        """Answer for the properties of an object."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with an object or a part of it, or with a list."""
        key, query = self._key(), parse_qs(urlsplit(self.path).query)
        if not key:
            self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
            return
        if (data := self.objects.get(key)) is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        common = {"ETag": f'"{id(data)}"', "Last_Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        span = self.headers.get("Range", "").removeprefix("bytes=")
        if not span:
            self._answer(200, data, Content_Length=str(len(data)), **common)
            return
        first, _, last = span.partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(len(data), int(last) + 1) if first and last else len(data)
        part = memoryview(data)[start:stop]
        self._answer(206, part, Content_Range=f"bytes {start}-{stop - 1}/{len(data)}", **common)

    def do_PUT(self) -> None:
        """Take an object."""
        data = bytearray(int(self.headers["Content-Length"]))
        view, done = memoryview(data), 0
        while done < len(data):
            done += self.rfile.readinto(view[done:])
        self.objects[self._key()] = data
        self._answer(200, ETag=f'"{id(data)}"')

    def do_DELETE(self) -> None:
        """Remove an object."""
        self.objects.pop(self._key(), None)
        self._answer(204)

    def do_POST(self) -> None:
        """Remove several objects."""
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]
        for key in keys:
            self.objects.pop(unescape(key), None)
        removed = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{removed}</DeleteResult>".encode(), Content_Type="application/xml")

    def _list(self, prefix: str, delimiter: str) -> None:
        folders, lines = set[str](), list[str]()
        for key in sorted(self.objects):
            if not key.startswith(prefix):
                continue
            name, sign, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if sign:
                folders.add(f"{prefix}{name}/")
                continue
            size, tag = len(self.objects[key]), id(self.objects[key])
            lines.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{tag}</ETag><Size>{size}</Size></Contents>"
            )
        lines += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)]
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(lines)}</ListBucketResult>"
        self._answer(200, text.encode(), Content_Type="application/xml")


def serve(milliseconds: float) -> None:
    """Serve an empty bucket, print the port, and go on until the end of stdin."""
    Server.delay = milliseconds / 1000
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.milliseconds)
        return
    command = [sys.executable, "-m", "benchmarks.addresses", "--serve", "--milliseconds", str(arguments.milliseconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None  # noqa: PT018
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}", "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1",
        }  # fmt: skip
        try:
            results = {name: _case(*case, arguments.rounds, arguments.memory) for name, case in CASES.items()}
        finally:
            server.stdin.close()
    print(json.dumps({"machine": machine(), "milliseconds": arguments.milliseconds, "results": results}))


def _case(
    shape: tuple[int, ...], chunks: tuple[int, ...], new: tuple[int, ...], rounds: int, memory: str
) -> dict[str, float]:
    """Medians of seconds, and their ratio."""
    import obstore

    from anydml import stores

    bucket = obstore.store.from_url("s3://bucket")
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", np.random.default_rng(0).integers(0, 1 << 20, shape, np.int32).astype("f4"))
        stores.rechunk(f"{folder}/x.npy", "s3://bucket/x.zarr", chunks, codec="none", overwrite=True).run()
    names = [str(entry["path"]) for several in obstore.list(bucket, "x.zarr/c/") for entry in several]
    data = bytes(int(np.prod(new)) * 4)
    seconds: dict[str, list[float]] = {"obstore": [], "rechunk": []}
    for _ in range(rounds):
        start = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            size = sum(pool.map(lambda name: len(obstore.get(bucket, name).bytes()), names))
            [*pool.map(lambda k: obstore.put(bucket, f"z/{k}", data, use_multipart=False), range(size // len(data)))]
        seconds["obstore"].append(time.perf_counter() - start)
        plan = stores.rechunk("s3://bucket/x.zarr", "s3://bucket/y.zarr", new, memory=memory, codec="none")
        obstore.delete(bucket, [str(entry["path"]) for several in obstore.list(bucket, "y.zarr/") for entry in several])
        start = time.perf_counter()
        plan.run()
        seconds["rechunk"].append(time.perf_counter() - start)
        if size != int(np.prod(shape)) * 4:
            raise AssertionError(f"obstore has read {size} bytes")
    medians = {name: round(statistics.median(each), 3) for name, each in seconds.items()}
    return {**medians, "ratio": round(medians["obstore"] / medians["rechunk"], 2)}


if __name__ == "__main__":
    main()
