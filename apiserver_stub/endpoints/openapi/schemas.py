"""Schemas of the kinds for the published documents, generated from the shapes that validate requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.media import object_types
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Form, Shape

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource
    from nodeagent.base.identity import Identity
    from nodeagent.base.release import Release

_BUNDLED = "nodeagent.api."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_NAMED: Mapping[Form, tuple[str, Object]] = {
    Form.TIME: (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    Form.MICRO_TIME: (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    Form.QUANTITY: ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"type": "string"}),
    Form.INT_OR_TEXT: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"type": "string", "format": "int-or-string"},
    ),
}
_PLAIN: Mapping[Form, Object] = {
    Form.TEXT: {"type": "string"},
    Form.BYTES: {"type": "string", "format": "byte"},
    Form.INT32: {"type": "integer", "format": "int32"},
    Form.INT64: {"type": "integer", "format": "int64"},
    Form.BOOL: {"type": "boolean"},
    Form.FLOAT: {"type": "number", "format": "double"},
    Form.ANY: {"type": "object"},
    Form.UNION: {},
}
_REQUIRED: Mapping[str, list[str]] = {
    "apiregistration.APIServiceCondition": ["type", "status"],
    "apiregistration.APIServiceSpec": ["groupPriorityMinimum", "versionPriority"],
    "core.Container": ["name"],
    "core.ContainerPort": ["containerPort"],
    "core.EnvVar": ["name"],
    "core.Event": ["metadata", "involvedObject"],
    "core.PodSpec": ["containers"],
    "core.Volume": ["name"],
    "core.VolumeMount": ["name", "mountPath"],
    "events.Event": ["eventTime"],
    "events.EventSeries": ["count", "lastObservedTime"],
    "meta.OwnerReference": ["apiVersion", "kind", "name", "uid"],
    "policy.PodDisruptionBudgetStatus": ["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"],
}
_TEXTS: Mapping[str, str] = {
    "apiVersion": "Group and version in which the object is written.",
    "kind": "Kind of the object.",
    "metadata": "Standard metadata of objects.",
    "spec": "Desired state.",
    "status": "Most recently observed state.",
    "items": "The objects of the list.",
    "events.Event": "Report of an occurrence in the cluster, stored for a limited time.",
    "events.Event.action": "Action that was taken, or failed, for the object; at most 128 characters.",
    "events.Event.eventTime": "When it was first observed, to the microsecond.",
    "events.Event.note": "Human-readable description; at most 1 kB.",
    "events.Event.reason": "Reason of the action; at most 128 characters.",
    "events.Event.regarding": "The object it is about.",
    "events.Event.related": "A second object, for actions between two.",
    "events.Event.reportingController": "Name of the controller that reports it, a qualified name.",
    "events.Event.reportingInstance": "Instance of the controller that reports it.",
    "events.Event.series": "Number and time of repetitions.",
    "events.Event.type": "Normal or Warning.",
}


class Schemas:
    """Schemas of the requested kinds at a release, by name; *reference* is the prefix of references."""

    def __init__(self, reference: str, identity: Identity, release: Release) -> None:
        self._reference, self._api_domain, self._minor = reference, identity.api_domain, release.minor
        self.media_types = object_types(identity)
        self.found: dict[str, Object] = {}

    def add_kind(self, resource: Resource) -> str | None:
        """Add the kind of *resource* and its list, and return its name."""
        return self.add(resource.group, resource.version, resource.kind, lists="list" in resource.verbs)

    def add(self, group: str, version: str, kind: str, *, lists: bool = False) -> str | None:
        """Add *kind* and what it is made of, and return its name; ``None`` for one without a definition."""
        api_version = f"{group}/{version}" if group else version
        shape = shapes.of(api_version, kind, self._api_domain)
        if shape is None:
            return None
        name = _name(shape)
        self.found[name] = self._object(shape) | _of_kind(group, version, kind)
        for part in shapes.walk(shape, self._minor):
            if part is not shape and part.form is Form.OBJECT:
                self.found.setdefault(_name(part), self._object(part))
        listed = shapes.of(api_version, f"{kind}List", self._api_domain) if lists else None
        if listed is not None:
            self.found[_name(listed)] = (
                self._object(listed) | _of_kind(group, version, f"{kind}List") | {"required": ["items"]}
            )
            self.found.setdefault(f"{_META}.ListMeta", self._object(listed.members["metadata"]))
        return name

    def refer(self, name: str) -> Object:
        """Return a reference to the schema *name*."""
        return {"$ref": f"{self._reference}{name}"}

    def _object(self, shape: Shape) -> Object:
        path = f"{shape.package}.{shape.name}"
        found: Object = {"description": _TEXTS.get(path, f"{shape.name} of the API."), "type": "object"}
        if required := _REQUIRED.get(path):
            found["required"] = required
        properties = {
            name: {"description": _TEXTS.get(f"{path}.{name}", _TEXTS.get(name, "")), **self._value(member)}
            for name, member in sorted(shape.members_at(self._minor).items())
        }
        if properties:
            found["properties"] = properties
        if shape.atomic:
            found["x-kubernetes-map-type"] = "atomic"
        return found

    def _value(self, shape: Shape) -> Object:
        if shape.form is Form.OBJECT:
            reference = self.refer(_name(shape))
            found: Object = {"allOf": [reference]} if "components" in self._reference else reference
            return found | {"x-kubernetes-map-type": "granular"} if shape.granular else found
        if shape.form in _NAMED:
            name, content = _NAMED[shape.form]
            self.found.setdefault(name, content)
            return self.refer(name)
        if shape.form is Form.MAP:
            found = {"type": "object", "additionalProperties": self._value(shape.child(""))}
            return found | {"x-kubernetes-map-type": "atomic"} if shape.atomic else found
        if shape.form is Form.LIST:
            return {"type": "array", "items": self._value(shape.item or shapes.UNKNOWN), **_merging(shape)}
        return dict(_PLAIN[shape.form])


def _merging(shape: Shape) -> Object:
    found: Object = {"x-kubernetes-list-type": "set" if shape.is_set else "map" if shape.keys else "atomic"}
    if shape.keys:
        found["x-kubernetes-list-map-keys"] = list(shape.keys)
    if shape.patch_strategy:
        found["x-kubernetes-patch-strategy"] = shape.patch_strategy
        if shape.patch_merge_key:
            found["x-kubernetes-patch-merge-key"] = shape.patch_merge_key
    return found


def _of_kind(group: str, version: str, kind: str) -> Object:
    return {"x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": version}]}


def _name(shape: Shape) -> str:
    if shape.package == "meta":
        return f"{_META}.{shape.name}"
    if not shape.full_name.startswith(_BUNDLED):
        return shape.full_name
    return f"io.k8s.api.{shape.package}.{shape.version}.{shape.name}"
