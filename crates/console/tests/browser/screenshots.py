"""Pictures of every page of the console, in light and dark, in the folder of the first argument."""

import os
import pathlib
import subprocess
import sys

from plane import Browser, Server

WIDE = {"width": 1360, "height": 860}
SMALL = {"width": 360, "height": 740}

# Long enough for a plot that is more than one bar.
OVER = "100s"


def fill(server):
    """The demo, as an operator starts it; the ids of a call, a hold and a sandbox."""
    command = [os.environ["RINGFENCE_BINARY"], "demo", "--over", OVER, "--data", str(server.dir / "data")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGFENCE_")}
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    calls = server.api("GET", "/v1/calls?session_id=demo-hostile&limit=100")[1]["calls"]
    hold = server.api("GET", "/v1/calls?state=held")[1]["calls"][0]["id"]
    sandbox = server.api("GET", "/v1/sandboxes")[1]["sandboxes"][0]["id"]
    return calls[-1]["id"], hold, sandbox


REPORT = {"operation": "create", "title": "Quarterly report", "media_type": "text/markdown", "tags": ["report"],
          "content": "# Quarterly report\n\nRevenue grew by 4 %.\n"}

SECRET = {"value": "not-shown", "tools": ["http_fetch"], "hosts": ["api.example.com"], "header": "Authorization"}


def artifact(server):
    """An artifact with two versions; a secret."""
    made = server.call("artifact_write", REPORT)["result"]["artifact"]
    change = {"operation": "update", "artifact": made, "content": REPORT["content"] + "\nCosts fell by 2 %.\n"}
    server.call("artifact_write", change)
    server.api("PUT", "/v1/secrets/weather", SECRET)
    return made


def main(folder):
    server = Server()
    browser = Browser(server)
    try:
        call, hold, sandbox = fill(server)
        report = artifact(server)
        pages = [("overview", "/console?window=5+min"), ("holds", "/console/holds"), ("hold", f"/console/holds/{hold}"),
                 ("calls", "/console/calls"), ("call", f"/console/calls/{call}"), ("tools", "/console/tools"),
                 ("tool", "/console/tools/demo_send_report"), ("sandboxes", "/console/sandboxes"),
                 ("sandbox", f"/console/sandboxes/{sandbox}"), ("policy", "/console/policy"),
                 ("audit", "/console/audit"), ("artifacts", "/console/artifacts"),
                 ("artifact", f"/console/artifacts/{report}"), ("secrets", "/console/secrets"), ("mcp", "/console/mcp"), ("keys", "/console/keys"), ("settings", "/console/settings")]
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
