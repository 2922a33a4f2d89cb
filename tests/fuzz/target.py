"""Fuzz targets: functions that pass bytes to a parser and check its invariants."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
PRODUCT = tuple(f"{ROOT / package}/" for package in ("nodeagent", "apiserver_stub", "plugins"))
MAX_BYTES = 2048
"""Length of the longest input, unless the target needs more."""
MAX_DIGITS = sys.int_info.str_digits_check_threshold


@dataclass(frozen=True)
class Target:
    """One parser with its invariants."""

    name: str
    run: Callable[[bytes], None]
    errors: tuple[type[Exception], ...]
    """Documented errors of the parser."""
    tokens: Sequence[bytes]
    """Dictionary of the mutations."""
    max_bytes: int

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name

    def inputs(self) -> list[Path]:
        """Return the stored inputs."""
        return sorted(self.corpus.iterdir()) if self.corpus.is_dir() else []


@dataclass(frozen=True)
class Finding:
    """An input that violates an invariant."""

    cause: str
    """Type of the error and the last line of the product that raised it; the same for inputs with the same cause."""
    text: str
    """Traceback."""


TARGETS: dict[str, Target] = {}


def target(
    *errors: type[Exception], tokens: Sequence[bytes] = (), max_bytes: int = MAX_BYTES
) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """Register the decorated function as the target with its name; *errors* are those that the parser documents."""

    def register(run: Callable[[bytes], None]) -> Callable[[bytes], None]:
        name = run.__name__.replace("_", "-")
        TARGETS[name] = Target(name, run, errors, tokens, max_bytes)
        return run

    return register


def check(checked: Target, data: bytes) -> Finding | None:
    """Run *checked* with *data*; any error that is not documented is a finding."""
    try:
        checked.run(data)
    except checked.errors:
        return None
    except Exception as error:
        return describe(error)
    return None


def describe(error: BaseException) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if frame.filename.startswith(PRODUCT)), frames[-1])
    path = Path(last.filename)
    cause = f"{type(error).__name__} {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{last.lineno}"
    # A deep recursion has thousands of frames.
    return Finding(cause, "".join(traceback.format_exception(error, limit=-12)))


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Discard log messages and warnings: most inputs are invalid, and some parsers report them.

    Also lower the number of digits from which Python rejects an integer, so that short inputs reach it.
    """
    logging.disable(logging.CRITICAL)
    digits = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        sys.set_int_max_str_digits(digits)
