"""`driver.js session`: cells, hostile ones included, over a real channel."""

import os
import unittest

from harness import DRIVERS, Cells, node, wait_until, workspace


class Session(unittest.TestCase):
    def setUp(self):
        self.place = workspace()
        self.addCleanup(self.place.cleanup)
        self.cells = Cells(node("session"), cwd=self.place.name)
        self.addCleanup(self.cells.driver.close)

    def is_alive(self):
        self.assertEqual(self.cells.value("6 * 7"), "42")

    def ok(self, code):
        frames = self.cells.run(code)
        self.assertEqual(frames[-1]["status"], "ok", frames)
        return frames[:-1]

    def test_declarations_survive_and_can_be_repeated(self):
        self.ok("const a = 1; let b = 2; var c = 3; class D {}; function e() { return a + b + c }")
        self.assertEqual(self.cells.value("e()"), "6")
        self.ok("const a = 10; let b = 20; class D {}; function e() { return a + b + c }")
        self.assertEqual(self.cells.value("e()"), "33")

    def test_events_come_in_order_with_counts(self):
        frames = self.cells.run("display(1); display.html('<b>'); display.png(Buffer.from([1, 2])); display.svg('<svg/>'); display.json({a: 1}); 3")
        told = [(frame["ev"], frame.get("main"), frame.get("data")) for frame in frames]
        self.assertEqual(told, [
            ("result", False, {"text/plain": "1"}),
            ("result", False, {"text/plain": "<html>", "text/html": "<b>"}),
            ("result", False, {"text/plain": "<png>", "image/png": "AQI="}),
            ("result", False, {"text/plain": "<svg>", "image/svg+xml": "<svg/>"}),
            ("result", False, {"text/plain": "{ a: 1 }", "application/json": {"a": 1}}),
            ("result", True, {"text/plain": "3"}),
            ("done", None, None),
        ])
        self.assertEqual(frames[-1], {"ev": "done", "id": 1, "status": "ok", "execution_count": 1})

    def test_objects_may_bring_their_own_representation(self):
        data = self.ok("({[Symbol.for('Jupyter.display')]() { return {'text/markdown': '*x*', 'text/plain': 'x'} }})")[0]["data"]
        self.assertEqual(data, {"text/plain": "x", "text/markdown": "*x*"})

    def test_values_of_every_kind_are_shown(self):
        for code, plain in (
            ("5n", "5n"), ("-0", "-0"), ("NaN", "NaN"), ("null", "null"), ("Symbol('s')", "Symbol(s)"),
            ("'text'", "'text'"), ("[1, {a: 2}]", "[ 1, { a: 2 } ]"), ("({x: 1})", "{ x: 1 }"),
        ):
            self.assertEqual(self.cells.value(code), plain)
        self.assertEqual(self.ok("let nothing = 1"), [])

    def test_top_level_await_and_imports_work(self):
        self.assertEqual(self.cells.value("const later = await new Promise((r) => setTimeout(r, 5, 7)); later"), "7")
        self.ok("import fs from 'fs'; import { join as glue, sep } from 'path';\nimport * as os from 'os'")
        self.assertEqual(self.cells.value("glue('a', 'b') + sep + typeof fs.readFileSync + typeof os.EOL"), "'a/b/functionstring'")
        self.assertEqual(self.cells.value("(await import('path')).sep + \"import('x')\""), "\"/import('x')\"")
        with open(os.path.join(self.place.name, "own.mjs"), "w") as module:
            module.write("export default 9")
        self.assertEqual(self.cells.value("(await import('./own.mjs')).default"), "9")

    def test_errors_show_the_cell_and_no_driver_frame(self):
        self.ok("function f() {\n  return null.x\n}")
        error = self.cells.error("f()")
        self.assertEqual(error["name"], "TypeError")
        self.assertEqual(error["traceback"][1:], ["    at f (<cell 1>:2:15)", "    at <cell 2>:1:1"])
        error = self.cells.error("let y = ;")
        self.assertEqual(error["traceback"][:3], ["<cell 3>:1", "let y = ;", "        ^"])
        self.assertEqual(self.cells.error("throw 'text'")["value"], "'text'")
        self.assertEqual(self.cells.error("await Promise.reject(new RangeError('r'))")["name"], "RangeError")

    def test_exits_and_late_errors_do_not_end_the_session(self):
        self.assertEqual(self.cells.error("process.exit(3)")["name"], "ProcessExit")
        self.ok("setTimeout(() => { throw new Error('later') }, 1); Promise.reject(new Error('lost')); 0")
        self.cells.driver.err.wait_for("Error: later")
        self.cells.driver.err.wait_for("Error: lost")
        self.assertNotIn(DRIVERS, self.cells.driver.err.text())
        self.is_alive()

    def test_hostile_values_leave_a_plain_text(self):
        for code in (
            "({[Symbol.for('nodejs.util.inspect.custom')]() { throw new Error() }})",
            "new Proxy({}, {get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 }})",
            "({toHTML() { throw 1 }, get toSVG() { throw 2 }})",
            "'x'.repeat(1 << 24)",
            "Array.from({length: 1e6}, (_, i) => i)",
        ):
            with self.subTest(code=code):
                data = self.ok(code)[0]["data"]
                self.assertEqual(list(data), ["text/plain"])
                self.assertLess(len(data["text/plain"]), 70000)
        self.is_alive()

    def test_hostile_errors_are_told(self):
        for code in (
            "throw Object.defineProperty(new Error('x'), 'stack', {get() { throw 1 }})",
            "throw new Proxy(new Error('x'), {get() { throw 1 }})",
            "throw null", "throw undefined",
            "function f() { f() } f()",
        ):
            with self.subTest(code=code):
                self.assertEqual(self.cells.run(code)[-1]["status"], "error")
        self.is_alive()

    def test_lone_surrogates_are_replaced_and_their_spelling_is_not(self):
        code = "throw new Error('\\ud800 \\ud83d\\ude00 \\\\ud800')"
        self.assertEqual(self.cells.error(code)["value"], "? \U0001f600 \\ud800")

    def test_the_signal_stops_synchronous_code(self):
        for code in ("while (true);", "const grow = []; while (true) { grow.push(1); grow.pop() }", "while (true) display(1)"):
            with self.subTest(code=code):
                self.cells.start(code)
                self.cells.driver.interrupt()
                self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")
        self.is_alive()

    def test_the_operation_stops_waiting_code(self):
        self.cells.start("await new Promise(() => {})")
        self.cells.wire.send({"op": "interrupt", "id": self.cells.count})
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")
        self.cells.wire.send({"op": "interrupt", "id": self.cells.count})
        self.is_alive()

    def test_the_signal_stops_code_that_has_been_waiting(self):
        self.cells.start("console.log('before'); await new Promise((r) => setTimeout(r, 20)); console.log('waiting'); await new Promise(() => {})")
        self.cells.driver.out.wait_for("waiting")
        self.cells.driver.interrupt()
        self.assertEqual(self.cells.wire.until("done")[-1]["status"], "interrupted")
        self.is_alive()

    def test_signals_between_cells_do_nothing(self):
        self.ok("1")
        self.assertEqual(self.cells.ask(op="variables")["ev"], "variables", "the loop is idle again")
        self.cells.driver.interrupt()
        self.is_alive()

    def test_variables_completion_and_reset(self):
        self.ok("const number = 5; var list = [1]; globalThis.free = {a: {bc: 1}}")
        told = [(entry["name"], entry["type"], entry["repr"]) for entry in self.cells.ask(op="variables", id=1)["variables"]]
        self.assertEqual(told, [("free", "Object", "{ a: { bc: 1 } }"), ("list", "Array", "[ 1 ]"), ("number", "number", "5")])
        answer = self.cells.ask(op="complete", id=2, code="1 + free.a.b", cursor=12)
        self.assertEqual(answer, {"ev": "completions", "id": 2, "matches": ["free.a.bc"], "cursor_start": 4, "cursor_end": 12})
        self.assertIn("number", self.cells.ask(op="complete", id=3, code="nu", cursor=2)["matches"])
        self.assertEqual(self.cells.ask(op="reset", id=4), {"ev": "reset", "id": 4})
        self.assertEqual(self.cells.ask(op="variables", id=5)["variables"], [])
        self.assertEqual(self.cells.value("typeof number + typeof list + typeof free"), "'undefinedundefinedundefined'")
        self.assertEqual(self.cells.value("const number = 6; number"), "6")

    def test_unknown_and_malformed_operations_are_refused(self):
        self.assertEqual(self.cells.ask(op="fly", id=1)["ev"], "refused")
        self.assertEqual(self.cells.ask(op="execute", id=2, code=5)["message"], "`code` must be a string")
        self.is_alive()

    def test_cells_sent_together_run_one_after_another(self):
        for number, code in ((1, "await new Promise((r) => setTimeout(r, 20)); 'slow'"), (2, "'quick'")):
            self.cells.wire.send({"op": "execute", "id": number, "code": code})
        frames = self.cells.wire.until("done") + self.cells.wire.until("done")
        self.assertEqual([(frame["id"], frame["ev"]) for frame in frames], [(1, "started"), (1, "result"), (1, "done"), (2, "started"), (2, "result"), (2, "done")])

    def test_the_end_of_the_channel_ends_the_session(self):
        self.ok("setInterval(() => {}, 1000); 0")
        self.cells.wire.sock.close()
        wait_until(lambda: self.cells.driver.process.poll() == 0, "exit with 0")


if __name__ == "__main__":
    unittest.main()
