"""Log formats: text, JSON and registered ones."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Protocol

from nodeagent.base.logging.lines import json_line, text_line
from nodeagent.base.logging.origin import PLUGIN
from nodeagent.base.logging.settings import (
    BETA_GATE,
    ByteStream,
    LoggingError,
    LoggingOptions,
    LoggingSettings,
    StreamOptions,
)
from nodeagent.base.logging.writer import LineWriter
from nodeagent.base.structs import Struct


class LogFormatFactory(Protocol):
    """Factory of the handler for all records; spec: type.LogFormatFactory."""

    def __call__(self, settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
        """Return a handler whose ``flush`` and ``close`` lose no records; verbosity is applied before it is called."""
        ...


class RegisteredFormat(Struct, frozen=True):
    """Format with its factory and the feature gate it requires."""

    factory: LogFormatFactory
    gate: str | None = None


class LineHandler(logging.Handler):
    """Handler that formats records as lines, with a writer for errors and one, possibly the same, for all others."""

    def __init__(self, line: Callable[[logging.LogRecord], bytes], errors: LineWriter, info: LineWriter) -> None:
        super().__init__()
        self._line, self._errors, self._info = line, errors, info

    @property
    def dropped(self) -> int:
        """Number of lines dropped because the stream was too slow."""
        return sum(writer.dropped for writer in {self._errors, self._info})

    def emit(self, record: logging.LogRecord) -> None:
        if (plugin := PLUGIN.get()) and "plugin" not in record.__dict__:
            record.__dict__["plugin"] = plugin
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        if record.levelno < logging.ERROR:
            self._info.write(line)
            return
        if self._info is not self._errors:
            self._info.request_flush()  # An error should appear after the events that preceded it.
        self._errors.write(line, important=True)

    def flush(self) -> None:
        for writer in {self._errors, self._info}:
            writer.flush()

    def close(self) -> None:
        for writer in {self._errors, self._info}:
            writer.close()
        super().close()


_formats: dict[str, RegisteredFormat] = {}


def register_format(name: str, factory: LogFormatFactory, gate: str | None = None) -> None:
    """Register *name* as a value of ``logging.format``.

    :raises LoggingError: the name is already registered.
    """
    if name in _formats:
        raise LoggingError(f"log format {name!r} is already registered")
    _formats[name] = RegisteredFormat(factory, gate)


def unregister_format(name: str) -> None:
    """Remove a registered format; existing handlers remain active."""
    del _formats[name]


def format_gates() -> dict[str, str | None]:
    """Return the registered formats, each with the feature gate it requires."""
    return {name: registered.gate for name, registered in _formats.items()}


def create_handler(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Create the handler of the configured format, which must be registered."""
    return _formats[settings.format].factory(settings, options)


def _text(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Return a handler that writes everything to standard error, unbuffered, unless ``split_stream`` is set."""
    if settings.text.split_stream:
        return _split(text_line, settings.text, settings, options)
    writer = LineWriter(options.error_stream or _standard("stderr"), gap_line=_gap(text_line))
    return LineHandler(text_line, writer, writer)


def _json(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Return a handler that writes to standard output, or with ``split_stream`` errors to standard error.

    spec: type.JSONOptions.splitStream (unsplit, upstream writes to standard error, the specification requires output)
    """
    if settings.json.split_stream:
        return _split(json_line, settings.json, settings, options)
    writer = LineWriter(options.info_stream or _standard("stdout"), gap_line=_gap(json_line))
    return LineHandler(json_line, writer, writer)


def _split(
    line: Callable[[logging.LogRecord], bytes],
    streams: StreamOptions,
    settings: LoggingSettings,
    options: LoggingOptions,
) -> logging.Handler:
    errors = LineWriter(options.error_stream or _standard("stderr"), gap_line=_gap(line))
    info = LineWriter(
        options.info_stream or _standard("stdout"),
        gap_line=_gap(line),
        buffer_bytes=streams.info_buffer_bytes,
        flush_seconds=settings.flush_seconds,
    )
    return LineHandler(line, errors, info)


def _gap(line: Callable[[logging.LogRecord], bytes]) -> Callable[[int], bytes]:
    def gap_line(count: int) -> bytes:
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, "Dropped log lines", None, None)
        record.__dict__["count"] = count
        return line(record)

    return gap_line


class _NullStream:
    """Substitute for a standard stream that the process was started without."""

    def write(self, data: memoryview, /) -> int:
        return len(data)

    def flush(self) -> None: ...


def _standard(name: str) -> ByteStream:
    stream = getattr(sys, name)
    buffer: ByteStream | None = getattr(stream, "buffer", None)
    return buffer if buffer is not None else _NullStream()


register_format("text", _text)
register_format("json", _json, BETA_GATE)
