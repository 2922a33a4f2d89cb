"""Expansion of variable references ``$(NAME)`` in commands, arguments, values and paths. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the value of a variable and ``$$`` by ``$``; unknown names are unchanged."""
    if "$" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else variables.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


def unknown_references(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the names in *text* that :func:`expand` does not replace."""
    return [m[2] for m in _REFERENCE.finditer(text) if m[1] != "$" and m[2] not in variables]
