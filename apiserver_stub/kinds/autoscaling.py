"""HorizontalPodAutoscalers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.autoscaler_versions import annotation, default_metrics, to_v1, to_v2
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_autoscaler
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.autoscalers import validate_autoscaler, validate_autoscaler_status
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_STORAGE = "autoscaling/horizontalpodautoscalers"
_SHOWN = 2
_TARGETS_NAMED = Release(1, 30)
"""First release that shows the names of resources in the targets."""
_TOLERANCE = Release(1, 33)
"""First release whose behavior has the field ``tolerance``."""
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class AutoscalerStrategy(Strategy):
    """HorizontalPodAutoscalers of one API version.

    :param to_current: converts an object of the version to ``v2``, in which it is validated.
    """

    def __init__(self, settings: KindSettings, to_current: Callable[[Object], Object] | None) -> None:
        self._gates, self._release, self._to_current = settings.gates, settings.compatibility_version, to_current
        label_domain = settings.identity.label_domain
        self._label_domain, self._metrics_annotation = label_domain, annotation(label_domain, "metrics")

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if self._to_current is not None:
            if self._metrics_annotation not in (new["metadata"].get("annotations") or {}):
                percent = default_metrics()[0]["resource"]["target"]["averageUtilization"]
                spec.setdefault("targetCPUUtilizationPercentage", percent)
            return
        if not spec.get("metrics"):
            spec["metrics"] = default_metrics()
        if (behavior := spec.get("behavior")) is not None:
            behavior["scaleUp"] = {**_UP, **(behavior.get("scaleUp") or {})}
            behavior["scaleDown"] = {**_DOWN, **(behavior.get("scaleDown") or {})}

    def prepare_create(self, new: Object) -> None:
        current = {"currentMetrics": None} if self._to_current is None else {"currentReplicas": 0}
        new["status"] = {"desiredReplicas": 0, **current}
        drop_from_autoscaler(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            drop_from_autoscaler(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return self._validate(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_autoscaler_status(new.get("status") or {})
        return self._validate(new, old)

    def _validate(self, new: Object, old: Object | None = None) -> list[Cause]:
        current = new if self._to_current is None else self._to_current(new)
        to_zero = dig(old or {}, ("spec", "minReplicas")) == 0 or self._gates.enabled("HPAScaleToZero")
        return validate_autoscaler(current, self._label_domain, scales_to_zero=to_zero, old=old, release=self._release)


def resources(settings: KindSettings) -> list[Resource]:
    domain = settings.identity.label_domain
    to_old = partial(to_v1, domain, has_tolerance=settings.compatibility_version >= _TOLERANCE)
    to_new = partial(to_v2, domain)
    named = settings.compatibility_version >= _TARGETS_NAMED
    columns = (
        NAME,
        Column("Reference", _reference, description="Object that is scaled."),
        Column("Targets", lambda obj: _targets(_current(to_new, obj), named), description="Metrics and their targets."),
        Column("MinPods", _least),
        at("MaxPods", "spec.maxReplicas", default=0),
        at("Replicas", "status.currentReplicas", default=0),
        AGE,
    )
    return [
        Resource(
            "autoscaling",
            version,
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            short_names=("hpa",),
            categories=("all",),
            storage=_STORAGE,
            hashed_version="v2",
            convert=convert,
            strategy=AutoscalerStrategy(settings, to_current),
            subresources=(Subresource("status"),),
            metadata_rules=MetadataRules(whole=0),
            columns=columns,
        )
        for version, convert, to_current in (("v2", to_new, None), ("v1", to_old, to_new))
    ]


def _current(convert: Callable[[Object], Object], obj: Object) -> Object:
    return obj if obj.get("apiVersion") == "autoscaling/v2" or "metadata" not in obj else convert(obj)


def _reference(obj: Object) -> str:
    reference = dig(obj, ("spec", "scaleTargetRef")) or {}
    return f"{reference.get('kind') or ''}/{reference.get('name') or ''}"


def _least(obj: Object) -> str:
    least = dig(obj, ("spec", "minReplicas"))
    return "<unset>" if least is None else str(least)


def _targets(obj: Object, named: bool) -> str:
    """Return the first targets, with the names of resources if *named*."""
    metrics, statuses = dig(obj, ("spec", "metrics")) or [], dig(obj, ("status", "currentMetrics")) or []
    if not metrics:
        return "<none>"
    texts = [
        _target(metric, statuses[index] if index < len(statuses) else {}, named) for index, metric in enumerate(metrics)
    ]
    shown = ", ".join(texts[:_SHOWN])
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown


def _target(metric: Object, status: Object, named: bool) -> str:
    kind = metric.get("type") or ""
    name = kind[:1].lower() + kind[1:]
    prefix = f"{dig(metric, (name, 'name')) or ''}: " if named and kind in ("Resource", "ContainerResource") else ""
    target, current = dig(metric, (name, "target")) or {}, dig(status, (name, "current")) or {}
    if target.get("averageValue") is not None:
        ending = " (avg)" if kind in ("External", "Object") else ""
        return f"{prefix}{current.get('averageValue') or '<unknown>'}/{target['averageValue']}{ending}"
    if kind in ("External", "Object"):
        return f"{current.get('value') or '<unknown>'}/{target.get('value') or 0}"
    desired, there = target.get("averageUtilization"), current.get("averageUtilization")
    found = "<unknown>" if there is None else f"{there}%"
    return f"{prefix}{found}/{'<auto>' if desired is None else f'{desired}%'}"
