"""Validation of resizes: updates of the resources of a pod through the subresource ``resize``."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value
from apiserver_stub.validation.pod import validate_pod
from apiserver_stub.validation.pod_annotations import keys
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_qos import qos_class

_KINDS = ("containers", "initContainers")
_RESIZABLE = ("cpu", "memory")
_NO_FIELD = "[]"
"""Path by which upstream reports errors without a field."""
_ONLY = "only cpu and memory resources are mutable"


def resized(new: Object, old: Object, *, pod_level: bool) -> Object:
    """Return the spec of *old* with the fields of *new* that a resize can change.

    The spec of *new* is returned if its containers are others, which :func:`validate_pod_resize` rejects.
    """
    spec, before = new["spec"], old["spec"]
    merged = {**before}
    if pod_level:
        merged.pop("resources", None)
        if "resources" in spec:
            merged["resources"] = spec["resources"]
    for kind in _KINDS:
        containers, previous = spec.get(kind) or [], before.get(kind) or []
        if len(containers) != len(previous):
            return dict(spec)
        if [each.get("name") for each in containers] != [each.get("name") for each in previous]:
            merged[kind] = containers
        elif previous:
            merged[kind] = [_merged(*pair) for pair in zip(containers, previous, strict=True)]
    return merged


def validate_pod_resize(
    new: Object, old: Object, options: PodOptions, *, init_containers: bool, pod_level: bool
) -> list[Cause]:
    """Return the errors in a resize, without those in metadata.

    :param init_containers: init containers that are not sidecars can be resized.
    :param pod_level: resources of the pod itself can be resized.
    """
    if keys(options.identity).mirror in (old["metadata"].get("annotations") or {}):
        return [forbidden_value(_NO_FIELD, "static pods cannot be resized")]
    if dig(old, ("spec", "os", "name")) == "windows":
        return [forbidden_value(_NO_FIELD, "windows pods cannot be resized")]
    causes = validate_pod(new, options)
    stored = dig(old, ("status", "qosClass")) or qos_class(old["spec"])
    if stored != qos_class(new["spec"]):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", dig(new, ("status", "qosClass")) or "", detail))
    if not _supported(old):
        causes.append(forbidden_value("spec", "Pod running on node without support for resize"))
    if dig(old, ("spec", "resources")) or dig(new, ("spec", "resources")):
        if not pod_level:
            detail = (
                "resize of pods with pod-level resources is forbidden when "
                "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
            )
            return [*causes, forbidden_value("", detail)]
        causes += _validate_pod_level(new["spec"].get("resources"), old["spec"].get("resources"))
    if dig(old, ("status", "nodeAllocatableResourceClaimStatuses")):
        causes.append(forbidden_value("spec", "pods with node allocatable resource claims cannot be resized"))
    if order := list(_validate_order(new["spec"], old["spec"])):
        return causes + order
    causes += _validate_containers(new["spec"], old["spec"], init_containers=init_containers)
    if not causes and _masked(new["spec"], old["spec"]) != old["spec"]:
        causes.append(forbidden_value("spec", _ONLY))
    return causes


def _merged(container: Object, previous: Object) -> Object:
    result = {name: value for name, value in previous.items() if name not in ("resources", "resizePolicy")}
    return result | {name: container[name] for name in ("resources", "resizePolicy") if name in container}


def _supported(pod: Object) -> bool:
    """Return whether the node reports the resources of its containers; assumed until one is running."""
    for status in dig(pod, ("status", "containerStatuses")) or ():
        if dig(status, ("state", "running")) is not None:
            return status.get("resources") is not None
    return True


def _validate_order(new: Object, old: Object) -> Iterator[Cause]:
    for kind in _KINDS:
        containers, previous = new.get(kind) or (), old.get(kind) or ()
        if len(containers) != len(previous):
            yield forbidden_value(f"spec.{kind}", f"{kind} may not be added or removed on resize")
            continue
        for index, (container, before) in enumerate(zip(containers, previous, strict=True)):
            if container.get("name") != before.get("name"):
                detail = f"{kind} may not be renamed or reordered on resize"
                yield forbidden_value(f"spec.{kind}[{index}].name", detail)


def _validate_containers(new: Object, old: Object, *, init_containers: bool) -> list[Cause]:
    causes: list[Cause] = []
    changed: list[Cause] = []
    for kind in reversed(_KINDS):
        for index, (container, before) in enumerate(zip(new.get(kind) or (), old.get(kind) or (), strict=True)):
            path, init = f"spec.{kind}[{index}]", kind == "initContainers"
            sidecar = container.get("restartPolicy") == "Always"
            if not init or sidecar or init_containers:
                causes += _validate_removed(container, before, f"{path}.resources", "resource")
            elif container != before:
                changed.append(forbidden_value("spec", "resources for non-sidecar init containers are immutable"))
                continue
            if _without_amounts(container, before) != before:
                detail = "only cpu and memory resources for init or sidecar containers are mutable"
                changed.append(forbidden_value(path, detail) if init else forbidden_value("spec", _ONLY))
            if init and not sidecar and container != before and _restarts(container):
                detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                changed.append(forbidden_value(path, detail))
    return causes + changed


def _restarts(container: Object) -> bool:
    return any(policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy") or ())


def _validate_removed(new: Object, old: Object, path: str, noun: str) -> list[Cause]:
    """Return an error each for requests and limits if *new* lacks some of them."""
    after, before = new.get("resources") or {}, old.get("resources") or {}
    return [
        forbidden_value(f"{path}.{member}", f"{noun} {member} cannot be removed")
        for member in ("requests", "limits")
        if (before.get(member) or {}).keys() - (after.get(member) or {}).keys()
    ]


def _validate_pod_level(new: Object | None, old: Object | None) -> list[Cause]:
    if old and not new:
        return [forbidden_value("spec.resources", "pod-level resources cannot be removed")]
    causes = _validate_removed({"resources": new}, {"resources": old}, "spec.resources", "pod-level resource")
    if _with_old_amounts(new or {}, old or {}) != (old or {}):
        causes.append(forbidden_value("spec", "only cpu and memory resources are mutable at pod-level"))
    return causes


def _masked(new: Object, old: Object) -> Object:
    """Return *new* with the cpu and memory of *old*."""
    result = {**new}
    for kind in _KINDS:
        if kind in new:
            pairs = zip(new[kind], old.get(kind) or (), strict=True)
            result[kind] = [_without_amounts(container, before) for container, before in pairs]
    result.pop("resources", None)
    return result | {name: old[name] for name in ("resources",) if name in old}


def _without_amounts(container: Object, before: Object) -> Object:
    """Return *container* with the cpu and memory of *before*."""
    resources = _with_old_amounts(container.get("resources") or {}, before.get("resources") or {})
    result = {name: value for name, value in container.items() if name != "resources"}
    return result | ({"resources": resources} if resources or "resources" in before else {})


def _with_old_amounts(new: Object, old: Object) -> Object:
    result = {name: value for name, value in new.items() if name not in ("requests", "limits")}
    for member in ("requests", "limits"):
        others = {name: text for name, text in (new.get(member) or {}).items() if name not in _RESIZABLE}
        amounts = others | {name: text for name, text in (old.get(member) or {}).items() if name in _RESIZABLE}
        if amounts:
            result[member] = amounts
    return result
