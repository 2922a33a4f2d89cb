"""Expressions in CEL, compiled once and evaluated within a budget; the one home of the library.

The library is imported when the first expression is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
    """One compiled expression over *variables*, each an object with text keys."""

    def __init__(self, text: str, variables: tuple[str, ...], returns: str = DYN, *, nullable: bool = False) -> None:
        """Compile *text*.

        :param returns: ``BOOL`` rejects expressions that cannot be a boolean.
        :param nullable: a variable may also be null, and members of objects may have any key.
        :raises CelError: it does not compile.
        """
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional, ext_strings

        self.text = text
        self._error = cel.Type.ERROR
        kind = cel.Type.DYN if nullable else cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
        try:
            environment = cel.NewEnv(
                variables=dict.fromkeys(variables, kind),
                extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
            )
            self._program = environment.compile(text)
        except RuntimeError as error:
            raise CelError(f"compilation failed: {first_line(error)}") from None
        if returns == BOOL and self._program.return_type() != cel.Type.BOOL:
            raise CelError("must evaluate to bool")

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Return the value as plain data.

        :raises CelError: it has none for *data*, or needs too many steps.
        """
        try:
            value = self._program.eval(data=data)
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
