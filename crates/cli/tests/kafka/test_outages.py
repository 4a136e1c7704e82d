"""The broker stops, servers come and go: nothing is lost, sessions stay in order, and a record that comes
twice has the same id."""

import json
import re
import subprocess
import threading
import time
import unittest
import uuid

import support
from support import BINARY, POSTGRES, Broker, Results, Server, body, producer, request

# Time without a broker.
OUTAGE_SECS = 20

broker = None


def setUpModule():
    global broker
    broker = Broker()


def tearDownModule():
    broker.close()


def topics():
    """Names of topics that no other test has, and the settings that choose them."""
    names = {name: f"{name}.{uuid.uuid4().hex[:8]}" for name in ("tool.requests", "tool.results")}
    return names, {
        "TOOL_REQUESTS_TOPIC": names["tool.requests"],
        "TOOL_RESULTS_TOPIC": names["tool.results"],
        "TOOL_EXECUTOR_GROUP": f"group.{uuid.uuid4().hex[:8]}",
        "RINGFENCE_KAFKA_PARTITIONS": "4",
        "RINGFENCE_KAFKA_CREATE_TOPICS": "true",
    }


def distinct(records):
    """The results, each event once, in the order of the topic; and how many records were repetitions."""
    found = {}
    for record in records:
        result = body(record)
        found.setdefault(result["event_id"], result)
    return list(found.values()), len(records) - len(found)


class Outages(unittest.TestCase):
    def test_http_load_while_kafka_is_stopped_for_20_seconds(self):
        names, variables = topics()
        server = Server(RINGFENCE_API_RATE_PER_SECOND="0", **variables)
        self.addCleanup(server.close)
        results = Results(names["tool.results"])
        self.addCleanup(results.close)
        over, calls, refused = threading.Event(), {}, []

        def load(session):
            # One after the other, so that the results of a session have an order.
            while not over.is_set():
                status, text = server.ask("POST", "/v1/calls", {
                    "tool": "echo", "session_id": session, "args": {"text": str(len(calls[session]))}})
                if status == 200:
                    calls[session].append(json.loads(text)["id"])
                else:
                    refused.append((status, text))
                over.wait(0.03)

        threads = []
        for session in ("s-1", "s-2", "s-3", "s-4"):
            calls[session] = []
            threads.append(threading.Thread(target=load, args=[session]))
            threads[-1].start()
        try:
            results.until("results before the outage", lambda records: len(records) >= 40)
            broker.kill()
            began, before = time.monotonic(), sum(map(len, calls.values()))
            support.until("readiness says so", lambda: "kafka" in server.ask("GET", "/readyz")[1]
                          and json.loads(server.ask("GET", "/readyz")[1])["status"] == "degraded")
            time.sleep(max(0, OUTAGE_SECS - (time.monotonic() - began)))
            meanwhile = sum(map(len, calls.values())) - before
            self.assertEqual(server.ask("GET", "/readyz")[0], 200)
            broker.start()
            support.until("readiness recovers", lambda: json.loads(
                server.ask("GET", "/readyz")[1])["status"] == "ready")
            after = sum(map(len, calls.values()))
            support.until("load after the outage", lambda: sum(map(len, calls.values())) > after + 20)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(refused, [], "calls over HTTP go on without Kafka")
        self.assertGreater(meanwhile, 50)
        made = {call for ids in calls.values() for call in ids}
        results.until("a result of every call", lambda records: made <= {
            body(record)["metadata"]["request_id"] for record in records})
        found, repeated = distinct(results.records)
        for session, ids in calls.items():
            of_session = [r["metadata"]["request_id"] for r in found if r["session_id"] == session]
            self.assertEqual(of_session, ids, "each once, in the order of the session")
        print(f"\n{len(made)} calls, {meanwhile} of them in {OUTAGE_SECS} s without Kafka; "
              f"{repeated} repeated records")

    def test_broker_killed_again_and_again_under_load(self):
        """Transactions of results are cut off wherever they are."""
        names, variables = topics()
        server = Server(**variables)
        self.addCleanup(server.close)
        results = Results(names["tool.results"])
        self.addCleanup(results.close)
        sending = producer()
        self.addCleanup(sending.close)
        sent = []
        for _ in range(3):
            for _ in range(200):
                one = request(args={"text": "x" * 2_000}, session=f"s-{len(sent) % 8}")
                sent.append(one["event_id"])
                sending.send(names["tool.requests"], json.dumps(one).encode(), key=one["session_id"].encode())
            sending.flush()
            wanted = len(sent) - 150
            results.until("some results", lambda records: len(distinct(records)[0]) >= wanted)
            broker.kill()
            broker.start()
        results.until("a result of every request", lambda records: set(sent) <= {
            body(record)["metadata"]["request_id"] for record in records})
        found, repeated = distinct(results.records)
        self.assertEqual(sorted(r["metadata"]["request_id"] for r in found), sorted(sent))
        print(f"\n{len(sent)} requests through three kills of the broker, {repeated} repeated records")


@unittest.skipUnless(POSTGRES, "no PostgreSQL")
class Rebalances(unittest.TestCase):
    def setUp(self):
        self.names, variables = topics()
        self.one = Server(store=POSTGRES, **variables)
        self.addCleanup(self.one.close)
        self.results = Results(self.names["tool.results"])
        self.addCleanup(self.results.close)
        self.producer = producer()
        self.addCleanup(self.producer.close)
        status, text = self.one.ask("POST", "/v1/keys", {
            "label": "reader", "scopes": ["read"], "tenant": "public"})
        self.assertEqual(status, 201, text)
        self.reader = json.loads(text)["secret"]
        self.sent = {}

    def send(self, *requests):
        for one in requests:
            self.sent.setdefault(one["session_id"], []).append(one["event_id"])
            key = one["session_id"].encode()
            self.producer.send(self.names["tool.requests"], json.dumps(one).encode(), key=key)
        self.producer.flush()

    def small(self, count):
        self.send(*(request(args={"text": "x"}, session=f"s-{n % 8}") for n in range(count)))

    def long(self):
        """A call that runs; the id of its request."""
        code = "import time\nprint('begun', flush=True)\ntime.sleep(6)\nprint('done')"
        one = request("code_execute", {"code": code, "language": "python"}, session="long")
        self.send(one)
        support.until("it runs", lambda: "running" in [
            call["state"] for call in self.calls(self.one, "long")])
        return one["event_id"]

    def calls(self, server, session):
        """Calls of a session, the oldest first."""
        status, text = server.ask("GET", f"/v1/calls?session_id={session}&limit=200", key=self.reader)
        self.assertEqual(status, 200, text)
        return json.loads(text)["calls"][::-1]

    def accepted(self, server):
        text = server.ask("GET", "/metrics")[1]
        found = re.search(r'^intake_messages_total\{result="accepted"\} (\d+)', text, re.M)
        return int(found.group(1)) if found else 0

    def test_partitions_change_hands_while_calls_run(self):
        self.small(40)
        first = self.long()
        two = self.one.beside()
        self.addCleanup(two.close)
        # Partitions move to the new server while the call runs on the old one.
        support.until("the second server takes requests", lambda: (
            self.small(8), self.accepted(two) > 0)[1])
        self.assertEqual(self.calls(two, "long")[0]["state"], "running")
        self.small(40)
        second = request("code_execute", {"code": "import time; time.sleep(3); print('done')",
                                          "language": "python"}, session="long")
        self.send(second)
        before = self.accepted(two)
        # And back, while calls run; a server that is asked to stop finishes its own.
        self.assertEqual(self.one.stop(), 0)
        support.until("the second server has all partitions", lambda: (
            self.small(8), self.accepted(two) > before + 40)[1])
        everything = {event for ids in self.sent.values() for event in ids}
        self.results.until("a result of every request", lambda records: everything <= {
            body(record)["metadata"]["request_id"] for record in records})
        found, repeated = distinct(self.results.records)
        self.assertEqual(sorted(r["metadata"]["request_id"] for r in found), sorted(everything),
                         "one result of each request; a repeated record has the id of the first")
        status = {r["metadata"]["request_id"]: r["status"] for r in found}
        self.assertEqual((status[first], status[second["event_id"]]), ("success", "success"))
        for session, ids in self.sent.items():
            accepted = [call["metadata"].get("request_id", call["id"]) for call in self.calls(two, session)]
            self.assertEqual(accepted, ids, f"calls of {session} in the order of their requests")
        print(f"\n{len(everything)} requests through two rebalances, {repeated} repeated records")


class Doctor(unittest.TestCase):
    def test_doctor_sees_the_broker_and_creates_topics(self):
        names, variables = topics()
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}

        def doctor(*words):
            found = subprocess.run([BINARY, "doctor", "--json", *words], env=environment,
                                   capture_output=True, text=True).stdout
            return {one["name"]: one for one in json.loads(found)["host"]["findings"]}

        bus = ["--bus", f"kafka://{support.BROKER}"]
        before = doctor(*bus)
        self.assertEqual(before["kafka-broker"]["status"], "ok")
        self.assertIn(f"{names['tool.requests']} does not exist", before["kafka-topics"]["detail"])
        created = doctor(*bus, "--create-topics")
        self.assertIn(f"{names['tool.requests']} was created with 4 partitions",
                      created["kafka-topics"]["detail"])
        self.assertEqual(doctor(*bus)["kafka-topics"]["status"], "ok")
        away = doctor("--bus", "kafka://127.0.0.1:1")
        self.assertEqual(away["kafka-broker"]["status"], "missing")


if __name__ == "__main__":
    unittest.main()
