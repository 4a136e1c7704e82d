"""Tools of the server, called from inside a sandbox.

    import ringfence
    page = ringfence.tools.call("http_fetch", {"url": "https://example.com/"})

Each use is a call of its own: policy decides about it, it is recorded, and it is cancelled when the call
that this program runs for is cancelled or ends. Connections are one per thread.
"""

import base64
import json
import os
import socket
import sys
import threading
import time

__all__ = [
    "BadRequest", "Busy", "Cancelled", "Denied", "Ended", "Error", "Failed", "Held", "InvalidArguments",
    "NotActive", "NotFound", "NotGranted", "OutcomeUnknown", "Unavailable", "llm", "log", "memory", "progress",
    "state", "storage", "tools", "visual",
]

SOCKET = "/box/ringfence.sock"
MAX_REQUEST = 4 << 20
_CONNECT_SECONDS = 10


class Error(Exception):
    """A use of the SDK that gave no result.

    `code` is stable; `call_id` names the call if there is one; `details` has what else is known.
    """

    def __init__(self, message, code="error", call_id=None, details=None, retry_after=None):
        super().__init__(message)
        self.code, self.call_id, self.details, self.retry_after = code, call_id, details, retry_after


class Unavailable(Error):
    """There is no SDK here (no tools were granted), or the server cannot answer."""


class Ended(Error):
    """The call that this program runs for has ended."""


class BadRequest(Error):
    """The server did not understand the request."""


class NotGranted(Error):
    """The tool is not among those that this program may call."""


class NotFound(Error):
    """There is no tool of this name and version."""


class NotActive(Error):
    """The tool exists and cannot be called now."""


class InvalidArguments(Error):
    """The arguments do not fit the tool; `details["violations"]` names each place."""


class Denied(Error):
    """Policy does not allow the call, or no person allowed it in time."""


class Held(Error):
    """The call waits for a person; it runs by itself once it is approved. `call_id` names it."""


class Failed(Error):
    """The tool ran and failed; `code` says how."""


class Cancelled(Error):
    """The call was cancelled."""


class Busy(Error):
    """Too much is going on; try again after `retry_after` seconds."""


class OutcomeUnknown(Error):
    """The server stopped while the call ran: its effect may have happened or not."""


_KINDS = {
    "bad_request": BadRequest, "busy": Busy, "cancelled": Cancelled, "denied": Denied, "ended": Ended,
    "failed": Failed, "held": Held, "invalid_arguments": InvalidArguments, "not_active": NotActive,
    "not_found": NotFound, "not_granted": NotGranted, "outcome_unknown": OutcomeUnknown,
    "unavailable": Unavailable,
}

_own = threading.local()


def _connection():
    """The connection of this thread; a forked process makes its own."""
    found = getattr(_own, "connection", None)
    if found is not None and _own.process == os.getpid():
        return found
    until = time.monotonic() + _CONNECT_SECONDS
    while True:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.connect(SOCKET)
            break
        except OSError as error:
            made.close()
            # The queue of the socket is full while more connections are made than are taken.
            if not isinstance(error, BlockingIOError) or time.monotonic() > until:
                raise Unavailable("this program was not granted any tools: %s" % error, "unavailable") from None
            time.sleep(0.01)
    _own.connection, _own.process = made, os.getpid()
    return made


def _drop():
    found, _own.connection = getattr(_own, "connection", None), None
    if found is not None:
        found.close()


def _exchange(request):
    """Sends a request and returns the server's answer. It is never sent twice."""
    request["for"] = os.environ.get("RINGFENCE_CALL_ID") or None
    try:
        body = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArguments("the arguments are not JSON: %s" % error, "invalid_arguments") from None
    if len(body) > MAX_REQUEST:
        raise InvalidArguments("a request has at most %d bytes; use a file" % MAX_REQUEST, "invalid_arguments")
    connection = _connection()
    try:
        connection.sendall(len(body).to_bytes(4, "little") + body)
        answer = _read(connection, int.from_bytes(_read(connection, 4), "little"))
    except OSError as error:
        _drop()
        raise Unavailable("the server closed the connection: %s" % error, "unavailable") from None
    except BaseException:
        _drop()  # Interrupted half-way: what comes next would be the answer to this.
        raise
    return json.loads(answer)


def _read(connection, size):
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("end of the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _ask(request):
    answer = _exchange(request)
    error = answer.get("error")
    if error is None:
        return answer.get("result")
    after = error.get("retry_after_ms")
    raise _KINDS.get(error.get("kind"), Error)(
        error.get("message"), error.get("code"), answer.get("call_id"), error.get("details"),
        None if after is None else after / 1000,
    )


def _given(**arguments):
    return {name: value for name, value in arguments.items() if value is not None}


class _Tools:
    """Tools of the server."""

    @staticmethod
    def call(name, arguments=None, *, version=None, hold="raise", **more):
        """Calls a tool and returns its result.

        Arguments are a dictionary, or keywords. `hold="wait"` waits for a person where policy wants one;
        otherwise `Held` is raised.
        """
        args = dict(arguments or {}, **more)
        return _ask(_given(op="call", tool=name, version=version, args=args, hold=hold))

    @staticmethod
    def search(query, limit=None):
        """Tools by words, best match first, with their schemas."""
        return _Tools.call("tool_search", _given(query=query, limit=limit))["tools"]


class _Storage:
    """Artifacts: files with versions and a record of where they come from."""

    @staticmethod
    def save(title, content, *, hold="raise", **about):
        """Stores text or bytes as a new artifact; returns its id, version and digest."""
        args = dict(_content(content), operation="create", title=title, **about)
        return _Tools.call("artifact_write", args, hold=hold)

    @staticmethod
    def update(artifact, content, changes="", *, hold="raise", **about):
        """Adds a version to an artifact."""
        args = dict(_content(content), operation="update", artifact=artifact, changes=changes, **about)
        return _Tools.call("artifact_write", args, hold=hold)

    @staticmethod
    def get(artifact, version=None):
        """A version of an artifact; `content` is text, or bytes if it is not UTF-8."""
        found = _Tools.call("artifact_read", _given(artifact=artifact, version=version))
        if "base64" in found:
            found["content"] = base64.b64decode(found.pop("base64"))
        return found

    @staticmethod
    def search(**by):
        """Artifacts of the tenant by `kind`, `title`, `tag` and so on, newest first."""
        return _Tools.call("artifact_search", by)["artifacts"]


def _content(content):
    if isinstance(content, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(content)).decode()}
    return {"content": content if isinstance(content, str) else json.dumps(content)}


class _Llm:
    """Models that the server is configured with."""

    @staticmethod
    def generate(prompt, *, hold="raise", **options):
        """An answer to a prompt; options are those of the tool `llm_generate`."""
        return _Tools.call("llm_generate", dict(options, prompt=prompt), hold=hold)

    @staticmethod
    def generate_code(prompt, language="python", *, hold="raise", **options):
        """Source text in a language."""
        wanted = "Answer with %s source code only, without explanations.\n\n%s" % (language, prompt)
        return _Llm.generate(wanted, hold=hold, **options)


class _State:
    """Values that outlive the call, through the tools `state_get` and `state_set`."""

    @staticmethod
    def get(key):
        """The value of a key."""
        return _Tools.call("state_get", {"key": key}).get("value")

    @staticmethod
    def set(key, value):
        """Sets the value of a key."""
        return _Tools.call("state_set", {"key": key, "value": value})


class _Memory:
    """Memories, through the tools `memory_write` and `memory_recall`."""

    @staticmethod
    def write(text, **about):
        """Remembers a text."""
        return _Tools.call("memory_write", dict(about, text=text))

    @staticmethod
    def recall(query, **about):
        """Memories that fit a text."""
        return _Tools.call("memory_recall", dict(about, query=query))


class _Visual:
    """Pictures."""

    @staticmethod
    def render_diagram(source, language="graphviz"):
        """A diagram as SVG, from Graphviz source."""
        return _Tools.call("diagram_render", {"source": source, "language": language})["svg"]


tools, storage, llm, state, memory, visual = _Tools, _Storage, _Llm, _State, _Memory, _Visual


def progress(done, total=None, message=None):
    """Says how far the program is: readers of the call see the latest report."""
    _ask(_given(op="progress", done=done, total=total, message=message))


def log(message, level="info", **fields):
    """Writes one line to standard error, which readers of the call see at once."""
    extra = "".join(" %s=%s" % (name, json.dumps(value, default=str)) for name, value in fields.items())
    print("%s %s%s" % (level.upper(), message, extra), file=sys.stderr, flush=True)
