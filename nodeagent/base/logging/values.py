"""Values of a record's key-value pairs, made safe to print: plain data, secrets masked, long text truncated."""

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
"""Longest string logged, in characters; data from clients must not fill the log."""

RECORD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Names reserved by the standard library; ``extra`` raises ``KeyError`` for them."""

_SECRET_KEY = re.compile(r"(token|password|passwd|authorization|apikey|privatekey|cookie)$")
_SECRET_TEXT = re.compile(
    r"""
      (?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}         # the value of an Authorization header
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*                          # a signed token
    | (?P<url>\b[a-z][\w+.-]*://)[^\s/@:"']*:[^\s/@"']+(?=@)  # user:password@ in a URL
    """,
    re.IGNORECASE | re.VERBOSE,
)


def pairs(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of ``extra`` in order, with values converted by :func:`plain`."""
    for key, value in vars(record).items():
        if key not in RECORD_FIELDS:
            yield key, MASK if _is_secret(key, value) else plain(value)


def error_text(error: BaseException) -> str:
    """Return the text of *error*, or its type if that is empty."""
    return _cut(_text(error)) or type(error).__name__


def plain(value: Any) -> Any:
    """Return *value* as JSON-compatible data with secrets masked; never raises."""
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is float:
        return value
    if kind is str:
        return _cut(value)
    try:
        return _walk(msgspec.to_builtins(value, builtin_types=(bytes, timedelta), str_keys=True, enc_hook=_other_value))
    except Exception as error:  # A value that cannot be converted must not hide the message.
        return f"<{kind.__name__}: {type(error).__name__}>"


def masked(line: str) -> str:
    """Return *line* with the tokens and passwords inside messages and error texts masked."""
    return _SECRET_TEXT.sub(lambda found: f"{found['scheme'] or found['url'] or ''}{MASK}", line)


def _is_secret(key: str, value: Any) -> bool:
    if value is None or type(value) is bool or type(value) is int:
        return False  # "token": 3 is a number of tokens.
    return _SECRET_KEY.search(key.lower().replace("-", "").replace("_", "")) is not None


def _other_value(value: Any) -> str:
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
    except UnicodeEncodeError:  # File names may contain bytes that are not text.
        return text.encode(errors="backslashreplace").decode()
    return text
