"""Validation of resource quotas: names and amounts of resources, scopes, and the status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, quote, required
from apiserver_stub.validation.quantities import is_quota_resource, validate_amount, validate_quota_resource_name

_BEST_EFFORT, _PRIORITY_CLASS = "BestEffort", "PriorityClass"
_POD_SCOPES = ("CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", _PRIORITY_CLASS, "Terminating")
_SCOPES = frozenset((_BEST_EFFORT, *_POD_SCOPES))
_COMPUTE = frozenset(("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"))
_CONFLICTS = ((_BEST_EFFORT, "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXIST = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_quota(quota: Object, label_domain: str) -> list[Cause]:
    """Return the errors in the specification of a quota; resources in *label_domain* are native."""
    spec = quota.get("spec") or {}
    hard, scopes = spec.get("hard") or {}, spec.get("scopes") or []
    causes = _validate_amounts(hard, "spec.hard", label_domain)
    if scopes:
        causes += _validate_scopes(scopes, hard)
    if (selector := spec.get("scopeSelector")) is not None:
        causes += _validate_selector(selector, hard, scopes)
    return causes


def validate_quota_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of a quota, beyond those in its specification."""
    before, after = ((quota.get("spec") or {}).get("scopes") or [] for quota in (old, new))
    return [] if set(before) == set(after) else [_invalid_scopes("spec.scopes", after, "field is immutable")]


def validate_quota_status(quota: Object, label_domain: str) -> list[Cause]:
    """Return the errors in the status of a quota."""
    status = quota.get("status") or {}
    return [
        cause
        for name in ("hard", "used")
        for cause in _validate_amounts(status.get(name) or {}, f"status.{name}", label_domain)
    ]


def _validate_amounts(amounts: Object, field: str, label_domain: str) -> list[Cause]:
    causes = []
    for name, text in amounts.items():
        path = f"{field}[{name}]"
        causes += validate_quota_resource_name(name, path)
        causes += validate_amount(name, text, path, label_domain)
    return causes


def _validate_scopes(scopes: Sequence[str], hard: Iterable[str]) -> list[Cause]:
    details = []
    for scope in scopes:
        if scope not in _SCOPES:
            details.append("unsupported scope")
        details += ["unsupported scope applied to resource" for name in hard if not _is_valid_for(scope, name)]
    details += ["conflicting scopes" for pair in _CONFLICTS if scopes and set(pair) <= set(scopes)]
    return [_invalid_scopes("spec.scopes", scopes, detail) for detail in details]


def _validate_selector(selector: Object, hard: Iterable[str], scopes: Sequence[str]) -> list[Cause]:
    field = "spec.scopeSelector.matchExpressions"
    causes = []
    selected = set()
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        if scope not in _SCOPES:
            causes.append(invalid_value(f"{field}.scopeName", scope, "unsupported scope"))
        causes += [
            invalid_value(field, selector, "unsupported scope applied to resource")
            for name in hard
            if not _is_valid_for(scope, name)
        ]
        if scope in _SCOPES and scope != _PRIORITY_CLASS and operator != "Exists":
            causes.append(invalid_value(f"{field}.operator", operator, _EXIST))
        causes += _validate_operator(operator, values, field)
        selected.add(scope)
    conflicts = [pair for pair in _CONFLICTS if set(pair) <= selected]
    return causes + [_invalid_scopes(field, scopes, "conflicting scopes") for _ in conflicts]


def _validate_operator(operator: str, values: list[str], field: str) -> list[Cause]:
    if operator in ("In", "NotIn"):
        if values:
            return []
        detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [required(f"{field}.values", detail)]
    if operator in ("Exists", "DoesNotExist"):
        if not values:
            return []
        detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid_value(f"{field}.values", values, detail)]
    return [invalid_value(f"{field}.operator", operator, "not a valid selector operator")]


def _is_valid_for(scope: str, name: str) -> bool:
    """Return whether a quota with *scope* can limit the resource; other errors are reported by other functions."""
    if scope not in _SCOPES or not is_quota_resource(name):
        return True
    return name == "pods" or (scope != _BEST_EFFORT and name in _COMPUTE)


def _invalid_scopes(field: str, scopes: Sequence[str], detail: str) -> Cause:
    shown = (
        f"[]core.ResourceQuotaScope{{{', '.join(map(quote, scopes))}}}" if scopes else "[]core.ResourceQuotaScope(nil)"
    )
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", field)
