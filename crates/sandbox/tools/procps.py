"""`free`, `uptime` and `ps` for a sandbox, with the sandbox's own numbers.

The `/proc` of a sandbox shows processes and nothing else, so the system's own programs find no
`/proc/meminfo`, `/proc/uptime` and `/proc/stat`. The same facts come from `sysinfo(2)`, which the
service answers for each sandbox. Anything but the usual options goes to the system's program.
"""

import ctypes
import os
import pwd
import sys
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FREE_UNITS = {"-b": 1, "-k": 1 << 10, "-m": 1 << 20, "-g": 1 << 30, "-h": None}
HUMAN_UNITS = ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"), (1, "B"))


class Sysinfo(ctypes.Structure):
    _fields_ = [
        ("uptime", ctypes.c_long), ("loads", ctypes.c_ulong * 3), ("totalram", ctypes.c_ulong),
        ("freeram", ctypes.c_ulong), ("sharedram", ctypes.c_ulong), ("bufferram", ctypes.c_ulong),
        ("totalswap", ctypes.c_ulong), ("freeswap", ctypes.c_ulong), ("procs", ctypes.c_ushort),
        ("pad", ctypes.c_ushort), ("totalhigh", ctypes.c_ulong), ("freehigh", ctypes.c_ulong),
        ("mem_unit", ctypes.c_uint),
    ]


def sysinfo():
    found = Sysinfo()
    if ctypes.CDLL(None, use_errno=True).sysinfo(ctypes.byref(found)):
        code = ctypes.get_errno()
        sys.exit("sysinfo: " + os.strerror(code))
    return found


def free(options):
    if not set(options) <= set(FREE_UNITS):
        system("free", options)
    unit = FREE_UNITS[options[-1]] if options else 1 << 10
    found = sysinfo()
    memory = (found.totalram, found.totalram - found.freeram, found.freeram)
    swap = (found.totalswap, found.totalswap - found.freeswap, found.freeswap)
    print("%7s" % "" + "".join("%12s" % title for title in ("total", "used", "free")))
    for name, row in (("Mem:", memory), ("Swap:", swap)):
        print("%-7s" % name + "".join("%12s" % size(number, unit) for number in row))


def size(number, unit):
    if unit is not None:
        return str(number // unit)
    for large, name in HUMAN_UNITS:
        if number >= large and large > 1:
            return ("%.1f%s" if number < 10 * large else "%.0f%s") % (number / large, name)
    return "%dB" % number


def uptime(options):
    seconds = sysinfo().uptime
    if options == ["-s"]:
        print(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - seconds)))
    elif options == ["-p"]:
        print("up " + span(seconds))
    elif not options:
        print(time.strftime(" %H:%M:%S") + " up " + span(seconds))
    else:
        system("uptime", options)


def span(seconds):
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    parts = [(days, "day"), (hours, "hour"), (minutes, "minute")]
    named = ["%d %s%s" % (count, name, "" if count == 1 else "s") for count, name in parts if count]
    return ", ".join(named) or "0 minutes"


def ps(options):
    if options in (["aux"], ["-aux"], ["auxw"], ["auxww"]):
        table(("USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"),
              "%-8s %7s %4s %4s %6s %5s %-8s %-4s %5s %6s %s", user_row)
    elif options in (["-ef"], ["-eF"], ["-e", "-f"], ["-fe"]):
        table(("UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"),
              "%-8s %7s %7s %2s %5s %-8s %8s %s", full_row)
    else:
        system("ps", options)


def table(titles, form, row):
    print(form % titles)
    scene = Scene()
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            print(form % row(scene, Process(pid)))
        except (FileNotFoundError, ProcessLookupError):
            pass  # It ended meanwhile.


class Scene:
    """What is the same for every row."""

    def __init__(self):
        self.memory = sysinfo().totalram
        self.now = time.time()
        # Ticks of the kernel's clock now: this process was just started, or nearly so.
        self.ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


class Process:
    """One line of `/proc/PID/stat` and what goes with it."""

    def __init__(self, pid):
        place = "/proc/%d/" % pid
        with open(place + "stat", "rb") as file:
            name, _, rest = file.read().decode("utf-8", "replace").rpartition(")")
        with open(place + "cmdline", "rb") as file:
            words = file.read().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
        field = rest.split()
        self.pid, self.owner = pid, os.stat(place).st_uid
        self.command = words or "[%s]" % name.partition("(")[2]
        self.state, self.parent, self.terminal = field[0], int(field[1]), int(field[4])
        self.used = (int(field[11]) + int(field[12])) // TICKS
        self.begun, self.virtual, self.resident = int(field[19]), int(field[20]), int(field[21]) * PAGE

    def age(self, scene):
        return max((scene.ticks - self.begun) // TICKS, 0)

    def share(self, scene):
        return 100 * self.used / max(self.age(scene), 1)

    def user(self):
        try:
            return pwd.getpwuid(self.owner).pw_name
        except KeyError:
            return str(self.owner)

    def tty(self):
        minor = self.terminal & 0xFF | self.terminal >> 12 & 0xFFF00
        return "pts/%d" % minor if self.terminal else "?"

    def start(self, scene):
        return time.strftime("%H:%M", time.localtime(scene.now - self.age(scene)))


def user_row(scene, process):
    share = "%.1f" % (100 * process.resident / max(scene.memory, 1))
    cpu = "%.1f" % process.share(scene)
    used = "%d:%02d" % divmod(process.used, 60)
    return (process.user(), process.pid, cpu, share, process.virtual >> 10, process.resident >> 10,
            process.tty(), process.state, process.start(scene), used, process.command)


def full_row(scene, process):
    used = "%02d:%02d:%02d" % (process.used // 3600, process.used // 60 % 60, process.used % 60)
    return (process.user(), process.pid, process.parent, int(process.share(scene)),
            process.start(scene), process.tty(), used, process.command)


def system(name, options):
    """Becomes the system's own program."""
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(place, name)
        if place != HERE and os.access(path, os.X_OK):
            os.execv(path, [name] + options)
    sys.exit("%s: not found" % name)


if __name__ == "__main__":
    {"free": free, "uptime": uptime, "ps": ps}[sys.argv[1]](sys.argv[2:])
