"""Client definition of one call of containerd's event API: notifications of started, ended and removed containers.

Only the topic of an event is defined: a notification causes a list request, and its details are ignored.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "containerd.services.events.v1.Events"
SUBSCRIBE = f"/{SERVICE}/Subscribe"

TOPICS = ("/tasks/start", "/tasks/delete", "/containers/delete")
"""The events of containers. A process that is executed in a container has other topics, or none."""
FILTERS = tuple(f'namespace=="k8s.io",topic=="{topic}"' for topic in TOPICS)

_PACKAGE = SERVICE.rpartition(".")[0]
_Field = descriptor_pb2.FieldDescriptorProto


def _define() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="events.proto", package=_PACKAGE, syntax="proto3")
    request = file.message_type.add(name="SubscribeRequest")
    request.field.add(name="filters", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_REPEATED)
    envelope = file.message_type.add(name="Envelope")
    envelope.field.add(name="topic", number=3, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_POOL = _define()
SubscribeRequest = _message("SubscribeRequest")
Envelope = _message("Envelope")
"""``topic``, such as ``/tasks/start``."""
