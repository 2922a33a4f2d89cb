"""What a node log query asks for (pure; spec: config.enableSystemLogQuery)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from multidict import MultiMapping

from nodeagent.base.gointeger import parse_int64
from nodeagent_plugins.routes_logs.values import moment

MAX_SERVICES = 4
MAX_TAIL = 100_000
MAX_PATTERN = 1024
_SERVICE = re.compile(r"[A-Za-z0-9_@.:][A-Za-z0-9\-_@.:]{0,255}")
_OPTIONS = ("sinceTime", "untilTime", "tailLines", "pattern", "boot")


class Unparsable(ValueError):
    """A value is not of its type (400)."""


class Refused(ValueError):
    """A rule is broken (406)."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Services, or one file, with the part of their logs that is wanted."""

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
        """Whether it asks for what only the journal can do."""
        given = (self.since, self.until, self.tail_lines, self.boot)
        return self.follow or bool(self.pattern) or any(value is not None for value in given)


def read_query(query: MultiMapping[str]) -> LogQuery | None:
    """Return the query; ``None`` for a plain request of a directory.

    :raises Unparsable: a value is not of its type.
    :raises Refused: a rule is broken.
    """
    if "query" not in query:
        if given := [name for name in _OPTIONS if name in query]:
            raise Refused(f"{given[0]}: Forbidden: may not be given without query")
        return None
    values = query.getall("query")
    if any(not value.strip() for value in values):
        raise Unparsable("query: must not be empty")
    files = [value for value in values if "/" in value or "\\" in value]
    services = [value for value in values if value not in files]
    asked = LogQuery(
        services,
        files[0] if files else "",
        _time(query, "sinceTime"),
        _time(query, "untilTime"),
        _number(query, "tailLines"),
        query.get("pattern", ""),
        _number(query, "boot"),
        query.get("follow") in ("1", "true"),
    )
    _check(asked, files)
    return asked


def journal_arguments(asked: LogQuery, services: Sequence[str]) -> list[str]:
    """Return the arguments of ``journalctl``: each a word of its own, for no shell ever sees them."""
    arguments = ["--utc", "--no-pager", "--output=short-precise"]
    if asked.since is not None:
        arguments.append(f"--since={asked.since:%Y-%m-%d %H:%M:%S}")
    if asked.until is not None:
        arguments.append(f"--until={asked.until:%Y-%m-%d %H:%M:%S}")
    if asked.tail_lines is not None:
        arguments.append(f"--lines={asked.tail_lines}")
    arguments += [f"--unit={service}" for service in services]
    if asked.pattern:
        arguments.append(f"--grep={asked.pattern}")
    if asked.boot is not None:
        arguments.append(f"--boot={asked.boot}")
    if asked.follow:
        arguments.append("--follow")
    return arguments


def _check(asked: LogQuery, files: Sequence[str]) -> None:
    if files and asked.services:
        raise Refused("query: Invalid value: services and files may not be mixed")
    if len(files) > 1:
        raise Refused("query: Too many: one file at most")
    if len(asked.services) > MAX_SERVICES:
        raise Refused(f"query: Too many: {MAX_SERVICES} services at most")
    if files and asked.has_options:
        raise Refused("query: Invalid value: a file takes no options")
    for service in asked.services:
        if not _SERVICE.fullmatch(service):
            raise Refused("query: Invalid value: a service is named by up to 256 letters, digits and - _ @ . :")
    if asked.since is not None and asked.until is not None and asked.until < asked.since:
        raise Refused("untilTime: Invalid value: must not be before sinceTime")
    if asked.tail_lines is not None and not 0 <= asked.tail_lines <= MAX_TAIL:
        raise Refused(f"tailLines: Invalid value: must be between 0 and {MAX_TAIL}")
    if asked.boot is not None and asked.boot > 0:
        raise Refused("boot: Invalid value: must be 0 or less")
    if len(asked.pattern) > MAX_PATTERN or "\0" in asked.pattern:
        raise Refused(f"pattern: Invalid value: at most {MAX_PATTERN} characters")
    try:
        re.compile(asked.pattern)
    except (re.error, RecursionError) as error:
        raise Refused(f"pattern: Invalid value: {error}") from error


def _time(query: MultiMapping[str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return moment(text)
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
