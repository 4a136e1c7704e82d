"""Starts the real drivers over a real socket pair, as the service does.

Descriptors of the driver: 0, 1, 2 pipes, 3 the result channel, 4 the job channel.
Every wait has a deadline; nothing sleeps to synchronise.
"""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

DRIVERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.get("RINGFENCE_TEST_PYTHON", "/usr/bin/python3")
NODE = os.environ.get("RINGFENCE_TEST_NODE", "/usr/bin/node")
DEADLINE = 20.0


def python(mode):
    return [PYTHON, "-I", "-B", os.path.join(DRIVERS, "driver.py"), mode]


def node(mode):
    return [NODE, os.path.join(DRIVERS, "driver.js"), mode]


class Wire:
    """The service's end of a job channel."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(DEADLINE)

    def send(self, frame):
        body = json.dumps(frame).encode()
        self.sock.sendall(struct.pack("<I", len(body)) + body)

    def receive(self):
        """The next frame, or None at the end of the channel."""
        header = self._exactly(4)
        if header is None:
            return None
        return json.loads(self._exactly(struct.unpack("<I", header)[0]))

    def until(self, event):
        """Frames up to and including the first with this `ev`."""
        frames = []
        while not frames or frames[-1]["ev"] != event:
            frame = self.receive()
            if frame is None:
                raise AssertionError("channel ended before `%s`; got %r" % (event, frames))
            frames.append(frame)
        return frames

    def let_go(self):
        """Nothing more is sent."""
        self.sock.shutdown(socket.SHUT_WR)

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                part = self.sock.recv(count - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                return None
            data += part
        return data


class Collector:
    """Reads a pipe to its end on a thread, so that a driver never blocks on us."""

    def __init__(self, fd):
        self.data = bytearray()
        self._changed = threading.Condition()
        self._fd = fd
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            part = os.read(self._fd, 1 << 16)
            with self._changed:
                self.data += part
                self._changed.notify_all()
            if not part:
                os.close(self._fd)
                return

    def text(self):
        return bytes(self.data).decode("utf-8", "replace")

    def wait_for(self, needle):
        with self._changed:
            if not self._changed.wait_for(lambda: needle in self.text(), DEADLINE):
                raise AssertionError("never saw %r, got %r" % (needle, self.text()))

    def end(self):
        self._thread.join(DEADLINE)
        if self._thread.is_alive():
            raise AssertionError("pipe still open, got %r" % self.text())
        return self.text()


class Driver:
    """One running driver."""

    def __init__(self, command, cwd=None, result=True, stdin=b"", keep_stdin=False, drain=True):
        ours, theirs = socket.socketpair()
        result_read, result_write = os.pipe()
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "RINGFENCE_JOB_FD": "4"}
        if result:
            environment["RINGFENCE_RESULT_FD"] = "3"
        places = {3: result_write} if result else {}
        places[4] = theirs.fileno()
        self.process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, close_fds=False, preexec_fn=lambda: _place(places),
        )
        theirs.close()
        os.close(result_write)
        self.wire = Wire(ours)
        self.stdin = self.process.stdin
        if not keep_stdin:
            self.stdin.write(stdin)
            self.stdin.close()
        self.out = Collector(os.dup(self.process.stdout.fileno())) if drain else None
        self.err = Collector(os.dup(self.process.stderr.fileno()))
        self.result = Collector(result_read)

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def wait(self):
        return self.process.wait(DEADLINE)

    def close(self):
        """Ends the driver, by force if it does not leave by itself."""
        self.wire.sock.close()
        if not self.stdin.closed:
            self.stdin.close()
        if self.process.poll() is None:
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Ended:
    """What became of one job."""

    def __init__(self, done, out, err, result, status):
        self.done, self.out, self.err, self.result, self.status = done, out, err, result, status

    def __repr__(self):
        return "Ended(%r)" % (self.__dict__,)


def once(command, job, **options):
    """Runs one job to its end."""
    with Driver(command, **options) as driver:
        assert driver.wire.receive() == {"ev": "ready"}
        driver.wire.send(job)
        done = driver.wire.receive()
        driver.wire.let_go()
        status = driver.wait()
        return Ended(done, driver.out.end(), driver.err.end(), driver.result.end(), status)


class Cells:
    """A session with shorthand for its operations."""

    def __init__(self, command, **options):
        self.driver = Driver(command, **options)
        self.wire = self.driver.wire
        self.count = 0
        assert self.wire.receive() == {"ev": "ready"}

    def start(self, code):
        self.count += 1
        self.wire.send({"op": "execute", "id": self.count, "code": code})
        frame = self.wire.receive()
        assert frame == {"ev": "started", "id": self.count}, frame

    def run(self, code):
        """Events of one cell after `started`, `done` included."""
        self.start(code)
        return self.wire.until("done")

    def value(self, code):
        """The plain text of a cell's main result."""
        frames = self.run(code)
        found = [frame for frame in frames if frame["ev"] == "result" and frame["main"]]
        assert frames[-1]["status"] == "ok" and len(found) == 1, frames
        return found[0]["data"]["text/plain"]

    def error(self, code):
        frames = self.run(code)
        found = [frame for frame in frames if frame["ev"] == "error"]
        assert len(found) == 1, frames
        return found[0]

    def ask(self, **frame):
        self.wire.send(frame)
        return self.wire.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.close()


def workspace():
    return tempfile.TemporaryDirectory(prefix="ringfence-drivers-")


def wait_until(condition, what):
    """Polls a condition of another process, which offers no event to wait on."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return
        select.select([], [], [], 0.005)
    raise AssertionError("never happened: " + what)


def _place(places):
    """In the child: each descriptor at its number, inheritable, nothing else kept."""
    high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for number, fd in places.items()}
    os.closerange(3, 64)
    for number, fd in high.items():
        os.dup2(fd, number)
    os.closerange(5, 256)
