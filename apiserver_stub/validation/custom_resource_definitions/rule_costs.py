"""Limits for the estimated costs of the CEL rules of a schema."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import field

from apiserver_stub.apimachinery.status import Cause, forbidden_value
from apiserver_stub.cel.cost_bounds import UNLIMITED
from nodeagent.base.structs import MutableStruct

_RULE_LIMIT, _SCHEMA_LIMIT = 10_000_000, 100_000_000
"""Greatest costs of one expression, and of all expressions of a schema."""
_REPORTED, _REPORTED_SHARE = 4, 0.01
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


class Costs(MutableStruct):
    """Costs of the expressions of one schema.

    :param checks_each: each expression has a limit, not only their sum.
    """

    checks_each: bool = True
    total: int = 0
    most_expensive: list[tuple[int, str]] = field(default_factory=list)
    """Cost and path of the expressions with a relevant part of the limit, in descending order of their cost."""

    def add(self, cost: int, path: str, name: str) -> Iterator[Cause]:
        """Add the cost of the expression at *path*, and yield an error if it exceeds the limit."""
        self.total = min(self.total + cost, UNLIMITED)
        if cost >= _SCHEMA_LIMIT * _REPORTED_SHARE:
            self.most_expensive.append((cost, path))
            self.most_expensive.sort(key=lambda item: -item[0])
            del self.most_expensive[_REPORTED:]
        if self.checks_each and cost > _RULE_LIMIT:
            yield forbidden_value(path, _over_budget(f"estimated {name} cost", cost, _RULE_LIMIT))

    def validate(self, path: str) -> Iterator[Cause]:
        """Yield the errors if the sum exceeds its limit."""
        if self.total <= _SCHEMA_LIMIT:
            return
        for _, expensive in self.most_expensive:
            detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield forbidden_value(expensive, detail)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden_value(path, _over_budget(name, self.total, _SCHEMA_LIMIT))


def _over_budget(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_HINT}"
