"""Validation of updates of pods, and of their ephemeral containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, required
from apiserver_stub.validation.affinity import REQUIRED
from apiserver_stub.validation.containers import validate_image
from apiserver_stub.validation.pod import validate_pod
from apiserver_stub.validation.pod_annotations import (
    keys,
    validate_pod_annotation_update,
    validate_pod_annotations,
)
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_qos import qos_class
from apiserver_stub.validation.pod_spec import DEADLINE_LIMIT_SECONDS
from apiserver_stub.validation.tolerations import validate_tolerations

_UPDATE_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESIZE_RULE = f"{_UPDATE_RULE},`spec.containers[*].resources` (for CPU/memory only)"
_DEADLINE = "spec.activeDeadlineSeconds"


def validate_pod_update(
    new: Object, old: Object, options: PodOptions, normalize: Callable[[Object], Object] = lambda spec: spec
) -> list[Cause]:
    """Return the errors in an update of a pod, without those in metadata.

    :param normalize: returns a stored spec with the defaults of this release, to compare with.
    """
    causes = validate_pod(new, options) + validate_annotation_update(new, old, options)
    after, before = new["spec"], old["spec"]
    for kind in ("containers", "initContainers"):
        containers, previous = after.get(kind) or (), before.get(kind) or ()
        if len(containers) != len(previous):
            return [*causes, forbidden_value(f"spec.{kind}", "pod updates may not add or remove containers")]
        for index, container in enumerate(containers):
            path = f"spec.{kind}[{index}]"
            if not container.get("image"):
                causes.append(required(f"{path}.image"))
            causes += validate_image(container, path)
    if problem := _validate_deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")):
        causes.append(problem)
        if after.get("activeDeadlineSeconds") is not None:
            return causes
    causes += _validate_added_tolerations(after.get("tolerations") or (), before.get("tolerations") or (), options)
    causes += _validate_removed_gates(after.get("schedulingGates") or (), before.get("schedulingGates") or ())
    if after == before or after == (before := normalize(before)):
        return causes
    return causes + _validate_changes(new, old, before, options)


def validate_annotation_update(new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in changed annotations, and in all annotations that are settings."""
    after, before = new["metadata"].get("annotations") or {}, old["metadata"].get("annotations") or {}
    causes = validate_pod_annotation_update(after, before, "metadata.annotations", options.identity)
    return causes + validate_pod_annotations(after, new["spec"], "metadata.annotations", options)


def validate_ephemeral_update(new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in an update of the ephemeral containers, which may only be added."""
    if keys(options.identity).mirror in (old["metadata"].get("annotations") or {}):
        return [forbidden_value("", "static pods do not support ephemeral containers")]
    causes = validate_pod(new, options) + validate_annotation_update(new, old, options)
    field = "spec.ephemeralContainers"
    after = {item.get("name") or "": item for item in new["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name") or ""
        if name not in after:
            causes.append(forbidden_value(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif after[name] != container:
            causes.append(forbidden_value(field, f'existing ephemeral containers "{name}" may not be changed\n'))
    return causes


def _validate_deadline(new: int | None, old: int | None) -> Cause | None:
    if new is None:
        detail = "must not update from a positive integer to nil value"
        return None if old is None else invalid_value(_DEADLINE, None, detail)
    if not 0 <= new <= DEADLINE_LIMIT_SECONDS:
        return invalid_value(_DEADLINE, new, f"must be between 0 and {DEADLINE_LIMIT_SECONDS}, inclusive")
    if old is not None and old < new:
        return invalid_value(_DEADLINE, new, "must be less than or equal to previous value")
    return None


def _validate_added_tolerations(new: Sequence[Object], old: Sequence[Object], options: PodOptions) -> list[Cause]:
    kept = [_without_seconds(item) for item in new]
    if any(_without_seconds(item) not in kept for item in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden_value("spec.tolerations", detail)]
    return validate_tolerations(new, "spec.tolerations", options)


def _without_seconds(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _validate_removed_gates(new: Sequence[Object], old: Sequence[Object]) -> list[Cause]:
    known = {item.get("name") or "" for item in old}
    positions = {item.get("name") or "": index for index, item in enumerate(new)}
    detail = "only deletion is allowed, but found new scheduling gate"
    return [
        forbidden_value(f"spec.schedulingGates[{index}].name", f"{detail} '{name}'")
        for name, index in positions.items()
        if name not in known
    ]


def _validate_changes(new: Object, old: Object, before: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in a spec that differs from the one *before*."""
    causes = []
    stored = (old.get("status") or {}).get("qosClass")
    if options.resize_by_update and (stored or qos_class(before)) != qos_class(new["spec"]):
        causes.append(invalid_value("metadata", stored or "", "Pod QoS is immutable"))
    resize = options.allow_resize and options.resize_by_update
    spec = _with_allowed_changes_undone(new["spec"], before, resize=resize)
    if before.get("schedulingGates") and options.allow_scheduling_changes:
        causes += _undo_scheduling_changes(spec, before)
    if spec != before:
        changed = sorted(name for name in {*spec, *before} if spec.get(name) != before.get(name))
        rule = _RESIZE_RULE if resize else _UPDATE_RULE
        causes.append(forbidden_value("spec", f"{rule}\nchanged: {', '.join(changed)}"))
    return causes


def _with_allowed_changes_undone(spec: Object, before: Object, *, resize: bool) -> Object:
    """Return a copy of *spec* in which what an update may change is as *before*."""
    result = {**spec}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            pairs = zip(spec[kind], before[kind], strict=True)
            resources = resize and kind == "containers"
            result[kind] = [_with_old_image(container, old, resize=resources) for container, old in pairs]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _restore(result, before, name)
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _restore(result, before, "terminationGracePeriodSeconds")
    return result


def _with_old_image(container: Object, old: Object, *, resize: bool) -> Object:
    result = {**container}
    _restore(result, old, "image")
    if resize:
        resources, previous = container.get("resources") or {}, old.get("resources") or {}
        amounts = {kind: _with_old_amounts(resources.get(kind), previous.get(kind)) for kind in ("limits", "requests")}
        result["resources"] = {kind: value for kind, value in amounts.items() if value}
    return result


def _with_old_amounts(amounts: Object | None, old: Object | None) -> Object | None:
    if not old:
        return None
    others = {name: text for name, text in (amounts or {}).items() if name not in ("cpu", "memory")}
    return others | {name: old[name] for name in ("cpu", "memory") if name in old}


def _undo_scheduling_changes(spec: Object, before: Object) -> list[Cause]:
    """Return the errors in a changed node selector or node affinity, and restore them in *spec*."""
    causes = []
    selector, old_selector = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(invalid_value("spec.nodeSelector", selector, detail))
    _restore(spec, before, "nodeSelector")
    affinity, old_affinity = spec.get("affinity"), before.get("affinity")
    nodes, old_nodes = (affinity or {}).get("nodeAffinity"), (old_affinity or {}).get("nodeAffinity")
    if nodes == old_nodes:
        return causes
    causes += _validate_node_affinity_change(nodes or {}, old_nodes or {})
    restored = {name: value for name, value in (affinity or {}).items() if name != "nodeAffinity"}
    if old_nodes is not None:
        restored["nodeAffinity"] = old_nodes
    if restored or old_affinity is not None:
        spec["affinity"] = restored
    else:
        spec.pop("affinity", None)
    return causes


def _validate_node_affinity_change(new: Object, old: Object) -> list[Cause]:
    terms = (new.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    old_terms = (old.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    field = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if old_terms and len(old_terms) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid_value(field, terms, detail)]
    return [
        invalid_value(f"{field}[{index}]", term, "only additions are allowed (no mutations or deletions)")
        for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=False))
        if not _has_only_additions(term, old_term)
    ]


def _has_only_additions(new: Object, old: Object) -> bool:
    if not any(old.values()):
        return not any(new.values())
    for name in ("matchExpressions", "matchFields"):
        requirements = old.get(name) or []
        if (new.get(name) or [])[: len(requirements)] != requirements:
            return False
    return True


def _restore(obj: Object, before: Mapping[str, object], name: str) -> None:
    if name in before:
        obj[name] = before[name]
    else:
        obj.pop(name, None)
