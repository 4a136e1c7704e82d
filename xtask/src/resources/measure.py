"""Runs each program of hoards.py in a sandbox with default limits and tells, of the host's memory,
how much was taken and how much was charged to the sandbox. One JSON object per line.

Usage: measure.py [NAME...], as root on the throw-away machine, with control groups of version 2.
"""

import glob
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# Programs of the network kind need a loopback interface; everything else gets the default.
LOOPBACK = {"tcp_signatures", "multicast_groups", "tcp_connections", "tcp_listeners", "udp_queues"}


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def available():
    for line in read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise SystemExit("no MemAvailable")


def charged():
    """All that is charged to the groups that Ringfence made."""
    bases = glob.glob("/sys/fs/cgroup/**/ringfence*/memory.current", recursive=True)
    top = [b for b in bases if not any(os.path.dirname(o) != os.path.dirname(b)
           and os.path.dirname(b).startswith(os.path.dirname(o) + "/") for o in bases)]
    return sum(int(read(path) or 0) for path in top)


def settle():
    """Waits until freed memory is back: the kernel frees much of it later."""
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")
    last = available()
    for _ in range(50):
        time.sleep(0.2)
        now = available()
        if abs(now - last) < 1 << 20:
            return now
        last = now
    return last


class Sampler(threading.Thread):
    def __init__(self, before):
        super().__init__(daemon=True)
        self.before, self.ended = before, threading.Event()
        # At the time when most was taken, and the most that was ever uncharged.
        self.taken, self.charged, self.uncharged = 0, 0, 0

    def sample(self):
        taken, counted = self.before - available(), charged()
        if taken > self.taken:
            self.taken, self.charged = taken, counted
        self.uncharged = max(self.uncharged, taken - counted)

    def run(self):
        while not self.ended.wait(0.1):
            self.sample()


def measure(name):
    before = settle()
    flags = ["--network", "loopback"] if name in LOOPBACK and OFFERS_NETWORK else []
    program = os.path.join(HERE, "hoards.py")
    command = ["ringfence", "run", "--timeout", "150s", *flags, program, "--", name]
    sampler = Sampler(before)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        sampler.start()
        said = process.stdout.readline().strip()
        # What can be given back on demand is not taken.
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("2")
        time.sleep(0.3)
        sampler.sample()
        sampler.ended.set()
        _, problem = process.communicate("")
    lines = problem.strip().splitlines()
    left = before - settle()
    print("RESOURCE " + json.dumps({
        "name": name, "said": said or (lines[0] if lines else f"exit {process.returncode}"),
        "taken": sampler.taken, "charged": sampler.charged, "uncharged": sampler.uncharged, "left": left,
    }), flush=True)


OFFERS_NETWORK = "--network" in subprocess.run(
    ["ringfence", "run", "--help"], capture_output=True, text=True).stdout

if __name__ == "__main__":
    sys.path.insert(0, HERE)
    from hoards import HOARDS

    for name in sys.argv[1:] or HOARDS:
        measure(name)
