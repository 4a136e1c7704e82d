"""Clients of others, unchanged, against the binary: over HTTP and by standard input and output."""

import asyncio
import json
import os
import subprocess
import tempfile
import unittest

from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from support import BINARY, ENVIRONMENT, INSPECTOR, NODE, TIMEOUT, Server


def text(result):
    return result.content[0].text


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.headers = {"Authorization": f"Bearer {cls.server.key}"}
        cls.args = ["mcp", "--data", cls.server.data]
        cls.env = {**ENVIRONMENT, "RINGFENCE_KEY": cls.server.key}

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    async def used(self, client):
        """Lists and calls, by either Python client."""
        async with client:
            listed = await client.list_tools()
            tools = getattr(listed, "tools", listed)
            self.assertIn("echo", [tool.name for tool in tools])
            called = await client.call_tool("echo", {"text": "hello"})
            self.assertEqual(json.loads(text(called)), {"message": "hello"})

    def fast(self, transport):
        asyncio.run(asyncio.wait_for(self.used(FastClient(transport)), TIMEOUT))

    def test_fastmcp_over_http(self):
        self.fast(StreamableHttpTransport(self.server.url + "/mcp", headers=self.headers))

    def test_fastmcp_over_stdio(self):
        self.fast(StdioTransport(BINARY, self.args, env=self.env))

    def test_a_server_of_its_own_over_stdio(self):
        """Without a running server one runs for as long as the client does."""
        with tempfile.TemporaryDirectory() as folder:
            args = ["mcp", "--data", os.path.join(folder, "data")]
            self.fast(StdioTransport(BINARY, args, env=ENVIRONMENT))

    def test_the_official_client_over_http(self):
        import httpx2

        async def run():
            async with httpx2.AsyncClient(headers=self.headers, timeout=TIMEOUT) as http:
                url = self.server.url + "/mcp"
                await self.used(Client(streamable_http_client(url, http_client=http)))

        asyncio.run(asyncio.wait_for(run(), TIMEOUT))

    def test_the_official_client_over_stdio(self):
        params = StdioServerParameters(command=BINARY, args=self.args, env=self.env)
        asyncio.run(asyncio.wait_for(self.used(Client(params)), TIMEOUT))

    def inspect(self, *target):
        def ask(*method):
            command = [NODE, INSPECTOR, "--cli", *target, *method]
            done = subprocess.run(
                command, env=ENVIRONMENT, capture_output=True, timeout=TIMEOUT, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr.decode() + done.stdout.decode())
            return json.loads(done.stdout)

        listed = ask("--method", "tools/list")
        self.assertIn("echo", [tool["name"] for tool in listed["tools"]])
        called = ask("--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello")
        self.assertEqual(called["structuredContent"], {"message": "hello"})

    def test_the_inspector_over_http(self):
        header = f"Authorization: Bearer {self.server.key}"
        self.inspect(self.server.url + "/mcp", "--transport", "http", "--header", header)

    def test_the_inspector_over_stdio(self):
        key = f"RINGFENCE_KEY={self.server.key}"
        self.inspect("-e", key, BINARY, *self.args)


if __name__ == "__main__":
    unittest.main()
