"""Rounding of resource amounts, which are stored with three decimal places."""

from __future__ import annotations

from apiserver_stub.objects import Object
from apiserver_stub.validation.quantities import rounded


def round_list(amounts: Object | None) -> None:
    """Round the amounts of a map from resource names, in place."""
    if amounts:
        for name, text in amounts.items():
            amounts[name] = rounded(str(text))


def round_amounts(requirements: Object | None) -> None:
    """Round limits and requests of resource requirements, in place."""
    if requirements:
        round_list(requirements.get("limits"))
        round_list(requirements.get("requests"))
