"""Fresh randomness for a forked child.

Every child of one zygote starts with the same memory, hence with the same state of
every generator that lives in memory. Each entry below gives one library its own state;
it runs only if the zygote has imported that library.
"""

import os
import sys

_urandom = os.urandom


def reseed():
    """Reseeds every imported library that keeps its randomness in memory."""
    for name, refresh in LIBRARIES.items():
        module = sys.modules.get(name)
        if module is not None:
            refresh(module)


def _random(module):
    module.seed()


def _tempfile(module):
    module._name_sequence = None  # Made anew, with a new generator, on next use.


def _uuid(module):
    module._last_timestamp = None


def _ssl(module):
    # OpenSSL notices a fork by its pid, and pids repeat across pid namespaces.
    module.RAND_add(_urandom(64), 64.0)


def _multiprocessing(module):
    module.current_process().authkey = _urandom(32)


def _numpy(module):
    module.seed(_words(16))  # The legacy singleton behind `numpy.random.rand` and friends.


def _torch(module):
    module.manual_seed(int.from_bytes(_urandom(8), "little") >> 1)


def _words(count):
    data = _urandom(4 * count)
    return [int.from_bytes(data[at:at + 4], "little") for at in range(0, len(data), 4)]


#: By the name under which the state is found in `sys.modules`.
LIBRARIES = {
    "random": _random,
    "tempfile": _tempfile,
    "uuid": _uuid,
    "ssl": _ssl,
    "multiprocessing.process": _multiprocessing,
    "numpy.random": _numpy,
    "torch": _torch,
}
