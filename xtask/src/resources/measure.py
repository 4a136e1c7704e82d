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
LOOPBACK = {"tcp_signatures", "multicast_groups", "tcp_connections", "tcp_listeners", "udp_queues",
            "udp_errors", "port_groups", "closed_connections"}


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
    last, steady = available(), 0
    for _ in range(150):
        time.sleep(0.2)
        now = available()
        steady = steady + 1 if abs(now - last) < 1 << 20 else 0
        last = now
        if steady >= 5 and charged() < 1 << 20:
            break
    return last


class Sampler(threading.Thread):
    """Least available memory with what was charged then, and the least sum of both."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.available, self.charged = available(), 0
        self.sum = self.available

    def sample(self):
        now, counted = available(), charged()
        if now < self.available:
            self.available, self.charged = now, counted
        self.sum = min(self.sum, now + counted)

    def run(self):
        while not self.ended.wait(0.1):
            self.sample()


def measure(name):
    before = settle()
    flags = ["--network", "loopback"] if name in LOOPBACK and OFFERS_NETWORK else []
    program = os.path.join(HERE, "hoards.py")
    command = ["ringfence", "run", "--timeout", "150s", *flags, program, "--", name]
    sampler = Sampler()
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
    after = settle()
    # If more is available than before, something of an earlier program was not freed then.
    base = max(before, after)
    print("RESOURCE " + json.dumps({
        "name": name, "said": said or (lines[0] if lines else f"exit {process.returncode}"),
        "taken": base - sampler.available, "charged": sampler.charged,
        "uncharged": max(0, base - sampler.sum), "left": before - after,
    }), flush=True)


OFFERS_NETWORK = "--network" in subprocess.run(
    ["ringfence", "run", "--help"], capture_output=True, text=True).stdout

if __name__ == "__main__":
    sys.path.insert(0, HERE)
    from hoards import HOARDS

    # The first sandbox after the start of the machine makes the kernel give memory back.
    subprocess.run(["ringfence", "run", "-c", "pass"], check=True)
    for name in sys.argv[1:] or HOARDS:
        measure(name)
