"""What each kind of key sees and does in the console, and what is refused to it."""

import re
import unittest

from playwright.sync_api import expect

from plane import Browser, Server


def setUpModule():
    global SERVER, BROWSER
    SERVER = Server()
    BROWSER = Browser(SERVER)


def tearDownModule():
    BROWSER.close()
    SERVER.close()


# Two people must approve whatever is called.
TWO = """
package ringfence

decision := {"decision": "allow", "reasons": []} if {
    input.approval != null
} else := {"decision": "hold", "reasons": [{"rule": "two", "message": "two people"}], "approvals": 2}
"""


class TwoApprovers(unittest.TestCase):
    def test_a_call_runs_when_two_people_approved_and_shows_who_did(self):
        server = Server(rules=TWO)
        self.addCleanup(server.close)
        hold = server.call("echo", {"text": "both"}, wait=0)["id"]
        server.until(lambda: server.state(hold) == "held")
        with BROWSER.page(server.approver, base_url=server.url) as page:
            page.goto(f"/console/holds/{hold}")
            expect(page.locator("main")).to_contain_text("0 of 2 needed")
            page.get_by_label("Reason").fill("checked the text")
            page.get_by_role("button", name="Approve").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            expect(page.get_by_role("status")).to_contain_text("waits for more people")
        self.assertEqual(server.state(hold), "held")
        with BROWSER.page(server.second, base_url=server.url) as page:
            page.goto(f"/console/holds/{hold}")
            for words in ["1 of 2 needed", "Ann", "ann@example.com", "checked the text"]:
                expect(page.locator("main")).to_contain_text(words)
            page.get_by_role("button", name="Approve").click()
            page.get_by_role("dialog").get_by_role("button", name="Approve").click()
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
        server.until(lambda: server.state(hold) == "finished")


class Roles(unittest.TestCase):
    def test_each_role_opens_its_pages_and_no_others(self):
        every = ["Overview", "Holds", "Calls", "Artifacts", "Tools", "Sandboxes", "MCP", "Policy", "Audit", "Keys",
                 "Secrets", "Settings"]
        readable = [name for name in every if name not in ("MCP", "Policy", "Keys", "Secrets", "Settings")]
        foreign = SERVER.key("Admin of another tenant", ["admin"], tenant="other")
        for key, names in [(SERVER.admin, every), (SERVER.approver, readable), (SERVER.reader, readable),
                           (SERVER.decider, ["Holds"]), (foreign, [*readable, "Keys", "Secrets"])]:
            with BROWSER.page(key, expect_errors=True) as page:
                for name in every:
                    path = "/console" if name == "Overview" else f"/console/{name.lower()}"
                    status = page.goto(path).status
                    if name == "Overview" and name not in names:
                        self.assertEqual(page.url, SERVER.url + "/console/holds")
                        continue
                    self.assertEqual(status, 200 if name in names else 403, name)
                    links = page.locator("nav a span").all_inner_texts()
                    if name in names:
                        expect(page.get_by_role("heading", level=1)).to_be_visible()
                        self.assertEqual(sorted(links), sorted(names))

    def test_every_action_is_refused_to_a_reader(self):
        hold, sandbox = SERVER.hold(), SERVER.sandbox("not theirs")
        call = SERVER.call("slow_count", {"secs": 50}, wait=0)["id"]
        key = SERVER.api("GET", "/v1/keys")[1]["keys"][0]["key_id"]
        with BROWSER.page(SERVER.reader) as page:
            token = page.locator("input[name=token]").first.input_value()
            for path in [f"holds/{hold}/resolve", f"calls/{call}/cancel", f"calls/{call}/retry", "tools/echo",
                         "sandboxes", f"sandboxes/{sandbox}", f"sandboxes/{sandbox}/cells",
                         f"sandboxes/{sandbox}/files", f"sandboxes/{sandbox}/snapshot",
                         f"sandboxes/{sandbox}/terminal", "policy/replay", "keys", f"keys/{key}/revoke"]:
                answer = page.request.post(f"/console/{path}", form={"token": token}, max_redirects=0)
                self.assertEqual(answer.status, 403, path)
        self.assertEqual(SERVER.state(hold), "held")
        self.assertEqual(SERVER.api("DELETE", f"/v1/calls/{call}")[0], 202)

    def test_a_hold_is_decided_without_javascript(self):
        hold = SERVER.hold()
        with BROWSER.page(SERVER.approver, java_script_enabled=False) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_role("button", name="Approve").first.click()
            page.wait_for_url(f"**/console/calls/{hold}?done=approved")
        SERVER.until(lambda: SERVER.state(hold) == "finished")

    def test_the_first_admin_decides_but_not_about_calls_of_its_own_key(self):
        hold, own = SERVER.hold(), SERVER.hold(key=SERVER.admin)
        with BROWSER.page(SERVER.admin, expect_errors=True) as page:
            page.goto(f"/console/holds/{hold}")
            page.get_by_role("button", name="Deny").click()
            page.wait_for_url("**/console/holds?done=denied")
            token = page.locator("input[name=token]").first.input_value()
            page.goto(f"/console/holds/{own}")
            self.assertEqual(page.get_by_role("button", name="Approve").count(), 0)
            answer = page.request.post(f"/console/holds/{own}/resolve",
                                       form={"token": token, "action": "approve"}, max_redirects=0)
            self.assertNotEqual(answer.status, 303)
        self.assertEqual((SERVER.state(hold), SERVER.state(own)), ("denied", "held"))

    def test_what_a_key_may_not_do_is_not_shown_and_refused(self):
        hold = SERVER.hold()
        done = SERVER.call("echo", {"text": "x"})["id"]
        with BROWSER.page(SERVER.reader, expect_errors=True) as page:
            names = page.locator("nav a").all_inner_texts()
            self.assertEqual([re.sub(r"[\d+\s]", "", name) for name in names],
                             ["Overview", "Holds", "Calls", "Artifacts", "Tools", "Sandboxes", "Audit"])
            page.goto(f"/console/holds/{hold}")
            self.assertEqual(page.locator("#decide").count(), 0)
            page.goto(f"/console/calls/{done}")
            self.assertEqual(page.get_by_role("button", name="Run again").count(), 0)
            for path in ["/console/keys", "/console/policy", "/console/settings"]:
                self.assertEqual(page.goto(path).status, 403, path)
        with BROWSER.page(SERVER.decider, expect_errors=True) as page:
            self.assertEqual(page.url, SERVER.url + "/console/holds")
            self.assertEqual(page.goto("/console/calls").status, 403)
            page.goto(f"/console/holds/{hold}")
            expect(page.get_by_role("button", name="Deny")).to_be_visible()


if __name__ == "__main__":
    unittest.main()
