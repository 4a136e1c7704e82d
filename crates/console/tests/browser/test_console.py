"""The console in a real browser: every page and action, by role, by keyboard, without JavaScript."""

import json
import pathlib
import unittest
import urllib.request

import axe_playwright_python
from playwright.sync_api import expect

from plane import HOSTILE, Browser, Server, TerminalServer, sign_in

AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


# Three pixels, as a PNG that a cell makes by itself.
PICTURE = """\
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
class Picture:
    def _repr_png_(self):
        return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 1, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(bytes(4))) + chunk(b"IEND", b""))
Picture()"""

# A page with a script, which must not run.
PAGE = """\
class Page:
    def _repr_html_(self):
        return "<p id=made style='color: rgb(1, 2, 3)'>by the cell</p><b>bold</b>"
Page()"""


def setUpModule():
    global SERVER, BROWSER
    SERVER = Server()
    BROWSER = Browser(SERVER)


def tearDownModule():
    BROWSER.close()
    SERVER.close()


def paths(server):
    """Every page, with one of each kind of thing on it."""
    done = server.call("echo", {"text": HOSTILE}, session_id="s-1")["id"]
    ran = server.call("slow_count", {})["id"]
    hold = server.hold(subject=HOSTILE)
    sandbox = server.sandbox()
    page = {"operation": "create", "title": HOSTILE[:200], "media_type": "text/html", "content": HOSTILE}
    artifact = server.call("artifact_write", page)["result"]["artifact"]
    return ["/console", f"/console/sandboxes/{sandbox}", "/console/holds", f"/console/holds/{hold}", "/console/calls",
            f"/console/calls/{done}", f"/console/calls/{ran}", f"/console/calls/{hold}",
            "/console/calls?state=finished", "/console/tools", "/console/tools/send_mail",
            "/console/tools/slow_count?mode=raw", "/console/sandboxes", "/console/policy", "/console/audit",
            "/console/mcp", "/console/keys", "/console/settings", "/console/artifacts", f"/console/artifacts/{artifact}"]


class Pages(unittest.TestCase):
    def check_accessible(self, page, path, scheme):
        """Opens a page; axe finds nothing serious on it."""
        page.emulate_media(color_scheme=scheme)
        page.goto(path)
        page.evaluate(AXE)
        found = page.evaluate("axe.run()")["violations"]
        serious = [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found
                   if v["impact"] in ("serious", "critical")]
        self.assertEqual(serious, [], f"{path} in {scheme}")

    def test_every_page_is_accessible_and_hostile_text_is_inert(self):
        with BROWSER.page(SERVER.admin) as page:
            for path in paths(SERVER):
                for scheme in ["light", "dark"]:
                    self.check_accessible(page, path, scheme)
                self.assertEqual(page.locator("main img, main script, main b:not(.badge)").count(), 0, path)
                styles = page.locator("[style]").count()
                self.assertEqual(styles, 0, f"{path} has style attributes")

    def test_pages_without_a_session_and_empty_pages_are_accessible(self):
        with TerminalServer() as server:
            with BROWSER.page(expect_errors=True, base_url=server.url) as page:
                self.check_accessible(page, "/console/login", "light")
                page.goto(server.link)
                page.wait_for_url("**/console")
                for name in ["", "/holds", "/calls", "/sandboxes", "/audit?kind=call", "/nothing"]:
                    for scheme in ["light", "dark"]:
                        self.check_accessible(page, f"/console{name}", scheme)

    def test_small_screens_have_no_sideways_scroll(self):
        with BROWSER.page(SERVER.admin, viewport={"width": 360, "height": 740}) as page:
            for path in paths(SERVER):
                page.goto(path)
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                self.assertLessEqual(wide, 0, path)

    def test_without_javascript_everything_is_readable_and_forms_work(self):
        with BROWSER.page(SERVER.admin, java_script_enabled=False) as page:
            for path in paths(SERVER):
                page.goto(path)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.goto("/console/tools/echo")
            page.get_by_label("text").fill("plain")
            page.get_by_role("button", name="Run").click()
            expect(page.locator("#result")).to_contain_text("plain")

    def test_pages_are_small_and_carry_the_policy(self):
        with BROWSER.page(SERVER.admin) as page:
            for path in paths(SERVER):
                answer = page.goto(path)
                self.assertLess(len(answer.body()), 150_000, path)
                policy = answer.headers["content-security-policy"]
                self.assertIn("default-src 'none'", policy)
                self.assertNotIn("unsafe", policy)

    def test_an_unknown_path_is_a_page(self):
        with BROWSER.page(SERVER.admin, expect_errors=True) as page:
            self.assertEqual(page.goto("/console/nothing").status, 404)
            expect(page.get_by_role("heading", name="Not found")).to_be_visible()


class Sessions(unittest.TestCase):
    def test_a_wrong_key_is_refused_and_a_session_can_be_ended(self):
        with BROWSER.page(expect_errors=True) as page:
            page.goto("/console/calls?state=held")
            self.assertIn("/console/login?next=", page.url)
            page.get_by_label("API key").fill("rf_" + "A" * 43)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("No key has this secret")
            page.get_by_label("API key").fill(SERVER.reader)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/console/calls?state=held")
            cookie = page.context.cookies()[0]
            self.assertTrue(cookie["httpOnly"])
            self.assertEqual((cookie["sameSite"], cookie["path"]), ("Strict", "/console"))
            page.get_by_role("button", name="Sign out").click()
            page.goto("/console/calls")
            self.assertIn("/console/login", page.url)
            page.context.add_cookies([cookie])
            page.goto("/console/calls")
            self.assertIn("/console/login", page.url, "the cookie is of no use after signing out")

    def test_a_session_ends_with_its_key(self):
        status, made = SERVER.api("POST", "/v1/keys", {"label": "short", "scopes": ["read"]})
        self.assertEqual(status, 201)
        with BROWSER.page(made["secret"], expect_errors=True) as page:
            page.goto("/console/calls")
            SERVER.api("DELETE", f"/v1/keys/{made['key_id']}")
            page.goto("/console/calls")
            self.assertIn("/console/login", page.url)

    def test_the_link_of_a_terminal_signs_in_once(self):
        with TerminalServer() as server:
            with BROWSER.page(expect_errors=True, base_url=server.url) as page:
                page.goto(server.link)
                page.wait_for_url("**/console")
                expect(page.get_by_role("heading", name="Overview")).to_be_visible()
                expect(page.locator(".empty")).to_contain_text("ringfence demo")
            with BROWSER.page(expect_errors=True, base_url=server.url) as page:
                self.assertEqual(page.goto(server.link).status, 401)
                expect(page.get_by_role("alert")).to_contain_text("used before")

    def test_a_form_without_the_token_of_its_session_is_refused(self):
        with BROWSER.page(SERVER.admin) as page:
            cookie = page.context.cookies()[0]["value"]
        for body in [b"", b"token=", b"token=wrong"]:
            request = urllib.request.Request(SERVER.url + "/console/keys", data=body, method="POST")
            request.add_header("Cookie", f"ringfence_session={cookie}")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            self.assertEqual(refused.exception.code, 403)
            refused.exception.close()



class Holds(unittest.TestCase):
    def test_a_hold_arrives_and_is_approved_by_keyboard_alone(self):
        with BROWSER.page(SERVER.approver) as page:
            page.keyboard.press("g")
            page.keyboard.press("h")
            page.wait_for_url("**/console/holds")
            with page.expect_response(lambda answer: "/console/live" in answer.url):
                page.reload()
            hold = SERVER.hold(subject="By keyboard")
            expect(page.locator(f"#open-{hold}")).to_be_visible()
            expect(page.locator("#hold-count")).not_to_be_empty()
            page.keyboard.press("j")
            expect(page.locator(f"#open-{hold}")).to_be_focused()
            page.keyboard.press("Enter")
            page.wait_for_url(f"**/console/holds/{hold}")
            expect(page.locator("mark").first).to_have_text("https://files.example.com/q3.pdf")
            expect(page.locator("main")).to_contain_text("sends data to another service")
            expect(page.locator("main")).to_contain_text("Your approval lets this call run at once.")
            page.keyboard.press("a")
            expect(page.get_by_role("dialog")).to_contain_text("Approve send_mail?")
            page.keyboard.press("Enter")
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
            expect(page.locator("main")).to_contain_text("Approved. The call goes on.")
        SERVER.until(lambda: SERVER.state(hold) == "finished")

    def test_help_and_search_by_keyboard(self):
        with BROWSER.page(SERVER.approver) as page:
            page.goto("/console/calls")
            page.keyboard.press("?")
            expect(page.get_by_role("dialog")).to_be_visible()
            page.keyboard.press("Escape")
            page.keyboard.press("/")
            expect(page.locator("[data-search]")).to_be_focused()
            page.keyboard.type("ec")
            page.keyboard.press("Escape")
            page.keyboard.press("k")
            expect(page.locator("[data-row]").last).to_be_focused()

    def test_a_hold_is_denied_with_a_reason(self):
        hold = SERVER.hold()
        with BROWSER.page(SERVER.approver) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_label("Reason").fill("not this quarter")
            page.get_by_role("button", name="Deny").click()
            page.wait_for_url("**/console/holds?done=denied")
        self.assertEqual(SERVER.state(hold), "denied")

    def test_arguments_are_edited_only_after_their_difference_was_shown(self):
        hold = SERVER.hold(subject="Before")
        with BROWSER.page(SERVER.approver) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_text("Edit arguments").click()
            editor = page.get_by_label("Arguments as JSON")
            editor.fill(editor.input_value().replace("Before", "After"))
            page.get_by_role("button", name="Approve").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            expect(page.locator("#diff .added")).to_contain_text("After")
            expect(page.locator("#diff .removed")).to_contain_text("Before")
            self.assertEqual(SERVER.state(hold), "held")
            page.get_by_role("button", name="Approve with changes").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
        call = SERVER.api("GET", f"/v1/calls/{hold}")[1]
        self.assertEqual((call["args"]["subject"], call["asked_args"]["subject"]), ("After", "Before"))

    def test_bad_arguments_are_named_and_nothing_is_decided(self):
        hold = SERVER.hold()
        with BROWSER.page(SERVER.approver, expect_errors=True) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_text("Edit arguments").click()
            page.get_by_label("Arguments as JSON").fill('{"to": ')
            page.get_by_role("button", name="Review changes").click()
            expect(page.get_by_role("alert")).to_contain_text("edited_args")
        self.assertEqual(SERVER.state(hold), "held")

    def test_a_rule_lets_the_next_call_run(self):
        hold = SERVER.hold(subject="Rule one")
        with BROWSER.page(SERVER.approver) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_label("A rule").check()
            page.get_by_label("Uses").fill("3")
            page.get_by_text("Conditions of a rule").click()
            page.get_by_label("Test of /subject").select_option("begins with")
            page.get_by_label("Value of /subject").fill('"Rule"')
            page.get_by_label("Test of /body").select_option("anything")
            page.get_by_role("button", name="Approve").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
        after = SERVER.hold(subject="Rule two")
        SERVER.until(lambda: SERVER.state(after) == "finished")

    def test_an_approval_for_the_session_lets_its_next_call_run(self):
        hold = SERVER.hold(session_id="s-approved")
        with BROWSER.page(SERVER.approver) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_label("This session").check()
            page.get_by_role("button", name="Approve").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
        after = SERVER.hold(session_id="s-approved")
        SERVER.until(lambda: SERVER.state(after) == "finished")

    def test_of_two_browsers_exactly_one_wins(self):
        hold = SERVER.hold()
        with BROWSER.page(SERVER.approver) as one, BROWSER.page(SERVER.second, expect_errors=True) as two:
            for page in [one, two]:
                page.goto(f"/console/holds/{hold}")
            one.get_by_role("button", name="Deny").click()
            one.wait_for_url("**/console/holds?done=denied")
            two.get_by_role("button", name="Approve").click()
            two.get_by_role("dialog").get_by_role("button", name="Approve").click()
            expect(two.get_by_role("alert")).to_contain_text("not held")
            expect(two.locator("main")).to_contain_text("This call is not held any more")
        self.assertEqual(SERVER.state(hold), "denied")


class Calls(unittest.TestCase):
    def test_a_call_is_shown_live_and_cancelled(self):
        call = SERVER.call("slow_count", {"secs": 50}, wait=0)["id"]
        with BROWSER.page(SERVER.admin) as page:
            page.goto(f"/console/calls/{call}")
            expect(page.locator("pre.output")).to_contain_text("one <script>alert(3)</script>")
            page.get_by_role("button", name="Cancel call").click()
            expect(page.locator(".facts .pill").first).to_have_text("cancelled")
        self.assertEqual(SERVER.state(call), "cancelled")

    def test_a_call_that_ended_is_explained_verified_and_run_again(self):
        call = SERVER.call("slow_count", {"secs": 0})["id"]
        with BROWSER.page(SERVER.admin) as page:
            page.goto(f"/console/calls/{call}")
            for words in ["Timeline", "Policy decided", "Usage and limits", "Memory", "Isolation",
                          "seccomp", "Standard output", "U+202E"]:
                expect(page.locator("main")).to_contain_text(words)
            page.get_by_role("button", name="Verify").click()
            expect(page.locator("#receipt")).to_contain_text("Holds.")
            with page.expect_download() as download:
                page.get_by_role("link", name="Receipt").click()
            receipt = json.loads(pathlib.Path(download.value.path()).read_text())
            self.assertEqual(receipt["payloadType"], "application/vnd.in-toto+json")
            page.get_by_role("button", name="Run again").click()
            page.wait_for_url(lambda url: "/console/calls/" in url and call not in url)
            expect(page.locator(".facts .pill").first).to_have_text("finished")

    def test_calls_are_filtered_and_new_ones_arrive(self):
        SERVER.call("echo", {"text": "filtered"}, session_id="only-here")
        with BROWSER.page(SERVER.reader) as page:
            page.goto("/console/calls?session=only-here")
            expect(page.locator("[data-row]")).to_have_count(1)
            SERVER.call("echo", {"text": "second"}, session_id="only-here")
            expect(page.locator("[data-row]")).to_have_count(2)
            page.goto("/console/calls?session=only-here&state=denied")
            expect(page.locator(".empty")).to_be_visible()


    def test_calls_are_filtered_by_time(self):
        SERVER.call("echo", {"text": "timed"}, session_id="timed")
        with BROWSER.page(SERVER.reader, expect_errors=True) as page:
            page.goto("/console/calls?session=timed&from=2020-01-01T00:00&until=2100-01-01T00:00")
            expect(page.locator("[data-row]")).to_have_count(1)
            for query in ["from=2100-01-01T00:00", "until=2020-01-01T00:00"]:
                page.goto(f"/console/calls?session=timed&{query}")
                expect(page.locator(".empty")).to_be_visible()
            self.assertEqual(page.goto("/console/calls?from=yesterday").status, 400)

    def test_calls_of_a_call_are_listed_with_it(self):
        made = SERVER.call("echo", {"text": "no children"})["id"]
        with BROWSER.page(SERVER.reader) as page:
            page.goto(f"/console/calls?parent={made}")
            expect(page.locator(".empty")).to_be_visible()


class Tools(unittest.TestCase):
    def test_a_form_has_the_order_of_its_schema(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/tools/send_mail")
            names = page.locator("form [name^='arg:']").evaluate_all("all => all.map(field => field.name)")
            self.assertEqual(names, ["arg:/to/0", "arg:/subject", "arg:/body", "arg:/priority",
                                     "arg:/sender/name", "arg:/sender/reply", "arg:/retries"])

    def test_a_tool_is_found_and_tried_with_its_form(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/tools")
            page.get_by_label("Search tools").fill("sends mail")
            page.keyboard.press("Enter")
            expect(page.locator("[data-row]")).to_have_count(1)
            page.get_by_role("link", name="send_mail").click()
            page.get_by_label("to 1").fill("ann@example.com")
            page.get_by_role("button", name="Add an item").click()
            expect(page.get_by_label("to 1")).to_have_value("ann@example.com")
            page.get_by_label("to 2").fill("bob@example.com")
            page.get_by_label("subject required").fill("Hello")
            page.get_by_label("body required").fill("Two\nlines")
            page.get_by_label("priority").select_option("high")
            page.get_by_label("reply").select_option("true")
            page.get_by_role("button", name="Run").click()
            expect(page.locator("#result")).to_contain_text("Policy holds the call")
            page.get_by_role("link", name="See the whole call").click()
            call = SERVER.api("GET", "/v1/calls/" + page.url.rsplit("/", 1)[1])[1]
        self.assertEqual(call["args"], {
            "to": ["ann@example.com", "bob@example.com"], "subject": "Hello", "body": "Two\nlines",
            "priority": "high", "sender": {"reply": True}})

    def test_raw_json_is_the_other_way_and_problems_are_named(self):
        with BROWSER.page(SERVER.admin, expect_errors=True) as page:
            page.goto("/console/tools/echo")
            page.get_by_role("link", name="JSON", exact=True).click()
            page.locator("textarea[name=raw]").fill('{"text": 1}')
            page.get_by_role("button", name="Run").click()
            expect(page.get_by_role("alert")).to_contain_text("/text")
            page.locator("textarea[name=raw]").fill('{"text": "raw"}')
            page.get_by_role("button", name="Run").click()
            expect(page.locator("#result")).to_contain_text("raw")


class Sandboxes(unittest.TestCase):
    def test_a_sandbox_is_made_used_and_stopped(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/sandboxes")
            page.get_by_label("Name").fill("scratch")
            page.get_by_role("button", name="Create sandbox").click()
            page.get_by_role("heading", name="scratch").wait_for()
            for code, expected in [("x = 6", ""), ("print('<b>', x * 7)", "<b> 42")]:
                page.get_by_label("Code").fill(code)
                page.get_by_role("button", name="Run cell").click()
                expect(page.locator(".cell .source").first).to_have_text(code)
                expect(page.locator(".cell").first).to_contain_text(expected)
            page.get_by_text("New file").click()
            page.get_by_label("Path").fill("notes.txt")
            page.get_by_label("Content").fill("hello\nthere")
            page.get_by_role("button", name="Save file").click()
            expect(page.get_by_label("Content")).to_have_value("hello\nthere")
            page.get_by_role("button", name="Open terminal").click()
            expect(page.locator(".xterm-accessibility")).to_contain_text("$")
            page.locator(".xterm-screen").click()
            page.keyboard.type("cat notes.txt; echo $((40 + 2))\n")
            expect(page.locator(".xterm-accessibility")).to_contain_text("there")
            expect(page.locator(".xterm-accessibility")).to_contain_text("42")
            self.assertEqual(page.locator("main b").count(), 0)
            page.get_by_role("button", name="Stop").click()
            page.wait_for_url("**/console/sandboxes?done=stopped")


    def test_pictures_and_pages_of_cells_are_shown_without_rights(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto(f"/console/sandboxes/{SERVER.sandbox('rich')}")
            for code in [PICTURE, PAGE]:
                page.get_by_label("Code").fill(code)
                page.get_by_role("button", name="Run cell").click()
                expect(page.locator(".cell .source").first).to_have_text(code)
            picture = page.locator(".cell img")
            self.assertEqual(picture.evaluate("image => image.naturalWidth"), 3)
            frame = page.locator(".cell iframe")
            self.assertEqual(frame.get_attribute("sandbox"), "")
            inside = page.frame_locator(".cell iframe").locator("#made")
            expect(inside).to_have_text("by the cell")
            self.assertEqual(inside.evaluate("made => getComputedStyle(made).color"), "rgb(1, 2, 3)")
            answer = page.request.get(frame.get_attribute("src"))
            policy = answer.headers["content-security-policy"]
            self.assertTrue(policy.startswith("sandbox; default-src 'none'"), policy)
            self.assertNotIn("allow-", policy)

    def test_a_sandbox_is_paused_forked_and_its_files_are_carried(self):
        sandbox = SERVER.sandbox("carry")
        with BROWSER.page(SERVER.admin) as page:
            page.goto(f"/console/sandboxes/{sandbox}")
            content = bytes(range(256))
            page.locator("[data-upload] input").set_input_files(
                {"name": "all bytes.bin", "mimeType": "application/octet-stream", "buffer": content})
            expect(page.locator(".files")).to_contain_text("all bytes.bin")
            with page.expect_download() as download:
                page.locator(".files a[download]").click()
            self.assertEqual(pathlib.Path(download.value.path()).read_bytes(), content)
            with page.expect_download() as download:
                page.get_by_role("button", name="Download snapshot").click()
            self.assertGreater(pathlib.Path(download.value.path()).stat().st_size, 256)
            with page.expect_response(lambda answer: "/metrics?seen=" in answer.url):
                expect(page.locator("#metrics")).to_contain_text("Memory")
            page.goto(f"/console/sandboxes/{sandbox}")
            page.get_by_role("button", name="Pause").click()
            expect(page.locator(".facts .pill")).to_have_text("paused")
            page.get_by_role("button", name="Resume").click()
            expect(page.locator(".facts .pill")).to_have_text("running")
            page.get_by_role("button", name="Fork").click()
            page.wait_for_url(lambda url: "done=forked" in url and sandbox not in url)
            expect(page.locator(".files")).to_contain_text("all bytes.bin")
        with BROWSER.page(SERVER.reader, expect_errors=True) as page:
            page.goto(f"/console/sandboxes/{sandbox}")
            expect(page.locator(".files")).to_contain_text("all bytes.bin")
            self.assertEqual(page.locator("main button:not(.copy)").count(), 0)
            self.assertEqual(page.locator("[data-upload]").count(), 0)

    def test_a_file_without_the_token_of_its_session_is_refused(self):
        sandbox = SERVER.sandbox("guarded")
        with BROWSER.page(SERVER.admin) as page:
            cookie = page.context.cookies()[0]["value"]
        request = urllib.request.Request(
            f"{SERVER.url}/console/sandboxes/{sandbox}/upload?path=x", data=b"x", method="POST")
        request.add_header("Cookie", f"ringfence_session={cookie}")
        request.add_header("Content-Type", "application/octet-stream")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()


class Operators(unittest.TestCase):
    def test_the_overview_counts_what_ended(self):
        SERVER.call("echo", {"text": "counted"})
        with BROWSER.page(SERVER.reader) as page:
            page.goto("/console?window=5+min")
            self.assertGreater(int(page.locator(".stats strong").first.inner_text()), 0)
            expect(page.locator("main")).to_contain_text("Calls are taken.")
            expect(page.locator(".plot rect.good").first).to_be_attached()

    def test_a_key_is_made_used_and_revoked(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/keys")
            page.get_by_label("Label").fill("made here")
            page.get_by_label("read", exact=False).first.check()
            page.get_by_role("button", name="Create key").click()
            secret = page.locator(".secret").inner_text()
            self.assertEqual(SERVER.api("GET", "/v1/calls", key=secret)[0], 200)
            page.get_by_role("button", name="Revoke made here").click()
            page.wait_for_url("**/console/keys?done=revoked")
        self.assertEqual(SERVER.api("GET", "/v1/calls", key=secret)[0], 401)

    def test_proposed_rules_are_replayed_on_the_past(self):
        SERVER.call("echo", {"text": "past"})
        with BROWSER.page(SERVER.admin, expect_errors=True) as page:
            page.goto("/console/policy")
            rules = page.locator("textarea").first
            rules.fill(rules.input_value() + '\ndenials contains {"rule": "no_echo", "message": "no"} if '
                       '{\n\tinput.tool.name == "echo"\n}\n')
            page.get_by_role("button", name="Replay on the past").click()
            expect(page.locator("#replay")).to_contain_text("would be different")
            expect(page.locator("#replay")).to_contain_text("no_echo")
            page.locator("textarea").first.fill("package nonsense {")
            page.get_by_role("button", name="Replay on the past").click()
            expect(page.get_by_role("alert")).to_contain_text("cannot be used")

    def test_the_log_is_verified_and_exported(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/audit?kind=key")
            self.assertGreater(page.locator(".entries > li").count(), 4)
            page.get_by_role("button", name="Verify the log").click()
            expect(page.get_by_role("status")).to_contain_text("under the signed checkpoint")
            with page.expect_download() as download:
                page.get_by_role("link", name="Export").click()
            lines = pathlib.Path(download.value.path()).read_text().splitlines()
            self.assertEqual([json.loads(line)["index"] for line in lines][:2], [0, 1])

    def test_settings_say_where_they_came_from(self):
        with BROWSER.page(SERVER.admin) as page:
            page.goto("/console/settings?q=listen")
            expect(page.locator("tbody tr").first).to_contain_text("127.0.0.1:0")


if __name__ == "__main__":
    unittest.main()
