"""`zygote.py`: real forks through the stand-in native library, and fresh randomness."""

import json
import os
import subprocess
import tempfile
import unittest

from harness import DRIVERS, PYTHON
from zygotes import Zygote, build

PROBES = {
    "random": "import random; print(random.random())",
    "tempfile": "import tempfile; print(next(tempfile._get_candidate_names()))",
    "uuid": "import uuid; print(uuid.uuid4(), uuid.uuid1())",
    "secrets": "import secrets; print(secrets.token_hex())",
    "ssl": "import ssl; print(ssl.RAND_bytes(16))",
    "multiprocessing.process": "import multiprocessing; print(multiprocessing.current_process().authkey)",
    "numpy.random": "import numpy; print(numpy.random.rand(), numpy.random.default_rng().random())",
}


def importable(name):
    command = [PYTHON, "-I", "-c", "import " + name]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


class Workers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.library = build(cls.place.name)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def test_failed_imports_are_reported_and_the_rest_is_imported(self):
        with Zygote(self.library, "json, no_such_module,decimal") as zygote:
            self.assertEqual(zygote.announced["imported"], ["json", "decimal"])
            self.assertEqual([entry["name"] for entry in zygote.announced["failed"]], ["no_such_module"])
            self.assertEqual(zygote.announced["threads"], 1)
            ended = zygote.run({"op": "run", "code": "import sys; print('decimal' in sys.modules)", "cwd": "/tmp"})
            self.assertEqual((ended.out, ended.done["exit"]), ("True\n", 0))

    def test_a_worker_looks_like_a_fresh_interpreter(self):
        code = (
            "import os, sys\n"
            "print(sys.argv, __name__, __file__, sys.stdin.read())\n"
            "print(sys.stdin.name, sys.stdout.name, sys.stdout.mode, sys.stdout.encoding, sys.stdout.line_buffering, sys.stderr.line_buffering)\n"
            "print(sorted(os.listdir('/proc/self/fd')), sorted(vars(sys.modules['__main__'])))\n"
            "print('error', file=sys.stderr)\n"
        )
        with Zygote(self.library, "json") as zygote:
            ended = zygote.run({"op": "run", "code": code, "cwd": "/tmp", "argv": ["x"]}, b"typed")
        first, second, third = ended.out.splitlines()
        self.assertEqual(first, "['main.py', 'x'] __main__ /tmp/main.py typed")
        self.assertEqual(second, "<stdin> <stdout> w utf-8 True True")
        self.assertEqual(third.split("]")[0], "['0', '1', '2', '3', '4', '5'", "5 is the listing itself")
        names = ["__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__", "os", "sys"]
        self.assertEqual(third.split("] ")[1], str(names))
        self.assertEqual(ended.err, "error\n")

    def test_workers_share_nothing_they_change(self):
        with Zygote(self.library, "json") as zygote:
            job = {"op": "run", "code": "import json; print(getattr(json, 'mark', None)); json.mark = 1", "cwd": "/tmp"}
            self.assertEqual([zygote.run(job).out for _ in range(3)], ["None\n"] * 3)

    def test_threads_and_subprocesses_work_in_a_worker(self):
        code = "import subprocess, threading\nt = threading.Thread(target=print, args=('thread',))\nt.start()\nt.join()\nprint(subprocess.check_output(['echo', 'child']), threading.current_thread() is threading.main_thread())"
        with Zygote(self.library, "threading,concurrent.futures") as zygote:
            ended = zygote.run({"op": "run", "code": code, "cwd": "/tmp"})
        self.assertEqual((ended.out, ended.err), ("thread\nb'child\\n' True\n", ""))

    def test_a_skill_runs_in_a_worker(self):
        with Zygote(self.library, "asyncio") as zygote:
            ended = zygote.run({"op": "call", "code": "async def run(a): return a * 2", "args": {"a": 4}, "cwd": "/tmp"})
        self.assertEqual((ended.result, ended.done["exit"]), ("8", 0))

    def test_a_skill_loaded_ahead_is_executed_once(self):
        code = "import os, helper\nloaded_by = os.getpid()\ncalls = []\ndef run(a):\n    calls.append(a)\n    return [a, len(calls), loaded_by == os.getpid(), helper.double(a), __file__, __name__, helper.__file__]"
        module = {"code": code, "filename": "/tmp/skill/handler.py", "files": {"helper.py": "def double(x): return x * 2"}}
        with Zygote(self.library, "json", module) as zygote:
            self.assertIsNone(zygote.announced["refused"])
            for number in range(3):
                ended = zygote.run({"op": "call", "args": {"a": number}, "cwd": "/tmp", "filename": "/tmp/skill/handler.py"})
                self.assertEqual(ended.err, "")
                told = [number, 1, False, number * 2, "/tmp/skill/handler.py", "handler", "/tmp/skill/helper.py"]
                self.assertEqual(json.loads(ended.result), told)

    def test_a_traceback_of_a_skill_loaded_ahead_shows_its_lines(self):
        module = {"code": "def run():\n    return 1 / 0  # here", "filename": "/tmp/handler.py", "files": {}}
        with Zygote(self.library, "json", module) as zygote:
            ended = zygote.run({"op": "call", "args": {}, "cwd": "/tmp", "filename": "/tmp/handler.py"})
        self.assertIn('File "/tmp/handler.py", line 2, in run\n    return 1 / 0  # here', ended.err)
        self.assertEqual(ended.done["exit"], 1)

    def test_a_skill_that_a_fork_would_change_is_not_loaded_ahead(self):
        reasons = {
            "print('hello')": "it prints while it is loaded",
            "import os; os.write(2, b'hello')": "it prints while it is loaded",
            "file = open('/etc/passwd')": "it keeps files open",
            "open('data.json')": "FileNotFoundError: [Errno 2] No such file or directory: 'data.json'",
            "import sys; sys.exit(3)": "SystemExit: 3",
            "def broken(:": "SyntaxError: invalid syntax (handler.py, line 1)",
        }
        for code, reason in reasons.items():
            with self.subTest(code=code):
                module = {"code": code, "filename": "/tmp/handler.py", "files": {}}
                with Zygote(self.library, "json", module) as zygote:
                    self.assertEqual(zygote.announced["refused"], reason)

    def test_a_thread_started_by_a_skill_is_counted(self):
        code = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
        module = {"code": code, "filename": "/tmp/handler.py", "files": {}}
        with Zygote(self.library, "json", module) as zygote:
            self.assertEqual((zygote.announced["refused"], zygote.announced["threads"]), (None, 2))

    def test_two_workers_draw_different_numbers(self):
        names = [name for name in PROBES if importable(name)]
        self.assertIn("ssl", names)
        with Zygote(self.library, ",".join(names)) as zygote:
            self.assertEqual(zygote.announced["failed"], [])
            for name in names:
                with self.subTest(library=name):
                    job = {"op": "run", "code": PROBES[name], "cwd": "/tmp"}
                    self.assertEqual(len({zygote.run(job).out for _ in range(3)}), 3)

    def test_the_control_without_reseeding_repeats_itself(self):
        """The libraries that would repeat are those the registry is for."""
        command = [PYTHON, "-I", "-B", "-c", CONTROL % (DRIVERS, "random,tempfile,multiprocessing.process")]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertEqual(told, "without: 1\nwith: 3\n")


# Draws the authentication key of `multiprocessing`, which nothing renews by itself.
CONTROL = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("d", os.path.join(%r, "driver.py"))
driver = importlib.util.module_from_spec(spec)
spec.loader.exec_module(driver)
for name in %r.split(","): __import__(name)
def draw(refresh):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        if refresh: driver.reseed()
        os.write(write, bytes(sys.modules["multiprocessing.process"].current_process().authkey))
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    return os.read(read, 100)
for word, refresh in (("without", False), ("with", True)):
    print("%%s: %%d" %% (word, len({draw(refresh) for _ in range(3)})))
"""

if __name__ == "__main__":
    unittest.main()
