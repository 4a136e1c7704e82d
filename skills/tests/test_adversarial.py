"""No input makes a skill slow."""

import json
import subprocess
import sys
import unittest

from support import TESTS

# The slowest takes about a second on a slow machine. A quadratic pattern needs minutes.
SECONDS_PER_INPUT = 6
DEADLINE_SECONDS = 300


class Adversarial(unittest.TestCase):
    def test_the_longest_inputs_stay_linear(self):
        command = [sys.executable, str(TESTS / "adversarial.py")]
        done = subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        slow = {name: spent for name, spent in json.loads(done.stdout).items() if spent > SECONDS_PER_INPUT}
        self.assertEqual(slow, {})


if __name__ == "__main__":
    unittest.main()
