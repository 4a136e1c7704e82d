"""Metrics as Prometheus' own client library reads them, in both formats."""

import unittest

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as text_format
from support import Server, until

OPEN = "application/openmetrics-text; version=1.0.0"

# Family, kind, labels: what dashboards rely on. Counters without `_total`, as both parsers say it.
FAMILIES = {
    "tool_executor_requests": ("counter", {"tool", "outcome"}),
    "tool_executor_policy_decisions": ("counter", {"tool", "decision"}),
    "tool_executor_execution_seconds": ("histogram", {"tool"}),
    "tool_execution_duration_seconds": ("histogram", {"tool"}),
    "tool_executor_inflight": ("gauge", {"tool"}),
    "tool_executor_requeue": ("counter", {"tool", "reason"}),
    "policy_blocked": ("counter", {"tool"}),
    "requeue_pending": ("gauge", set()),
    "requeue_pending_total": ("gauge", set()),
    "durable_publish": ("counter", {"result"}),
    "calls_running": ("gauge", set()),
    "calls_waiting": ("gauge", set()),
    "calls_in_state": ("gauge", {"state"}),
    "tools": ("gauge", {"state"}),
    "sandbox_pool_idle": ("gauge", {"language", "isolation"}),
    "sandbox_pool_target": ("gauge", {"language", "isolation"}),
    "sandbox_pool_building": ("gauge", {"language", "isolation"}),
    "sandbox_pool_hits": ("counter", {"language", "isolation"}),
    "sandbox_pool_misses": ("counter", {"language", "isolation"}),
    "store_commit_batch_size": ("histogram", set()),
    "store_commit_seconds": ("histogram", set()),
    "store_writes_waiting": ("gauge", set()),
    "store_reads_waiting": ("gauge", set()),
    "http_requests": ("counter", {"area", "method", "status"}),
    "http_request_duration_seconds": ("histogram", {"area"}),
    "http_connections": ("gauge", set()),
    "http_event_streams": ("gauge", set()),
}


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Messages are published to topics that some group reads; webhooks are one.
        cls.server = Server(
            RINGFENCE_WEBHOOK_URLS="http://127.0.0.1:9/", RINGFENCE_WEBHOOK_SECRET="0123456789abcdef"
        )
        cls.addClassCleanup(cls.server.close)
        cls.server.call("echo", {"text": "a confidential argument"})
        cls.server.call("code_execute", {"code": "print(1)"})
        cls.server.call("http_fetch", {"url": "https://example.com"})
        cls.server.ask("POST", "/v1/calls", {"tool": "made-up-by-a-client", "args": {}})
        until("published", lambda: "durable_publish" in cls.server.metrics()[1])

    def families(self, accept, kind, parse):
        content_type, text = self.server.metrics(accept)
        self.assertTrue(content_type.startswith(kind), content_type)
        return {family.name: family for family in parse(text)}

    def value(self, families, name, **labels):
        samples = [s for f in families.values() for s in f.samples if s.name == name]
        found = [s.value for s in samples if labels.items() <= s.labels.items()]
        self.assertEqual(len(found), 1, (name, labels, samples))
        return found[0]

    def check(self, families):
        for name, (kind, labels) in FAMILIES.items():
            self.assertIn(name, families)
            family = families[name]
            self.assertEqual(family.type, kind, name)
            self.assertTrue(family.documentation, name)
            self.assertTrue(family.samples, name)
            for sample in family.samples:
                self.assertEqual(set(sample.labels) - {"le"}, labels, name)
        self.assertEqual(
            self.value(families, "tool_executor_requests_total", tool="echo", outcome="success"), 1
        )
        self.assertEqual(
            self.value(families, "tool_executor_policy_decisions_total", tool="http_fetch", decision="held"), 1
        )
        self.assertEqual(self.value(families, "requeue_pending_total"), 1)
        self.assertEqual(self.value(families, "policy_blocked_total", tool="http_fetch"), 1)
        self.assertEqual(self.value(families, "tool_execution_duration_seconds_count", tool="echo"), 1)
        self.assertGreater(self.value(families, "store_commit_batch_size_count"), 0)

    def test_the_older_text_format_is_read_whole(self):
        families = self.families("*/*", "text/plain; version=0.0.4", text_format)
        self.check(families)
        self.assertEqual(families["ringfence_build_info"].type, "gauge")

    def test_open_metrics_is_read_whole(self):
        families = self.families(OPEN, "application/openmetrics-text; version=1.0.0", open_metrics)
        self.check(families)
        self.assertEqual(families["ringfence_build"].type, "info")

    def test_no_label_is_a_client_s_word(self):
        for accept in ("*/*", OPEN):
            _, text = self.server.metrics(accept)
            for word in ("made-up-by-a-client", "confidential", "default", self.server.key):
                self.assertNotIn(word, text)
            self.assertIn('tool_executor_requests_total{tool="unknown",outcome="tool_not_found"} 1', text)

    def test_a_tool_that_runs_is_in_flight(self):
        call, _ = self.server.call(
            "code_execute", {"code": "import time\ntime.sleep(300)"}, wait=0
        )
        inflight = 'tool_executor_inflight{tool="code_execute"} '
        until("in flight", lambda: inflight + "1" in self.server.metrics()[1])
        until("running", lambda: 'calls_in_state{state="running"} 1' in self.server.metrics()[1])
        self.server.ask("DELETE", f"/v1/calls/{call['id']}")
        until("not in flight", lambda: inflight + "0" in self.server.metrics()[1])


if __name__ == "__main__":
    unittest.main()
