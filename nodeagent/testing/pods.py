"""Builders of pods, containers and sandbox configurations for tests."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from nodeagent.contracts.runtime import (
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    SandboxConfig,
)
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Container, Pod, PodSpec, PodStatus

IMAGE = "registry.test/app:1"


def make_pod(
    name: str = "web",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    containers: Sequence[Container | str] = ("main",),
    init_containers: Sequence[Container | str] = (),
    metadata: Mapping[str, Any] | None = None,
    status: PodStatus | None = None,
    **spec: Any,
) -> Pod:
    """Return a valid pod with the defaults of the API; its UID defaults to ``uid-<name>``.

    A container may be specified by name. Other keyword arguments are fields of the spec; values in the wire format are
    converted to structs: ``make_pod(host_network=True, volumes=[{"name": "v", "emptyDir": {}}])``.
    """
    plain = msgspec.convert(
        {
            "containers": [],
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "securityContext": {},
        },
        PodSpec,
    )
    changes: dict[str, Any] = {
        "containers": [_container(item) for item in containers],
        "init_containers": [_container(item) for item in init_containers] or None,
        **{key: _field(PodSpec, key, value) for key, value in spec.items()},
    }
    return Pod(
        metadata=msgspec.structs.replace(
            ObjectMeta(
                name=name,
                namespace=namespace,
                uid=uid or f"uid-{name}",
                labels=dict(labels) if labels else None,
                annotations=dict(annotations) if annotations else None,
                creation_timestamp=datetime(2024, 1, 1, tzinfo=UTC),
            ),
            **(metadata or {}),
        ),
        spec=msgspec.structs.replace(plain, **changes),
        status=status or PodStatus(phase="Pending"),
    )


def make_container(name: str = "main", image: str = IMAGE, **fields: Any) -> Container:
    """Return a container with the defaults of the API; *fields* are structs or values in the wire format."""
    plain = Container(
        name=name,
        image=image,
        termination_message_path="/dev/termination-log",
        termination_message_policy="File",
        image_pull_policy="IfNotPresent",
    )
    return msgspec.structs.replace(plain, **{key: _field(Container, key, value) for key, value in fields.items()})


def sandbox_config(pod: Pod, attempt: int = 0, **fields: Any) -> SandboxConfig:
    """Return the sandbox configuration of *pod*, with the labels that identify its pod in lists of the runtime."""
    return SandboxConfig(
        name=pod.name,
        uid=pod.uid,
        namespace=pod.namespace,
        attempt=attempt,
        labels={LABEL_POD_NAME: pod.name, LABEL_POD_NAMESPACE: pod.namespace, LABEL_POD_UID: pod.uid},
        **fields,
    )


def _container(item: Container | str) -> Container:
    return make_container(item) if isinstance(item, str) else item


def _field(struct: type[msgspec.Struct], name: str, value: Any) -> Any:
    """Convert *value* to the type of the field *name* of *struct*."""
    kind = _field_types(struct).get(name)
    if kind is None:
        raise TypeError(f"{struct.__name__} has no field {name}")
    return msgspec.convert(value, kind, from_attributes=True)


@functools.cache
def _field_types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}
