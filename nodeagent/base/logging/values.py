"""Pairs of a record, made safe to print: plain values, secrets masked, foreign text cut."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec

from nodeagent.base.duration import Duration
from nodeagent.base.secret import MASK, Secret

MAX_TEXT = 16 * 1024
"""Longest string printed, in characters; what others send us is not allowed to fill the log."""

RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Names that the standard library keeps for itself; ``extra`` must not use them, it raises ``KeyError``."""

_SECRET_KEY = re.compile(r"(token|password|passwd|authorization|apikey|privatekey|cookie)$")
_SECRET_TEXT = re.compile(
    r"""
      (?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}         # the value of an Authorization header
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*                          # a signed token, wherever it stands
    | (?P<url>\b[a-z][\w+.-]*://)[^\s/@:"']*:[^\s/@"']+(?=@)  # user:password@ in a URL
    """,
    re.IGNORECASE | re.VERBOSE,
)


def pairs(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the pairs given as ``extra``, in the order given, with values made plain by :func:`plain`."""
    for key, value in vars(record).items():
        if key not in RECORD_FIELDS:
            yield key, MASK if _is_secret(key, value) else plain(value)


def error_text(error: BaseException) -> str:
    """Return what *error* says, or its type when it says nothing."""
    return _cut(_text(error)) or type(error).__name__


def plain(value: Any) -> Any:
    """Return *value* as JSON-able data in which nothing secret is left; never raises."""
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is float:
        return value
    if kind is str:
        return _cut(value)
    try:
        return _walk(msgspec.to_builtins(value, builtin_types=(bytes, timedelta), str_keys=True, enc_hook=_foreign))
    except Exception as error:  # a value that cannot be shown must not hide the message
        return f"<{kind.__name__}: {type(error).__name__}>"


def masked(line: str) -> str:
    """Return *line* with tokens and passwords masked that stand inside of messages and error texts."""
    return _SECRET_TEXT.sub(lambda found: f"{found['scheme'] or found['url'] or ''}{MASK}", line)


def _is_secret(key: str, value: Any) -> bool:
    if value is None or type(value) is bool or type(value) is int:
        return False  # "token": 3 counts tokens, it is none
    return _SECRET_KEY.search(key.lower().replace("-", "").replace("_", "")) is not None


def _foreign(value: Any) -> str:
    return error_text(value) if isinstance(value, BaseException) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Secret):
        return MASK
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _walk(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): MASK if _is_secret(str(key), item) else _walk(item) for key, item in value.items()}
        case list() | tuple():
            return [_walk(item) for item in value]
        case str():
            return _cut(value)
        case bytes():
            return f"<{len(value)} bytes>"
        case timedelta():
            return str(Duration(value // timedelta(microseconds=1) * 1000))
    return value


def _cut(text: str) -> str:
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} characters more)"
    try:
        text.encode()
    except UnicodeEncodeError:  # names from the file system may hold what is no text
        return text.encode(errors="backslashreplace").decode()
    return text
