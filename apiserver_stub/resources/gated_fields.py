"""Fields that a feature gate takes away: while it is off they are dropped, except where they are stored already."""

from __future__ import annotations

from apiserver_stub.objects import Object
from nodeagent.base.gates import FeatureGates


def drop_from_pod(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop from the pod *new* what is switched off and not in use in *old*.

    spec: gate.PodSchedulingReadiness, gate.SidecarContainers
    """
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    if not gates.enabled("PodSchedulingReadiness") and not before.get("schedulingGates"):
        spec.pop("schedulingGates", None)
    if not gates.enabled("SidecarContainers") and not _any_has("restartPolicy", before.get("initContainers")):
        _drop("restartPolicy", spec.get("initContainers"))


def drop_from_webhooks(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop from the configuration of webhooks *new* what is switched off and not in use in *old*.

    spec: gate.AdmissionWebhookMatchConditions
    """
    used = _any_has("matchConditions", (old or {}).get("webhooks"))
    if not gates.enabled("AdmissionWebhookMatchConditions") and not used:
        _drop("matchConditions", new.get("webhooks"))


def _any_has(name: str, items: list[Object] | None) -> bool:
    return any(item.get(name) for item in items or ())


def _drop(name: str, items: list[Object] | None) -> None:
    for item in items or ():
        item.pop(name, None)
