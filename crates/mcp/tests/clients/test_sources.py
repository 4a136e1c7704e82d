"""A public MCP server from a registry, inside a sandbox of ours, called through us by the official client."""

import asyncio
import json
import socket
import unittest

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support import TIMEOUT, Server, until

PACKAGE = "pypi:mcp-server-time==2026.10.19"
REGISTRY = ["pypi.org", "files.pythonhosted.org"]


def registry_addresses():
    """Addresses of the registry, which may be a mirror that is not public."""
    found = set()
    for host in REGISTRY:
        for family, _, _, _, address in socket.getaddrinfo(host, 443, proto=socket.IPPROTO_TCP):
            shown = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
            found.add(f"{shown}:443")
    return ",".join(sorted(found))


class PublicServer(unittest.TestCase):
    def setUp(self):
        self.server = Server(RINGFENCE_EGRESS_ALLOW_PRIVATE=registry_addresses())

    def tearDown(self):
        self.server.close()

    def health(self):
        return self.server.get("/v1/mcp/servers/time")["health"]

    def approve_start(self):
        """The registry is network, so a person is asked."""
        held = until("the start to be held", lambda: self.health().get("call_id"))
        hold = self.server.get(f"/v1/holds/{held}")
        self.assertIn(REGISTRY[0], json.dumps(hold))
        resolve = f"/v1/holds/{held}/resolve"
        self.server.ask("POST", resolve, {"action": "approve"}, self.server.approver)

    def connected(self):
        health = self.health()
        self.assertNotEqual(health["state"], "failing", health)
        return health["state"] == "connected"

    def test_it_is_called_through_us_by_the_official_client(self):
        command = ["python3", "-m", "mcp_server_time", "--local-timezone", "UTC"]
        body = {"name": "time", "packages": [PACKAGE], "command": command}
        self.server.post("/v1/mcp/servers", body)
        self.approve_start()
        until("the server to be connected", self.connected)
        self.server.post("/v1/tools/time__get_current_time/approve", {"why": "read it"})

        async def run():
            headers = {"Authorization": f"Bearer {self.server.key}"}
            async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT) as http:
                transport = streamable_http_client(self.server.url + "/mcp", http_client=http)
                async with Client(transport) as client:
                    listed = (await client.list_tools()).tools
                    names = [tool.name for tool in listed]
                    self.assertIn("time__get_current_time", names)
                    # Listed by its server, and approved by no person.
                    self.assertNotIn("time__convert_time", names)
                    return await client.call_tool("time__get_current_time", {"timezone": "Asia/Tokyo"})

        called = asyncio.run(asyncio.wait_for(run(), TIMEOUT))
        self.assertIn("+09:00", called.content[0].text)
        calls = self.server.get("/v1/calls?tool=time__get_current_time")["calls"]
        receipt = self.server.get(f"/v1/calls/{calls[0]['id']}/receipt")
        self.assertTrue(receipt)


if __name__ == "__main__":
    unittest.main()
