"""Expressions in CEL, compiled once and evaluated within a budget; the one home of the library.

The library is imported when the first expression is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cel_expr_python import cel

DYN, BOOL, STRING, NULL = "dyn", "bool", "string", "null_type"


_UPSTREAM = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r'(?:\w+: )?Key not found in map : "(.*)"', r"no such key: \1"),
        (r"(?:\w+: )?No matching overloads found\b.*", "no such overload"),
        (r"(?:\w+: )?cannot convert (\w+) to (\w+)", r"type conversion error from '\1' to '\2'"),
        (r"(?:\w+: )?divide by zero", "division by zero"),
        (r"(?:\w+: )?modulus by zero", "modulus by zero"),
        (r"(?:\w+: )?Index error: index=(-?\d+) size=\d+", r"index out of bounds: \1"),
    )
]
"""Patterns of the library's errors, and the texts of cel-go."""


class CelError(ValueError):
    """An expression does not compile, or its evaluation failed; one line."""


class Expression:
    """One compiled expression.

    :param compiled: the expression as the library evaluates it.
    :param error: type of errors.
    """

    def __init__(self, text: str, compiled: cel.Expression, error: cel.Type) -> None:
        self.text, self._compiled, self._error = text, compiled, error

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Return the value as plain data.

        :raises CelError: it has none for *data*, or needs too many steps.
        """
        try:
            value = self._compiled.eval(data=data)
            if value.type() == self._error:
                raise CelError(first_line(value.plain_value()))
            return value.plain_value()
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, CelError):
                raise
            raise CelError(first_line(error)) from None


def first_line(error: object) -> str:
    """Return the first line of the text of *error*, in upstream's words where it is a common one of an evaluation."""
    line = str(error).splitlines()[0].strip() if str(error) else "unknown"
    for pattern, text in _UPSTREAM:
        if (match := pattern.fullmatch(line)) is not None:
            return match.expand(text)
    return line
