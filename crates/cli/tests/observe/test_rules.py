"""Alert rules, checked and run by Prometheus' own promtool."""

import pathlib
import subprocess
import tempfile
import unittest

RULES = pathlib.Path(__file__).parents[4] / "deploy" / "prometheus" / "ringfence-bus.yml"

# Series that raise each alert after so many minutes.
RAISED = [
    ("RingfenceResultsNotPublished", 'durable_publish_total{result="failed"}', "0+60x20", 10),
    ("RingfenceDeadLetters", 'intake_messages_total{result="dead"}', "0+1x20", 10),
    ("RingfenceRequestsPostponed", 'intake_messages_total{result="postponed"}', "0+60x30", 20),
    ("RingfenceHeldCalls", "requeue_pending", "1x120", 90),
    ("RingfenceOutboxOld", "outbox_age_seconds", "90x20", 5),
    ("RingfenceConsumerLag", 'kafka_consumer_lag{group="tool-executor"}', "2000x30", 20),
    ("RingfenceDependencyDown", 'dependency_up{name="kafka"}', "0x20", 5),
]

# The same series on a server that is well.
QUIET = [
    ('durable_publish_total{result="failed"}', "3x120"),
    ('intake_messages_total{result="dead"}', "2x120"),
    ('intake_messages_total{result="postponed"}', "9x120"),
    ("requeue_pending", "0x120"),
    ("outbox_age_seconds", "2x120"),
    ('kafka_consumer_lag{group="tool-executor"}', "16x120"),
    ('dependency_up{name="kafka"}', "1x120"),
]


def promtool(*words):
    return subprocess.run(["promtool", *words], capture_output=True, text=True)


def evaluated(series, at, names):
    """One test: which of these alerts the series raise at a time."""
    text = "  - interval: 1m\n    input_series:\n"
    for name, values in series:
        text += f"      - series: '{name}'\n        values: '{values}'\n"
    text += "    promql_expr_test:\n"
    for name, is_raised in names:
        text += f"      - expr: count(ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}})\n        eval_time: {at}m\n"
        text += "        exp_samples: [{value: 1}]\n" if is_raised else "        exp_samples: []\n"
    return text


class Rules(unittest.TestCase):
    def test_promtool_accepts_the_rules(self):
        checked = promtool("check", "rules", str(RULES))
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn(f"{len(RAISED)} rules found", checked.stdout)

    def test_each_alert_is_raised_by_its_cause_and_none_by_a_server_that_is_well(self):
        text = f"rule_files: ['{RULES}']\nevaluation_interval: 1m\ntests:\n"
        for name, series, values, at in RAISED:
            text += evaluated([(series, values)], at, [(name, True)])
        text += evaluated(QUIET, 100, [(name, False) for name, *_ in RAISED])
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(text)
            file.flush()
            ran = promtool("test", "rules", file.name)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)


if __name__ == "__main__":
    unittest.main()
