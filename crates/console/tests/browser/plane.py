"""A running server with keys and calls, and a browser that notes everything it should not see."""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from playwright.sync_api import sync_playwright

# Longer than anything takes, even while the machine is busy.
TIMEOUT_SECS = 60

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"

MAILER = {
    "skill.yaml": """\
name: send_mail
version: 1.2.0
description: Sends a mail to one or several people.
handler: handler.send
safety_flags: [external_call, side_effect]
requires_approval: true
tags: [mail]
""",
    "schema.json": json.dumps({
        "input": {
            "type": "object",
            "required": ["to", "subject", "body"],
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}, "description": "Addresses"},
                "subject": {"type": "string", "maxLength": 120},
                "body": {"type": "string", "description": "Text of the mail"},
                "priority": {"enum": ["low", "normal", "high"], "default": "normal"},
                "sender": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "reply": {"type": "boolean"}},
                },
                "retries": {"type": "integer", "minimum": 0, "maximum": 5},
            },
        },
        "output": {"type": "object"},
    }),
    "handler.py": "def send(to, **rest):\n    print('queued')\n    return {'sent': len(to)}\n",
}

SLOW = {
    "skill.yaml": """\
name: slow_count
version: 1.0.0
description: "Counts slowly. <b>Not bold</b>"
handler: handler.count
safety_flags: [none]
""",
    "schema.json": json.dumps({
        "input": {"type": "object", "properties": {"secs": {"type": "number"}}},
        "output": {"type": "object"},
    }),
    "handler.py": """\
import time


def count(secs=0):
    print("\\x1b[31mone\\x1b[0m <script>alert(3)</script>", flush=True)
    time.sleep(secs)
    print("two")
    return {"html": "<img src=x onerror=alert(4)>", "bidi": "a\\u202eb"}
""",
}


class Server:
    """A server of the binary under test, with its own data; ended by `close`."""

    def __init__(self, rules=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ringfence-console-"))
        for name, files in [("send_mail", MAILER), ("slow_count", SLOW)]:
            folder = self.dir / "skills" / name
            folder.mkdir(parents=True)
            for path, text in files.items():
                (folder / path).write_text(text)
        command = [os.environ["RINGFENCE_BINARY"], "serve", "--json", "--listen", "127.0.0.1:0",
                   "--data", str(self.dir / "data"), "--skills", str(self.dir / "skills")]
        if rules:
            (self.dir / "rules").mkdir()
            (self.dir / "rules" / "rules.rego").write_text(rules)
            command += ["--policy", str(self.dir / "rules")]
        # The server refuses variables of its prefix that it does not know.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGFENCE_")}
        self.log = open(self.dir / "log", "wb")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, env=environment)
        line = self.process.stdout.readline()
        started = json.loads(line)
        assert "url" in started, line
        self.url = started["url"]
        self.admin = (self.dir / "data" / "admin.key").read_text().strip()
        self.agent = self.key("build agent", ["call"])
        self.approver = self.key("Ann", ["approve", "read"], person="ann@example.com")
        self.second = self.key("Bob", ["approve", "read"], person="bob@example.com")
        self.decider = self.key("On-call phone", ["approve"])
        self.reader = self.key("Dashboard", ["read"])

    def api(self, method, path, body=None, key=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {key or self.admin}")
        data = None
        if body is not None:
            request.add_header("Content-Type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=TIMEOUT_SECS) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def key(self, label, scopes, **more):
        status, made = self.api("POST", "/v1/keys", {"label": label, "scopes": scopes, **more})
        assert status == 201, made
        return made["secret"]

    def call(self, tool, args, key=None, **more):
        status, made = self.api("POST", "/v1/calls", {"tool": tool, "args": args, **more},
                                key or self.agent)
        assert status in (200, 201, 202), made
        return made

    def hold(self, subject="Quarterly report", **more):
        args = {"to": ["cfo@example.com"], "subject": subject,
                "body": "See https://files.example.com/q3.pdf"}
        return self.call("send_mail", args, wait=0, **more)["id"]

    def sandbox(self, name="tested"):
        status, made = self.api("POST", "/v1/sandboxes", {"metadata": {"name": name}})
        assert status == 201, made
        return made["id"]

    def until(self, condition):
        """The first true value of a condition, or a failure after a while."""
        deadline = time.monotonic() + TIMEOUT_SECS
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.05)
        raise AssertionError("waited for too long")

    def state(self, call):
        return self.api("GET", f"/v1/calls/{call}")[1]["state"]

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class TerminalServer:
    """A server on a terminal of its own, whose report has a link that signs in."""

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ringfence-console-"))
        outside, inside = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGFENCE_")}
        command = [os.environ["RINGFENCE_BINARY"], "serve", "--listen", "127.0.0.1:0",
                   "--data", str(self.dir / "data")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=inside, env=environment)
        os.close(inside)
        said = b""
        while not (found := re.search(rb"(http://[^/\s]+)(/console/login\?link=\S+)", said)):
            said += os.read(outside, 4096)
        self.terminal = outside
        self.url, self.link = (part.decode() for part in found.groups())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.terminal)
        shutil.rmtree(self.dir, ignore_errors=True)


class Browser:
    """A browser of the distribution; `page` makes pages that note errors and foreign requests."""

    def __init__(self, server):
        self.server = server
        self.driver = sync_playwright().start()
        self.browser = self.driver.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-background-networking", "--disable-component-update",
                  "--disable-sync", "--no-first-run"])

    @contextlib.contextmanager
    def page(self, key=None, expect_errors=False, **options):
        """A page of a new profile, signed in with a key. At the end nothing unexpected was noted."""
        options.setdefault("base_url", self.server.url)
        context = self.browser.new_context(**options)
        context.set_default_timeout(TIMEOUT_SECS * 1000)
        noted = []
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and noted.append(said.text))
        page.on("pageerror", lambda error: noted.append(str(error)))
        page.on("dialog", lambda dialog: (noted.append(f"dialog {dialog.message}"), dialog.dismiss())
                if not dialog.message.startswith(("Revoke", "Switch")) else dialog.accept())
        page.on("request", lambda request: request.url.startswith((options["base_url"], "data:", "blob:"))
                or noted.append(f"request to {request.url}"))
        if key:
            sign_in(page, key)
        try:
            yield page
        finally:
            context.close()
        if expect_errors:
            # A refusal is an answer of the server, which browsers log as an error; so is the end of a
            # stream of events, which htmx logs as the event itself.
            expected = ("Failed to load resource", "[object Event]")
            noted = [text for text in noted if not text.startswith(expected)]
        # The frame around content of others runs no scripts, and the browser says so.
        framed = "Blocked script execution in 'about:srcdoc'"
        noted = [text for text in noted if not text.startswith(framed)]
        assert not noted, noted

    def close(self):
        self.browser.close()
        self.driver.stop()


def sign_in(page, key):
    page.goto("/console/login")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/login" not in url)
