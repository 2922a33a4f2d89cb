"""Schemas of the kinds for the published documents, generated from the shapes that validate requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.media import object_types
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.openapi import (
    defaults,
    descriptions,
    enum_values,
    field_facts,
    fixed_schemas,
    group_versions,
    unions,
)
from apiserver_stub.endpoints.openapi.custom_schemas import custom_list, custom_name, custom_schema
from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Form, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apiserver_stub.kinds.registry import Resource
    from nodeagent.base.identity import Identity
    from nodeagent.base.release import Release

_BUNDLED = "nodeagent.api."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_OF_KIND = "x-kubernetes-group-version-kind"
_OF_ALL_VERSIONS = ("DeleteOptions", "WatchEvent")
"""Kinds that exist in every group version."""
_OWN_VERSION_SINCE = 35
"""First minor release whose documents of version 3 list only their own group version for these kinds."""
_PREFIXES = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
"""Prefixes of the names of schemas, for packages outside of ``io.k8s.api``."""
_NAMED: Mapping[Form, tuple[str, Object]] = {
    Form.TIME: (f"{_META}.Time", {"type": "string", "format": "date-time"}),
    Form.MICRO_TIME: (f"{_META}.MicroTime", {"type": "string", "format": "date-time"}),
    Form.QUANTITY: ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"type": "string"}),
    Form.INT_OR_TEXT: (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"type": "string", "format": "int-or-string"},
    ),
}
_RAW = Shape(Form.ANY, "RawExtension")
_UNTYPED: Mapping[str, str] = {"RawExtension": "io.k8s.apimachinery.pkg.runtime.RawExtension"}
"""Names of schemas of messages without fields in JSON, where they are not those of the message."""
_ALTERNATIVES: Mapping[Form, Object] = {
    Form.QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    Form.INT_OR_TEXT: {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
}
"""Schemas of values with several types, which only version 3 can express."""
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


class Schemas:
    """Schemas of the requested kinds at a release, by name; *reference* is the prefix of references."""

    def __init__(
        self,
        reference: str,
        identity: Identity,
        release: Release,
        versions: Iterable[tuple[str, str]] = (),
        *,
        enums: bool = True,
    ) -> None:
        """Create an empty collection.

        :param versions: groups and versions whose requests contain the options that all of them share.
        """
        self._versions = versions
        self._reference, self._api_domain, self.minor = reference, identity.api_domain, release.minor
        self._v3, self._enums = "components" in reference, enums
        self.media_types = object_types(identity)
        self.found: dict[str, Object] = {}

    def add_kind(self, resource: Resource) -> str | None:
        """Add the kind of *resource* and its list, and return its name."""
        if resource.schema is not None:
            return self._add_custom(resource, resource.schema.source)
        return self.add(resource.group, resource.version, resource.kind, lists="list" in resource.verbs)

    def _add_custom(self, resource: Resource, source: Object) -> str:
        name = custom_name(resource)
        self.found[name] = custom_schema(resource, source, self.refer, v3=self._v3)
        self.found[custom_name(resource, resource.list_kind)] = custom_list(resource, self.refer, v3=self._v3)
        for kind in ("Status", "Namespace"):  # They contain the metadata of lists and of objects.
            part = shapes.of("v1", kind, self._api_domain)
            for shape in () if part is None else shapes.walk(part.members["metadata"], self.minor):
                self._add_part(shape)
        return name

    def add(self, group: str, version: str, kind: str, *, lists: bool = False) -> str | None:
        """Add *kind* and what it is made of, and return its name; ``None`` for one without a definition."""
        api_version = f"{group}/{version}" if group else version
        shape = shapes.of(api_version, kind, self._api_domain)
        if shape is None:
            return None
        name = _name(shape)
        self.found[name] = self._object(shape) | _of_kind(group, version, kind)
        for part in shapes.walk(shape, self.minor):
            if part is not shape:
                self._add_part(part)
        listed = shapes.of(api_version, f"{kind}List", self._api_domain) if lists else None
        if listed is not None:
            self.found[_name(listed)] = self._object(listed) | _of_kind(group, version, f"{kind}List")
            self._add_part(listed.members["metadata"])
        return name

    def _add_part(self, shape: Shape) -> None:
        """Add the schema of a part of a kind, unless another kind has added it."""
        if shape.form is Form.OBJECT and (name := _name(shape)) not in self.found:
            self.found[name] = self._object(shape) | _of_embedded(shape)

    def refer(self, name: str) -> Object:
        """Return a reference to the schema *name*."""
        return {"$ref": f"{self._reference}{name}"}

    def refer_meta(self, kind: str) -> Object:
        """Return a reference to the schema of a kind that all groups share, and add it to the document."""
        name = f"{_META}.{kind}"
        if kind == "Patch":
            self.found[name] = fixed_schemas.PATCH
        elif _OF_KIND not in self.found.get(name, {}):  # As part of a list, it has no kind.
            self._add_meta(name, kind)
        return self.refer(name)

    def _add_meta(self, name: str, kind: str) -> None:
        if kind == "WatchEvent":
            self.found[name] = fixed_schemas.watch_event(self._value(_RAW), v3=self._v3)
        else:
            self.add("", "v1", kind)
        if kind == "APIGroupList":
            self.refer_meta("APIGroup")
        if kind in _OF_ALL_VERSIONS:
            has_own = self._v3 and self.minor >= _OWN_VERSION_SINCE
            known = self._versions if has_own else group_versions.registered(self._api_domain, self.minor)
            versions = sorted({("", "v1"), *known})
            self.found[name][_OF_KIND] = [
                {"group": group, "kind": kind, "version": version} for group, version in versions
            ]

    def refer_version(self) -> Object:
        """Return a reference to the schema of the server's version, and add it to the document."""
        self.found[_VERSION] = fixed_schemas.version(self.minor, v3=self._v3)
        return self.refer(_VERSION)

    def _object(self, shape: Shape) -> Object:
        path = f"{shape.package}.{shape.name}"
        found: Object = {"description": descriptions.of_kind(path), "type": "object"}
        members = shape.members_at(self.minor).items()
        required = [name for name, member in members if self._is_required(shape, path, name, member)]
        if required:
            found["required"] = required
        if members:
            found["properties"] = {
                name: self._property(shape, path, name, member)
                for name, member in sorted(members, key=lambda item: item[0])
            }
        if shape.atomic:
            found["x-kubernetes-map-type"] = "atomic"
        if union := unions.of(path):
            found["x-kubernetes-unions"] = [union]
        return found

    def _is_required(self, shape: Shape, path: str, name: str, member: Shape) -> bool:
        always = name in shape.always and member.form not in (Form.OBJECT, Form.TIME)
        return field_facts.is_required(path, name, self.minor, always=always)

    def _property(self, shape: Shape, path: str, name: str, member: Shape) -> Object:
        value = self._value(member)
        if member.form is Form.LIST and not field_facts.states_list_type(path, name, self.minor):
            value.pop("x-kubernetes-list-type", None)
            value.pop("x-kubernetes-list-map-keys", None)
        if field_facts.is_list_of_bytes(path, name, self.minor):
            value["x-kubernetes-list-type"] = "atomic"
        if self._enums and (values := enum_values.values_of(path, name, self.minor)):
            schema = value.get("items") or value.get("additionalProperties") or value
            if schema is value or self.minor >= enum_values.OF_ITEMS_SINCE:
                schema["enum"] = values
                schema.pop("default", None)  # Zero values, which are not among the values.
        found = {"description": descriptions.of_field(path, name), **value}
        if not self._v3:
            return found
        default = defaults.of_field(shape, path, name, self.minor)
        if default is not None and default in found.get("enum", (default,)):  # Generators of clients reject others.
            found["default"] = default
        return _with_alternative(found)

    def _value(self, shape: Shape) -> Object:
        """Return the schema of a value, with a reference for objects and other types with a name."""
        if shape.form is Form.OBJECT:
            found = self.refer(_name(shape))
            if shape.granular:
                found["x-kubernetes-map-type"] = "granular"
            return found | _patching(shape)
        if shape.form in _NAMED:
            name, content = _NAMED[shape.form]
            if self._v3:
                content = _ALTERNATIVES.get(shape.form, content)
            self._describe(name, f"meta.{name.rpartition('.')[2]}", content)
            return self.refer(name)
        if shape.form is Form.MAP:
            content = self._element(shape.child(""))
            content.pop("x-kubernetes-list-type", None)  # Lists in maps have none.
            found = {"type": "object", "additionalProperties": content}
            if shape.atomic or shape.granular:
                found["x-kubernetes-map-type"] = "atomic" if shape.atomic else "granular"
            return found
        if shape.form is Form.LIST:
            return {"type": "array", "items": self._element(shape.item or shapes.UNKNOWN), **_merging(shape)}
        if shape.form in (Form.ANY, Form.UNION) and shape.name:
            name = _UNTYPED.get(shape.name) or _name(shape)
            is_object = shape.form is Form.ANY and shape.name != "JSON"
            self._describe(name, f"{shape.package or 'meta'}.{shape.name}", {"type": "object"} if is_object else {})
            return self.refer(name)
        return dict(_PLAIN[shape.form])

    def _element(self, shape: Shape) -> Object:
        """Return the schema of the items of a list or the values of a map."""
        found = self._value(shape)
        if not self._v3:
            return found
        if (default := defaults.of_element(shape, self.minor)) is not None:
            found["default"] = default
        return _with_alternative(found)

    def _describe(self, name: str, message: str, content: Object) -> None:
        """Add the schema *name*, which has no fields."""
        self.found.setdefault(name, {"description": descriptions.of_kind(message), **content})


def _with_alternative(schema: Object) -> Object:
    """Return *schema* with its reference in ``allOf`` if it has other keys, which version 3 ignores next to it."""
    if "$ref" not in schema or len(schema) == 1:
        return schema
    return {**{name: value for name, value in schema.items() if name != "$ref"}, "allOf": [{"$ref": schema["$ref"]}]}


def _merging(shape: Shape) -> Object:
    found: Object = {"x-kubernetes-list-type": "set" if shape.is_set else "map" if shape.keys else "atomic"}
    if shape.keys:
        found["x-kubernetes-list-map-keys"] = list(shape.keys)
    return found | _patching(shape)


def _patching(shape: Shape) -> Object:
    found: Object = {}
    if shape.patch_strategy:
        found["x-kubernetes-patch-strategy"] = shape.patch_strategy
    if shape.patch_merge_key:
        found["x-kubernetes-patch-merge-key"] = shape.patch_merge_key
    return found


def _of_embedded(shape: Shape) -> Object:
    """Return the kind of an object in another one, such as a claim in a stateful set; empty for other objects."""
    if shape.package != "core" or not {"apiVersion", "kind", "metadata"} <= shape.members.keys():
        return {}
    return _of_kind("", shape.version, shape.name)


def _of_kind(group: str, version: str, kind: str) -> Object:
    return {_OF_KIND: [{"group": group, "kind": kind, "version": version}]}


def _name(shape: Shape) -> str:
    if shape.package == "meta":
        return f"{_META}.{shape.name}"
    if not shape.full_name.startswith(_BUNDLED):
        return shape.full_name
    prefix = _PREFIXES.get(shape.package, f"io.k8s.api.{shape.package}")
    return f"{prefix}.{shape.version}.{shape.name}"
