import ctypes, os

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, result):
    print(name, "->", "done" if result == 0 else os.strerror(ctypes.get_errno()))


attempt("unshare a user namespace", libc.unshare(0x10000000))
attempt("mount a file system", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
attempt("change the root", libc.chroot(b"/"))
attempt("trace the parent process", libc.ptrace(16, os.getppid(), None, None))
attempt("set the host name", libc.sethostname(b"owned", 5))
print("processes in sight:", len([name for name in os.listdir("/proc") if name.isdigit()]))
