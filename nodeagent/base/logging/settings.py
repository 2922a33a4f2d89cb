"""What can be chosen about logging, without saying where the choice was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from nodeagent.base.logging.levels import MAX_VERBOSITY

ALPHA_GATE = "LoggingAlphaOptions"
BETA_GATE = "LoggingBetaOptions"
MAX_BUFFER_BYTES = 2 * 1024**3


class LoggingError(ValueError):
    """The logging configuration cannot be put in force."""


class ByteStream(Protocol):
    """Where lines go: a binary file, buffered or not, or anything that behaves like one."""

    def write(self, data: memoryview, /) -> int | None:
        """Take some of *data* and return how much; ``None`` when there is no room at the moment."""
        ...

    def flush(self) -> object: ...


@dataclass(frozen=True, slots=True)
class VModule:
    """A threshold for the source files whose name without extension matches a glob."""

    file_pattern: str
    verbosity: int


@dataclass(frozen=True, slots=True)
class JSONOptions:
    """Options of the JSON format; spec: type.FormatOptions.json, type.JSONOptions."""

    split_stream: bool = False
    """Errors to standard error and the rest, buffered, to standard output; otherwise all to standard output."""
    info_buffer_bytes: int = 0
    """Size of the buffer for what is no error; 0 writes each line at once. Counts only with ``split_stream``."""


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """spec: config.logging, type.LoggingConfiguration."""

    format: str = "text"
    flush_seconds: float = 5.0
    """The longest that a buffered line waits; without effect on what is not buffered."""
    verbosity: int = 0
    vmodule: tuple[VModule, ...] = ()
    json: JSONOptions = field(default_factory=JSONOptions)


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """What only a program can choose: other streams than its own; spec: type.LoggingOptions."""

    error_stream: ByteStream | None = None
    """Takes the place of standard error."""
    info_stream: ByteStream | None = None
    """Takes the place of standard output."""


@dataclass(frozen=True, slots=True)
class LoggingProblem:
    """One setting that is wrong: *path* below ``logging``, the *value* found and the *rule* it breaks."""

    path: str
    value: object
    rule: str


def parse_vmodule(text: str) -> tuple[VModule, ...]:
    """Read the flag form ``pattern=N,pattern=N``; raise :class:`LoggingError` where it is not that."""
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
    """Yield every problem of *settings*; *formats* maps the known names to the gate each one needs.

    Without *gate_enabled* no gate is asked.
    """
    if settings.format not in formats:
        known = ", ".join(sorted(formats))
        yield LoggingProblem("format", settings.format, f"unknown log format; known are {known}")
    elif gate_enabled is not None:
        gate = formats[settings.format]
        if gate is not None and not gate_enabled(gate):
            yield LoggingProblem("format", settings.format, f"needs the feature gate {gate}")
    if settings.flush_seconds < 0:
        yield LoggingProblem("flushFrequency", settings.flush_seconds, "must not be negative")
    if not 0 <= settings.verbosity <= MAX_VERBOSITY:
        yield LoggingProblem("verbosity", settings.verbosity, f"must be between 0 and {MAX_VERBOSITY}")
    yield from _check_vmodule(settings)
    yield from _check_json(settings.json, gate_enabled)


def _check_vmodule(settings: LoggingSettings) -> Iterator[LoggingProblem]:
    if settings.vmodule and settings.format != "text":
        yield LoggingProblem("vmodule", None, "works only with the text format")
    for index, item in enumerate(settings.vmodule):
        path = f"vmodule[{index}]"
        if not item.file_pattern:
            yield LoggingProblem(f"{path}.filePattern", item.file_pattern, "must not be empty")
        elif set("=,") & set(item.file_pattern):
            yield LoggingProblem(f"{path}.filePattern", item.file_pattern, "must contain neither '=' nor ','")
        if not 0 <= item.verbosity <= MAX_VERBOSITY:
            yield LoggingProblem(f"{path}.verbosity", item.verbosity, f"must be between 0 and {MAX_VERBOSITY}")


def _check_json(options: JSONOptions, gate_enabled: Callable[[str], bool] | None) -> Iterator[LoggingProblem]:
    if not 0 <= options.info_buffer_bytes <= MAX_BUFFER_BYTES:
        rule = f"must be between 0 and {MAX_BUFFER_BYTES}"
        yield LoggingProblem("options.json.infoBufferSize", options.info_buffer_bytes, rule)
    if gate_enabled is None or gate_enabled(ALPHA_GATE):
        return
    if options.split_stream:
        yield LoggingProblem("options.json.splitStream", True, f"needs the feature gate {ALPHA_GATE}")
    if options.info_buffer_bytes:
        rule = f"needs the feature gate {ALPHA_GATE}"
        yield LoggingProblem("options.json.infoBufferSize", options.info_buffer_bytes, rule)
