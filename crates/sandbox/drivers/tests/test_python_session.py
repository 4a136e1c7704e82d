"""`driver.py session`: cells, hostile ones included, over a real channel."""

import base64
import os
import unittest

from harness import Cells, python, wait_until, workspace

# The calls of matplotlib that the driver uses, in its names and with its meaning: the
# library itself is no prerequisite of these tests.
PLOTTING = {
    "__init__.py": "",
    "figure.py": "class Figure:\n    def savefig(self, target, format, bbox_inches): target.write(b'PNG%d' % self.number)\n",
    "pyplot.py": (
        "from .figure import Figure\n_open = {}\n"
        "def figure(number=None):\n    number = number or len(_open) + 1\n    made = _open.setdefault(number, Figure())\n"
        "    made.number = number\n    return made\n"
        "def get_fignums(): return sorted(_open)\ndef close(figure): del _open[figure.number]\n"
    ),
}


class Session(unittest.TestCase):
    def setUp(self):
        self.place = workspace()
        self.addCleanup(self.place.cleanup)
        self.cells = Cells(python("session"), cwd=self.place.name)
        self.addCleanup(self.cells.driver.close)

    def is_alive(self):
        self.assertEqual(self.cells.value("6 * 7"), "42")

    def ok(self, code):
        frames = self.cells.run(code)
        self.assertEqual(frames[-1]["status"], "ok", frames)
        return frames[:-1]

    def test_variables_and_definitions_survive_between_cells(self):
        self.ok("x = 20\ndef f(): return x + 1")
        self.assertEqual(self.cells.value("x += 20\nf()"), "41")
        self.assertEqual(self.cells.value("_ + 1"), "42")

    def test_events_come_in_order_with_counts(self):
        frames = self.cells.run("display(1)\ndisplay('a', 2)\n3")
        told = [(frame["ev"], frame.get("main"), frame.get("data", {}).get("text/plain")) for frame in frames]
        self.assertEqual(told, [("result", False, "1"), ("result", False, "'a'"), ("result", False, "2"), ("result", True, "3"), ("done", None, None)])
        self.assertEqual(frames[-1], {"ev": "done", "id": 1, "status": "ok", "execution_count": 1})
        self.assertEqual(self.cells.run("pass")[-1]["execution_count"], 2)

    def test_nothing_is_shown_for_statements_none_and_semicolons(self):
        for code in ("x = 1", "None", "5;", "", "# only a comment"):
            self.assertEqual(self.ok(code), [], code)

    def test_errors_show_the_cells_source_and_no_driver_frame(self):
        self.ok("def f(x):\n    return 1 / x")
        error = self.cells.error("f(0)")
        self.assertEqual((error["name"], error["value"]), ("ZeroDivisionError", "division by zero"))
        text = "\n".join(error["traceback"])
        self.assertIn('File "<cell 2>", line 1, in <module>\n    f(0)\n', text)
        self.assertIn('File "<cell 1>", line 2, in f\n    return 1 / x\n', text)
        self.assertEqual(text.count("File "), 2)

    def test_syntax_errors_point_at_the_cell(self):
        error = self.cells.error("x = (1,\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertTrue(error["traceback"][0].startswith('  File "<cell 1>"'), error)

    def test_exits_are_errors_and_the_session_survives(self):
        for code in ("exit()", "quit(3)", "import sys; sys.exit('x')", "raise SystemExit"):
            self.assertEqual(self.cells.error(code)["name"], "SystemExit", code)
        self.is_alive()

    def test_top_level_await_uses_one_loop(self):
        self.ok("import asyncio\nloop = asyncio.get_running_loop if False else None\nqueue = asyncio.Queue()\nasync def put(): await queue.put(7)")
        self.ok("first = (await asyncio.sleep(0), asyncio.get_running_loop())[1]\ntask = asyncio.ensure_future(put())")
        self.assertEqual(self.cells.value("await queue.get()"), "7")
        self.assertEqual(self.cells.value("asyncio.get_running_loop() is first if await asyncio.sleep(0) is None else 0"), "True")
        self.assertEqual(self.cells.value("asyncio.run(asyncio.sleep(0, 'own'))"), "'own'")

    def test_representations_become_mime_types(self):
        data = self.ok(
            "class R:\n"
            "    def _repr_html_(self): return '<b>'\n"
            "    def _repr_png_(self): return b'\\x89PNG'\n"
            "    def _repr_svg_(self): return ('<svg>', {'meta': 1})\n"
            "    def _repr_json_(self): return {'a': [1]}\n"
            "    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/latex': '$x$', 'x/unknown': 'y'}\n"
            "    def __repr__(self): return 'R!'\n"
            "R()"
        )[0]["data"]
        png = base64.b64encode(b"\x89PNG").decode()
        self.assertEqual(data, {
            "text/plain": "R!", "text/html": "<b>", "image/png": png, "image/svg+xml": "<svg>",
            "application/json": {"a": [1]}, "text/latex": "$x$",
        })

    def test_hostile_representations_leave_a_plain_text(self):
        for body, plain in (
            ("def __repr__(self): raise SystemExit", "<H object, repr() failed: SystemExit>"),
            ("def __repr__(self): return 5", "<H object, repr() failed: TypeError>"),
            ("def __repr__(self): return repr(self)", "<H object, repr() failed: RecursionError>"),
            ("def __getattr__(self, name): return lambda *a: 'x'\n    def __repr__(self): return 'any'", "any"),
            ("def _repr_html_(self): raise BaseException\n    def __repr__(self): return 'h'", "h"),
            ("def _repr_html_(self): return 'x' * (9 << 20)\n    def __repr__(self): return 'big'", "big"),
            ("def _repr_json_(self): return [float('nan')]\n    def __repr__(self): return 'nan'", "nan"),
            ("def _repr_png_(self): return [1]\n    def __repr__(self): return 'png'", "png"),
        ):
            with self.subTest(body=body):
                data = self.ok("class H:\n    %s\nH()" % body)[0]["data"]
                self.assertEqual(data, {"text/plain": plain})
        self.is_alive()

    def test_huge_values_are_cut_with_a_note(self):
        self.assertRegex(self.cells.value("'x' * 10**7"), r"'x{60000,}'\.\.\. \[\d+ more\]$")
        self.assertRegex(self.cells.value("list(range(10**6))"), r"999, \.\.\. \[999000 more items\]\]$")
        self.assertRegex(self.cells.value("type('T', (), {'__repr__': lambda s: 'y' * 10**6})()"), r"y\.\.\. \[934464 characters truncated\]$")
        error = self.cells.error("raise ValueError('z' * 10**7)")
        self.assertLess(len(error["value"]) + sum(map(len, error["traceback"])), 200000)

    def test_lone_surrogates_are_replaced(self):
        self.assertEqual(self.cells.error("raise ValueError('\\ud800')")["value"], "?")

    def test_output_is_written_before_the_event_that_follows_it(self):
        self.ok("import subprocess\nprint('one', end=' ')\nsubprocess.run(['echo', 'two'])\nprint('three')")
        self.cells.driver.out.wait_for("one")
        self.cells.driver.out.wait_for("two\n")
        self.cells.driver.out.wait_for("three\n")

    def test_a_line_is_written_while_its_cell_still_runs(self):
        self.cells.start("import time\nprint('first')\nwhile True: time.sleep(0.01)")
        self.cells.driver.out.wait_for("first\n")
        self.cells.driver.interrupt()
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")
        self.cells.run("import sys; sys.stdout.close()")
        self.cells.start("import time\nprint('repaired')\nwhile True: time.sleep(0.01)")
        self.cells.driver.out.wait_for("repaired\n")

    def test_streams_are_repaired_after_cells_that_break_them(self):
        for at, code in enumerate((
            "import sys; sys.stdout.close()", "import sys; sys.stdout = None", "import os; os.close(1)",
            "import os; os.dup2(os.open('/dev/null', 2), 1)", "import sys; sys.__stdout__ = sys.stdout = sys.stderr = 5",
        )):
            with self.subTest(code=code):
                self.cells.run(code)
                self.ok("print('alive', %d)" % at)
                self.cells.driver.out.wait_for("alive %d\n" % at)

    def test_a_replaced_stdout_stays_replaced(self):
        self.ok("import io, sys\nsys.stdout = mine = io.StringIO()")
        self.ok("print('caught')")
        self.assertEqual(self.cells.value("mine.getvalue()"), "'caught\\n'")

    def test_interrupts_stop_user_code_only(self):
        for code in (
            "while True: pass", "import time; time.sleep(100)", "import asyncio; await asyncio.sleep(100)",
            "class S:\n    def __repr__(self):\n        while True: pass\nS()", "while True: display(1)",
        ):
            with self.subTest(code=code):
                self.cells.start(code)
                self.cells.driver.interrupt()
                frames = self.cells.wire.until("done")
                self.assertEqual(frames[-1]["status"], "interrupted", frames[-2:])
                self.assertEqual(frames[-2]["name"], "KeyboardInterrupt")
        self.is_alive()

    def test_an_interrupt_while_the_driver_prepares_a_cell_is_not_lost(self):
        # A signal that arrives in the driver's own code, right before the cell begins.
        self.ok(
            "import sys\n"
            "stage = sys.modules['_ringfence_stage']\n"
            "names = {'remember': stage.remember_source}\n"
            "code = 'import os, signal\\ndef slow(path, code):\\n    os.kill(os.getpid(), signal.SIGINT)\\n    remember(path, code)'\n"
            "exec(compile(code, stage.__file__, 'exec'), names)\n"
            "stage.remember_source = names['slow']"
        )
        self.cells.start("while True: pass")
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")

    def test_interrupts_between_cells_do_nothing(self):
        for _ in range(50):
            self.cells.driver.interrupt()
            frames = self.cells.run("1")
            self.cells.driver.interrupt()
            self.assertIn(frames[-1]["status"], ("ok", "interrupted"))
        self.assertEqual(self.cells.ask(op="variables")["ev"], "variables")
        self.is_alive()

    def test_a_handler_left_by_a_cell_does_not_outlive_it(self):
        self.ok("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
        self.cells.start("while True: pass")
        self.cells.driver.interrupt()
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")

    def test_interrupts_can_be_caught_and_repeated(self):
        self.cells.start("try:\n    print('first', flush=True)\n    while True: pass\nexcept KeyboardInterrupt:\n    print('second', flush=True)\nwhile True: pass")
        for word in ("first", "second"):
            self.cells.driver.out.wait_for(word)
            self.cells.driver.interrupt()
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")

    def test_forks_never_come_back_into_the_loop(self):
        status = self.cells.value("import os\npid = os.fork()\nif pid == 0: raise ValueError('child')\nos.waitpid(pid, 0)[1] >> 8")
        self.assertEqual(status, "1")
        self.cells.driver.err.wait_for("ValueError: child")
        status = self.cells.value("pid = os.fork()\nif pid == 0: display('mute')\nos.waitpid(pid, 0)[1] >> 8 if pid else 'child'")
        self.assertEqual(status, "0")
        self.is_alive()

    def test_threads_left_running_do_not_disturb(self):
        self.ok("import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n    print('from thread', flush=True)\nthreading.Thread(target=work).start()")
        self.ok("go.set()")
        self.cells.driver.out.wait_for("from thread")
        self.is_alive()

    def test_recursion_and_low_limits_are_survived(self):
        self.assertEqual(self.cells.error("def f(): f()\nf()")["name"], "RecursionError")
        self.cells.run("import sys; sys.setrecursionlimit(50)")
        self.is_alive()

    def test_broken_builtins_break_user_code_alone(self):
        self.cells.run("import builtins\nfor n in ('len', 'isinstance', 'type', 'repr', 'dict'): setattr(builtins, n, None)")
        self.assertEqual(self.cells.error("len(3)")["name"], "TypeError")
        self.assertEqual(self.cells.value("6 * 7"), "42")

    def test_input_without_data_explains_itself(self):
        error = self.cells.error("input('? ')")
        self.assertEqual(error["name"], "EOFError")
        self.assertEqual(error["value"], "input() found no data on standard input: this session is not interactive")

    def test_input_with_data_reads_it(self):
        with Cells(python("session"), keep_stdin=True) as cells:
            self.assertEqual(cells.error("input()")["name"], "EOFError", "the pipe is open and empty")
            cells.driver.stdin.write(b"a line\n")
            cells.driver.stdin.flush()
            self.assertEqual(cells.value("input()"), "'a line'")

    def test_variables_completion_and_reset(self):
        self.ok("number = 5\nimport math\n_hidden = 1\nclass Bad:\n    def __repr__(self): raise ValueError\nbad = Bad()")
        found = self.cells.ask(op="variables", id=1)
        told = [(entry["name"], entry["type"]) for entry in found["variables"]]
        self.assertEqual(told, [("Bad", "type"), ("bad", "Bad"), ("math", "module"), ("number", "int")])
        answer = self.cells.ask(op="complete", id=2, code="x = math.sq", cursor=11)
        self.assertEqual(answer, {"ev": "completions", "id": 2, "matches": ["math.sqrt"], "cursor_start": 4, "cursor_end": 11})
        self.assertIn("number", self.cells.ask(op="complete", id=3, code="nu", cursor=2)["matches"])
        self.assertEqual(self.cells.ask(op="reset", id=4), {"ev": "reset", "id": 4})
        self.assertEqual(self.cells.error("number")["name"], "NameError")

    def test_unknown_and_malformed_operations_are_refused(self):
        self.assertEqual(self.cells.ask(op="fly", id=1)["ev"], "refused")
        self.assertEqual(self.cells.ask(op="execute", id=2), {"ev": "refused", "id": 2, "message": "`code` is missing"})
        self.assertEqual(self.cells.ask(op="execute", id=3, code=5)["message"], "`code` must be a string")
        self.is_alive()

    def test_open_figures_become_images_once(self):
        os.mkdir(os.path.join(self.place.name, "matplotlib"))
        for name, text in PLOTTING.items():
            with open(os.path.join(self.place.name, "matplotlib", name), "w") as module:
                module.write(text)
        frames = self.ok("import matplotlib.pyplot as plt\nplt.figure(); plt.figure()\nfirst = plt.figure(1)\nfirst")
        told = [(frame["main"], base64.b64decode(frame["data"]["image/png"])) for frame in frames]
        self.assertEqual(told, [(True, b"PNG1"), (False, b"PNG2")])
        self.assertEqual(self.ok("pass"), [])

    def test_future_imports_hold_until_reset(self):
        self.ok("from __future__ import annotations")
        self.ok("def f(x: undefined_name): pass")
        self.cells.ask(op="reset")
        code = "def f(x: undefined_name): pass\nf.__annotations__"
        self.assertEqual(self.cells.error(code)["name"], "NameError")

    def test_classes_of_cells_can_be_pickled(self):
        self.ok("import pickle\nclass P:\n    x = 3")
        self.assertEqual(self.cells.value("pickle.loads(pickle.dumps(P())).x"), "3")

    def test_the_end_of_the_channel_ends_the_session(self):
        self.ok("import threading, time\nthreading.Thread(target=time.sleep, args=(100,)).start()\nprint('kept', end='')")
        self.cells.wire.sock.close()
        wait_until(lambda: self.cells.driver.process.poll() == 0, "exit with 0")
        self.assertEqual(self.cells.driver.out.end(), "kept")


if __name__ == "__main__":
    unittest.main()
