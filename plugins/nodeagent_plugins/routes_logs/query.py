"""Query parameters of node log queries. No I/O (spec: config.enableSystemLogQuery)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from multidict import MultiMapping

from nodeagent.base.gointeger import parse_int64
from nodeagent.base.structs import Struct
from nodeagent_plugins.routes_logs.values import parse_time

MAX_SERVICES = 4
MAX_TAIL = 100_000
MAX_PATTERN = 1024
_SERVICE = re.compile(r"[A-Za-z0-9_@.:][A-Za-z0-9\-_@.:]{0,255}")
_OPTIONS = ("sinceTime", "untilTime", "tailLines", "pattern", "boot")


class Unparsable(ValueError):
    """A value has the wrong type (400)."""


class InvalidQuery(ValueError):
    """The query violates a rule (406)."""


class LogQuery(Struct, frozen=True):
    """Services or one file, and the selection of their logs."""

    services: Sequence[str] = ()
    file: str = ""
    since: datetime | None = None
    until: datetime | None = None
    tail_lines: int | None = None
    pattern: str = ""
    boot: int | None = None
    follow: bool = False

    @property
    def has_options(self) -> bool:
        """Return whether the query uses options that only the journal supports."""
        given = (self.since, self.until, self.tail_lines, self.boot)
        return self.follow or bool(self.pattern) or any(value is not None for value in given)


def read_query(query: MultiMapping[str]) -> LogQuery | None:
    """Return the query; ``None`` for a plain file or directory request.

    :raises Unparsable: a value has the wrong type.
    :raises InvalidQuery: a rule is violated.
    """
    if "query" not in query:
        if given := [name for name in _OPTIONS if name in query]:
            raise InvalidQuery(f"{given[0]}: Forbidden: may not be given without query")
        return None
    values = query.getall("query")
    if any(not value.strip() for value in values):
        raise Unparsable("query: must not be empty")
    files = [value for value in values if "/" in value or "\\" in value]
    services = [value for value in values if value not in files]
    log_query = LogQuery(
        services,
        files[0] if files else "",
        _time(query, "sinceTime"),
        _time(query, "untilTime"),
        _number(query, "tailLines"),
        query.get("pattern", ""),
        _number(query, "boot"),
        query.get("follow") in ("1", "true"),
    )
    _check(log_query, files)
    return log_query


def journal_arguments(log_query: LogQuery, services: Sequence[str]) -> list[str]:
    """Return the arguments of ``journalctl``, which is started without a shell."""
    arguments = ["--utc", "--no-pager", "--output=short-precise"]
    if log_query.since is not None:
        arguments.append(f"--since={log_query.since:%Y-%m-%d %H:%M:%S}")
    if log_query.until is not None:
        arguments.append(f"--until={log_query.until:%Y-%m-%d %H:%M:%S}")
    if log_query.tail_lines is not None:
        arguments.append(f"--lines={log_query.tail_lines}")
    arguments += [f"--unit={service}" for service in services]
    if log_query.pattern:
        arguments.append(f"--grep={log_query.pattern}")
    if log_query.boot is not None:
        arguments.append(f"--boot={log_query.boot}")
    if log_query.follow:
        arguments.append("--follow")
    return arguments


def _check(log_query: LogQuery, files: Sequence[str]) -> None:
    if files and log_query.services:
        raise InvalidQuery("query: Invalid value: services and files may not be mixed")
    if len(files) > 1:
        raise InvalidQuery("query: Too many: one file at most")
    if len(log_query.services) > MAX_SERVICES:
        raise InvalidQuery(f"query: Too many: {MAX_SERVICES} services at most")
    if files and log_query.has_options:
        raise InvalidQuery("query: Invalid value: a file takes no options")
    for service in log_query.services:
        if not _SERVICE.fullmatch(service):
            raise InvalidQuery("query: Invalid value: a service is named by up to 256 letters, digits and - _ @ . :")
    if log_query.since is not None and log_query.until is not None and log_query.until < log_query.since:
        raise InvalidQuery("untilTime: Invalid value: must not be before sinceTime")
    if log_query.tail_lines is not None and not 0 <= log_query.tail_lines <= MAX_TAIL:
        raise InvalidQuery(f"tailLines: Invalid value: must be between 0 and {MAX_TAIL}")
    if log_query.boot is not None and log_query.boot > 0:
        raise InvalidQuery("boot: Invalid value: must be 0 or less")
    if len(log_query.pattern) > MAX_PATTERN or "\0" in log_query.pattern:
        raise InvalidQuery(f"pattern: Invalid value: at most {MAX_PATTERN} characters")
    try:
        re.compile(log_query.pattern)
    except (re.error, RecursionError, OverflowError, ValueError) as error:
        raise InvalidQuery(f"pattern: Invalid value: {error}") from error


def _time(query: MultiMapping[str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise Unparsable(f"{name}: not a time of RFC 3339") from error


def _number(query: MultiMapping[str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return parse_int64(text)
    except ValueError as error:
        raise Unparsable(f"{name}: not a whole number") from error
