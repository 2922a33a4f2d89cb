"""Query parameters of container log requests. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from multidict import MultiMapping

from nodeagent.base.gointeger import parse_int64
from nodeagent_plugins.routes_logs.values import parse_time

T = TypeVar("T")

_TRUE = frozenset({"1", "true", "True", "TRUE", "t", "T"})
_FALSE = frozenset({"", "0", "false", "False", "FALSE", "f", "F"})
_STREAMS = {"All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


class UndecodableQuery(ValueError):
    """A value has the wrong type."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Selection of a log's content."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    stream: bytes = b""
    """``stdout`` or ``stderr``; empty for both."""


def read_options(query: MultiMapping[str], now: datetime) -> LogOptions:
    """Return the options in the query.

    :raises UndecodableQuery: a value has the wrong type.
    :raises ValueError: a value is invalid.
    """
    since_seconds = _read(query, "sinceSeconds", parse_int64)
    since = _read(query, "sinceTime", parse_time)
    tail = _read(query, "tailLines", parse_int64)
    if tail is None and query.get("tail", "all") != "all":
        tail = _read(query, "tail", parse_int64)
    limit = _read(query, "limitBytes", parse_int64)
    stream = query.get("stream", "All")
    if since_seconds is not None:
        if since is not None:
            raise ValueError("at most one of sinceTime and sinceSeconds may be given")
        if since_seconds < 1:
            raise ValueError("sinceSeconds must be greater than 0")
        since = now - timedelta(seconds=min(since_seconds, 10**9))
    if tail is not None and tail < 0:
        raise ValueError("tailLines must be at least 0")
    if limit is not None and limit < 1:
        raise ValueError("limitBytes must be greater than 0")
    if stream not in _STREAMS:
        raise ValueError("stream must be All, Stdout or Stderr")
    return LogOptions(
        _flag(query, "follow"),
        _flag(query, "previous"),
        _flag(query, "timestamps"),
        since,
        tail,
        limit,
        _STREAMS[stream],
    )


def _read(query: MultiMapping[str], name: str, kind: Callable[[str], T]) -> T | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return kind(text)
    except ValueError as error:
        raise UndecodableQuery(name) from error


def _flag(query: MultiMapping[str], name: str) -> bool:
    text = query.get(name, "")
    if text not in _TRUE | _FALSE:
        raise UndecodableQuery(name)
    return text in _TRUE
