"""Formatting of log records as lines, in text and JSON format.

Custom, since no package writes klog's formats.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec

from nodeagent.base.logging.levels import verbosity_of
from nodeagent.base.logging.values import error_text, masked, pairs, plain

_encode = msgspec.json.Encoder().encode
_tracebacks = logging.Formatter()

_JSON_KEYS = frozenset({"ts", "caller", "msg", "v", "logger", "stacktrace"})


def text_line(record: logging.LogRecord) -> bytes:
    """Return ``I0102 15:04:05.000000   pid file.py:123] "Message" key="value"`` and a newline.

    Times are local. The line has no control characters, regardless of the message and the values; a traceback
    follows on separate, indented lines.
    """
    local = time.localtime(record.created)
    micros = int(record.created % 1 * 1_000_000)
    parts = [
        f"{_severity(record.levelno)}{local.tm_mon:02d}{local.tm_mday:02d} "
        f"{local.tm_hour:02d}:{local.tm_min:02d}:{local.tm_sec:02d}.{micros:06d} {record.process or 0:7d} "
        f"{record.filename}:{record.lineno}] {_quoted(_message(record))}"
    ]
    if (error := _error(record)) is not None:
        parts.append(f"err={_quoted(error_text(error))}")
    parts.extend(f"{_key(key)}={_value_text(value)}" for key, value in pairs(record))
    line = " ".join(parts)
    if trace := _stack_trace(record):
        line += "".join(f"\n    {row}" for row in trace.splitlines())
    return masked(line).encode(errors="backslashreplace") + b"\n"


def json_line(record: logging.LogRecord) -> bytes:
    """Return one JSON object and a newline.

    ``ts`` is in milliseconds since the epoch; ``v`` is absent from errors. A key that equals one of the fixed keys gets
    the suffix ``_``. Warnings are distinguished from information by the key ``severity``.
    """
    line: dict[str, Any] = {
        "ts": round(record.created * 1000, 3),
        "caller": f"{record.filename}:{record.lineno}",
        "msg": _message(record),
    }
    if record.levelno < logging.ERROR:
        line["v"] = verbosity_of(record.levelno)
    line["logger"] = record.name
    if (error := _error(record)) is not None:
        line["err"] = error_text(error)
    if record.levelno >= logging.WARNING and record.levelno != logging.ERROR:
        line["severity"] = "warning" if record.levelno < logging.ERROR else "fatal"
    for key, value in pairs(record):
        line[f"{key}_" if key in _JSON_KEYS else key] = value
    if trace := _stack_trace(record):
        line["stacktrace"] = trace
    return masked(_encode(line).decode()).encode() + b"\n"


def _severity(level: int) -> str:
    if level < logging.WARNING:
        return "I"
    if level < logging.ERROR:
        return "W"
    return "E" if level < logging.CRITICAL else "F"


def _message(record: logging.LogRecord) -> str:
    try:
        return str(plain(record.getMessage()))
    except Exception as error:  # The message must not be lost if its arguments do not match it.
        return f"{plain(str(record.msg))} ({type(error).__name__}: {error})"


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _stack_trace(record: logging.LogRecord) -> str:
    parts = [_tracebacks.formatException(record.exc_info)] if record.exc_info and record.exc_info[1] else []
    if record.stack_info:
        parts.append(record.stack_info)
    return str(plain("\n".join(parts)))


def _key(key: str) -> str:
    return key if key.isidentifier() else _quoted(key)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return _printable(_encode(value).decode())


def _quoted(text: str) -> str:
    return _printable(_encode(text).decode())


def _printable(text: str) -> str:
    """Escape characters that could control a terminal; JSON does not escape C1 control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
