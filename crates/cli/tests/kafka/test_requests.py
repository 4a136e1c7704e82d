"""`tool.requests` in, `tool.results` out, as the gateway of SomaAgent 01 uses them."""

import base64
import json
import os
import random
import subprocess
import unittest
import uuid
from collections import Counter

from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event

import support
from support import BINARY, Broker, Results, Server, body, producer, request

# Fewer or more by RINGFENCE_KAFKA_REQUESTS.
REQUESTS = int(os.environ.get("RINGFENCE_KAFKA_REQUESTS", "2000"))

broker = None


def setUpModule():
    global broker
    broker = Broker()


def tearDownModule():
    broker.close()


def of(records, event_id):
    """Results of a request, by the id that ties them to it."""
    return [r for r in records if body(r)["metadata"].get("request_id") == event_id]


class Requests(unittest.TestCase):
    def setUp(self):
        self.topics = {
            name: f"{name}.{uuid.uuid4().hex[:8]}"
            for name in ("tool.requests", "tool.results", "policy.blocked")
        }
        self.server = Server(
            TOOL_REQUESTS_TOPIC=self.topics["tool.requests"],
            TOOL_RESULTS_TOPIC=self.topics["tool.results"],
            RINGFENCE_KAFKA_BLOCKED_TOPIC=self.topics["policy.blocked"],
            RINGFENCE_KAFKA_PARTITIONS="4",
        )
        self.addCleanup(self.server.close)
        self.producer = producer()
        self.addCleanup(self.producer.close)
        self.results = Results(self.topics["tool.results"])
        self.addCleanup(self.results.close)

    def send(self, value, headers=(), key=None):
        value = value if isinstance(value, bytes) else json.dumps(value).encode()
        topic = self.topics["tool.requests"]
        return self.producer.send(topic, value=value, headers=list(headers), key=key)

    def result(self, event_id, count=1):
        """The first results of a request, and the record of the last of them."""
        found = self.results.until(
            f"{count} results of {event_id}",
            lambda records: (lambda f: f if len(f) >= count else None)(of(records, event_id)),
        )
        return [body(record) for record in found], found[-1]

    def test_a_result_is_a_cloud_event_that_echoes_its_request(self):
        sent = request(args={"text": "hello"}, extra={"a": [1]})
        self.send(sent)
        [result], record = self.result(sent["event_id"])
        self.assertEqual(
            (result["status"], result["payload"], result["tool_name"], result["session_id"]),
            ("success", {"message": "hello"}, "echo", sent["session_id"]),
        )
        wanted = {**sent["metadata"], "request_id": sent["event_id"]}
        self.assertEqual(result["metadata"], wanted)
        event = from_binary_event(
            KafkaMessage(headers=dict(record.headers), key=record.key, value=record.value)
        )
        self.assertEqual(event.get_type(), "tool.results")
        self.assertEqual(event.get_id(), result["event_id"])
        self.assertTrue(event.get_source().startswith("/ringfence/"), event.get_source())
        self.assertEqual(event.get_data(), result)

    def test_three_envelopes_and_a_trace(self):
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        bare, binary, structured = request(), request(), request()
        bare["trace_context"] = {"traceparent": parent}
        attributes = {"specversion": "1.0", "id": "1", "source": "/gateway", "type": "tool.requests"}
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        self.send(bare)
        self.send(binary, [*headers, ("content-type", b"application/json"),
                           ("ce_traceparent", parent.encode())])
        self.send({**attributes, "traceparent": parent, "data": structured},
                  [("content-type", b"application/cloudevents+json")])
        for sent in (bare, binary, structured):
            [result], record = self.result(sent["event_id"])
            self.assertEqual(result["status"], "success")
            self.assertIn(parent[3:35], result["trace_context"]["traceparent"])
            self.assertIn(parent[3:35].encode(), dict(record.headers)["ce_traceparent"])

    def test_a_program_brings_its_output_and_its_use_of_resources(self):
        code = "import sys\nprint(6*7)\nprint('oh', file=sys.stderr)"
        sent = request("code_execute", {"code": code, "language": "python"})
        self.send(sent)
        [result], _ = self.result(sent["event_id"])
        self.assertEqual((result["status"], result["payload"]["stdout"]), ("success", "42\n"))
        execution = result["payload"]["execution"]
        self.assertEqual((execution["stdout"], execution["stderr"]), ("42\n", "oh\n"))
        self.assertEqual(execution["exit_code"], 0)
        self.assertGreater(execution["cpu_seconds"], 0)
        self.assertGreater(result["execution_time"], 0)

    def test_refused_requests_have_an_error_result(self):
        unknown, wrong = request("nmap"), request(args={"words": 1})
        foreign = {**request(), "metadata": {"tenant": "other"}}
        for sent in (unknown, wrong, foreign):
            self.send(sent)
        [result], _ = self.result(unknown["event_id"])
        self.assertEqual((result["status"], result["payload"]["message"]), ("error", "Unknown tool 'nmap'"))
        [result], _ = self.result(wrong["event_id"])
        self.assertEqual((result["status"], result["execution_time"]), ("error", 0.0))
        self.assertTrue(result["payload"]["problems"])
        [result], _ = self.result(foreign["event_id"])
        self.assertEqual(result["status"], "blocked")
        self.assertIn("`other`", result["payload"]["message"])

    def test_a_hold_is_told_at_once_and_its_end_later(self):
        sent = request("http_fetch", {"url": "http://127.0.0.1:1/"}, requeue_override=True)
        self.send(sent)
        [first], _ = self.result(sent["event_id"])
        self.assertEqual(first["status"], "blocked")
        blocked = Results(self.topics["policy.blocked"])
        self.addCleanup(blocked.close)
        [record] = blocked.until("policy.blocked", lambda records: records[:1])
        held = body(record)
        self.assertEqual((held["decision"], held["request_event_id"]), ("hold", sent["event_id"]))
        # An admin of the operator's own tenant does not see calls of others: one of this tenant decides.
        make = {"label": "boss", "scopes": ["approve", "read"], "tenant": "public"}
        status, text = self.server.ask("POST", "/v1/keys", make)
        self.assertEqual(status, 201, text)
        self.server.key = json.loads(text)["secret"]
        path = f"/v1/requeue/{held['requeue_id']}/resolve"
        status, text = self.server.ask("POST", path, {"allow": False})
        self.assertEqual(status, 200, text)
        results, _ = self.result(sent["event_id"], 2)
        self.assertEqual([result["status"] for result in results], ["blocked", "cancelled"])
        self.assertEqual(len({result["event_id"] for result in results}), 2)

    def test_dead_letters_are_listed_replayed_and_removed(self):
        self.send(b"{ not json")
        self.send({"event_id": "x"})
        letters = support.until(
            "dead letters",
            lambda: (lambda f: f if len(f) == 2 else None)(self.server.dead_letters("tool.requests")),
        )
        by_payload = {base64.b64decode(letter["payload"]): letter for letter in letters}
        self.assertIn("not JSON", by_payload[b"{ not json"]["error"])
        self.assertIn("session_id", by_payload[b'{"event_id": "x"}']["error"])
        records = Results(self.topics["tool.requests"] + ".dlq")
        self.addCleanup(records.close)
        found = records.until("records", lambda r: r if len(r) >= 2 else None)
        envelope = next(body(r) for r in found if body(r)["original_event"])
        self.assertEqual(envelope["original_event"], {"event_id": "x"})
        self.assertEqual(envelope["source_topic"], self.topics["tool.requests"])
        dlq = lambda *words: subprocess.run(
            [BINARY, "dlq", *words, "--data", self.server.data], capture_output=True, text=True,
            env={"PATH": "/usr/bin:/bin"}, check=True,
        ).stdout
        self.assertIn("tool.requests", dlq("list"))
        first, second = (str(letter["id"]) for letter in letters)
        dlq("replay", "tool.requests", first)
        dlq("rm", "tool.requests", second)
        # What was replayed is as broken as before, and has a new id.
        support.until("it is back", lambda: [
            letter for letter in self.server.dead_letters("tool.requests")
            if letter["id"] > max(int(first), int(second))
        ])

    def test_many_requests_through_a_restart(self):
        """10 % malformed, 5 % repeated, 1 % of used ids with another body; the server is killed half-way."""
        chance = random.Random(7)
        distinct, malformed, repeated, reused = {}, [], [], []
        sessions = [str(uuid.uuid4()) for _ in range(20)]
        kinds = ["malformed"] * (REQUESTS // 10) + ["repeated"] * (REQUESTS // 20)
        kinds += ["reused"] * (REQUESTS // 100)
        kinds += ["new"] * (REQUESTS - len(kinds) - 1)
        chance.shuffle(kinds)
        # The first is new, so that there is one to repeat.
        for number, kind in enumerate(["new", *kinds]):
            if number == REQUESTS // 2:
                self.producer.flush()
                self.server.stop(by=9)
                self.server.start()
            if kind == "malformed":
                value = chance.choice([b"", b"\xff\xfe", b"[]", b'{"event_id": 1}', b"{"])
                malformed.append(value)
                self.send(value)
            elif kind == "repeated":
                repeated.append(chance.choice(list(distinct.values())))
                self.send(repeated[-1])
            elif kind == "reused":
                # By its key it comes after the request that has the id.
                sent = {**chance.choice(list(distinct.values())), "args": {"text": f"another {number}"}}
                reused.append(json.dumps(sent).encode())
                self.send(reused[-1], key=sent["session_id"].encode())
            else:
                sent = request(args={"text": str(number)}, session=chance.choice(sessions))
                distinct[sent["event_id"]] = sent
                self.send(sent, key=sent["session_id"].encode())
        self.producer.flush()
        self.results.until(
            "a result of each request",
            lambda records: distinct.keys() <= {body(r)["metadata"]["request_id"] for r in records},
        )
        wrong = Counter([*malformed, *reused])
        letters = support.until(
            "dead letters",
            lambda: (lambda f: f if len(f) >= wrong.total() else None)(
                self.server.dead_letters("tool.requests")
            ),
        )
        by_id = {}
        for record in self.results.records:
            event = from_binary_event(
                KafkaMessage(headers=dict(record.headers), key=record.key, value=record.value)
            )
            result = event.get_data()
            ids = by_id.setdefault(result["metadata"]["request_id"], set())
            ids.add(event.get_id())
            wanted = distinct[result["metadata"]["request_id"]]["args"]["text"]
            self.assertEqual((result["status"], result["payload"]["message"]), ("success", wanted))
        self.assertEqual(by_id.keys(), distinct.keys())
        self.assertEqual({len(ids) for ids in by_id.values()}, {1}, "one result for each request")
        found = Counter(base64.b64decode(letter["payload"]) for letter in letters)
        self.assertEqual(found.keys(), wrong.keys(), "the bytes of what was wrong, and nothing else")
        for value, count in wrong.items():
            self.assertGreaterEqual(found[value], count, value)
        self.assertTrue(all(letter["error"] for letter in letters), "each has its cause")
        print(f"\n{REQUESTS} messages: {len(distinct)} requests, {len(malformed)} malformed, {len(repeated)} "
              f"repeated, {len(reused)} reused ids; {len(self.results.records) - len(distinct)} repeated "
              f"records, {len(letters)} dead letters")

    def test_requests_outlive_a_killed_broker(self):
        """HTTP goes on while Kafka is away, and results come when it is back."""
        before = request()
        self.send(before)
        self.result(before["event_id"])
        broker.kill()
        ids = []
        for number in range(50):
            sent = {"session_id": "s", "tool_name": "echo", "args": {"text": str(number)}}
            status, text = self.server.ask("POST", "/v1/tool/request", sent)
            self.assertEqual(status, 200, text)
            ids.append(json.loads(text)["event_id"])
        broker.start()
        self.results.until(
            "results of all calls",
            lambda records: set(ids) <= {body(r)["metadata"]["request_id"] for r in records},
        )
        numbers = {}
        for record in self.results.records:
            result = body(record)
            if result["metadata"]["request_id"] in ids:
                numbers.setdefault(result["event_id"], int(result["payload"]["message"]))
        # One session, hence one partition; calls ran at the same time, so their ends are in any order.
        self.assertEqual(sorted(numbers.values()), list(range(50)))
        after = request()
        self.send(after)
        self.result(after["event_id"])


if __name__ == "__main__":
    unittest.main()
