"""Results on real texts, byte for byte, in fresh processes with different hash seeds."""

import os
import subprocess
import sys
import unittest

import cases
from support import TESTS

HASH_SEEDS = ("0", "1", "42", "4294967295", "random")


def printed_with(seed: str) -> str:
    """All results as a new interpreter prints them."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, str(TESTS / "cases.py")]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout.decode()


def printed_from_files() -> str:
    """The golden files as `cases.py` would print them."""
    names = list(cases.all_cases())
    return "".join(f"== {name}\n" + (cases.GOLDEN / f"{name}.json").read_text(encoding="utf-8") for name in names)


class Golden(unittest.TestCase):
    maxDiff = None

    def test_every_process_gives_the_golden_bytes(self):
        expected = printed_from_files()
        for seed in HASH_SEEDS:
            with self.subTest(seed=seed):
                self.assertEqual(printed_with(seed), expected)

    def test_every_golden_file_has_its_case(self):
        files = sorted(path.stem for path in cases.GOLDEN.iterdir())
        self.assertEqual(files, sorted(cases.all_cases()))

    def test_the_seeds_do_change_the_order_of_sets(self):
        """The control: with these seeds a skill that iterated a set would have been caught."""
        program = "print(list({'claim_text', 'verdict', 'confidence', 'tags', 'source'}))"
        orders = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
            ).stdout
            for seed in HASH_SEEDS
        }
        self.assertGreater(len(orders), 1)


if __name__ == "__main__":
    unittest.main()
