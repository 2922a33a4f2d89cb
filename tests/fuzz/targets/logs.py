"""Log files of containers, and queries for them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from multidict import MultiDict

from nodeagent.base.aio import SystemClock
from nodeagent_plugins.embedded_runtime.helpers.cri_log import CriLog
from nodeagent_plugins.routes_logs.follow import read_file
from nodeagent_plugins.routes_logs.lines import LineReader, parse_time
from nodeagent_plugins.routes_logs.options import read_options
from nodeagent_plugins.routes_logs.query import InvalidQuery, Unparsable, journal_arguments, read_query
from nodeagent_plugins.routes_logs.watch import Watches
from tests.fuzz.connections import drive
from tests.fuzz.files import written
from tests.fuzz.target import target

NOW = datetime(2024, 1, 1, tzinfo=UTC)
LINES = (
    b"2024-01-01T00:00:00.000000000Z stdout F ",
    b"2024-01-01T00:00:00+01:00 stderr P ",
    b"\n",
    b'{"log":"a\\n","stream":"stdout","time":"',
    b" F:x ",
    b"0001-01-01T00:00:00+23:59",
    b"9999-12-31T23:59:59-23:59",
    b"\\ud800",
)


@target(tokens=LINES)
def cri_log(data: bytes) -> None:
    """The output does not depend on the pieces in which a log is read."""
    for options in ({}, {"timestamps": True}, {"stream": b"stderr"}, {"since": NOW}):
        complete = LineReader(**options).feed(data)
        reader, middle = LineReader(**options), len(data) // 2
        assert reader.feed(data[:middle]) + reader.feed(data[middle:]) == complete
        reader = LineReader(**options)
        assert b"".join(reader.feed(data[at : at + 7]) for at in range(0, len(data), 7)) == complete
    for word in data.split():
        parse_time(word)


@target()
def cri_log_writer(data: bytes) -> None:
    """The output that a runtime writes is the output that the agent reads."""
    path = written("log", b"")
    log = CriLog(str(path))
    for piece in data.split(b"\x00"):
        if piece:
            log.write("stdout", piece)
    log.write("stdout", b"")
    log.close()
    output = data.replace(b"\x00", b"")
    expected = output + (b"\n" if output and not output.endswith(b"\n") else b"")
    assert LineReader().feed(path.read_bytes()) == expected


@target(tokens=(b"\n\n\n", b"\r\n"))
def log_tail(data: bytes) -> None:
    """The tail of a file are its last lines, whatever they contain."""
    path = written("tail", data)

    async def tail(count: int | None) -> bytes:
        pieces = read_file(
            lambda: os.open(path, os.O_RDONLY), str(path.parent), Watches(), SystemClock(), tail_lines=count
        )
        return b"".join([piece async for piece in pieces])

    assert drive(tail(None)) == data
    for count in (0, 1, 3):
        found = drive(tail(count))
        assert data.endswith(found)
        assert found.count(b"\n") <= count
        assert b"".join(_lines(data)[-count:] if count else []) == found


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + [data.rpartition(b"\n")[2]] * (not data.endswith(b"\n"))


@target(
    ValueError,
    tokens=(
        b"sinceTime=",
        b"tailLines=",
        b"&",
        b"sinceSeconds=",
        b"limitBytes=",
        b"stream=Stdout",
        b"0001-01-01T00:00:00%2B23:59",
    ),
)
def log_options(data: bytes) -> None:
    """Options are in their range."""
    options = read_options(MultiDict(parse_qsl(data.decode("utf-8", "surrogateescape"))), NOW)
    assert options.tail_lines is None or options.tail_lines >= 0
    assert options.limit_bytes is None or options.limit_bytes > 0


@target(
    Unparsable,
    InvalidQuery,
    tokens=(
        b"query=",
        b"pattern=",
        b"&boot=",
        b"&untilTime=2024-01-01T00:00:00Z",
        b"a{4294967296}",
        b"(?P<a>",
        b"tailLines=",
    ),
)
def log_query(data: bytes) -> None:
    """No value becomes another argument of journalctl."""
    query = read_query(MultiDict(parse_qsl(data.decode("utf-8", "surrogateescape"))))
    if query is not None and not query.file:
        arguments = journal_arguments(query, query.services)
        assert all(argument.startswith("--") and "\0" not in argument for argument in arguments)
