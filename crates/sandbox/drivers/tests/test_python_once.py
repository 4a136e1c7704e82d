"""`driver.py once`: scripts and skills over a real channel."""

import os
import pathlib
import socket
import struct
import subprocess
import unittest

from harness import DEADLINE, DRIVERS, PYTHON, Driver, once, python, workspace


class Scene(unittest.TestCase):
    def setUp(self):
        self.place = workspace()
        self.addCleanup(self.place.cleanup)
        self.cwd = os.path.realpath(self.place.name)

    def run_code(self, code, **more):
        options = {name: more.pop(name) for name in ("stdin", "result") if name in more}
        return once(python("once"), dict({"op": "run", "code": code, "cwd": self.cwd}, **more), **options)

    def call(self, code, **more):
        result = more.pop("result", True)
        return once(python("once"), dict({"op": "call", "code": code, "cwd": self.cwd}, **more), result=result)

    def real(self, code):
        """The same script by the interpreter itself: the control of every comparison."""
        with open(os.path.join(self.cwd, "main.py"), "w") as script:
            script.write(code)
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        done = subprocess.run(
            [PYTHON, os.path.join(self.cwd, "main.py")], cwd=self.cwd, env=environment, capture_output=True, text=True, timeout=DEADLINE
        )
        os.unlink(os.path.join(self.cwd, "main.py"))
        return done

    def same_as_real(self, code):
        ended, real = self.run_code(code), self.real(code)
        self.assertEqual((ended.out, ended.err, ended.status), (real.stdout, real.stderr, real.returncode))
        self.assertEqual(ended.done["exit"], real.returncode)
        return ended


class Run(Scene):
    def names_error(self, ended):
        return ended.done["error"] and ended.done["error"]["type"]

    def test_a_script_sees_its_arguments_environment_and_directory(self):
        code = "import os, sys\nprint(sys.argv, sorted(os.environ.items()), os.getcwd(), __name__, __file__, sys.path[0])"
        ended = self.run_code(code, argv=["a", "-b"], env={"X": "1"})
        environment = [("RINGFENCE_RESULT_FD", "3"), ("X", "1")]
        main = os.path.join(self.cwd, "main.py")
        expected = "['main.py', 'a', '-b'] %r %s __main__ %s %s\n" % (environment, self.cwd, main, self.cwd)
        self.assertEqual((ended.out, ended.err, ended.status), (expected, "", 0))
        self.assertEqual(ended.done["error"], None)
        self.assertGreater(ended.done["rusage"]["maxrss"], 1 << 20)

    def test_uncaught_exceptions_print_as_by_the_interpreter(self):
        for code in (
            "def f():\n    return 1 / 0\n\nf()\n",
            "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e\n",
            "try:\n    {}['a']\nexcept KeyError:\n    open('/no/such')\n",
            "x = (\n",
            "def f(:\n  pass\n",
            "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E\n",
            "import json\njson.loads('{')\n",
            "raise ValueError('zwei\\nZeilen \\u00e4')",
        ):
            with self.subTest(code=code):
                self.same_as_real(code)

    def test_exits_mean_what_they_mean_to_the_interpreter(self):
        for value in ("", "0", "3", "-1", "256 + 7", "True", "'text'", "None", "(1, 2)", "3.5"):
            with self.subTest(value=value):
                ended = self.same_as_real("import sys\nsys.exit(%s)" % value)
                self.assertIsNone(ended.done["error"])

    def test_the_ending_keeps_the_interpreters_order(self):
        self.same_as_real(
            "import atexit, threading, time\n"
            "class D:\n    def __del__(self): print('deleted')\n"
            "d = D()\n"
            "atexit.register(print, 'exit handler')\n"
            "go = threading.Event()\n"
            "def work():\n    go.wait()\n    print('thread')\n"
            "threading.Thread(target=work).start()\n"
            "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
            "go.set()\nprint('main')\nraise SystemExit(4)\n"
        )

    def test_files_left_open_are_written(self):
        self.run_code("kept = open('a', 'w')\nkept.write('global')\nimport sys\nsys.held = open('b', 'w')\nsys.held.write('held')")
        found = [pathlib.Path(self.cwd, name).read_text() for name in "ab"]
        self.assertEqual(found, ["global", "held"])

    def test_the_error_names_type_errno_and_message(self):
        ended = self.run_code("open('/no/such')")
        message = "[Errno 2] No such file or directory: '/no/such'"
        self.assertEqual(ended.done["error"], {"type": "FileNotFoundError", "errno": 2, "message": message})
        self.assertEqual(self.names_error(self.run_code("raise MemoryError")), "MemoryError")

    def test_pickle_dataclasses_multiprocessing_and_imports_work(self):
        with open(os.path.join(self.cwd, "beside.py"), "w") as module:
            module.write("value = 6")
        self.same_as_real(
            "import dataclasses, inspect, multiprocessing, pickle\nimport beside\n"
            "@dataclasses.dataclass\nclass P:\n    x: int\n"
            "def double(x): return x * 2\n"
            "if __name__ == '__main__':\n"
            "    print(pickle.loads(pickle.dumps(P(3))), beside.value, inspect.getsource(double))\n"
            "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
            "        print(pool.map(double, [1, 2]))\n"
        )

    def test_stdin_reaches_the_script(self):
        self.assertEqual(self.run_code("print(input() + input())", stdin=b"a\nb\n").out, "ab\n")

    def test_a_fork_that_runs_to_the_end_is_mute_on_the_channel(self):
        ended = self.run_code("import os\npid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1])\nelse: raise SystemExit(5)")
        self.assertEqual((ended.out, ended.status, ended.done["exit"]), ("1280\n", 0, 0))

    def test_children_do_not_hold_the_job_channel_but_may_hold_the_result_channel(self):
        code = "import subprocess, os\nprint(subprocess.run(['ls', '/proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout.split())"
        self.assertEqual(self.run_code(code).out, "['0', '1', '2', '3', '4']\n")  # 4 is the listing itself.
        code = "import os\nlink = os.readlink('/proc/self/fd/4')\nprint(link[:6])"
        self.assertEqual(self.run_code(code).out, "socket\n", "the control: the driver itself holds it")

    def test_hostile_scripts_still_end_in_a_final_frame(self):
        for code, status in (
            ("import sys\nsys.stdout = sys.stderr = None", 0),
            ("import sys\nsys.stderr = 5\n1/0", 120),
            ("import sys\nsys.stdout.close()\nsys.stderr.close()", 0),
            ("import os\nos.close(1)\nos.close(2)", 0),
            ("import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()", 1),
            ("import builtins\nfor n in ('len', 'print', 'isinstance', 'type', 'getattr'): setattr(builtins, n, None)", 0),
            ("import json, os\njson.dumps = json.loads = os.write = os._exit = os.getpid = None", 0),
            ("import sys\nsys.modules.clear()", 0),
            ("import sys\ndel sys.modules['__main__']\n1/0", 1),
            ("import sys\nsys.excepthook = lambda *a: 1/0\nraise KeyError(1)", 1),
            ("import atexit, sys\natexit.register(lambda: 1/0)", 0),
            ("class E(BaseException):\n    __slots__ = ()\n    def __str__(self): raise SystemExit(9)\nraise E", 1),
            ("raise KeyboardInterrupt", 130),
            ("globals().clear()", 0),
            ("x = []\nfor _ in range(200000): x = [x]", 0),
            ("import threading\nthreading._shutdown = None\nimport gc\ngc.collect = None", 0),
        ):
            with self.subTest(code=code):
                ended = self.run_code(code)
                self.assertIsNotNone(ended.done, ended)
                self.assertEqual((ended.done["ev"], ended.done["exit"], ended.status), ("done", status, status), ended)

    def test_memory_exhaustion_is_told(self):
        code = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))\nx = []\nwhile True: x.append(bytearray(1 << 20))"
        ended = self.run_code(code)
        self.assertEqual((ended.status, self.names_error(ended)), (1, "MemoryError"))

    def test_a_script_that_replaces_the_channel_gets_no_frames_into_its_file(self):
        ended = self.run_code("import os\nos.dup2(os.open('mine', os.O_CREAT | os.O_RDWR), 4)")
        self.assertEqual((ended.done, ended.status), (None, 70))
        self.assertEqual(os.path.getsize(os.path.join(self.cwd, "mine")), 0)

    def test_a_reader_that_went_away_is_a_failed_flush(self):
        with Driver(python("once"), drain=False) as driver:
            driver.wire.receive()
            driver.process.stdout.close()
            driver.wire.send({"op": "run", "code": "print('x')", "cwd": self.cwd})
            self.assertEqual(driver.wire.receive()["exit"], 120)

    def test_it_ends_when_the_channel_is_closed(self):
        with Driver(python("once")) as driver:
            driver.wire.receive()
            driver.wire.send({"op": "run", "code": "raise SystemExit(3)", "cwd": self.cwd})
            self.assertEqual(driver.wire.receive()["exit"], 3)
            self.assertIsNone(driver.process.poll())
            driver.wire.let_go()
            self.assertEqual(driver.wait(), 3)

    def test_a_signal_while_it_waits_to_end_changes_nothing(self):
        code = "import signal\ndef loud(*_): raise ValueError\nsignal.signal(signal.SIGALRM, loud)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)"
        with Driver(python("once")) as driver:
            driver.wire.receive()
            driver.wire.send({"op": "run", "code": code, "cwd": self.cwd})
            self.assertEqual(driver.wire.receive()["exit"], 0)
            self.assertEqual((driver.wait(), driver.err.end()), (0, ""))

    def test_the_end_of_the_channel_before_a_job_is_a_clean_exit(self):
        with Driver(python("once")) as driver:
            driver.wire.receive()
            driver.wire.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(driver.wait(), 0)

    def test_bad_jobs_are_refused_with_every_problem_named(self):
        job = {"op": "run", "code": 5, "argv": "x", "env": {"A": 1}, "cwd": []}
        ended = once(python("once"), job)
        message = "`code` must be a string; `env` must be an object of strings; `cwd` must be a string; `argv` must be a list of strings"
        self.assertEqual(ended.done["error"], {"type": "BadJob", "errno": None, "message": message})
        self.assertEqual(ended.status, 2)
        self.assertEqual(once(python("once"), {"op": "fly"}).done["error"]["message"], "`op` must be `run` or `call`")
        self.assertEqual(self.run_code("1", cwd="/no/such").done["error"]["type"], "FileNotFoundError")

    def test_frames_that_are_none_are_refused(self):
        for data in (struct.pack("<I", (64 << 20) + 1), b"\2\0\0\0[]", b"\1\0\0\0{", b"\2\0\0\0\xff\xfe"):
            with self.subTest(data=data), Driver(python("once")) as driver:
                driver.wire.receive()
                driver.wire.sock.sendall(data)
                done = driver.wire.receive()
                self.assertEqual((done["ev"], done["exit"], done["error"]["type"]), ("done", 2, "Refused"))

    def test_the_python_path_variable_is_honoured(self):
        os.mkdir(os.path.join(self.cwd, "lib"))
        with open(os.path.join(self.cwd, "lib", "far.py"), "w") as module:
            module.write("value = 8")
        ended = self.run_code("import far\nprint(far.value)", env={"PYTHONPATH": os.path.join(self.cwd, "lib")})
        self.assertEqual(ended.out, "8\n")

    def test_a_line_is_written_as_soon_as_it_is_complete(self):
        code = "print('one')\ninput()\nprint('two')\ninput()"
        with Driver(python("once"), keep_stdin=True) as driver:
            driver.wire.receive()
            driver.wire.send({"op": "run", "code": code, "cwd": self.cwd})
            driver.out.wait_for("one\n")
            self.assertEqual(driver.out.text(), "one\n", "the script waits for input")
            driver.stdin.write(b"\n")
            driver.stdin.flush()
            driver.out.wait_for("one\ntwo\n")

    def test_lines_survive_a_hard_exit(self):
        ended = self.run_code("import os\nprint(8)\nprint('half', end='')\nos._exit(0)")
        self.assertEqual(ended.out, "8\n")


class Call(Scene):
    def test_entry_points_are_tried_in_order_and_may_be_named(self):
        code = "def main(x): return 'main'\ndef run(x): return 'run'\ndef other(x): return x"
        self.assertEqual(self.call(code, args={"x": 1}).result, '"run"')
        self.assertEqual(self.call(code, args={"x": [1, None, 1.5, "ä"]}, function="other").result, '[1,null,1.5,"ä"]')

    def test_coroutines_are_awaited_and_printing_stays_out_of_the_result(self):
        code = "import asyncio\nasync def handler(): \n    print('{}')\n    await asyncio.sleep(0)\n    return {'a': 1}"
        ended = self.call(code)
        self.assertEqual((ended.result, ended.out, ended.status, ended.done["error"]), ('{"a":1}', "{}\n", 0, None))

    def test_large_results_arrive_whole(self):
        ended = self.call("def run(): return 'x' * (4 << 20)")
        self.assertEqual(len(ended.result), (4 << 20) + 2)

    def test_values_that_are_not_json_are_named_with_their_path(self):
        for value, message in (
            ("{'a': [1, {2}]}", "result['a'][1] is of type `set`, which is not JSON"),
            ("[float('nan')]", "result[0] is the `float` nan, which is not JSON"),
            ("{'k': b''}", "result['k'] is of type `bytes`, which is not JSON"),
            ("{(1, 2): 3}", "result has a key of type `tuple`, which is not JSON"),
            ("'\\ud800'", "result is a `str` with a lone surrogate, which is not JSON"),
            ("loop", "result[0] contains itself or is nested too deeply"),
        ):
            with self.subTest(value=value):
                ended = self.call("loop = []\nloop.append(loop)\ndef run(): return %s" % value)
                self.assertEqual((ended.done["error"]["type"], ended.done["error"]["message"]), ("NotJson", message))
                self.assertEqual((ended.result, ended.status), ("", 1))

    def test_failures_carry_their_traceback(self):
        ended = self.call("def run(x):\n    return 1 / x", args={"x": 0})
        self.assertEqual(ended.done["error"]["traceback"], ended.err)
        self.assertIn('handler.py", line 2, in run\n    return 1 / x\n', ended.err)
        self.assertNotIn(DRIVERS, ended.err)
        self.assertEqual((ended.done["exit"], ended.done["error"]["type"]), (1, "ZeroDivisionError"))

    def test_a_skill_without_an_entry_point_or_channel_says_so(self):
        ended = self.call("x = 1")
        self.assertEqual(ended.done["error"]["message"], "the skill has none of the functions `handler`, `execute`, `run`, `main`")
        ended = self.call("def run(): return 1", result=False)
        self.assertEqual(ended.done["error"]["type"], "NoResultChannel")

    def test_the_module_is_importable_by_its_name(self):
        code = "import pickle\nclass A: pass\ndef run():\n    import handler\n    return [__name__, type(pickle.loads(pickle.dumps(A()))) is handler.A]"
        self.assertEqual(self.call(code).result, '["handler",true]')


if __name__ == "__main__":
    unittest.main()
