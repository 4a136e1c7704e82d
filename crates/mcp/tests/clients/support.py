"""A server of its own, on a free port, and how its REST interface is asked."""

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

BINARY = os.environ["RINGFENCE_BINARY"]
NODE = os.environ["RINGFENCE_NODE"]
INSPECTOR = os.environ["RINGFENCE_INSPECTOR"]
TIMEOUT = 120

# The server refuses variables of its own prefix that mean nothing to it.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


class Server:
    """A server of its own, on a free port."""

    def __init__(self, **variables):
        self.folder = tempfile.TemporaryDirectory()
        self.data = os.path.join(self.folder.name, "data")
        self.log = open(os.path.join(self.folder.name, "log"), "wb")
        command = [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", self.data]
        self.process = subprocess.Popen(
            command, env={**ENVIRONMENT, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log
        )
        self.url = json.loads(self.process.stdout.readline())["url"]
        with open(os.path.join(self.data, "admin.key"), encoding="utf-8") as file:
            self.admin = file.read().strip()
        self.key = self.post("/v1/keys", {"label": "mcp", "scopes": ["call"]})["secret"]
        # A key does not approve its own calls.
        made = self.post("/v1/keys", {"label": "approver", "scopes": ["approve", "read"]})
        self.approver = made["secret"]

    def ask(self, method, path, body=None, key=None):
        headers = {"Authorization": f"Bearer {key or self.admin}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.load(answer)

    def post(self, path, body):
        return self.ask("POST", path, body)

    def get(self, path):
        return self.ask("GET", path)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT)
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()


def until(what, holds):
    """Waits for a condition, and returns what made it true."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never came true: {what}")
        time.sleep(0.2)
