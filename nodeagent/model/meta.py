"""Object metadata, references and timestamps of API objects."""

from __future__ import annotations

from datetime import UTC, datetime

from nodeagent.model.wire import WireStruct


class OwnerReference(WireStruct, frozen=True):
    """Reference to the owner of an object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(WireStruct, frozen=True):
    """Metadata of an API object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class ObjectReference(WireStruct, frozen=True):
    """Reference to an object, or with ``field_path`` to a part of it (``spec.containers{web}``)."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


def wire_time(time: datetime) -> str:
    """Return RFC 3339 in whole seconds, the format of ``metav1.Time``."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wire_micro_time(time: datetime) -> str:
    """Return RFC 3339 with exactly six decimals, the format of ``metav1.MicroTime``."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
