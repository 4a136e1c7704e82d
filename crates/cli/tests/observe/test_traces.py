"""Traces as a receiver gets them: whose they are, how they hang together, what they say."""

import os
import tempfile
import unittest

from support import Page, Receiver, Server, attributes, until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
INTERNAL, SERVER = 1, 2


def traceparent(flags, trace=TRACE):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}", "tracestate": "congo=t61rcWkgMzE"}


def by_name(spans):
    found = {}
    for span in spans:
        found.setdefault(span.name, []).append(span)
    return found


def dropped(server, reason):
    wanted = f'otlp_spans_dropped_total{{reason="{reason}"}} '
    [line] = [line for line in server.metrics()[1].splitlines() if line.startswith(wanted)]
    return int(line.removeprefix(wanted))


class Traces(unittest.TestCase):
    def start(self, receiver=None, **variables):
        receiver = receiver or Receiver()
        self.addCleanup(receiver.close)
        server = Server(RINGFENCE_OTLP_ENDPOINT=receiver.url, **variables)
        self.addCleanup(server.close)
        return server, receiver

    def whole(self, receiver, trace, root="POST /v1/calls"):
        """All spans of a trace, once the one of the request is among them."""
        def arrived():
            found = by_name(receiver.spans(trace))
            return found if root in found and any(n.startswith("execute_tool") for n in found) else None
        return until(f"trace {trace}", arrived)

    def test_a_trace_goes_on_from_the_client_through_the_request_to_the_parts_of_the_call(self):
        server, receiver = self.start(RINGFENCE_OTLP_HEADERS="x-token=very%20secret")
        call, headers = server.call("echo", {"text": "hi"}, traceparent("01"), session_id="s-1")
        found = self.whole(receiver, TRACE)
        self.assertEqual(
            sorted(found), ["POST /v1/calls", "decide", "execute_tool echo", "queue", "record", "run"]
        )
        [request], [tool] = found["POST /v1/calls"], found["execute_tool echo"]
        self.assertEqual((request.kind, request.parent_span_id.hex()), (SERVER, PARENT))
        self.assertEqual(request.trace_state, "congo=t61rcWkgMzE")
        self.assertEqual(request.flags & 0x301, 0x301, "recorded, and its parent is remote")
        self.assertEqual(headers["traceresponse"], f"00-{TRACE}-{request.span_id.hex()}-01")
        self.assertEqual((tool.kind, tool.parent_span_id), (INTERNAL, request.span_id))
        self.assertEqual(tool.span_id.hex(), call["id"].replace("-", "")[16:])
        for name in ("decide", "queue", "run", "record"):
            for part in found[name]:
                self.assertEqual(part.parent_span_id, tool.span_id, name)
                self.assertLessEqual(tool.start_time_unix_nano, part.start_time_unix_nano)
                self.assertLessEqual(part.end_time_unix_nano, tool.end_time_unix_nano)
        ids = [span.span_id for spans in found.values() for span in spans]
        self.assertEqual(len(ids), len(set(ids)))
        about = attributes(request)
        self.assertEqual(about["http.request.method"], "POST")
        self.assertEqual(about["http.route"], "/v1/calls")
        self.assertEqual(about["http.response.status_code"], 200)
        self.assertEqual(about["ringfence.tenant.id"], "default")
        about = attributes(tool)
        self.assertEqual(about["gen_ai.operation.name"], "execute_tool")
        self.assertEqual(about["gen_ai.tool.name"], "echo")
        self.assertEqual(about["gen_ai.tool.call.id"], call["id"])
        self.assertEqual(about["gen_ai.conversation.id"], "s-1")
        self.assertNotIn("error.type", about)
        self.assertEqual(attributes(found["decide"][0])["ringfence.decision.verdict"], "allow")
        path, export = receiver.requests[0]
        self.assertEqual(path, "/v1/traces")
        self.assertEqual(receiver.headers[0]["x-token"], "very secret")
        resource = attributes(export.resource_spans[0].resource)
        self.assertEqual(resource["service.name"], "ringfence")

    def test_what_the_client_does_not_record_is_not_exported(self):
        server, receiver = self.start()
        other = "1" * 32
        _, headers = server.call("echo", {"text": "hi"}, traceparent("00"))
        self.assertTrue(headers["traceresponse"].endswith("-00"))
        server.call("echo", {"text": "hi"}, traceparent("01", other))
        self.whole(receiver, other)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(receiver.spans(TRACE), [])

    def test_a_trace_that_begins_here_is_recorded_as_often_as_the_operator_wants(self):
        server, receiver = self.start()
        call, headers = server.call("echo", {"text": "hi"})
        found = self.whole(receiver, call["trace_id"])
        self.assertEqual(found["POST /v1/calls"][0].parent_span_id, b"")
        self.assertTrue(headers["traceresponse"].endswith("-03"))
        server, receiver = self.start(RINGFENCE_OTLP_SAMPLE="0")
        server.call("echo", {"text": "hi"})
        self.assertEqual(server.stop(), 0)
        self.assertEqual(receiver.spans(), [])

    def test_a_sandbox_a_failure_and_a_hold_are_told(self):
        server, receiver = self.start()
        ran, _ = server.call("code_execute", {"code": "print(6*7)"}, traceparent("01", "2" * 32))
        self.assertEqual(ran["state"], "finished")
        found = self.whole(receiver, "2" * 32)
        about = attributes(found["sandbox"][0])
        self.assertIn(about["ringfence.sandbox.isolation"], ("cold", "zygote", "warm"))
        self.assertGreater(about["ringfence.sandbox.cpu_seconds"], 0)
        code = "raise SystemExit('words of the program')"
        server.call("code_execute", {"code": code}, traceparent("01", "3" * 32))
        [failed] = self.whole(receiver, "3" * 32)["execute_tool code_execute"]
        self.assertEqual(failed.status.code, 2)
        self.assertEqual(attributes(failed)["error.type"], failed.status.message)
        server.call("http_fetch", {"url": "https://example.com"}, traceparent("01", "4" * 32))
        found = self.whole(receiver, "4" * 32)
        self.assertEqual(attributes(found["decide"][0])["ringfence.decision.verdict"], "hold")
        self.assertEqual(attributes(found["execute_tool http_fetch"][0])["ringfence.call.state"], "held")
        self.assertNotIn("run", found)
        raw = b"".join(receiver.raw)
        for secret in (b"words of the program", b"example.com", b"6*7", server.key.encode()):
            self.assertNotIn(secret, raw)

    def test_a_fetch_takes_the_trace_along_unless_the_operator_minds(self):
        for passes in ("true", "false"):
            page = Page()
            self.addCleanup(page.close)
            rules = tempfile.TemporaryDirectory()
            self.addCleanup(rules.cleanup)
            with open(os.path.join(rules.name, "allow.rego"), "w") as file:
                file.write('package ringfence\n\ndecision := {"decision": "allow", "reasons": []}\n')
            server, _ = self.start(
                RINGFENCE_POLICY=rules.name,
                RINGFENCE_EGRESS_ALLOW_PRIVATE=page.address,
                RINGFENCE_EGRESS_PASS_TRACE=passes,
            )
            call, _ = server.call("http_fetch", {"url": f"http://{page.address}/"}, traceparent("01"))
            self.assertEqual(call["result"]["text"], "a page")
            span = call["id"].replace("-", "")[16:]
            told = [f"00-{TRACE}-{span}-01"] if passes == "true" else [None]
            self.assertEqual([head["traceparent"] for head in page.heads], told)
            self.assertEqual([head["tracestate"] for head in page.heads], [None])

    def test_what_waits_is_sent_when_the_server_ends(self):
        server, receiver = self.start()
        server.call("echo", {"text": "hi"}, traceparent("01"))
        self.assertEqual(server.stop(), 0)
        self.assertIn("execute_tool echo", by_name(receiver.spans(TRACE)))

    def test_a_receiver_that_is_busy_is_asked_again(self):
        server, receiver = self.start(Receiver(answers=[503, 429]))
        server.call("echo", {"text": "hi"}, traceparent("01"))
        self.whole(receiver, TRACE)
        self.assertEqual(dropped(server, "unreachable"), 0)

    def test_what_a_receiver_refuses_is_dropped_and_counted(self):
        server, _ = self.start(Receiver(answers=[400]))
        server.call("echo", {"text": "hi"}, traceparent("01"))
        # Looking at the metrics is a request as well, so there may be more.
        until("counted", lambda: dropped(server, "rejected") >= 6)

    def test_calls_go_on_while_the_receiver_hangs_and_what_is_too_much_is_counted(self):
        receiver = Receiver()
        receiver.gate.clear()
        server, _ = self.start(receiver, RINGFENCE_OTLP_QUEUE="4")
        for number in range(20):
            call, _ = server.call("echo", {"text": "hi"}, traceparent("01", f"{number + 1:032x}"))
            self.assertEqual(call["state"], "finished")
        self.assertGreater(dropped(server, "queue_full"), 0)
        # Still hanging: the server ends all the same, in bounded time.
        self.assertEqual(server.stop(), 0)

    def test_the_standard_variables_are_honoured(self):
        receiver = Receiver()
        self.addCleanup(receiver.close)
        server = Server(
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.url}/elsewhere",
            OTEL_EXPORTER_OTLP_HEADERS="api-key=abc,other=d%3De",
            OTEL_SERVICE_NAME="plane",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        )
        self.addCleanup(server.close)
        server.call("echo", {"text": "hi"})
        self.assertEqual(server.stop(), 0)
        path, export = receiver.requests[0]
        self.assertEqual(path, "/elsewhere")
        headers = {name.lower(): value for name, value in receiver.headers[0].items()}
        self.assertEqual((headers["api-key"], headers["other"]), ("abc", "d=e"))
        resource = attributes(export.resource_spans[0].resource)
        self.assertEqual(resource["service.name"], "plane")
        self.assertEqual(resource["deployment.environment.name"], "test")


if __name__ == "__main__":
    unittest.main()
