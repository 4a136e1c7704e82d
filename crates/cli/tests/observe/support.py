"""A real server, and a receiver of traces that reads them with OpenTelemetry's own messages."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

BINARY = os.environ["RINGFENCE_BINARY"]
STEP_TIMEOUT = 60


def until(what, holds):
    """Waits for a condition; the machine is left to what is waited for."""
    deadline = time.monotonic() + STEP_TIMEOUT
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


class Receiver:
    """Takes traces at /v1/traces. `answers` are statuses for the first requests, then 200."""

    def __init__(self, answers=(), rejected=0):
        self.requests, self.raw, self.headers = [], [], []
        self.answers, self.gate = list(answers), threading.Event()
        self.gate.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.gate.wait(STEP_TIMEOUT)
                status = outer.answers.pop(0) if outer.answers else 200
                if status == 200:
                    request = ExportTraceServiceRequest()
                    request.ParseFromString(body)
                    outer.raw.append(body)
                    outer.headers.append(dict(self.headers.items()))
                    outer.requests.append((self.path, request))
                answer = ExportTraceServiceResponse()
                answer.partial_success.rejected_spans = rejected
                answer = answer.SerializeToString()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/x-protobuf")
                    self.send_header("content-length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)
                except OSError:
                    pass  # The server ended meanwhile.

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}"

    def spans(self, trace=None):
        found = [
            span
            for _, request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return [span for span in found if trace is None or span.trace_id.hex() == trace]

    def close(self):
        self.gate.set()
        self.http.shutdown()
        self.http.server_close()


class Page:
    """A web server with one page, which remembers how it was asked."""

    def __init__(self):
        self.heads, outer = [], self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.heads.append(self.headers)
                self.send_response(200)
                self.send_header("content-length", "6")
                self.end_headers()
                self.wfile.write(b"a page")

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.http.server_port}"

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def attributes(span):
    def value(any_value):
        return getattr(any_value, any_value.WhichOneof("value"))

    return {pair.key: value(pair.value) for pair in span.attributes}


class Server:
    """`ringfence serve` in a directory of its own."""

    def __init__(self, **variables):
        self.dir = tempfile.TemporaryDirectory(prefix="ringfence-observe-")
        data = os.path.join(self.dir.name, "data")
        self.log = os.path.join(self.dir.name, "log")
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", data],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )
        line = self.process.stdout.readline()
        assert line, open(self.log).read()
        self.url = json.loads(line)["url"]
        with open(os.path.join(data, "admin.key")) as file:
            self.key = file.read().strip()

    def ask(self, method, path, body=None, headers=()):
        """Status, headers and text of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        for name, value in dict(headers).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=STEP_TIMEOUT) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers, answer.read().decode()

    def call(self, tool, args, headers=(), **more):
        status, answered, text = self.ask(
            "POST", "/v1/calls", {"tool": tool, "args": args, **more}, headers
        )
        assert status in (200, 202), (status, text)
        return json.loads(text), answered

    def metrics(self, accept="text/plain"):
        _, headers, text = self.ask("GET", "/metrics", headers={"Accept": accept})
        return headers["content-type"], text

    def stop(self):
        """Asks it to end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STEP_TIMEOUT)
        self.process.stdout.close()
        return code

    def close(self):
        try:
            self.stop()
        finally:
            self.process.kill()
            self.dir.cleanup()
