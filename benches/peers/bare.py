"""One call in a process of its own: a text on standard input, the result on standard output.

The result is written as a Python literal and not as JSON because the smallest Debian package of
Python, which the container has, lacks a JSON module; it is also the quicker of the two.
"""

import sys

from handler import statistics

sys.stdout.write(repr(statistics(sys.stdin.read())))
