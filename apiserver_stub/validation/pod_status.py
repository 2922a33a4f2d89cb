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
from apiserver_stub.validation.addresses import parse_address, validate_legacy_address
from apiserver_stub.validation.container_restarts import is_restarted, restarts_all
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_resource_status import validate_extended_claim, validate_resource_health
from apiserver_stub.validation.pod_update import validate_annotation_update
from nodeagent.base.names import qualified_name_problems, subdomain_problems
from nodeagent.base.release import Release

QOS_CLASS_KEPT = Release(1, 32)
"""First release that keeps the QoS class of a pod when its status is replaced."""
_RESOURCE_HEALTH, _EXTENDED_CLAIMS = Release(1, 31), Release(1, 34)
"""First releases with the health of allocated resources, and with claims for extended resources."""
_GENERATIONS = Release(1, 33)
"""First release with observed generations of conditions."""
_STORED_ADDRESSES_KEPT = Release(1, 34)
"""First release that accepts the stored addresses unchanged, and reports repeated ones once."""
_ENDED = "may not be transitioned to non-terminated state"
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def validate_pod_status(new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in an update of the status of a pod, without those in metadata."""
    causes = validate_annotation_update(new, old, options)
    after, before = new.get("status") or {}, old.get("status") or {}
    causes += _validate_conditions(after.get("conditions") or (), options.release)
    node = after.get("nominatedNodeName")
    if node and node != before.get("nominatedNodeName"):
        causes += invalid_each("status.nominatedNodeName", node, subdomain_problems(node))
        if "ClearingNominatedNodeNameAfterBinding" in options.features and old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            causes.append(forbidden_value("status.nominatedNodeName", detail))
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
    if (claim := after.get("extendedResourceClaimStatus")) is not None and options.release >= _EXTENDED_CLAIMS:
        causes += validate_extended_claim(claim, new["spec"], "status.extendedResourceClaimStatus")
    if options.release >= _RESOURCE_HEALTH:
        causes += validate_resource_health(after, new["spec"])
    if addresses := after.get("podIPs"):
        causes += _validate_addresses(addresses, before.get("podIPs") or (), "status.podIPs", options)
    if addresses := after.get("hostIPs"):
        if (after.get("hostIP") or "") != (first := addresses[0].get("ip") or ""):
            causes.append(invalid_value("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
        causes += _validate_addresses(addresses, before.get("hostIPs") or (), "status.hostIPs", options)
    return causes


def _validate_conditions(conditions: Sequence[Object], release: Release) -> list[Cause]:
    has_generations = release >= _GENERATIONS
    field = "status.conditions" if has_generations else "metadata.conditions"
    causes = []
    for index, condition in enumerate(conditions):
        kind, generation = condition.get("type") or "", condition.get("observedGeneration") or 0
        if has_generations and generation < 0:
            detail = "must be a non-negative integer"
            causes.append(invalid_value(f"{field}[{index}].observedGeneration", generation, detail))
        if kind not in _SYSTEM_CONDITIONS:
            causes += invalid_each(f"{field}[{index}].Type", kind, qualified_name_problems(kind))
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


def _validate_addresses(items: Sequence[Object], old: Sequence[Object], field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in a list of addresses: one of each family at most, without duplicates."""
    texts = [item.get("ip") or "" for item in items]
    is_strict = "StrictIPCIDRValidation" in options.features
    keeps_stored = options.release >= _STORED_ADDRESSES_KEPT
    stored = {item.get("ip") or "" for item in old} if keeps_stored else set()
    causes = []
    for index, text in enumerate(texts):
        causes += validate_legacy_address(text, f"{field}[{index}]", is_strict=is_strict, stored=stored)
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
    if keeps_stored:
        return causes
    causes += [
        duplicate(f"{field}[{index}]", items[index]) for index, text in enumerate(texts) if text in texts[:index]
    ]
    return causes
