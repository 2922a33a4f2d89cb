"""``/debug/pprof/``: where this process spends its time, as profile viewers read it (spec: opt.profiling)."""

from __future__ import annotations

import asyncio
import gzip
import html
import sys
import threading
import time
import traceback
from collections import Counter
from types import FrameType
from typing import TYPE_CHECKING

from apiserver_stub.reply import Reply
from apiserver_stub.status import bad_request
from nodeagent.base import logging
from nodeagent.base.apiproto.framing import field

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request

ROOT = "/debug/pprof/"
VERBOSITY = "/debug/flags/v"
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_PROFILES = {
    "block": "What held up the event loop since the start; empty without --contention-profiling.",
    "cmdline": "The command line of the program.",
    "goroutine": "Stacks of all threads and tasks.",
    "profile": "Profile of the processor's time; ?seconds=N, default 30.",
}
_INTERVAL_SECONDS = 0.01
_SAMPLES = (("samples", "count"), ("cpu", "nanoseconds"))
_DEFAULT_SECONDS = 30
_MOST_SECONDS = 300

Stack = tuple[tuple[str, str, int], ...]
"""Function, file and line of each frame, innermost first."""


async def answer(server: ApiServer, request: Request) -> Reply | None:
    """Answer a path of the profiler, ``None`` for any other."""
    path = request.info.path
    if path == VERBOSITY:
        return _set_verbosity(request)
    if not (path + "/").startswith(ROOT):
        return None
    match path.removeprefix(ROOT.rstrip("/")).strip("/"):
        case "":
            items = "".join(
                f'<li><a href="{name}">{name}</a>: {html.escape(text)}</li>' for name, text in _PROFILES.items()
            )
            page = f"<html><head><title>{ROOT}</title></head><body><ul>{items}</ul></body></html>"
            return Reply(200, body=page.encode(), content_type="text/html; charset=utf-8", headers=_HEADERS)
        case "block":
            now = time.time_ns()
            body = server.contention.profile() if server.contention is not None else encode(Counter(), now, 0)
            return Reply(200, body=body, content_type="application/octet-stream", headers=_HEADERS)
        case "cmdline":
            return Reply(200, body="\0".join(sys.orig_argv).encode(), content_type=_TEXT, headers=_HEADERS)
        case "goroutine":
            return Reply(200, body=_stacks().encode(), content_type=_TEXT, headers=_HEADERS)
        case "profile":
            seconds = request.query.integer("seconds")
            seconds = _DEFAULT_SECONDS if seconds is None else seconds
            if not 0 < seconds <= min(_MOST_SECONDS, server.options.request_timeout_seconds):
                raise bad_request("profile duration exceeds server's WriteTimeout")
            body = await asyncio.to_thread(record, seconds)
            headers = {**_HEADERS, "Content-Disposition": 'attachment; filename="profile"'}
            return Reply(200, body=body, content_type="application/octet-stream", headers=headers)
        case _:
            return None


def _set_verbosity(request: Request) -> Reply:
    """Answer ``PUT /debug/flags/v``: show more or fewer messages from now on."""
    if request.method != "PUT":
        return Reply(406, body=b"unsupported http method", content_type=_TEXT, headers=_HEADERS)
    logs = logging.active()
    text = request.body.decode("ascii", "replace").strip()
    try:
        if logs is not None:
            logs.set_verbosity(int(text))
    except (ValueError, logging.LoggingError) as error:
        return Reply(400, body=f'"{text}": {error}'.encode(), content_type=_TEXT, headers=_HEADERS)
    return Reply(200, body=f"successfully set klog.logging.verbosity to {text}".encode(), content_type=_TEXT)


def record(seconds: float) -> bytes:
    """Watch all other threads for *seconds* and return the profile; waiting threads do not count."""
    own, end = threading.get_ident(), time.monotonic() + seconds
    started, found = time.time_ns(), Counter[Stack]()
    while time.monotonic() < end:
        for thread, frame in sys._current_frames().items():
            if thread != own and not _waits(frame):
                found[stack_of(frame)] += 1
        time.sleep(_INTERVAL_SECONDS)
    return encode(found, started, int(seconds * 1e9))


def encode(
    found: Counter[Stack],
    started_ns: int,
    length_ns: int,
    interval_seconds: float = _INTERVAL_SECONDS,
    kinds: tuple[tuple[str, str], tuple[str, str]] = _SAMPLES,
) -> bytes:
    """Return *found* as a compressed profile: samples with their count and time, named by *kinds*."""
    texts: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str], int] = {}
    locations: dict[tuple[str, str, int], int] = {}
    body = []

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    period = int(interval_seconds * 1e9)
    for kind, unit in kinds:
        body.append(field(1, _number(1, text(kind)) + _number(2, text(unit))))
    for stack, count in found.items():
        ids = b"".join(_number(1, locations.setdefault(place, len(locations) + 1)) for place in stack)
        body.append(field(2, ids + _number(2, count) + _number(2, count * period)))
    for (function, file, line), id_ in locations.items():
        function_id = functions.setdefault((function, file), len(functions) + 1)
        body.append(field(4, _number(1, id_) + field(4, _number(1, function_id) + _number(2, line))))
    for (function, file), id_ in functions.items():
        named = _number(2, text(function)) + _number(3, text(function)) + _number(4, text(file))
        body.append(field(5, _number(1, id_) + named))
    period_type = field(11, _number(1, text(kinds[1][0])) + _number(2, text(kinds[1][1])))
    body += [field(6, value.encode()) for value in texts]
    body += [_number(9, started_ns), _number(10, length_ns), period_type, _number(12, period)]
    return gzip.compress(b"".join(body))


def _number(number: int, value: int) -> bytes:
    out = bytearray((number << 3,))
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def stack_of(frame: FrameType | None) -> Stack:
    places = []
    while frame is not None:
        places.append((frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


def _waits(frame: FrameType) -> bool:
    """Return whether the thread sits in one of the calls in which idle threads wait."""
    name, file = frame.f_code.co_name, frame.f_code.co_filename
    return (name, file.rpartition("/")[2]) in {
        ("_worker", "thread.py"),
        ("wait", "threading.py"),
        ("select", "selectors.py"),
        ("run", "__init__.py"),
        ("run", "runners.py"),
    }


def _stacks() -> str:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in asyncio.all_tasks():
        frames = "".join(line for frame in task.get_stack() for line in traceback.format_stack(frame, limit=1))
        parts.append(f"task {task.get_name()}:\n{frames}")
    return "\n".join(parts)
