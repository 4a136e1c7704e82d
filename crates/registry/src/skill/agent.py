"""Runs one script of an Agent Skill, as its SKILL.md describes it to a model."""

import os
import subprocess
import sys

PROGRAMS = {".py": "python3", ".sh": "bash", ".js": "node", ".mjs": "node", ".cjs": "node"}
MAX_CHARACTERS = 200_000


def run(script, arguments=(), stdin=""):
    program = PROGRAMS[os.path.splitext(script)[1]]
    done = subprocess.run(
        [program, script, *arguments], input=stdin.encode(), capture_output=True, check=False
    )
    # Also kept as the output of the call, whole.
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    stdout, stderr = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return {
        "exit_code": done.returncode,
        "stdout": stdout[:MAX_CHARACTERS],
        "stderr": stderr[:MAX_CHARACTERS],
        "truncated": max(len(stdout), len(stderr)) > MAX_CHARACTERS,
    }
