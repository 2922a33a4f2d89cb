"""Client definition of one call of containerd's content API: the progress of downloads from registries.

It is defined here because it needs only three fields of one message; all others in the response are ignored.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "containerd.services.content.v1.Content"
LIST_STATUSES = f"/{SERVICE}/ListStatuses"
NAMESPACE = ("containerd-namespace", "k8s.io")
"""Metadata of the call: the namespace of the CRI's images."""

_PACKAGE = SERVICE.rpartition(".")[0]
_Field = descriptor_pb2.FieldDescriptorProto


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _define() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="content.proto", package=_PACKAGE, syntax="proto3")
    status = file.message_type.add(name="Status")
    one = _Field.LABEL_OPTIONAL
    status.field.add(name="ref", number=3, type=_Field.TYPE_STRING, label=one)
    status.field.add(name="offset", number=4, type=_Field.TYPE_INT64, label=one)
    status.field.add(name="total", number=5, type=_Field.TYPE_INT64, label=one)
    file.message_type.add(name="ListStatusesRequest")
    response = file.message_type.add(name="ListStatusesResponse")
    many, kind = _Field.LABEL_REPEATED, f".{_PACKAGE}.Status"
    response.field.add(name="statuses", number=1, type=_Field.TYPE_MESSAGE, type_name=kind, label=many)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _define()
Status = _message("Status")
"""``ref``, ``offset`` (bytes so far) and ``total`` (0 if unknown)."""
ListStatusesRequest = _message("ListStatusesRequest")
ListStatusesResponse = _message("ListStatusesResponse")
