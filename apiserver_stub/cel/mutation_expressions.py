"""Expressions of mutating policies: checks, and evaluation to configurations and patches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.cel import CelError, mutations
from apiserver_stub.cel.admission import AdmissionExpression, parse
from apiserver_stub.cel.budget import Budget

APPLY, JSON_PATCH = "ApplyConfiguration", "JSONPatch"
PATCH_TYPES: Mapping[str, str] = {APPLY: "applyConfiguration", JSON_PATCH: "jsonPatch"}
"""Types of patches, with the fields that have their expressions."""
_VARIABLES = frozenset(("object", "oldObject", "request", "namespaceObject", "authorizer"))
_SCOPES = frozenset(
    (
        *("base64", "cidr", "duration", "ip", "jsonpatch", "lists", "math", "optional", "semver", "sets", "strings"),
        *("bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "timestamp", "type", "uint"),
    )
)
"""Names of types and prefixes of functions, which the parser does not distinguish from variables."""


class MutationExpression(AdmissionExpression):
    """An expression of a stored policy, to be evaluated."""

    def __init__(self, text: str) -> None:
        """Compile *text*, which was checked when it was stored.

        :raises CelError: it does not compile.
        """
        super().__init__(text, mutations.with_maps)

    def evaluate(self, data: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the value in the form of JSON; see :meth:`MeteredExpression.evaluate`."""
        return _plain(super().evaluate(data, budget))


def check_mutation(text: str, patch_type: str, names: Iterable[str]) -> None:
    """Check the syntax of *text*, its variables and the types of its object literals.

    The types of values are not checked, as those of the changed kinds are not known.

    :param names: variables besides those of every policy.
    :raises CelError: it is invalid.
    """
    root = mutations.root_of(parse(text))
    known = _VARIABLES | _SCOPES | set(names)
    for name in mutations.free_names(root):
        if name not in known:
            raise CelError(f"compilation failed: ERROR: undeclared reference to '{name}' (in container '')")
    literal = mutations.OBJECT if patch_type == APPLY else mutations.JSON_PATCH
    for name in mutations.type_names(root):
        if name != mutations.JSON_PATCH and name.partition(".")[0] != mutations.OBJECT:
            raise CelError(f"compilation failed: ERROR: undeclared reference to '{name}' (in container '')")
    if any(mutations.is_literal_of(root, other) for other in {mutations.OBJECT, mutations.JSON_PATCH} - {literal}):
        expected = mutations.OBJECT if patch_type == APPLY else f"list({mutations.JSON_PATCH})"
        raise CelError(f"must evaluate to {expected}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return format_time(value)
    return f"{value.total_seconds():g}s" if isinstance(value, timedelta) else value
