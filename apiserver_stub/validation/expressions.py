"""Validation of the expressions of webhooks and admission policies."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, internal_error, invalid_each, invalid_value, required
from apiserver_stub.cel import BOOL, CelError
from apiserver_stub.cel.admission import Checker, InstantiationError
from nodeagent.base.names import qualified_name_problems

_CONDITIONS_LIMIT = 64


def validate_match_conditions(conditions: Sequence[Object] | None, field: str, *, params: bool = False) -> list[Cause]:
    """Return the errors in the conditions under which a webhook is called or a policy applies.

    :param params: the conditions may use ``params``.
    """
    if not conditions:
        return []
    causes = [] if len(conditions) <= _CONDITIONS_LIMIT else [too_many(field, len(conditions), _CONDITIONS_LIMIT)]
    checker = Checker(params=params)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        entry, name = f"{field}[{index}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        causes += (
            validate_expression(checker, text, f"{entry}.expression") if text else [required(f"{entry}.expression")]
        )
        if not name:
            causes.append(required(f"{entry}.name"))
            continue
        causes += invalid_each(f"{entry}.name", name, qualified_name_problems(name))
        if name in seen:
            causes.append(duplicate(f"{entry}.name", name))
        seen.add(name)
    return causes


def validate_expression(checker: Checker, text: str, field: str, returns: Sequence[str] = (BOOL,)) -> list[Cause]:
    """Return the error of an expression that does not compile or has another type than *returns*."""
    try:
        checker.check(text, returns)
    except CelError as error:
        return [expression_error(text, error, field)]
    return []


def expression_error(text: str, error: CelError, field: str) -> Cause:
    """Return the error of the expression *text*, as the compiler reports it."""
    if isinstance(error, InstantiationError):
        return internal_error(field, str(error))
    return invalid_value(field, text, str(error))


def too_many(field: str, count: int, limit: int) -> Cause:
    """Return the error for a list with *count* items."""
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", field)
