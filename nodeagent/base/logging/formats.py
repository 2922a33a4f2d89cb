"""The formats that can be chosen; a program may register its own beside text and JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nodeagent.base.logging.lines import json_line, text_line
from nodeagent.base.logging.settings import BETA_GATE, ByteStream, LoggingError, LoggingOptions, LoggingSettings
from nodeagent.base.logging.writer import LineWriter


class LogFormatFactory(Protocol):
    """Makes the handler through which every record goes; spec: type.LogFormatFactory."""

    def __call__(self, settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
        """Return a handler whose ``flush`` and ``close`` lose nothing; verbosity is applied before it is asked."""
        ...


@dataclass(frozen=True, slots=True)
class RegisteredFormat:
    """A format by its factory and the feature gate without which it may not be chosen."""

    factory: LogFormatFactory
    gate: str | None = None


class LineHandler(logging.Handler):
    """Turns records into lines and hands them to one writer for errors and one, maybe the same, for the rest."""

    def __init__(self, line: Callable[[logging.LogRecord], bytes], errors: LineWriter, info: LineWriter) -> None:
        super().__init__()
        self._line, self._errors, self._info = line, errors, info

    @property
    def dropped(self) -> int:
        """How many lines were left out because nobody read them in time."""
        return sum(writer.dropped for writer in {self._errors, self._info})

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        if record.levelno < logging.ERROR:
            self._info.write(line)
            return
        if self._info is not self._errors:
            self._info.request_flush()  # who reads the error wants to see what led to it
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
    """Let *name* be chosen as ``logging.format``.

    :raises LoggingError: the name is taken.
    """
    if name in _formats:
        raise LoggingError(f"log format {name!r} is registered already")
    _formats[name] = RegisteredFormat(factory, gate)


def unregister_format(name: str) -> None:
    """Take a registered format back; a handler it made stays in force."""
    del _formats[name]


def format_gates() -> dict[str, str | None]:
    """Return the known formats, each with the feature gate it needs."""
    return {name: registered.gate for name, registered in _formats.items()}


def create_handler(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Make the handler of the chosen format, which must be registered."""
    return _formats[settings.format].factory(settings, options)


def _text(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Everything to standard error at once."""
    writer = LineWriter(options.error_stream or _standard("stderr"), gap_line=_gap(text_line))
    return LineHandler(text_line, writer, writer)


def _json(settings: LoggingSettings, options: LoggingOptions) -> logging.Handler:
    """Everything to standard output at once or, split, errors to standard error and the rest through the buffer.

    spec: type.JSONOptions.splitStream (where the field writes to standard error, the document says output)
    """
    gap = _gap(json_line)
    output = options.info_stream or _standard("stdout")
    if not settings.json.split_stream:
        writer = LineWriter(output, gap_line=gap)
        return LineHandler(json_line, writer, writer)
    errors = LineWriter(options.error_stream or _standard("stderr"), gap_line=gap)
    info = LineWriter(
        output,
        gap_line=gap,
        buffer_bytes=settings.json.info_buffer_bytes,
        flush_seconds=settings.flush_seconds,
    )
    return LineHandler(json_line, errors, info)


def _gap(line: Callable[[logging.LogRecord], bytes]) -> Callable[[int], bytes]:
    def gap_line(count: int) -> bytes:
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, "Log lines were left out", None, None)
        record.__dict__["count"] = count
        return line(record)

    return gap_line


class _Nowhere:
    """Stands for a standard stream that the program was started without."""

    def write(self, data: memoryview, /) -> int:
        return len(data)

    def flush(self) -> None: ...


def _standard(name: str) -> ByteStream:
    stream = getattr(sys, name)
    buffer: ByteStream | None = getattr(stream, "buffer", None)
    return buffer if buffer is not None else _Nowhere()


register_format("text", _text)
register_format("json", _json, BETA_GATE)
