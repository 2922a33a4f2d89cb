"""Validation of updates of the status of pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    internal_error,
    invalid_each,
    invalid_value,
)
from apiserver_stub.validation.addresses import parse_address, validate_address
from apiserver_stub.validation.container_restarts import is_restarted, restarts_all
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_update import validate_annotation_update
from nodeagent.base.names import qualified_name_problems, subdomain_problems
from nodeagent.base.release import Release

QOS_CLASS_KEPT = Release(1, 32)
"""First release that keeps the QoS class of a pod when its status is replaced."""
_ENDED = "may not be transitioned to non-terminated state"
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def validate_pod_status(new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in an update of the status of a pod, without those in metadata."""
    causes = validate_annotation_update(new, old, options)
    after, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(after.get("conditions") or ()):
        if (kind := condition.get("type") or "") not in _SYSTEM_CONDITIONS:
            causes += invalid_each(f"metadata.conditions[{index}].Type", kind, qualified_name_problems(kind))
    node = after.get("nominatedNodeName")
    if node and node != before.get("nominatedNodeName"):
        causes += invalid_each("status.nominatedNodeName", node, subdomain_problems(node))
    if (after.get("observedGeneration") or 0) < 0:
        detail = "must be a non-negative integer"
        causes.append(invalid_value("status.observedGeneration", after["observedGeneration"], detail))
    if options.release >= QOS_CLASS_KEPT and (after.get("qosClass") or "") != (before.get("qosClass") or ""):
        causes.append(invalid_value("status.qosClass", after.get("qosClass") or "", "field is immutable"))
    if "ContainerRestartRules" in options.features:
        causes += _validate_states_by_rules(old["spec"], after, before, options)
    else:
        causes += _validate_states(new["spec"], after, before)
    if statuses := after.get("resourceClaimStatuses"):
        causes += _validate_claim_statuses(statuses, new["spec"].get("resourceClaims") or ())
    if addresses := after.get("podIPs"):
        causes += _validate_addresses(addresses, "status.podIPs")
    if addresses := after.get("hostIPs"):
        if (after.get("hostIP") or "") != (first := addresses[0].get("ip") or ""):
            causes.append(invalid_value("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
        causes += _validate_addresses(addresses, "status.hostIPs")
    return causes


def _validate_states_by_rules(spec: Object, new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return an error for every terminated container that runs again against the restart policies of the pod."""
    any_restart = "RestartAllContainersOnContainerExits" in options.features and restarts_all(spec)
    causes = []
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if any_restart and kind != "ephemeralContainers":
            continue
        field = f"{kind.removesuffix('s')}Statuses"
        known = {item.get("name"): item for item in spec.get(kind) or () if kind != "ephemeralContainers"}
        running = {
            item.get("name") for item in new.get(field) or () if (item.get("state") or {}).get("terminated") is None
        }
        for index, status in enumerate(old.get(field) or ()):
            terminated = (status.get("state") or {}).get("terminated")
            if terminated is None or status.get("name") not in running:
                continue
            container, code = known.get(status.get("name")), terminated.get("exitCode") or 0
            if container is None or not is_restarted(container, spec.get("restartPolicy") or "", code):
                causes.append(forbidden_value(f"status.{field}[{index}].state", _ENDED))
    return causes


def _validate_states(spec: Object, new: Object, old: Object) -> list[Cause]:
    """Return an error for every terminated container that runs again although it is not restarted."""
    sidecars = {item.get("name") for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"}
    policy = spec.get("restartPolicy")
    causes = []
    for kind, kind_policy, restarted in (
        ("containerStatuses", policy, set()),
        ("initContainerStatuses", policy, sidecars),
        ("ephemeralContainerStatuses", "Never", set()),
    ):
        if kind_policy == "Always":
            continue
        for index, name in _ended(old.get(kind) or (), may_fail=kind_policy == "OnFailure"):
            if name in restarted:
                continue
            causes += [
                forbidden_value(f"status.{kind}[{index}].state", _ENDED)
                for status in new.get(kind) or ()
                if status.get("name") == name and (status.get("state") or {}).get("terminated") is None
            ]
    return causes


def _ended(statuses: Sequence[Object], *, may_fail: bool) -> Iterator[tuple[int, str | None]]:
    """Yield index and name of every container that has ended for good."""
    for index, status in enumerate(statuses):
        terminated = (status.get("state") or {}).get("terminated")
        if terminated is not None and not (may_fail and terminated.get("exitCode")):
            yield index, status.get("name")


def _validate_claim_statuses(statuses: Sequence[Object], claims: Sequence[Object]) -> list[Cause]:
    known = {item.get("name") or "" for item in claims}
    seen: set[str] = set()
    causes = []
    for index, status in enumerate(statuses):
        path = f"status.resourceClaimStatuses[{index}].name"
        name, claim = status.get("name") or "", status.get("resourceClaimName")
        if name not in known:
            causes.append(invalid_value(path, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            causes.append(duplicate(path, name))
        seen.add(name)
        if claim is not None:
            causes += invalid_each(path, claim, subdomain_problems(claim))
    return causes


def _validate_addresses(items: Sequence[Object], field: str) -> list[Cause]:
    """Return the errors in a list of addresses: one of each family at most, without duplicates."""
    texts = [item.get("ip") or "" for item in items]
    causes = []
    for index, text in enumerate(texts):
        causes += validate_address(text, f"{field}[{index}]")
    if len(texts) < 2:
        return causes
    parsed = [parse_address(text) for text in texts]
    invalid = [text for text, address in zip(texts, parsed, strict=True) if address is None]
    families = {address.version for address in parsed if address is not None}
    if invalid:
        shown = f"invalid IP[{texts.index(invalid[0])}]: {invalid[0]}"
        causes.append(internal_error(field, f"failed to check for dual stack with error:{shown}"))
    if invalid or len(families) < 2 or len(texts) > 2:
        causes.append(invalid_value(field, items, "may specify no more than one IP for each IP family"))
    causes += [
        duplicate(f"{field}[{index}]", items[index]) for index, text in enumerate(texts) if text in texts[:index]
    ]
    return causes
