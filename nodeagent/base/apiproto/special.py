"""Messages whose JSON form is not an object: times, quantities, int-or-string, embedded JSON, lists of strings.

A reader returns the JSON value of a message, or ``None`` if it is absent in JSON; a writer fills a message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from nodeagent.base import gobase64, gotime


class Special(NamedTuple):
    """Reader and writer of one such message."""

    read: Callable[[Any], Any]
    write: Callable[[Any, Any], None]


def read_bytes(value: bytes) -> str:
    """Return the JSON form of bytes, base64."""
    return base64.b64encode(value).decode()


def write_bytes(value: str | bytes) -> bytes:
    """Return the bytes that the base64 text *value* encodes; bytes are returned unchanged.

    :raises TypeError: *value* is neither; ``bytes`` would allocate the number of bytes that an integer states.
    """
    if isinstance(value, str):
        return gobase64.decode(value)
    if isinstance(value, bytes):
        return value
    raise TypeError(f"expected base64 text, not {type(value).__name__}")


def _rendered(seconds: int, micros: int | None = None) -> str:
    if not gotime.LEAST_SECONDS <= seconds <= gotime.MOST_SECONDS:
        raise ValueError(f"time out of range: {seconds} seconds")
    return gotime.render(seconds, micros)


def _read_time(message: Any) -> str | None:
    seconds = message.seconds
    # An empty message is the zero time, null in JSON, and so is the first second of year 1.
    return _rendered(seconds) if (seconds or message.nanos) and seconds != gotime.ZERO_SECONDS else None


def _write_time(message: Any, text: str) -> None:
    message.seconds = gotime.parse(text).seconds


def _read_micro_time(message: Any) -> str | None:
    seconds, nanos = message.seconds, message.nanos
    if not (seconds or nanos) or (seconds, nanos) == (gotime.ZERO_SECONDS, 0):
        return None
    return _rendered(seconds, nanos // 1000)


def _write_micro_time(message: Any, text: str) -> None:
    message.seconds, nanos = gotime.parse(text)
    message.nanos = nanos // 1000 * 1000


def _read_quantity(message: Any) -> str:
    text: str = message.string
    return text or "0"


def _write_quantity(message: Any, value: str | int | float) -> None:
    message.string = str(value)


def _read_int_or_string(message: Any) -> int | str:
    value: int | str = message.strVal if message.type else message.intVal
    return value


def _write_int_or_string(message: Any, value: int | str) -> None:
    if isinstance(value, str):
        message.type, message.strVal = 1, value
    else:
        message.intVal = value


def _read_json(data: bytes) -> Any:
    return msgspec.json.decode(data) if data else None


def _read_fields(message: Any) -> Any:
    return _read_json(message.Raw)


def _write_fields(message: Any, value: Any) -> None:
    message.Raw = msgspec.json.encode(value)


def _read_raw(message: Any) -> Any:
    return _read_json(message.raw)


def _write_raw(message: Any, value: Any) -> None:
    message.raw = msgspec.json.encode(value)


def _read_items(message: Any) -> list[str]:
    return list(message.items)


def _write_items(message: Any, values: list[str]) -> None:
    message.items.extend(values)


BY_NAME = MappingProxyType(
    {
        "nodeagent.api.meta.v1.Time": Special(_read_time, _write_time),
        "nodeagent.api.meta.v1.MicroTime": Special(_read_micro_time, _write_micro_time),
        "nodeagent.api.meta.v1.Quantity": Special(_read_quantity, _write_quantity),
        "nodeagent.api.meta.v1.IntOrString": Special(_read_int_or_string, _write_int_or_string),
        "nodeagent.api.meta.v1.FieldsV1": Special(_read_fields, _write_fields),
        "nodeagent.api.meta.v1.RawExtension": Special(_read_raw, _write_raw),
        "nodeagent.api.meta.v1.Verbs": Special(_read_items, _write_items),
        "nodeagent.api.apiextensions.v1.JSON": Special(_read_raw, _write_raw),
        "nodeagent.api.authentication.v1.ExtraValue": Special(_read_items, _write_items),
        "nodeagent.api.authorization.v1.ExtraValue": Special(_read_items, _write_items),
        "nodeagent.api.certificates.v1.ExtraValue": Special(_read_items, _write_items),
    }
)
