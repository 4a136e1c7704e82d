"""A real broker and a real server. The client side knows nothing of Ringfence."""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import uuid

from kafka import KafkaConsumer, KafkaProducer

BINARY = os.environ["RINGFENCE_BINARY"]
BROKER = os.environ["RINGFENCE_KAFKA_BROKER"]
COMMAND = json.loads(os.environ["RINGFENCE_KAFKA_COMMAND"])
# An empty database that servers share, if there is PostgreSQL.
POSTGRES = os.environ.get("RINGFENCE_KAFKA_POSTGRES")
TIMEOUT = 120


def request(tool="echo", args=None, event_id=None, session=None, **metadata):
    """A request exactly as the gateway writes it."""
    return {
        "event_id": event_id or str(uuid.uuid4()),
        "session_id": session or str(uuid.uuid4()),
        "persona_id": None,
        "tool_name": tool,
        "args": {"text": "hi"} if args is None else args,
        "metadata": {"tenant": "public", "source": "gateway", **metadata},
    }


@functools.cache
def parsed(value):
    return json.loads(value)


def body(record):
    """The document of a record. It is parsed once, and not to be changed."""
    return parsed(record.value)


def until(what, holds):
    """Waits for a condition; the machine is left to what is waited for."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = holds()
        if found:
            return found
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.02)


class Broker:
    """Kafka, which can be killed and started again with the log that it had."""

    def __init__(self):
        self.process = None
        self.log = tempfile.TemporaryFile()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            COMMAND, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        host, port = BROKER.rsplit(":", 1)

        def accepts():
            assert self.process.poll() is None, "Kafka ended"
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return True
            except OSError:
                return False

        until("Kafka serves", accepts)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.log.close()


class Server:
    """`ringfence serve` on the broker; a key for `tenant` is bound to the door."""

    def __init__(self, tenant="public", store=None, **variables):
        self.place()
        # As the environment of SomaAgent 01 has it.
        self.variables = {"KAFKA_BOOTSTRAP_SERVERS": BROKER, **variables}
        if store:
            blobs = os.path.join(self.dir.name, "blobs")
            self.variables |= {"RINGFENCE_STORE": store, "RINGFENCE_BLOBS": blobs}
            subprocess.run([BINARY, "migrate", "--data", self.data], env=self.environment(),
                           check=True, capture_output=True)
        self.start()
        body = {"label": "door", "scopes": ["call"], "tenant": tenant}
        status, text = self.ask("POST", "/v1/keys", body)
        assert status == 201, text
        self.variables["RINGFENCE_INTAKE_TENANTS"] = f"{tenant}={json.loads(text)['key_id']}"
        self.stop()
        self.start()

    def place(self):
        self.dir = tempfile.TemporaryDirectory(prefix="ringfence-kafka-")
        self.data = os.path.join(self.dir.name, "data")
        self.log = os.path.join(self.dir.name, "log")

    def beside(self):
        """Another server on the same store, with the same settings."""
        other = Server.__new__(Server)
        other.place()
        other.variables = self.variables
        os.makedirs(other.data, mode=0o700)
        for name in ("ledger.key", "admin.key"):
            shutil.copy(os.path.join(self.data, name), other.data)
        other.start()
        return other

    def environment(self):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", **self.variables}

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", self.data],
                env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )
        line = self.process.stdout.readline()
        assert line, open(self.log).read()
        self.url = json.loads(line)["url"]
        with open(os.path.join(self.data, "admin.key")) as file:
            self.key = file.read().strip()

    def ask(self, method, path, body=None, key=None):
        """Status and text of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {key or self.key}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()

    def dead_letters(self, topic):
        found, after = [], 0
        while after is not None:
            status, text = self.ask("GET", f"/v1/admin/dlq/{topic}?after={after}")
            assert status == 200, text
            page = json.loads(text)
            found, after = found + page["messages"], page["next"]
        return found

    def stop(self, by=signal.SIGTERM):
        """Asks it to end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        return code

    def close(self):
        try:
            self.stop()
        finally:
            self.process.kill()
            self.dir.cleanup()


def producer():
    return KafkaProducer(bootstrap_servers=BROKER, acks="all", retries=10)


class Results:
    """Reads a topic from its beginning, in a group of its own."""

    def __init__(self, topic):
        self.consumer = KafkaConsumer(
            topic, bootstrap_servers=BROKER, auto_offset_reset="earliest",
            enable_auto_commit=False, isolation_level="read_committed",
        )
        self.records = []

    def until(self, what, holds):
        """Reads on until the records fulfil a condition."""
        def read():
            for records in self.consumer.poll(timeout_ms=100).values():
                self.records += records
            return holds(self.records)

        return until(what, read)

    def close(self):
        self.consumer.close()
