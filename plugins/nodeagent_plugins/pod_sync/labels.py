"""Labels and annotations of sandboxes and containers, which are read again after a restart of the agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from nodeagent.contracts.runtime import (
    ANNOTATION_DELETION_GRACE,
    ANNOTATION_GRACE,
    ANNOTATION_HASH,
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
    ANNOTATION_PORTS,
    ANNOTATION_PRE_STOP,
    ANNOTATION_RESTART_COUNT,
    LABEL_CONTAINER_NAME,
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    LABEL_POD_UID,
    RuntimeContainerStatus,
)
from nodeagent.model.pod import Container, ContainerPort, EnvVar, LifecycleHandler, Pod

ANNOTATION_SANDBOX = "io.kubernetes.container.sandboxID"
ANNOTATION_BACKOFF = "io.kubernetes.container.restartBackoffSeconds"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
DEFAULT_MESSAGE_POLICY = "File"

_encoder = msgspec.json.Encoder(order="sorted")


def container_hash(container: Container) -> str:
    """Return a hash of 8 hex digits that changes with the container's spec."""
    return hashlib.blake2b(_encoder.encode(container), digest_size=4).hexdigest()


def matches_hash(container: Container, recorded: str) -> bool:
    """Return whether a container with the hash *recorded* was created from the spec of *container*.

    Earlier releases of the agent ignored some fields, and their containers must not be restarted because of them.
    """
    return recorded in (container_hash(container), container_hash(_without_later_fields(container)))


def _without_later_fields(container: Container) -> Container:
    """Return *container* without the fields of releases after Kubernetes 1.29."""
    replace = msgspec.structs.replace
    lifecycle, security = container.lifecycle, container.security_context
    return replace(
        container,
        restart_policy_rules=None,
        env=container.env and [_without_file(variable) for variable in container.env],
        volume_mounts=container.volume_mounts
        and [replace(mount, recursive_read_only=None) for mount in container.volume_mounts],
        lifecycle=lifecycle and replace(lifecycle, stop_signal=None),
        security_context=security and replace(security, app_armor_profile=None),
    )


def _without_file(variable: EnvVar) -> EnvVar:
    source = variable.value_from
    if source is None or source.file_key_ref is None:
        return variable
    return msgspec.structs.replace(variable, value_from=msgspec.structs.replace(source, file_key_ref=None))


def pod_labels(pod: Pod) -> dict[str, str]:
    """Return the three labels that identify sandboxes and containers of *pod*."""
    return {LABEL_POD_NAME: pod.name, LABEL_POD_NAMESPACE: pod.namespace, LABEL_POD_UID: pod.uid}


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    return {**pod_labels(pod), LABEL_CONTAINER_NAME: container.name}


def container_annotations(
    pod: Pod, container: Container, attempt: int, *, sandbox_id: str, backoff_seconds: int
) -> dict[str, str]:
    """Return the annotations from which the container can be restarted, stopped and reported after a restart."""
    annotations = {
        ANNOTATION_HASH: container_hash(container),
        ANNOTATION_RESTART_COUNT: str(attempt),
        ANNOTATION_MESSAGE_PATH: container.termination_message_path or DEFAULT_MESSAGE_PATH,
        ANNOTATION_MESSAGE_POLICY: container.termination_message_policy or DEFAULT_MESSAGE_POLICY,
        ANNOTATION_SANDBOX: sandbox_id,
    }
    if backoff_seconds or attempt:
        annotations[ANNOTATION_BACKOFF] = str(backoff_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        annotations[ANNOTATION_PRE_STOP] = _encoder.encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        annotations[ANNOTATION_PORTS] = _encoder.encode(container.ports).decode()
    if pod.spec.termination_grace_period_seconds is not None:
        annotations[ANNOTATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if pod.metadata.deletion_grace_period_seconds is not None:
        annotations[ANNOTATION_DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    return annotations


def recorded_hash(status: RuntimeContainerStatus) -> str | None:
    """Return the hash of the spec from which *status* was created.

    ``None`` for containers of another agent, whose hashes are different: its containers keep running.
    """
    notes = status.annotations
    return notes.get(ANNOTATION_HASH) if ANNOTATION_SANDBOX in notes else None


@dataclass(frozen=True, slots=True)
class StopRecord:
    """Stop settings of a container whose pod is unknown."""

    grace_seconds: int | None = None
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()


def stop_record(status: RuntimeContainerStatus) -> StopRecord:
    """Read the annotations of :func:`container_annotations`; invalid ones count as unset."""
    notes = status.annotations
    grace = number(notes, ANNOTATION_DELETION_GRACE)
    if grace is None:
        grace = number(notes, ANNOTATION_GRACE)
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()
    try:
        if ANNOTATION_PRE_STOP in notes:
            pre_stop = msgspec.json.decode(notes[ANNOTATION_PRE_STOP], type=LifecycleHandler)
        if ANNOTATION_PORTS in notes:
            ports = msgspec.json.decode(notes[ANNOTATION_PORTS], type=tuple[ContainerPort, ...])
    except msgspec.DecodeError:
        pass  # Written by another agent: the container is stopped without the hook.
    return StopRecord(grace, pre_stop, ports)


def number(annotations: Mapping[str, str], key: str) -> int | None:
    """Return the integer in an annotation, or ``None``."""
    text = annotations.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None
