"""Pictures of every page of the console, in light and dark, in the folder of the first argument."""

import pathlib
import sys

from plane import Browser, Server

WIDE = {"width": 1360, "height": 860}
SMALL = {"width": 360, "height": 740}


def fill(server):
    """Calls as an agent would make them."""
    session = "triage-4711"
    for text in ["Summarise ticket 4711", "Who reported it?", "Draft an answer"]:
        server.call("echo", {"text": text}, session_id=session)
    report = ("Ringfence runs what agents ask for inside sandboxes. Policy decides first. A person "
              "approves what has effects outside. Every call leaves a signed receipt. ") * 4
    server.call("text_summarize", {"text": report}, session_id=session)
    server.call("extract_entities", {"text": "Ann Smith of Acme paid $1,200 on 3 March 2026 in Berlin."},
                session_id=session)
    for text in range(12):
        server.call("echo", {"text": f"Step {text}"}, session_id="nightly")
    code = server.call("code_execute", {"language": "python", "code": (
        "import math\nfor n in range(5):\n    print(n, round(math.sqrt(n), 3))\n")}, session_id="nightly")
    server.call("code_execute", {"language": "python", "code": "raise ValueError('no such column')"},
                session_id="nightly")
    denied = server.hold(subject="Reset all passwords", session_id=session)
    server.api("POST", f"/v1/holds/{denied}/resolve", {"action": "deny", "reason": "not by mail"},
               server.approver)
    sent = server.hold(subject="Weekly numbers", session_id=session)
    server.api("POST", f"/v1/holds/{sent}/resolve", {"action": "approve"}, server.approver)
    server.until(lambda: server.state(sent) == "finished")
    server.call("http_fetch", {"url": "http://169.254.169.254/latest/meta-data/"}, wait=0,
                session_id=session)
    hold = server.call("send_mail", {
        "to": ["cfo@example.com", "board@example.com"], "subject": "Quarterly report",
        "body": "Hello,\nthe report is at https://files.example.com/q3.pdf\nThe password is hunter2.",
        "priority": "high", "sender": {"name": "Finance bot", "reply": True}}, wait=0,
        session_id=session)["id"]
    return code["id"], hold


def main(folder):
    server = Server()
    browser = Browser(server)
    try:
        code, hold = fill(server)
        pages = [("overview", "/console"), ("holds", "/console/holds"), ("hold", f"/console/holds/{hold}"),
                 ("calls", "/console/calls"), ("call", f"/console/calls/{code}"), ("tools", "/console/tools"),
                 ("tool", "/console/tools/send_mail"), ("policy", "/console/policy"),
                 ("audit", "/console/audit"), ("keys", "/console/keys"), ("settings", "/console/settings")]
        # The approver's page of a hold is the one with the decision.
        for key, chosen in [(server.admin, pages[:2] + pages[3:]), (server.approver, pages[2:3])]:
            for scheme in ["light", "dark"]:
                for size, viewport in [("", WIDE), ("-small", SMALL)]:
                    with browser.page(key, viewport=viewport, color_scheme=scheme) as page:
                        for name, path in chosen:
                            page.goto(path)
                            page.wait_for_load_state("load")
                            page.screenshot(path=folder / f"{name}-{scheme}{size}.png")
        with browser.page(viewport=WIDE) as page:
            page.goto("/console/login")
            page.screenshot(path=folder / "login-light.png")
    finally:
        browser.close()
        server.close()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
