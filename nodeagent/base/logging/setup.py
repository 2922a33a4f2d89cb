"""Logging setup of the process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import PurePath
from types import TracebackType
from typing import Self

from nodeagent.base.logging.formats import create_handler, format_gates
from nodeagent.base.logging.levels import MAX_VERBOSITY, v_level
from nodeagent.base.logging.settings import LoggingError, LoggingOptions, LoggingSettings, VModule, check_settings


class Logging:
    """Active logging configuration; a context manager that closes it."""

    def __init__(self, settings: LoggingSettings, options: LoggingOptions) -> None:
        self.settings, self.options = settings, options
        self._handler = create_handler(settings, options)
        self._filter = _FileThresholds(settings.vmodule)
        self._handler.addFilter(self._filter)
        self._root = logging.getLogger()
        self._level_before = self._root.level
        self._verbosity = 0
        self.set_verbosity(settings.verbosity)
        self._root.addHandler(self._handler)

    @property
    def verbosity(self) -> int:
        """The current threshold; it may have changed since the start."""
        return self._verbosity

    @property
    def dropped(self) -> int:
        """Number of lines dropped because the stream was too slow; 0 for third-party formats."""
        return int(getattr(self._handler, "dropped", 0))

    def set_verbosity(self, verbosity: int) -> None:
        """Log messages up to ``V(verbosity)`` from now on; per-file thresholds are unchanged.

        :raises LoggingError: *verbosity* is out of range.
        """
        if not 0 <= verbosity <= MAX_VERBOSITY:
            raise LoggingError(f"verbosity {verbosity}: must be between 0 and {MAX_VERBOSITY}")
        self._verbosity = verbosity
        self._filter.threshold = v_level(verbosity)
        # Loggers use the level of the root; with per-file thresholds it has to pass everything that any of them
        # includes, and the filter discards the rest.
        self._root.setLevel(min(v_level(verbosity), self._filter.lowest))

    def flush(self) -> None:
        """Wait, within a time limit, until all lines so far are written."""
        self._handler.flush()

    def close(self) -> None:
        """Write the remaining lines and restore the root logger; calling it again has no effect."""
        global _active  # noqa: PLW0603 (logging is a global of the process)
        if _active is not self:
            return
        _active = None
        self._root.removeHandler(self._handler)
        self._root.setLevel(self._level_before)
        self._handler.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_active: Logging | None = None


def configure(
    config: LoggingSettings,
    *,
    options: LoggingOptions | None = None,
    gate_enabled: Callable[[str], bool] | None = None,
) -> Logging:
    """Apply *config* and return its handle. The same configuration again returns the same handle.

    :param gate_enabled: checks the feature gates that settings require; ``None`` if they were checked before.
    :raises LoggingError: a setting is invalid, or another configuration is active.
    """
    global _active  # noqa: PLW0603 (see above)
    options = options or LoggingOptions()
    if _active is not None:
        if (_active.settings, _active.options) == (config, options):
            return _active
        raise LoggingError("logging is already configured with other settings")
    if problems := list(check_settings(config, format_gates(), gate_enabled)):
        raise LoggingError("\n".join(f"logging.{problem.path}: {problem.rule}" for problem in problems))
    _active = Logging(config, options)
    return _active


def active() -> Logging | None:
    """Return the active configuration."""
    return _active


class _FileThresholds(logging.Filter):
    """Filter that passes a record if the threshold of the process or that of its source file includes it.

    spec: type.LoggingConfiguration.vmodule
    """

    def __init__(self, vmodule: tuple[VModule, ...]) -> None:
        super().__init__()
        self._vmodule = vmodule
        self._by_file: dict[str, int] = {}
        self.threshold = logging.INFO
        self.lowest = min((v_level(item.verbosity) for item in vmodule), default=logging.INFO)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= self.threshold:
            return True
        if not self._vmodule:
            return False  # The logger has a level set.
        return record.levelno >= self._of_file(record.pathname)

    def _of_file(self, path: str) -> int:
        if (level := self._by_file.get(path)) is None:
            file = PurePath(path)
            stem = file.parent.name if file.stem == "__init__" else file.stem  # For a package, its name.
            # The first matching pattern is effective, as upstream.
            level = next(
                (v_level(i.verbosity) for i in self._vmodule if fnmatchcase(stem, i.file_pattern)), logging.INFO
            )
            self._by_file[path] = level
        return level
