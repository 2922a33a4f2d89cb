"""Logging settings, independent of their source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import field

from nodeagent.base.logging.levels import MAX_VERBOSITY
from nodeagent.base.structs import Struct

ALPHA_GATE = "LoggingAlphaOptions"
BETA_GATE = "LoggingBetaOptions"
MAX_BUFFER_BYTES = 2 * 1024**3


class LoggingError(ValueError):
    """The logging configuration is invalid."""


class ByteStream(Protocol):
    """Destination of lines: a binary file, buffered or not, or an equivalent object."""

    def write(self, data: memoryview, /) -> int | None:
        """Write some of *data* and return the number of bytes; ``None`` if the stream is not ready."""
        ...

    def flush(self) -> object: ...


class VModule(Struct, frozen=True):
    """Threshold for the source files whose name without extension matches a glob."""

    file_pattern: str
    verbosity: int


class StreamOptions(Struct, frozen=True):
    """Output streams of a format; spec: type.FormatOptions.json, type.JSONOptions."""

    split_stream: bool = False
    """Write errors to standard error and other messages, buffered, to standard output."""
    info_buffer_bytes: int = 0
    """Buffer size for records below error; 0 writes each line immediately. Effective only with ``split_stream``."""


class LoggingSettings(Struct, frozen=True):
    """Logging configuration; spec: config.logging, type.LoggingConfiguration."""

    format: str = "text"
    flush_seconds: float = 5.0
    """Maximum delay of a buffered line; unbuffered lines are not affected."""
    verbosity: int = 0
    vmodule: tuple[VModule, ...] = ()
    json: StreamOptions = field(default_factory=StreamOptions)
    text: StreamOptions = field(default_factory=StreamOptions)


class LoggingOptions(Struct, frozen=True):
    """Options that only code can set: other streams than the standard ones; spec: type.LoggingOptions."""

    error_stream: ByteStream | None = None
    """Replaces standard error."""
    info_stream: ByteStream | None = None
    """Replaces standard output."""


class LoggingProblem(Struct, frozen=True):
    """Invalid setting: *path* below ``logging``, *value* and violated *rule*."""

    path: str
    value: object
    rule: str


def parse_vmodule(text: str) -> tuple[VModule, ...]:
    """Parse the flag format ``pattern=N,pattern=N``; raise :class:`LoggingError` if *text* is invalid."""
    items = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pattern, equals, number = part.partition("=")
        if not (pattern and equals and number.isascii() and number.isdigit()):
            raise LoggingError(f"vmodule {part!r}: must be of the form pattern=N")
        items.append(VModule(pattern, int(number)))
    return tuple(items)


def check_settings(
    settings: LoggingSettings,
    formats: dict[str, str | None],
    gate_enabled: Callable[[str], bool] | None = None,
) -> Iterator[LoggingProblem]:
    """Yield every problem of *settings*; *formats* maps the supported names to the feature gate each one requires.

    Without *gate_enabled* no feature gate is checked.
    """
    if settings.format not in formats:
        supported = ", ".join(sorted(formats))
        yield LoggingProblem("format", settings.format, f"unknown log format; supported: {supported}")
    elif gate_enabled is not None:
        gate = formats[settings.format]
        if gate is not None and not gate_enabled(gate):
            yield LoggingProblem("format", settings.format, f"needs the feature gate {gate}")
    if settings.flush_seconds < 0:
        yield LoggingProblem("flushFrequency", settings.flush_seconds, "must not be negative")
    if not 0 <= settings.verbosity <= MAX_VERBOSITY:
        yield LoggingProblem("verbosity", settings.verbosity, f"must be between 0 and {MAX_VERBOSITY}")
    yield from _check_vmodule(settings)
    yield from _check_streams("json", settings.json, gate_enabled)
    yield from _check_streams("text", settings.text, gate_enabled)


def _check_vmodule(settings: LoggingSettings) -> Iterator[LoggingProblem]:
    if settings.vmodule and settings.format != "text":
        yield LoggingProblem("vmodule", None, "is supported only by the text format")
    for index, item in enumerate(settings.vmodule):
        path = f"vmodule[{index}]"
        if not item.file_pattern:
            yield LoggingProblem(f"{path}.filePattern", item.file_pattern, "must not be empty")
        elif set("=,") & set(item.file_pattern):
            yield LoggingProblem(f"{path}.filePattern", item.file_pattern, "must contain neither '=' nor ','")
        if not 0 <= item.verbosity <= MAX_VERBOSITY:
            yield LoggingProblem(f"{path}.verbosity", item.verbosity, f"must be between 0 and {MAX_VERBOSITY}")


def _check_streams(
    name: str, options: StreamOptions, gate_enabled: Callable[[str], bool] | None
) -> Iterator[LoggingProblem]:
    path = f"options.{name}"
    if not 0 <= options.info_buffer_bytes <= MAX_BUFFER_BYTES:
        rule = f"must be between 0 and {MAX_BUFFER_BYTES}"
        yield LoggingProblem(f"{path}.infoBufferSize", options.info_buffer_bytes, rule)
    if gate_enabled is None or gate_enabled(ALPHA_GATE):
        return
    if options.split_stream:
        yield LoggingProblem(f"{path}.splitStream", True, f"needs the feature gate {ALPHA_GATE}")
    if options.info_buffer_bytes:
        rule = f"needs the feature gate {ALPHA_GATE}"
        yield LoggingProblem(f"{path}.infoBufferSize", options.info_buffer_bytes, rule)
