"""Runs pip with the arguments given. Debian has it as a wheel where only `venv` needs it."""

import glob
import importlib.util
import runpy
import sys

if importlib.util.find_spec("pip") is None:
    wheels = sorted(glob.glob("/usr/share/python-wheels/pip-*.whl"))
    if not wheels:
        sys.exit("this host has no pip: install python3-pip")
    sys.path.insert(0, wheels[-1])
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__")
