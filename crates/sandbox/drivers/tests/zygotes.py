"""A running zygote over the stand-in native library."""

import array
import json
import os
import socket
import struct
import subprocess

from harness import DEADLINE, DRIVERS, PYTHON, Collector, Ended, Wire

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote_native.c")


def build(directory):
    """Compiles the stand-in; returns its path."""
    library = os.path.join(directory, "native.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    return library


class Zygote:
    def __init__(self, library, imports, module=None):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(DEADLINE)
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "RINGFENCE_RESULT_FD": "3", "OPENBLAS_NUM_THREADS": "1"}
        script = os.path.join(DRIVERS, "zygote.py")
        source = os.memfd_create("module")
        os.write(source, b"" if module is None else json.dumps(module).encode())
        os.lseek(source, 0, os.SEEK_SET)
        self.process = subprocess.Popen(
            [PYTHON, "-I", "-B", script, str(theirs.fileno()), library, imports],
            env=environment, pass_fds=[theirs.fileno()], stdin=source,
        )
        theirs.close()
        os.close(source)
        packet = self.control.recv(1 << 20)
        assert struct.unpack("<I", packet[:4])[0] == len(packet) - 4
        self.announced = json.loads(packet[4:])

    def worker(self):
        return Worker(self.control)

    def run(self, job, stdin=b""):
        worker = self.worker()
        assert worker.wire.receive() == {"ev": "ready"}
        return worker.finish(job, stdin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.control.close()
        assert self.process.wait(DEADLINE) == 0


class Worker:
    """One child of the zygote, by the descriptors it was given."""

    def __init__(self, control):
        ours, theirs = socket.socketpair()
        stdin_read, self.stdin = os.pipe()
        pipes = [os.pipe() for _ in range(3)]
        given = [stdin_read] + [write for _, write in pipes] + [theirs.fileno()]
        control.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
        for write in given[:4]:
            os.close(write)
        theirs.close()
        self.out, self.err, self.result = (Collector(read) for read, _ in pipes)
        self.wire = Wire(ours)

    def finish(self, job, stdin=b""):
        os.write(self.stdin, stdin)
        os.close(self.stdin)
        self.wire.send(job)
        done = self.wire.receive()
        self.wire.let_go()
        assert self.wire.receive() is None
        self.wire.sock.close()
        return Ended(done, self.out.end(), self.err.end(), self.result.end(), done and done["exit"])
