"""PodDisruptionBudgets: limits for voluntary disruptions of the selected pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_budget
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.disruption_budgets import (
    COUNTS,
    has_invalid_selector,
    validate_budget,
    validate_budget_status,
)
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import path_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates

BUDGETS = "policy/poddisruptionbudgets"
"""Collection of the budgets in the store."""


class BudgetStrategy(Strategy):
    """PodDisruptionBudgets; the generation counts the changes of the spec."""

    counted = ("spec",)
    validates_metadata = False

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def prepare_create(self, new: Object) -> None:
        drop_from_budget(self._gates, new)
        new["status"] = dict.fromkeys(COUNTS, 0)

    def validate(self, new: Object) -> list[Cause]:
        return validate_budget(new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            drop_from_budget(self._gates, new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_budget_status(new)
        return validate_budget(new, any_values=has_invalid_selector(old))


def covers(budget: Object, pod: Object) -> bool:
    """Return whether *budget* selects *pod* of its namespace; a budget without a selector selects no pod."""
    selector = dig(budget, ("spec", "selector"))
    return selector is not None and read_selector(selector).matches(pod["metadata"].get("labels"))


def is_healthy(pod: Object) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = dig(pod, ("status", "conditions")) or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def set_condition(status: Object, failure: str = "") -> None:
    """Set the condition DisruptionAllowed of *status* by its counts.

    :param failure: reason for which the counts are unknown.
    """
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    conditions = status.get("conditions") or []
    old: Object = next((item for item in conditions if item.get("type") == "DisruptionAllowed"), {})
    new: Object = {"type": "DisruptionAllowed", "status": "True" if allowed else "False"}
    if observed := status.get("observedGeneration"):
        new["observedGeneration"] = observed
    same = old.get("status") == new["status"]
    new["lastTransitionTime"] = old.get("lastTransitionTime") if same else objects.now()
    new["reason"] = "SyncFailed" if failure else "SufficientPods" if allowed else "InsufficientPods"
    new["message"] = failure
    status["conditions"] = [item for item in conditions if item is not old] + [new]


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "policy",
            "v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            short_names=("pdb",),
            storage=BUDGETS,
            name_problems=path_problems,
            metadata_rules=MetadataRules(whole=0, changes=0, standard_finalizers=False),
            subresource_rules=MetadataRules(whole=0, changes=0, standard_finalizers=False),
            strategy=BudgetStrategy(settings.gates),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                Column("Min Available", lambda budget: _shown(budget, "minAvailable")),
                Column("Max Unavailable", lambda budget: _shown(budget, "maxUnavailable")),
                at("Allowed Disruptions", "status.disruptionsAllowed", type="integer", default=0),
                AGE,
            ),
            unconditional_update=False,
        )
    ]


def _shown(budget: Object, member: str) -> str:
    value = (budget.get("spec") or {}).get(member)
    return "N/A" if value is None else str(value)
