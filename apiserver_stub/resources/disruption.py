"""Disruption budgets of pods: how many of those that a selector chooses may be missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.admission.webhooks.matching import read_selector
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.gated_fields import drop_from_budget
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, invalid_value, not_supported, quote
from apiserver_stub.strategic import BUDGET
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import path_problems

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from nodeagent.base.gates import FeatureGates

BUDGETS = "policy/poddisruptionbudgets"
"""Collection of the budgets."""
COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
"""Members of a status that are always there."""
IF_HEALTHY, ALWAYS = "IfHealthyBudget", "AlwaysAllow"
_LIMITS = ("minAvailable", "maxUnavailable")
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_AT_LEAST_0 = "must be greater than or equal to 0"


class BudgetStrategy(Strategy):
    """One of two limits, as a number or a percentage; the generation counts the changes of what is wanted."""

    counted = ("spec",)

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates

    def prepare_create(self, new: Object) -> None:
        drop_from_budget(self._gates, new)
        new["status"] = dict.fromkeys(COUNTS, 0)

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        given = [name for name in _LIMITS if spec.get(name) is not None]
        causes = []
        if len(given) > 1:
            causes.append(invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set"))
        for name in given:
            causes += _check_limit(spec[name], f"spec.{name}")
        if spec.get("selector") is not None:
            causes += validate_selector(spec["selector"], "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in (ALWAYS, IF_HEALTHY):
            causes.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, (ALWAYS, IF_HEALTHY)))
        return causes

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            drop_from_budget(self._gates, new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource != "status":
            return self.validate(new)
        status = new.get("status") or {}
        return [
            invalid_value(f"status.{name}", status[name], _AT_LEAST_0) for name in COUNTS if (status.get(name) or 0) < 0
        ]


def covers(budget: Object, pod: Object) -> bool:
    """Return whether *budget* is about *pod*, which is in its namespace; one without a selector is about none."""
    selector = dig(budget, ("spec", "selector"))
    return selector is not None and read_selector(selector).matches(pod["metadata"].get("labels"))


def is_healthy(pod: Object) -> bool:
    """Return whether the pod's Ready condition is true."""
    conditions = dig(pod, ("status", "conditions")) or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def set_condition(status: Object) -> None:
    """Let the condition of *status* say whether a disruption is allowed."""
    allowed = (status.get("disruptionsAllowed") or 0) > 0
    conditions = status.get("conditions") or []
    old: Object = next((item for item in conditions if item.get("type") == "DisruptionAllowed"), {})
    new: Object = {"type": "DisruptionAllowed", "status": "True" if allowed else "False"}
    if observed := status.get("observedGeneration"):
        new["observedGeneration"] = observed
    same = old.get("status") == new["status"]
    new["lastTransitionTime"] = old.get("lastTransitionTime") if same else objects.now()
    new["reason"], new["message"] = "SufficientPods" if allowed else "InsufficientPods", ""
    status["conditions"] = [item for item in conditions if item is not old] + [new]


def resources(options: Options) -> list[Resource]:
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
            strategy=BudgetStrategy(options.gates),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                Column("Min Available", lambda budget: _shown(budget, "minAvailable")),
                Column("Max Unavailable", lambda budget: _shown(budget, "maxUnavailable")),
                at("Allowed Disruptions", "status.disruptionsAllowed", type="integer", default=0),
                AGE,
            ),
            patch_schema=BUDGET,
            unconditional_update=False,
        )
    ]


def _check_limit(value: Any, field: str) -> list[Cause]:
    if not isinstance(value, str):
        return [invalid_value(field, value, _AT_LEAST_0)] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        return [_wrong_text(value, field, _PERCENT_RULE)]
    return [_wrong_text(value, field, "must not be greater than 100%")] if int(value[:-1]) > 100 else []


def _wrong_text(value: str, field: str, detail: str) -> Cause:
    shown = f"intstr.IntOrString{{Type:1, IntVal:0, StrVal:{quote(value)}}}"
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", field)


def _shown(budget: Object, member: str) -> str:
    value = (budget.get("spec") or {}).get(member)
    return "N/A" if value is None else str(value)
