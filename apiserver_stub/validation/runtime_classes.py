"""Validation of runtime classes: handler, overhead of their pods, and how pods are scheduled."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_each, invalid_value, required
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.node_labels import deprecation
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.requirements import validate_requirements
from apiserver_stub.validation.tolerations import validate_tolerations
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_problems
from nodeagent.base.release import OLDEST, Release

_REVISED = Release(1, 36)
"""First release that reports a missing handler as such, and names the field of tolerations once."""
_TOLERATION = ("key", "operator", "value", "effect")


def validate_runtime_class(runtime_class: Object, identity: Identity, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in a runtime class."""
    handler, overhead = runtime_class.get("handler") or "", runtime_class.get("overhead")
    if not handler and release >= _REVISED:
        causes = [required("handler")]
    else:
        causes = invalid_each("handler", handler, label_problems(handler))
    if overhead is not None:
        limits = {"limits": overhead.get("podFixed")}
        causes += validate_requirements(limits, (), "overhead", PodOptions(identity))
    if (scheduling := runtime_class.get("scheduling")) is not None:
        causes += _validate_scheduling(scheduling, release)
    return causes


def validate_runtime_class_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of a runtime class, beyond those of new ones."""
    handler = new.get("handler") or ""
    return [] if handler == (old.get("handler") or "") else [invalid_value("handler", handler, "field is immutable")]


def runtime_class_warnings(runtime_class: Object, identity: Identity) -> list[str]:
    """Return a warning for each deprecated label in the node selector."""
    selector = (runtime_class.get("scheduling") or {}).get("nodeSelector") or ()
    return [f"scheduling.nodeSelector: {text}" for key in selector if (text := deprecation(key, identity))]


def _validate_scheduling(scheduling: Object, release: Release) -> list[Cause]:
    field = "scheduling.tolerations" if release >= _REVISED else "scheduling.tolerations.tolerations"
    tolerations = scheduling.get("tolerations") or ()
    causes = validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    causes += validate_tolerations(tolerations, field)
    seen = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(name) or "" for name in _TOLERATION)
        if key in seen:
            causes.append(duplicate(f"scheduling.tolerations[{index}]", toleration))
        seen.add(key)
    return causes
