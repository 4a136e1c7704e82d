"""An interpreter that has imported everything already and forks a worker per request.

`zygote.py <control_fd> <native library> <comma separated imports>`, and on standard input
perhaps a skill's module (see `ahead.py`). Only code that is trusted like an import is executed
here, never what a call brings. The native library waits for a request, makes the
child in its new namespaces, locks it down, and returns 0 in that child alone.

Invariant: one thread. A thread of an imported library would be lost by the fork, with
whatever locks it held; the report names how many there are.
"""

import ctypes
import gc
import importlib
import importlib.util
import io
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

#: The interpreter rewrites its bytecode while it warms up; done here, no child does it again.
REHEARSALS = 16


def main(arguments):
    """Imports, reports, then forks workers until told to stop."""
    control, library, names = int(arguments[0]), arguments[1], arguments[2]
    driver = load_driver()
    imported, failed = import_all([name.strip() for name in names.split(",") if name.strip()])
    refused = driver.load("ahead").load(0)
    native = native_library(library)
    for _ in range(REHEARSALS):
        driver.warm_up()
    open_streams()
    gc.collect()
    gc.freeze()
    announce(driver, control, {"imported": imported, "failed": failed, "refused": refused})
    work(driver, native, control)


def load_driver():
    """The driver beside this file, as a module of its own."""
    spec = importlib.util.spec_from_file_location("_ringfence_driver", os.path.join(HERE, "driver.py"))
    driver = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = driver
    spec.loader.exec_module(driver)
    driver.load_all(driver.ONCE)
    driver.load("reseed")
    return driver


def import_all(names):
    """Imports what can be imported; a failure is reported, not fatal."""
    imported, failed = [], []
    for name in names:
        try:
            importlib.import_module(name)
            imported.append(name)
        except Exception as error:
            failed.append({"name": name, "error": "%s: %s" % (type(error).__name__, error)})
    return imported, failed


def native_library(path):
    """`PyDLL`: the interpreter lock stays held, as the fork functions require."""
    native = ctypes.PyDLL(path)
    native.rf_zygote_next.argtypes = [ctypes.c_int]
    native.rf_zygote_next.restype = ctypes.c_int
    native.rf_zygote_narrow.argtypes = []
    native.rf_zygote_narrow.restype = ctypes.c_int
    return native


def announce(driver, control, words):
    """One frame in one write, so that it is one packet where the channel has packets."""
    frame = dict(words, ev="zygote", threads=threads())
    os.write(control, driver.load("wire").encode(frame))


def threads():
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def work(driver, native, control):
    """The fork loop. Returns never: the zygote and each worker end in `os._exit`."""
    api = ctypes.pythonapi
    sys.stdout.flush()
    sys.stderr.flush()
    while True:
        api.PyOS_BeforeFork()
        answer = native.rf_zygote_next(control)
        if answer in (0, 2):
            api.PyOS_AfterFork_Child()
            become_worker(driver, native, has_time=answer == 0)
        api.PyOS_AfterFork_Parent()
        if answer < 0:
            os._exit(0)


def become_worker(driver, native, has_time):
    """In the locked-down child: own randomness, a short rehearsal if there is time, then one job."""
    driver.reseed()
    if has_time:
        driver.rehearse()
    channel = driver.load("wire").from_environment()
    channel.receive = narrowing(native, channel.receive)
    driver.load("once").serve(channel)


def narrowing(native, receive):
    """`receive`, after which this process sees as many processors as its job may.

    Not earlier: until its job comes it may run wherever there is room.
    """
    def receive_and_narrow():
        job = receive()
        number = native.rf_zygote_narrow()
        if number:
            raise OSError(number, os.strerror(number))
        return job
    return receive_and_narrow


def open_streams():
    """Streams over descriptors 0, 1 and 2 as a fresh interpreter on pipes has them, but for one
    thing: each line is written as soon as it is complete; see `driver.write_lines`.

    Made once, here: a child has its own pipes under the same numbers, and each page it does
    not write is one it shares. A stream looks at its descriptor when it is made, so pipes are
    put there meanwhile.
    """
    kept = [os.dup(descriptor) for descriptor in range(3)]
    reading, writing = os.pipe()
    for descriptor, end in enumerate((reading, writing, writing)):
        os.dup2(end, descriptor)
    make_streams()
    for descriptor, before in enumerate(kept):
        os.dup2(before, descriptor)
    for descriptor in (reading, writing, *kept):
        os.close(descriptor)


def make_streams():
    """The three streams, on whatever the descriptors are now."""
    sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>", "strict", False)
    sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>", "strict", True)
    sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>", "backslashreplace", True)


def _stream(descriptor, mode, name, errors, lines):
    raw = io.FileIO(descriptor, mode, closefd=False)
    raw.name = name
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    newline = None if mode == "r" else "\n"
    text = io.TextIOWrapper(buffered, "utf-8", errors, newline, line_buffering=lines)
    text.mode = mode
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
