"""Puts a logging configuration in force, for the whole process."""

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
    """Logging in force: what can still be changed, and the way out. Also a context manager that closes."""

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
        """The threshold in force; it may have been changed since the start."""
        return self._verbosity

    @property
    def dropped(self) -> int:
        """How many lines nobody read in time; 0 for a foreign format."""
        return int(getattr(self._handler, "dropped", 0))

    def set_verbosity(self, verbosity: int) -> None:
        """Show messages up to ``V(verbosity)`` from now on; per-file thresholds stay.

        :raises LoggingError: *verbosity* is out of range.
        """
        if not 0 <= verbosity <= MAX_VERBOSITY:
            raise LoggingError(f"verbosity {verbosity}: must be between 0 and {MAX_VERBOSITY}")
        self._verbosity = verbosity
        self._filter.threshold = v_level(verbosity)
        # Loggers answer from the level of the root; with thresholds by file it must let through what any of them
        # shows, and the filter takes the rest out.
        self._root.setLevel(min(v_level(verbosity), self._filter.lowest))

    def flush(self) -> None:
        """Wait, within a limit, until every line so far is written."""
        self._handler.flush()

    def close(self) -> None:
        """Write what is left and give the root logger back; doing it twice is fine."""
        global _active  # noqa: PLW0603 (logging is the process's, and so is this)
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
    """Put *config* in force and return the handle to it. The same configuration again returns the same handle.

    :param gate_enabled: asked about the feature gates that settings need; left out when they were asked before.
    :raises LoggingError: a setting is wrong, or another configuration is in force.
    """
    global _active  # noqa: PLW0603 (see above)
    options = options or LoggingOptions()
    if _active is not None:
        if (_active.settings, _active.options) == (config, options):
            return _active
        raise LoggingError("logging is configured already, and differently")
    if problems := list(check_settings(config, format_gates(), gate_enabled)):
        raise LoggingError("\n".join(f"logging.{problem.path}: {problem.rule}" for problem in problems))
    _active = Logging(config, options)
    return _active


def active() -> Logging | None:
    """Return what is in force."""
    return _active


class _FileThresholds(logging.Filter):
    """Lets a record pass if the threshold of the process or that of its source file shows it.

    spec: type.LoggingConfiguration.vmodule
    """

    def __init__(self, vmodule: tuple[VModule, ...]) -> None:
        super().__init__()
        self._vmodule = vmodule
        self._by_file: dict[str, int] = {}
        self.threshold = logging.INFO
        self.lowest = min((v_level(item.verbosity) for item in vmodule), default=logging.INFO)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= self.threshold or record.levelno >= logging.INFO:
            return True
        if not self._vmodule:
            return False  # a logger with a level of its own
        return record.levelno >= self._of_file(record.pathname)

    def _of_file(self, path: str) -> int:
        if (level := self._by_file.get(path)) is None:
            file = PurePath(path)
            stem = file.parent.name if file.stem == "__init__" else file.stem  # a package by its own name
            # The first pattern that matches counts, as in the field.
            level = next(
                (v_level(i.verbosity) for i in self._vmodule if fnmatchcase(stem, i.file_pattern)), logging.INFO
            )
            self._by_file[path] = level
        return level
