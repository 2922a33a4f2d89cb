"""Resource quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, CREATED_AT, NAME
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, duplicate, forbidden_value, invalid_value, required
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.quantity import Quantity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
)
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")
_WHOLE = frozenset(
    [
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    ]
)
_NOT_WHOLE = "must be an integer"


class ResourceQuotaStrategy(Strategy):
    """The status is the server's; scopes stay."""

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = []
        for name, text in (spec.get("hard") or {}).items():
            field = f"spec.hard[{name}]"
            amount = _amount(text)
            if amount < Quantity():
                causes.append(invalid_value(field, str(text), "must be greater than or equal to 0"))
            if amount.nanos % 10**9 and (name in _WHOLE or name.startswith("count/")):
                causes.append(invalid_value(field, str(text), _NOT_WHOLE))
        scopes = spec.get("scopes") or ()
        for index, scope in enumerate(scopes):
            if scope not in _SCOPES:
                causes.append(invalid_value(f"spec.scopes[{index}]", scope, "unsupported scope"))
        for first, second in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
            if first in scopes and second in scopes:
                causes.append(invalid_value("spec.scopes", " ".join(sorted(scopes)), "conflicting scopes"))
        for index, item in enumerate((spec.get("scopeSelector") or {}).get("matchExpressions") or ()):
            causes += _check_expression(f"spec.scopeSelector.matchExpressions[{index}]", item)
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = [] if subresource else self.validate(new)
        before, after = ((item.get("spec") or {}).get("scopes") or [] for item in (old, new))
        if sorted(before) != sorted(after):
            causes.append(invalid_value("spec.scopes", " ".join(after), "field is immutable"))
        return causes


class LimitRangeStrategy(Strategy):
    """Bounds do not contradict each other; what has a maximum has a default."""

    def default(self, new: Object) -> None:
        for item in (new.get("spec") or {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            default = item["default"] = dict(item.get("default") or {})
            request = item["defaultRequest"] = dict(item.get("defaultRequest") or {})
            for name, text in (item.get("max") or {}).items():
                default.setdefault(name, text)
            for name, text in default.items():
                request.setdefault(name, text)
            for name, text in (item.get("min") or {}).items():
                request.setdefault(name, text)
            for member in ("default", "defaultRequest"):
                if not item[member]:
                    del item[member]

    def validate(self, new: Object) -> list[Cause]:
        causes: list[Cause] = []
        seen: set[str] = set()
        for index, item in enumerate((new.get("spec") or {}).get("limits") or ()):
            field, kind = f"spec.limits[{index}]", item.get("type") or ""
            if kind in seen:
                causes.append(duplicate(f"{field}.type", kind))
            seen.add(kind)
            if kind == "Pod":
                for member in ("default", "defaultRequest"):
                    if item.get(member):
                        causes.append(forbidden_value(f"{field}.{member}", "may not be specified when `type` is 'Pod'"))
            storage = any("storage" in (item.get(member) or {}) for member in ("min", "max"))
            if kind == "PersistentVolumeClaim" and not storage:
                detail = "either minimum or maximum storage value is required, but neither was provided"
                causes.append(required(f"{field}.limits", detail))
            causes += _check_bounds(field, item)
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "ResourceQuota",
            "resourcequotas",
            short_names=("quota",),
            metadata_rules=MetadataRules(whole=0),
            strategy=ResourceQuotaStrategy(),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                AGE,
                Column("Request", lambda quota: _used(quota, limits=False)),
                Column("Limit", lambda quota: _used(quota, limits=True)),
            ),
            returns_deleted=True,
        ),
        Resource(
            "",
            "v1",
            "LimitRange",
            "limitranges",
            short_names=("limits",),
            metadata_rules=MetadataRules(changes=0),
            strategy=LimitRangeStrategy(),
            columns=(NAME, CREATED_AT),
            create_on_update=True,
        ),
    ]


def _check_expression(field: str, item: Object) -> Iterator[Cause]:
    scope, operator, values = item.get("scopeName"), item.get("operator"), item.get("values") or []
    if scope not in _SCOPES:
        yield invalid_value(f"{field}.scopeName", scope or "", "unsupported scope")
    if operator not in _OPERATORS:
        yield invalid_value(f"{field}.operator", operator or "", "not a valid selector operator")
    elif scope != "PriorityClass" and operator != "Exists":
        detail = "must be 'Exist' when scope is any of BestEffort, NotBestEffort, Terminating or NotTerminating"
        yield invalid_value(f"{field}.operator", operator, detail)
    if operator in ("In", "NotIn") and not values:
        yield required(
            f"{field}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        )
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid_value(f"{field}.values", " ".join(values), detail)


def _check_bounds(field: str, item: Object) -> Iterator[Cause]:
    members = ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    given = {member: item.get(member) or {} for member in members}
    for name in sorted(set().union(*given.values())):
        least, most, default, request, ratio = (
            _amount(given[member][name]) if name in given[member] else None for member in members
        )
        for low, high, member, detail in (
            (least, most, "min", "min value {} is greater than max value {}"),
            (least, request, "defaultRequest", "min value {} is greater than default request value {}"),
            (request, most, "defaultRequest", "default request value {} is greater than max value {}"),
            (request, default, "defaultRequest", "default request value {} is greater than default limit value {}"),
            (least, default, "default", "min value {} is greater than default value {}"),
            (default, most, "default", "default value {} is greater than max value {}"),
        ):
            if low is not None and high is not None and low > high:
                yield invalid_value(f"{field}.{member}[{name}]", str(low), detail.format(low, high))
        if ratio is not None and ratio < Quantity(1):
            yield invalid_value(f"{field}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


def _amount(text: Any) -> Quantity:
    try:
        return Quantity.parse(str(text))
    except ValueError:
        return Quantity()  # refused by the shape of the kind


def _used(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    used = status.get("used") or {}
    names = sorted(name for name in status.get("hard") or {} if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{status['hard'][name]}" for name in names)
