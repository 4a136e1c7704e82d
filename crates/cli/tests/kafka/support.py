"""A real broker and a real server. The client side knows nothing of Ringfence."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from kafka import KafkaConsumer, KafkaProducer

BINARY = os.environ["RINGFENCE_BINARY"]
BROKER = os.environ["RINGFENCE_KAFKA_BROKER"]
COMMAND = json.loads(os.environ["RINGFENCE_KAFKA_COMMAND"])
TIMEOUT = 120


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

    def __init__(self, tenant="public", **variables):
        self.dir = tempfile.TemporaryDirectory(prefix="ringfence-kafka-")
        self.data = os.path.join(self.dir.name, "data")
        self.log = os.path.join(self.dir.name, "log")
        # As the environment of SomaAgent 01 has it.
        self.variables = {"KAFKA_BOOTSTRAP_SERVERS": BROKER, **variables}
        self.start()
        body = {"label": "door", "scopes": ["call"], "tenant": tenant}
        status, text = self.ask("POST", "/v1/keys", body)
        assert status == 201, text
        self.variables["RINGFENCE_INTAKE_TENANTS"] = f"{tenant}={json.loads(text)['key_id']}"
        self.stop()
        self.start()

    def start(self):
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **self.variables}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--data", self.data],
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )
        line = self.process.stdout.readline()
        assert line, open(self.log).read()
        self.url = json.loads(line)["url"]
        with open(os.path.join(self.data, "admin.key")) as file:
            self.key = file.read().strip()

    def ask(self, method, path, body=None):
        """Status and text of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
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
