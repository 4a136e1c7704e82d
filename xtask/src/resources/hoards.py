"""Programs that make as many kernel objects of one kind as a sandbox lets them, then wait.

Usage: hoards.py NAME. Prints `made N, then REASON` and waits for the end of standard input.
Each runs with the default limits of a sandbox, on a throw-away machine: some of them bring an
unprotected host down.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time

# A sandbox has 128 processes; the one that starts them and a few of the sandbox itself are among them.
PROCESSES = 120
# A program ends earlier when the kernel refuses more; in software emulation 20 seconds are not enough.
SECONDS = 60
# Fewer than `vm.max_map_count`.
MAPPINGS = 60_000
# A connection that was not made after this long finds the queue full.
FULL_TIMEOUT = 2
# Python 3.11 does not name it.
MAP_NORESERVE = 0x4000
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    words = [a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


kept = []


def until_refused(make, deadline):
    made = 0
    while time.monotonic() < deadline:
        try:
            made += make() or 1
        except (OSError, MemoryError, ValueError) as problem:
            return made, str(problem)
    return made, "time"


def worker(hoard, deadline, report):
    try:
        made, reason = until_refused(hoard(), deadline)
    except Exception as problem:
        made, reason = 0, repr(problem)
    os.write(report, f"{made}\t{reason}\n".encode())
    signal.pause()


def main():
    name = sys.argv[1]
    hoard, processes = HOARDS[name]
    deadline = time.monotonic() + SECONDS
    reader, writer = os.pipe()
    started = 0
    for _ in range(processes):
        try:
            if os.fork() == 0:
                worker(hoard, deadline, writer)
        except OSError:
            break
        started += 1
    os.close(writer)
    total, reasons, text = 0, set(), b""
    while text.count(b"\n") < started and time.monotonic() < deadline + 10:
        if select.select([reader], [], [], 1)[0]:
            text += os.read(reader, 65536)
    for line in text.decode().splitlines():
        made, reason = line.split("\t")
        total += int(made)
        reasons.add(reason)
    print(f"made {total}, then {'; '.join(sorted(reasons))[:120]}", flush=True)
    sys.stdin.read()


# Each returns the function that makes one more object (or says how many it made).


def files():
    return lambda: kept.append(os.open("/dev/null", os.O_RDONLY))


def pipes():
    def make():
        kept.append(os.pipe())
        end = kept[-1][1]
        os.set_blocking(end, False)
        try:
            fcntl.fcntl(end, 1031, 1 << 20)
        except OSError:
            pass
        try:
            while True:
                os.write(end, bytes(65536))
        except BlockingIOError:
            pass

    return make


def pipes_of_pinned_pages():
    file = os.open(sys.executable, os.O_RDONLY)

    def make():
        reader, writer = os.pipe()
        kept.append((reader, writer))
        os.set_blocking(writer, False)
        try:
            while os.splice(file, writer, 1 << 20, offset_src=0):
                pass
        except BlockingIOError:
            pass

    return make


def unix_pairs():
    def make():
        pair = socket.socketpair()
        kept.append(pair)
        pair[0].setblocking(False)
        try:
            while True:
                pair[0].send(bytes(4096))
        except BlockingIOError:
            pass

    return make


def unix_connections():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{os.getpid()}")
    listener.listen(4096)
    kept.append(listener)

    def make():
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        client.connect(f"\0{os.getpid()}")
        try:
            while True:
                client.send(bytes(4096))
        except BlockingIOError:
            client.close()

    return make


def descriptors_in_flight():
    pair = socket.socketpair()
    pair[0].setblocking(False)
    null = os.open("/dev/null", os.O_RDONLY)
    kept.append(pair)
    return lambda: socket.send_fds(pair[0], [b"x"], [null]) and None


def epoll_instances():
    return lambda: kept.append(select.epoll())


def epoll_watches():
    ends = [os.eventfd(0) for _ in range(400)]
    pending = []

    def make():
        if not pending:
            kept.append(select.epoll())
            pending.extend(ends)
        kept[-1].register(pending.pop(), select.EPOLLIN)

    return make


def eventfds():
    return lambda: kept.append(os.eventfd(0))


def timerfds():
    return lambda: kept.append(call(283, 1, 0))


def signalfds():
    mask = bytes(8)
    return lambda: kept.append(call(289, -1, mask, 8, 0))


def pidfds():
    return lambda: kept.append(os.pidfd_open(os.getpid()))


def memfds():
    return lambda: kept.append(os.memfd_create("x"))


def inotify_instances():
    return lambda: kept.append(call(294, 0))


def inotify_watches():
    watcher = call(294, 0)
    names = (os.path.join(root, name) for root, _, list in os.walk("/usr") for name in list)
    return lambda: call(254, watcher, next(names, "/usr").encode(), 2) and None


def timers():
    def make():
        call(222, 1, 0, (ctypes.c_int * 1)())

    return make


def pending_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    info = (ctypes.c_char * 128)()
    struct.pack_into("iii", info, 0, 0, 0, -1)
    return lambda: call(129, os.getpid(), int(signal.SIGRTMIN), info) and None


def shared_memory():
    def make():
        segment = call(29, 0, 4096, 0o1600)
        call(30, segment, 0, 0)

    return make


def semaphores():
    return lambda: call(64, 0, 250, 0o1600) and None


def messages():
    queue = call(68, 0, 0o1600)
    message = struct.pack("l", 1) + bytes(1)

    def make():
        nonlocal queue
        try:
            call(69, queue, message, 1, 0o4000)
        except OSError as problem:
            if problem.errno != errno.EAGAIN:
                raise
            queue = call(68, 0, 0o1600)

    return make


def message_queues():
    return lambda: kept.append(call(240, f"q{os.getpid()}-{len(kept)}".encode(), 0o102, 0o600, 0))


def record_locks():
    name = f"/tmp/locks-{os.getpid() % 50}"
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    kept.append(file)
    place = iter(range(os.getpid() * 10_000_000, 1 << 62, 2))
    lock = lambda: struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, next(place), 1, 0)
    return lambda: fcntl.fcntl(file, fcntl.F_SETLK, lock()) and None


def open_file_locks():
    file = os.open(f"/tmp/ofd-{os.getpid()}", os.O_RDWR | os.O_CREAT)
    kept.append(file)
    place = iter(range(0, 1 << 62, 2))
    lock = lambda: struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, next(place), 1, 0)
    return lambda: fcntl.fcntl(file, 37, lock()) and None


def whole_file_locks():
    def make():
        kept.append(os.open("/tmp", os.O_RDONLY))
        fcntl.flock(kept[-1], fcntl.LOCK_SH)

    return make


def leases():
    file = os.open(f"/tmp/lease-{os.getpid()}", os.O_RDWR | os.O_CREAT)
    os.close(file)

    def make():
        kept.append(os.open(f"/tmp/lease-{os.getpid()}", os.O_RDONLY))
        fcntl.fcntl(kept[-1], 1024, fcntl.F_RDLCK)

    return make


def asynchronous_files():
    def make():
        kept.append(os.pipe())
        for end in kept[-1]:
            fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC)

    return make


def processes():
    def make():
        if os.fork() == 0:
            signal.pause()

    return make


def page_tables():
    area = mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | MAP_NORESERVE)
    kept.append(area)
    # Small pages: a huge one needs no table.
    area.madvise(mmap.MADV_NOHUGEPAGE)
    places = iter(range(0, 1 << 36, 2 << 20))

    def make():
        area[next(places, 0)] = 1

    return make


def mappings():
    """As many mappings as a process may have, then copies of the process: those are made faster."""
    area = libc.mmap
    area.restype = ctypes.c_long
    for number in range(MAPPINGS):
        sides = 1 if number % 2 else 3
        if area(None, ctypes.c_size_t(4096), sides, 0x22, -1, ctypes.c_long(0)) == -1:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def make():
        if os.fork() == 0:
            signal.pause()
        return MAPPINGS

    return make


def named_mappings():
    area = libc.mmap
    area.restype = ctypes.c_long

    def make():
        kept.append(None)
        where = area(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
        if where == -1:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        name = f"{os.getpid()}-{len(kept)}-".ljust(79, "x").encode()
        call(157, 0x53564D41, 0, where, 4096, name)

    return make


def mergeable_memory():
    area = mmap.mmap(-1, 4 << 20)
    kept.append(area)

    def make():
        area.madvise(12)
        raise OSError(0, "accepted")

    return make


def symlinks():
    target = "x" * 127
    count = iter(range(1 << 62))
    return lambda: os.symlink(target, f"/tmp/{os.getpid()}-{next(count)}")


def long_names():
    count = iter(range(1 << 62))
    return lambda: os.mkdir(f"/tmp/{os.getpid()}-{next(count)}".ljust(250, "x"))


def absent_names():
    count = iter(range(1 << 62))
    return lambda: os.path.exists(f"/usr/{os.getpid()}-{next(count)}".ljust(250, "x")) and None


def attributes():
    count = iter(range(1 << 62))

    def make():
        name = f"/tmp/{os.getpid()}-{next(count)}"
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.setxattr(name, "user.x", bytes(32768))

    return make


def access_lists():
    count = iter(range(1 << 62))
    entry = lambda tag, who: struct.pack("HHI", tag, 7, who)
    users = entry(2, 1000) * 8000
    value = struct.pack("I", 2) + entry(1, 0) + users + entry(4, 0) + entry(16, 0) + entry(32, 0)

    def make():
        name = f"/tmp/{os.getpid()}-{next(count)}"
        os.mkdir(name)
        os.setxattr(name, "system.posix_acl_access", value)
        os.setxattr(name, "system.posix_acl_default", value)

    return make


def rule_sets():
    rights = struct.pack("Q", 4)
    place = os.open("/usr", os.O_PATH)

    def make():
        kept.append(call(444, rights, 8, 0))
        call(445, kept[-1], 1, struct.pack("=Qi", 4, place), 0)

    return make


def terminals():
    def make():
        kept.append(os.openpty())
        for end in kept[-1]:
            os.set_blocking(end, False)
            try:
                while True:
                    os.write(end, bytes([120]) * 4096)
            except OSError:
                pass

    return make


def bound_sockets():
    def make():
        kept.append(socket.socket(socket.AF_UNIX))
        kept[-1].bind(f"\0{os.getpid()}-{len(kept)}-".ljust(100, "x"))

    return make


def socket_filters():
    ends = socket.socketpair()
    kept.append(ends)
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0) * 8)
    program = struct.pack("HxxxxxxQ", 8, ctypes.addressof(code))
    kept.append(code)

    def make():
        ends[0].setsockopt(socket.SOL_SOCKET, 26, program)
        raise OSError(0, "accepted")

    return make


def tcp_signatures():
    def make():
        kept.append(socket.socket())
        for host in range(100):
            peer = struct.pack("H2xBBBB120x", 2, 10, 0, 0, host)
            kept[-1].setsockopt(6, 14, peer + struct.pack("BBHi80s", 0, 0, 80, 0, b"k" * 80))

    return make


def multicast_groups():
    kept.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    count = iter(range(1 << 31))

    def make():
        group = socket.inet_pton(socket.AF_INET6, f"ff02::{next(count) % 65536:x}")
        kept[-1].setsockopt(41, 20, group + struct.pack("i", 1))

    return make


def tcp_connections():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    kept.append(listener)

    def make():
        client = socket.socket()
        client.settimeout(FULL_TIMEOUT)
        client.connect(listener.getsockname())
        try:
            client.setblocking(False)
            client.send(bytes(65536))
        except BlockingIOError:
            pass
        client.close()

    return make


def tcp_listeners():
    """Connections that are reset before they are accepted: they keep their data and their place in the
    queue of their listening socket. Counts connections."""

    def make():
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        kept.append(listener)
        return sum(reset_connection(listener) for _ in range(20))

    return make


def reset_connection(listener):
    client = socket.socket()
    client.settimeout(FULL_TIMEOUT)
    try:
        client.connect(listener.getsockname())
        client.setblocking(False)
        client.send(bytes(65536))
        # Closed with unread data: the peer sees a reset.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except BlockingIOError:
        pass
    except TimeoutError:
        return 0
    finally:
        client.close()
    return 1


def udp_queues():
    def make():
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        kept.append(receiver)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(200):
            sender.sendto(bytes(1400), receiver.getsockname())
        sender.close()

    return make


def udp_errors():
    """Answers of a closed port, kept for a socket that asked for them and never reads them."""
    closed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    closed.bind(("127.0.0.1", 0))
    address = closed.getsockname()
    closed.close()

    def make():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        kept.append(sender)
        sender.setsockopt(socket.IPPROTO_IP, 11, 1)
        for _ in range(300):
            try:
                sender.sendto(bytes(500), address)
            except ConnectionRefusedError:
                pass

    return make


def port_groups():
    def make():
        kept.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        kept[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept[-1].bind(("127.0.0.1", 0))

    return make


def closed_connections():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    kept.append(listener)

    def make():
        client = socket.socket()
        client.settimeout(FULL_TIMEOUT)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        client.close()
        server.close()

    return make


def sent_file_pages():
    """Pages of a file of the root that wait in a local socket and cannot be reclaimed."""
    file = os.open(sys.executable, os.O_RDONLY)

    def make():
        pair = socket.socketpair()
        kept.append(pair)
        pair[0].setblocking(False)
        try:
            while os.sendfile(pair[0].fileno(), file, 0, 65536):
                pass
        except BlockingIOError:
            pass

    return make


def sessions():
    def make():
        os.setsid()
        raise OSError(0, "one for each process")

    return make


def wait_tables():
    """Every process waits for as many descriptors as it may name in one call."""
    ends = socket.socketpair()

    def make():
        if os.fork() == 0:
            os.close(1)
            waiting = (ctypes.c_int * 1024)(*[ends[0].fileno(), 0] * 512)
            libc.poll(waiting, 512, -1)

    return make


def process_files():
    names = ["maps", "mountinfo", "net/unix", "stat", "smaps_rollup", "fdinfo/0"]
    return lambda: kept.append(os.open(f"/proc/self/{names[len(kept) % len(names)]}", os.O_RDONLY))


def named_pipes():
    count = iter(range(1 << 62))

    def make():
        name = f"/tmp/{os.getpid()}-{next(count)}"
        os.mkfifo(name)
        kept.append(os.open(name, os.O_RDWR))

    return make


def semaphore_undos():
    group = call(64, 0, 250, 0o1600)
    every = b"".join(struct.pack("Hhh", number, 1, 0x1000) for number in range(250))

    def make():
        nonlocal group
        call(65, group, every, 250)
        group = call(64, 0, 250, 0o1600)

    return make


def hard_links():
    name = f"/tmp/{os.getpid()}"
    os.close(os.open(name, os.O_CREAT))
    count = iter(range(1 << 62))
    return lambda: os.link(name, f"{name}-{next(count)}".ljust(250, "x"))


def restricted_domains():
    libc.prctl(38, 1, 0, 0, 0)
    place = os.open("/usr", os.O_PATH)

    def make():
        rules = call(444, struct.pack("Q", 4), 8, 0)
        call(445, rules, 1, struct.pack("=Qi", 4, place), 0)
        call(446, rules, 0)
        os.close(rules)

    return make


# Name: how, and in how many processes at once.
HOARDS = {
    hoard.__name__: (hoard, count)
    for hoard, count in [
        (files, PROCESSES),
        (pipes, 20),
        (pipes_of_pinned_pages, 20),
        (unix_pairs, 20),
        (unix_connections, 20),
        (descriptors_in_flight, 20),
        (bound_sockets, PROCESSES),
        (epoll_instances, PROCESSES),
        (epoll_watches, 20),
        (eventfds, PROCESSES),
        (timerfds, PROCESSES),
        (signalfds, PROCESSES),
        (pidfds, PROCESSES),
        (memfds, PROCESSES),
        (inotify_instances, 20),
        (inotify_watches, 20),
        (timers, 20),
        (pending_signals, 20),
        (shared_memory, 20),
        (semaphores, 4),
        (messages, 4),
        (message_queues, 4),
        (record_locks, 20),
        (open_file_locks, 20),
        (whole_file_locks, PROCESSES),
        (leases, PROCESSES),
        (asynchronous_files, PROCESSES),
        (processes, 1),
        (page_tables, 10),
        (mappings, 1),
        (named_mappings, 20),
        (mergeable_memory, 1),
        (symlinks, 4),
        (long_names, 4),
        (absent_names, 4),
        (attributes, 4),
        (access_lists, 4),
        (rule_sets, 20),
        (terminals, 20),
        (socket_filters, 1),
        (tcp_signatures, 20),
        (multicast_groups, 20),
        (tcp_connections, 20),
        (tcp_listeners, 20),
        (udp_queues, 20),
        (udp_errors, 20),
        (port_groups, 20),
        (closed_connections, 4),
        (sent_file_pages, 20),
        (sessions, PROCESSES),
        (wait_tables, 1),
        (process_files, PROCESSES),
        (named_pipes, 40),
        (semaphore_undos, 4),
        (hard_links, 4),
        (restricted_domains, PROCESSES),
    ]
}

if __name__ == "__main__":
    main()
