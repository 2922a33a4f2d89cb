"""Regular expressions of schemas, in the syntax of Go; matching takes linear time."""

from __future__ import annotations

from functools import lru_cache

from apiserver_stub.apimachinery.status import quote
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression

_CACHED_PATTERNS = 512
_CACHED_TEXTS = 4096
_LONG_TEXT = 256
_GO_TEXTS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class range": "invalid character class range",
}
"""Errors of the library → those of Go."""


@lru_cache(maxsize=_CACHED_PATTERNS)
def _expression(pattern: str) -> AdmissionExpression:
    return AdmissionExpression(f"object.matches({_literal(pattern)})")


def matches(pattern: str, text: str) -> bool:
    """Return whether *text* contains a match of the valid *pattern*."""
    return _cached_match(pattern, text) if len(text) < _LONG_TEXT else _match(pattern, text)


@lru_cache(maxsize=_CACHED_PATTERNS)
def pattern_problem(pattern: str) -> str:
    """Return why *pattern* is not a regular expression, an empty text if it is one."""
    try:
        _expression(pattern).evaluate({"object": ""})
    except CelError as error:
        problem, _, part = str(error).rpartition("regular expression: ")[2].partition(": ")
        return f"error parsing regexp: {_GO_TEXTS.get(problem, problem)}: `{part}`"
    return ""


@lru_cache(maxsize=_CACHED_TEXTS)
def _cached_match(pattern: str, text: str) -> bool:
    return _match(pattern, text)


def _match(pattern: str, text: str) -> bool:
    try:
        return _expression(pattern).evaluate({"object": text}) is True
    except CelError:
        return False  # Patterns are validated when they are stored.


def _literal(text: str) -> str:
    """Return *text* as a literal of CEL."""
    quoted = quote(text)
    return quoted if text.isprintable() else f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
