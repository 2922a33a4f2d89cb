"""Conversion of the runtime's log lines to container output. No I/O.

A line is ``<RFC 3339 time> <stdout|stderr> <tag> <content>``; the tag starts with ``F`` for a complete line and
``P`` for a part of a line. The older format, one JSON object per line, is supported too.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

MAX_LINE_BYTES = 1024 * 1024
_TIME = rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)"
_FULL_STARTS = re.compile(rb"\n[^ {][^ ]* std(?:out|err) F ")
_FULL_WITH_TIME = re.compile(
    rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(?:Z|[+-]\d\d:\d\d)) std(?:out|err) F(?::[^ \n]*)? (.*)\n",
    re.MULTILINE,
)
_ONE_TIME = re.compile(_TIME)


class _JsonLine(msgspec.Struct):
    log: str = ""
    stream: str = ""
    time: str = ""


_json = msgspec.json.Decoder(_JsonLine)


class LineReader:
    """Converts the runtime's file, in chunks, to the container's output.

    Chunks that contain only complete lines are converted in one step, because logs are large and most lines complete.

    :param since: omit older output; entries are in chronological order, so the check ends with the first match.
    :param stream: ``stdout`` or ``stderr``; empty for both.
    """

    def __init__(self, *, timestamps: bool = False, since: datetime | None = None, stream: bytes = b"") -> None:
        self._timestamps, self._since, self._stream = timestamps, since, stream
        self._rest = b""
        self._at_line_start = True

    def feed(self, piece: bytes) -> bytes:
        """Return the output that *piece* completes."""
        data = self._rest + piece if self._rest else piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) > MAX_LINE_BYTES:
            data, end = data + b"\n", len(data) + 1
        self._rest = data[end:]
        complete = data[:end]
        if not complete:
            return b""
        if self._since is None and not self._stream and self._at_line_start:
            # One call for all lines, valid only if all are complete.
            lines = complete.count(b"\n")
            if self._timestamps:
                found = _FULL_WITH_TIME.findall(complete)
                if len(found) == lines:
                    return b"".join([b"%b %b\n" % pair for pair in found])
            else:
                text, matched = _FULL_STARTS.subn(b"\n", b"\n" + complete)
                if matched == lines:
                    return text[1:]
        return b"".join(self._one(line) for line in complete.split(b"\n")[:-1])

    def _one(self, line: bytes) -> bytes:
        parts = line.split(b" ", 3) if not line.startswith(b"{") else _from_json(line)
        if len(parts) < 4:
            return b""  # Not a log line, for example truncated by a full disk.
        time, stream, tag, content = parts
        if self._stream and stream != self._stream:
            return b""
        if self._since is not None:
            written = parse_time(time)
            if written is None or written < self._since:
                return b""
            self._since = None
        prefix = _nine_digits(time) + b" " if self._timestamps and self._at_line_start else b""
        self._at_line_start = not tag.startswith(b"P")
        return prefix + content + (b"\n" if self._at_line_start else b"")


def parse_time(text: bytes) -> datetime | None:
    """Return the time of a line, truncated to microseconds; ``None`` if it is invalid."""
    found = _ONE_TIME.fullmatch(text)
    if found is None:
        return None
    base, fraction, zone = found.groups()
    micros = (fraction or b"")[:6].ljust(6, b"0")
    zone = b"+00:00" if zone == b"Z" else zone
    try:
        return datetime.fromisoformat((base + b"." + micros + zone).decode()).astimezone(UTC)
    except (ValueError, OverflowError):  # The latter: in UTC it is not in the calendar.
        return None


def _nine_digits(time: bytes) -> bytes:
    found = _ONE_TIME.fullmatch(time)
    if found is None:
        return time
    base, fraction, zone = found.groups()
    return bytes(base + b"." + (fraction or b"").ljust(9, b"0") + zone)


def _from_json(line: bytes) -> list[bytes]:
    try:
        read = _json.decode(line)
    except (ValueError, RecursionError):
        return []
    tag = b"F" if read.log.endswith("\n") else b"P"
    return [read.time.encode(), read.stream.encode(), tag, read.log.removesuffix("\n").encode()]
