"""Object types of CEL variables, declared as protobuf messages. The protobuf library is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

PACKAGE = "kubernetes"
REQUEST, NAMESPACE, VARIABLES, DEVICE = "AdmissionRequest", "Namespace", "variables", "DRADevice"
_KIND = {"group": "string", "version": "string", "kind": "string"}
_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
_MESSAGES: Mapping[str, Mapping[str, str]] = {
    "GroupVersionKind": _KIND,
    "GroupVersionResource": _RESOURCE,
    "UserInfo": {"username": "string", "uid": "string", "groups": "list(string)", "extra": "map"},
    REQUEST: {
        "kind": "GroupVersionKind",
        "resource": "GroupVersionResource",
        "subResource": "string",
        "requestKind": "GroupVersionKind",
        "requestResource": "GroupVersionResource",
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": "UserInfo",
        "dryRun": "bool",
        "options": "dyn",
    },
    "NamespaceMetadata": {
        "name": "string",
        "generateName": "string",
        "namespace": "string",
        "labels": "map",
        "annotations": "map",
        "UID": "string",
        "creationTimestamp": "timestamp",
        "deletionGracePeriodSeconds": "int",
        "deletionTimestamp": "timestamp",
        "generation": "int",
        "resourceVersion": "string",
        "finalizers": "list(string)",
    },
    "NamespaceSpec": {"finalizers": "list(string)"},
    "NamespaceCondition": {
        "status": "string",
        "type": "string",
        "lastTransitionTime": "timestamp",
        "message": "string",
        "reason": "string",
    },
    "NamespaceStatus": {"conditions": "list(NamespaceCondition)", "phase": "string"},
    NAMESPACE: {"metadata": "NamespaceMetadata", "spec": "NamespaceSpec", "status": "NamespaceStatus"},
}
_DEVICE = {"driver": "string", "attributes": "map", "capacity": "map", "allowMultipleAllocations": "bool"}
_WELL_KNOWN = {
    "dyn": "Value",
    "duration": "Duration",
    "list": "ListValue",
    "map": "Struct",
    "timestamp": "Timestamp",
}
_SCALARS = {"bool": 8, "bytes": 12, "double": 1, "int": 3, "string": 9, "uint": 4}
"""Numbers of ``FieldDescriptorProto.Type``."""
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def pool(variables: Mapping[str, str], messages: Mapping[str, Mapping[str, str]]) -> Any:
    """Return a pool with the types of admission variables.

    :param variables: types of the fields of ``variables``.
    :param messages: types of objects and parameters.
    """
    from google.protobuf.descriptor_pool import DescriptorPool

    found = DescriptorPool()
    for file in (*_well_known_files(), _file("admission", _MESSAGES)):
        found.Add(file)
    found.Add(_file("objects", messages))
    found.Add(_file("variables", {VARIABLES: variables}))
    return found


def device_pool() -> Any:
    """Return a pool with the type of the variable of device selectors."""
    from google.protobuf.descriptor_pool import DescriptorPool

    found = DescriptorPool()
    for file in (*_well_known_files(), _file("devices", {DEVICE: _DEVICE})):
        found.Add(file)
    return found


def schema_pool(messages: Mapping[str, Mapping[str, str]]) -> Any:
    """Return a pool with the object types *messages* of a schema."""
    from google.protobuf.descriptor_pool import DescriptorPool

    found = DescriptorPool()
    for file in (*_well_known_files(), _file("schema", messages)):
        found.Add(file)
    return found


def type_of(kind: str) -> Any:
    """Return the CEL type *kind*: the name of a scalar, ``timestamp``, ``dyn``, an object type, or a list or map."""
    from cel_expr_python import cel

    for name, build in (("list", cel.Type.List), ("map", lambda item: cel.Type.Map(cel.Type.STRING, item))):
        if kind == name:
            return build(cel.Type.DYN)
        if kind.startswith(f"{name}("):
            return build(type_of(kind[len(name) + 1 : -1]))
    if kind in _SCALARS or kind in _WELL_KNOWN:
        return getattr(cel.Type, kind.upper())
    return cel.Type(f"{PACKAGE}.{kind}")


def field_type(name: str) -> str:
    """Return the type of a field that holds values of the CEL type *name*; ``dyn`` where there is none."""
    name = name.lower()
    if name in _SCALARS or name in ("timestamp", "duration"):
        return name
    kind, _, item = name.removesuffix(">").partition("<")
    if kind == "list":
        return f"list({item})" if item in _SCALARS else "list"
    return "map" if name == "map<string, dyn>" else "dyn"


@cache
def _well_known_files() -> tuple[Any, ...]:
    from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    files = []
    for module in (duration_pb2, struct_pb2, timestamp_pb2):
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return tuple(files)


def _file(name: str, messages: Mapping[str, Mapping[str, str]]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    dependencies = [file.name for file in _well_known_files()]
    file = FileDescriptorProto(
        name=f"{PACKAGE}/{name}.proto", package=PACKAGE, syntax="proto3", dependency=dependencies
    )
    for label, fields in messages.items():
        message = file.message_type.add(name=label)
        # Names of variables that differ only in case or underscores are valid.
        message.options.deprecated_legacy_json_field_conflicts = True
        for number, (field, kind) in enumerate(fields.items(), 1):
            item = kind.removeprefix("list(").removesuffix(")")
            options: dict[str, Any] = {"label": _REPEATED if item != kind else _OPTIONAL}
            if item in _SCALARS:
                options["type"] = _SCALARS[item]
            else:
                known = _WELL_KNOWN.get(item)
                options |= {
                    "type": _MESSAGE,
                    "type_name": f".google.protobuf.{known}" if known else f".{PACKAGE}.{item}",
                }
            message.field.add(name=field, number=number, **options)
    return file
