"""A skill's module, executed once here, so that each call is forked with it loaded.

Only code that is trusted like an import comes this way. A call must not be able to tell:
whatever a fork would lose or repeat (words printed, files held open) is a reason to refuse,
and each call then loads the module itself.
"""

import json
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location

import _ringfence_report as report
import _ringfence_skill as skill
import _ringfence_stage as stage


class Refused(Exception):
    """The module cannot be loaded for its calls; says why."""


def load(descriptor):
    """Loads the module described on `descriptor`, if there is one. Returns why it cannot be."""
    described = _read_all(descriptor)
    if not described:
        return None
    try:
        _execute_quietly(json.loads(described))
    except Refused as refused:
        return str(refused)
    except BaseException as error:
        return "%s: %s" % (report.type_name(error), report.message_of(error))
    return None


def _read_all(descriptor):
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _execute_quietly(described):
    """Executes the module with its words caught, since no call would see them."""
    before = _open_files()
    heard = os.memfd_create("words")
    kept = [os.dup(1), os.dup(2)]
    os.dup2(heard, 1)
    os.dup2(heard, 2)
    try:
        skill.loaded = _execute(
            described["filename"], described["code"], described["files"], described.get("paths", ())
        )
        sys.stdout.flush()
        sys.stderr.flush()
        said = os.fstat(heard).st_size
    finally:
        for descriptor, original in zip((1, 2), kept):
            os.dup2(original, descriptor)
        for descriptor in (heard, *kept):
            os.close(descriptor)
    if said:
        raise Refused("it prints while it is loaded")
    if _open_files() != before:
        raise Refused("it keeps files open")


def _execute(path, code, files, paths):
    place = sys.meta_path.index(PathFinder)
    sys.meta_path.insert(place, Beside(os.path.dirname(path), files))
    sys.path.extend(paths)
    module = stage.fresh_module(skill.module_name(path), path, code)
    exec(compile(code, path, "exec", dont_inherit=True), module.__dict__)
    return module


def _open_files():
    listed = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            listed.add((name, os.readlink("/proc/self/fd/" + name)))
        except FileNotFoundError:
            pass  # The listing itself.
    return listed


class Beside:
    """Finds the modules beside the skill's, which are in no directory yet."""

    def __init__(self, directory, files):
        self._directory, self._files = directory, files

    def find_spec(self, name, path=None, target=None):
        """The module's spec, with the path that it has in a call's workspace."""
        stem = name.replace(".", "/")
        for file, parts in ((stem + "/__init__.py", [stem]), (stem + ".py", None)):
            if file in self._files:
                place = os.path.join(self._directory, file)
                found = parts and [os.path.join(self._directory, part) for part in parts]
                loader = FromMemory(name, place, self._files[file].encode())
                return spec_from_file_location(name, place, loader=loader, submodule_search_locations=found)
        return None


class FromMemory(SourceFileLoader):
    """A loader whose file's text is at hand."""

    def __init__(self, name, path, text):
        super().__init__(name, path)
        self._text = text

    def get_data(self, path):
        """The text of the module; nothing else is known here."""
        if path != self.path:
            raise FileNotFoundError(path)
        return self._text

    def path_stats(self, path):
        """No times: nothing compiled is kept."""
        raise FileNotFoundError(path)
