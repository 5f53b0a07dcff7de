"""moto's S3 server on the loopback, with an empty bucket named ``bucket``; prints its port, then obeys lines of stdin.

The requests that are watched are those for chunks, and those that send a part of another object.

``hold N``: they wait until N of them are there, or five seconds. ``stop N``: after N of them others wait until
``go``. ``fail N``: the next N are answered by 503. ``count``: prints how many there were at once, and in all, since the
last time.
"""

import logging
import sys
import threading

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"


class Watched:
    """The application, some of whose requests are counted, held or refused."""

    def __init__(self, app):
        self.app = app
        self.changed = threading.Condition()
        self.now = self.most = self.count = self.failing = 0
        self.held, self.left = 1, None

    def __call__(self, environ, start):
        if "/c/" not in environ["PATH_INFO"] and "partNumber=" not in environ["QUERY_STRING"]:
            return self.app(environ, start)
        with self.changed:
            self.now, self.count = self.now + 1, self.count + 1
            self.most = max(self.most, self.now)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.held, 5)
            self.changed.wait_for(lambda: self.left is None or self.left > 0)
            self.left = None if self.left is None else self.left - 1
            fails, self.failing = self.failing > 0, max(0, self.failing - 1)
        try:
            if fails:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start("503 Slow Down", [("Content-Length", "0")])
                return [b""]
            return self.app(environ, start)
        finally:
            with self.changed:
                self.now -= 1


app = Watched(DomainDispatcherApplication(create_backend_app))
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
own = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.server_port}", **own).create_bucket(Bucket="bucket")
print(server.server_port, flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    with app.changed:
        if word == "hold":
            app.held, app.most = int(numbers[0]), 0
        elif word in ("stop", "go"):
            app.left = int(numbers[0]) if numbers else None
            app.changed.notify_all()
        elif word == "fail":
            app.failing = int(numbers[0])
        else:
            print(app.most, app.count, flush=True)
            app.most = app.count = 0
