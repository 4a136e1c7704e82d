"""`driver.js once`: scripts and skills over a real channel."""

import os
import struct
import subprocess
import unittest

from harness import DEADLINE, DRIVERS, NODE, Driver, node, once, workspace


class Scene(unittest.TestCase):
    def setUp(self):
        self.place = workspace()
        self.addCleanup(self.place.cleanup)
        self.cwd = os.path.realpath(self.place.name)

    def write(self, name, text):
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as target:
            target.write(text)

    def run_code(self, code, **more):
        stdin = more.pop("stdin", b"")
        return once(node("once"), dict({"op": "run", "code": code, "cwd": self.cwd}, **more), stdin=stdin)

    def call(self, code, **more):
        result = more.pop("result", True)
        return once(node("once"), dict({"op": "call", "code": code, "cwd": self.cwd}, **more), result=result)

    def real(self, code):
        """The same script by node itself: the control of every comparison."""
        self.write("main.js", code)
        done = subprocess.run([NODE, "main.js"], cwd=self.cwd, capture_output=True, text=True, timeout=DEADLINE)
        os.unlink(os.path.join(self.cwd, "main.js"))
        return done


class Run(Scene):
    def test_a_script_sees_its_arguments_environment_and_directory(self):
        code = "console.log(JSON.stringify([process.argv.slice(1), process.env.X, process.cwd(), __filename, require.main === module]))"
        ended = self.run_code(code, argv=["a", "-b"], env={"X": "1"})
        main = os.path.join(self.cwd, "main.js")
        expected = '[["%s","a","-b"],"1","%s","%s",true]\n' % (main, self.cwd, main)
        self.assertEqual((ended.out, ended.err, ended.status), (expected, "", 0))
        self.assertEqual((ended.done["ev"], ended.done["exit"], ended.done["error"]), ("done", 0, None))

    def test_require_resolves_from_the_directory(self):
        self.write("beside.js", "exports.x = 1")
        self.write("node_modules/pack/index.js", "module.exports = 2")
        ended = self.run_code("console.log(require('./beside').x, require('pack'), typeof require('fs').readFileSync)")
        self.assertEqual(ended.out, "1 2 function\n", ended.err)

    def test_uncaught_errors_print_as_by_node(self):
        for code in (
            "function f() {\n  throw new Error('boo');\n}\nf()", "null.x", "let x = ;", "undefinedName",
            "Promise.reject(new TypeError('rejected'))", "setTimeout(() => { throw new RangeError('late') }, 1)",
        ):
            with self.subTest(code=code):
                ended, real = self.run_code(code), self.real(code)
                self.assertEqual(own_part(ended.err), own_part(real.stderr))
                self.assertEqual((ended.out, ended.status), (real.stdout, real.returncode))
                self.assertNotIn(DRIVERS, ended.err)

    def test_caught_errors_show_no_driver_frame_either(self):
        ended = self.run_code("try { null.x } catch (error) { console.log(error.stack) }")
        self.assertIn("main.js:1", ended.out)
        self.assertNotIn(DRIVERS, ended.out)

    def test_thrown_values_that_are_no_errors_are_told(self):
        ended = self.run_code("throw 'text'")
        self.assertEqual((ended.status, ended.done["error"]["type"]), (1, "string"))
        self.assertIn("'text'", ended.err)

    def test_exits_and_exit_listeners_are_honoured(self):
        ended = self.run_code("process.on('exit', (code) => { console.log('bye', code) }); process.exit(4)")
        self.assertEqual((ended.out, ended.status, ended.done["exit"]), ("bye 4\n", 4, 4))
        ended = self.run_code("process.on('exit', () => { process.exitCode = 6 })")
        self.assertEqual((ended.status, ended.done["exit"]), (6, 6))
        ended = self.run_code("process.exitCode = 3; setTimeout(() => console.log('late'), 5)")
        self.assertEqual((ended.out, ended.status), ("late\n", 3))

    def test_own_handlers_of_uncaught_errors_win(self):
        ended = self.run_code("process.on('uncaughtException', (e) => console.log('caught', e.message)); setTimeout(() => console.log('on'), 5); throw new Error('x')")
        self.assertEqual((ended.out, ended.err, ended.status, ended.done["error"]), ("caught x\non\n", "", 0, None))

    def test_es_modules_run_with_relative_imports_and_leave_no_file(self):
        self.write("beside.mjs", "export const x = 5")
        ended = self.run_code("import { x } from './beside.mjs';\nimport fs from 'fs';\nconsole.log(await Promise.resolve(x), fs.readdirSync('.').length > 0)")
        self.assertEqual((ended.out, ended.err, ended.status), ("5 true\n", "", 0))
        self.assertEqual(os.listdir(self.cwd), ["beside.mjs"])

    def test_errors_of_es_modules_name_the_script(self):
        ended = self.run_code("import fs from 'fs';\nthrow new TypeError('esm')")
        self.assertIn("main.js:2\nthrow new TypeError('esm')\n", ended.err)
        self.assertEqual((ended.status, ended.done["error"]["type"]), (1, "TypeError"))
        self.assertEqual(os.listdir(self.cwd), [])

    def test_an_await_that_never_settles_exits_as_in_node(self):
        code = "await new Promise(() => {})"
        self.write("main.mjs", code)
        real = subprocess.run([NODE, "main.mjs"], cwd=self.cwd, capture_output=True)
        self.assertEqual((self.run_code(code).status, real.returncode), (13, 13))

    def test_large_output_to_a_slow_reader_is_whole(self):
        with Driver(node("once"), drain=False) as driver:
            driver.wire.receive()
            driver.wire.send({"op": "run", "code": "process.stdout.write('x'.repeat(3 << 20)); process.stderr.write('e'.repeat(1 << 20)); process.exit(0)"})
            driver.wire.let_go()
            size = read_slowly(driver.process.stdout.fileno())
            self.assertEqual(driver.wire.receive()["exit"], 0)
            self.assertEqual((size, len(driver.err.end())), (3 << 20, 1 << 20))

    def test_it_ends_when_the_channel_is_closed(self):
        with Driver(node("once")) as driver:
            driver.wire.receive()
            driver.wire.send({"op": "run", "code": "process.exitCode = 3", "cwd": self.cwd})
            self.assertEqual(driver.wire.receive()["exit"], 3)
            self.assertIsNone(driver.process.poll())
            driver.wire.let_go()
            self.assertEqual(driver.wait(), 3)

    def test_children_do_not_hold_the_job_channel(self):
        code = "console.log(require('child_process').execFileSync('readlink', ['/proc/self/fd/4'], {stdio: ['ignore', 'pipe', 'ignore']}).toString())"
        self.assertEqual(self.run_code(code).done["error"]["type"], "Error", "readlink finds no descriptor 4")
        self.assertEqual(self.run_code("console.log(require('fs').readlinkSync('/proc/self/fd/4').slice(0, 6))").out, "socket\n")

    def test_hostile_scripts_still_end_in_a_final_frame(self):
        for code, status in (
            ("JSON.stringify = JSON.parse = null; require('fs').writeSync = null", 0),
            ("process.removeAllListeners()", 0),
            ("Object.defineProperty(Error.prototype, 'stack', {get() { throw 1 }}); throw new Error('x')", 1),
            ("const e = new Error('x'); Object.defineProperty(e, 'name', {get() { throw 1 }}); throw e", 1),
            ("require('fs').closeSync(1); require('fs').closeSync(2)", 0),
            ("process.exitCode = 'nonsense'", None),
            ("function f() { f() } f()", 1),
            ("process.on('exit', () => { throw new Error('in exit') })", None),
            ("throw null", 1),
        ):
            with self.subTest(code=code):
                ended = self.run_code(code)
                self.assertIsNotNone(ended.done, ended)
                self.assertEqual(ended.done["exit"], ended.status, ended)
                if status is not None:
                    self.assertEqual(ended.status, status, ended)

    def test_bad_jobs_are_refused_with_every_problem_named(self):
        ended = once(node("once"), {"op": "run", "code": 5, "argv": "x", "env": {"A": 1}})
        message = "`code` must be a string; `argv` must be a list of strings; `env` must be an object of strings"
        self.assertEqual((ended.done["error"]["message"], ended.status), (message, 2))
        self.assertEqual(once(node("once"), {"op": "fly"}).done["error"]["message"], "`op` must be `run` or `call`")

    def test_frames_that_are_none_are_refused(self):
        for data in (struct.pack("<I", (64 << 20) + 1), b"\2\0\0\0[]", b"\1\0\0\0{"):
            with self.subTest(data=data), Driver(node("once")) as driver:
                driver.wire.receive()
                driver.wire.sock.sendall(data)
                done = driver.wire.receive()
                self.assertEqual((done["ev"], done["exit"]), ("done", 2))

    def test_stdin_reaches_the_script(self):
        self.assertEqual(self.run_code("process.stdin.on('data', (d) => console.log(String(d)))", stdin=b"typed").out, "typed\n")


class Call(Scene):
    def test_functions_are_found_awaited_and_answer_in_json(self):
        for code, result in (
            ("exports.run = async ({a}) => ({a: a + 1})", '{"a":2}'),
            ("module.exports = ({a}) => [a]", "[1]"),
            ("export function handler({a}) { console.log('{}'); return a }", "1"),
            ("export default ({a}) => a + 4", "5"),
            ("exports.main = () => 'main'; exports.execute = () => 'execute'", '"execute"'),
            ("exports.run = () => {}", "null"),
            ("exports.run = () => { setInterval(() => {}, 1000); return {when: new Date(0), no: undefined} }", '{"when":"1970-01-01T00:00:00.000Z"}'),
        ):
            with self.subTest(code=code):
                ended = self.call(code, args={"a": 1})
                self.assertEqual((ended.result, ended.status, ended.done["error"]), (result, 0, None), ended)
        self.assertEqual(self.call("exports.other = () => 7; exports.run = () => 8", function="other").result, "7")

    def test_values_that_are_not_json_are_named_with_their_path(self):
        for value, message in (
            ("{a: [1, new Set()]}", 'result["a"][1] is of type `Set`, which is not JSON'),
            ("[NaN]", "result[0] is the number NaN, which is not JSON"),
            ("{f() {}}", 'result["f"] is of type `function`, which is not JSON'),
            ("['\\ud83d\\ude00', '\\ud800']", "result[1] is a string with a lone surrogate, which is not JSON"),
            ("10n", "result is of type `bigint`, which is not JSON"),
        ):
            with self.subTest(value=value):
                ended = self.call("exports.run = () => (%s)" % value)
                self.assertEqual((ended.done["error"]["type"], ended.done["error"]["message"]), ("NotJson", message))
                self.assertEqual((ended.result, ended.status), ("", 1))

    def test_failures_carry_their_stack(self):
        ended = self.call("exports.run = () => {\n  throw new RangeError('bad')\n}")
        self.assertEqual((ended.done["exit"], ended.done["error"]["type"]), (1, "RangeError"))
        self.assertIn("handler.js:2", ended.done["error"]["traceback"])
        self.assertNotIn(DRIVERS, ended.err + ended.done["error"]["traceback"])

    def test_calls_that_cannot_answer_say_why(self):
        for code, kind, result in (
            ("exports.run = () => new Promise(() => {})", "Unsettled", True),
            ("exports.x = 1", "NoEntryPoint", True),
            ("exports.run = () => 1", "NoResultChannel", False),
        ):
            with self.subTest(code=code):
                ended = self.call(code, result=result)
                self.assertEqual((ended.done["error"]["type"], ended.status), (kind, 1))

    def test_large_results_arrive_whole(self):
        self.assertEqual(len(self.call("exports.run = () => 'x'.repeat(4 << 20)").result), (4 << 20) + 2)


def read_slowly(descriptor):
    """Reads to the end in small steps, so that the writer meets a full pipe; how much came."""
    size = 0
    while True:
        part = os.read(descriptor, 5000)
        if not part:
            return size
        size += len(part)


def own_part(text):
    """Without node's internal frames, which differ by how the main module was entered."""
    return [line for line in text.splitlines() if not line.lstrip().startswith("at ") or "node:" not in line]


if __name__ == "__main__":
    unittest.main()
