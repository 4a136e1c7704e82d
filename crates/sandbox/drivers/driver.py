"""The Python side of a sandbox: reads jobs on the job channel, runs them, reports.

`driver.py once [imports]` runs one job and exits; `driver.py session` keeps an interpreter.
It runs beside hostile code, as the same user: it is a convenience and never a
boundary. What it owes is robustness: user code that misbehaves gets its own error
and the reader gets whole frames.

The siblings of this file are loaded under private names with a private copy of the
builtins, so that `builtins.len = None` in user code breaks user code alone.
"""

import builtins
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "_ringfence_"

#: Packages of the tool, if its root has some: behind the standard library, before those of the host.
PACKAGES = os.path.join(HERE, "packages")
if os.path.isdir(PACKAGES) and PACKAGES not in sys.path:
    sys.path.insert(next((i for i, p in enumerate(sys.path) if p.endswith("-packages")), len(sys.path)), PACKAGES)

#: Loading order is dependency order.
ONCE = ("wire", "report", "stage", "ending", "strict", "skill", "once")
SESSION = ONCE + ("stdio", "interrupt", "display", "figures", "cell", "explore", "session")


def load(name):
    """The sibling module `name`, loaded on first use."""
    full = PREFIX + name
    module = sys.modules.get(full)
    if module is None:
        path = os.path.join(HERE, name + ".py")
        module = type(sys)(full)
        module.__file__ = path
        module.__dict__["__builtins__"] = dict(vars(builtins))
        sys.modules[full] = module
        with open(path, "rb") as source:
            exec(compile(source.read(), path, "exec", dont_inherit=True), module.__dict__)
    return module


def load_all(names):
    """Loads siblings in the order given."""
    return [load(name) for name in names][-1]


def warm_up():
    """Pays first-use costs (page faults, lazy imports) before a job arrives.

    A forked or idle interpreter takes hundreds of page faults on its first statement;
    taken here, they are off the path of the job. Leaves no trace in any namespace.
    """
    load_all(ONCE).warm_up()


def rehearse():
    """What is left of the warm-up for a fork of an interpreter that had it all."""
    load_all(ONCE).rehearse()


def reseed():
    """Gives a forked child its own randomness; see `reseed.py`."""
    load("reseed").reseed()


def import_ahead(names):
    """Imports comma separated modules before the job arrives; what fails is the job's to report."""
    for name in filter(None, names.split(",")):
        try:
            __import__(name)
        except Exception:
            pass


def write_lines():
    """Standard output by lines: what a program printed is seen at once, and kept if it is killed.

    Not unbuffered: `print` would be two system calls, and a loop that writes characters one for each.
    """
    sys.stdout.reconfigure(line_buffering=True)


def serve_once():
    """Ready frame, one job, exit. Does not return."""
    once = load_all(ONCE)
    once.serve(load("wire").from_environment())


def serve_session():
    """A stateful interpreter until the channel closes. Does not return."""
    session = load_all(SESSION)
    warm_up()
    session.serve(load("wire").from_environment())


def main(arguments):
    """Dispatches on the mode named on the command line."""
    if arguments[:1] == ["once"] and len(arguments) <= 2:
        write_lines()
        import_ahead("".join(arguments[1:]))
        warm_up()
        serve_once()
    elif arguments == ["session"]:
        write_lines()
        serve_session()
    else:
        sys.stderr.write("usage: driver.py once [IMPORTS]|session\n")
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
