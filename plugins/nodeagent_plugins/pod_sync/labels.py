"""Labels and annotations of sandboxes and containers, which are read again after a restart of the agent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nodeagent.base.structs import Struct
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
from nodeagent.model.pod import Container, ContainerPort, LifecycleHandler, Pod

ANNOTATION_SANDBOX = "io.kubernetes.container.sandboxID"
ANNOTATION_BACKOFF = "io.kubernetes.container.restartBackoffSeconds"
DEFAULT_MESSAGE_PATH = "/dev/termination-log"
DEFAULT_MESSAGE_POLICY = "File"

_encoder = msgspec.json.Encoder(order="sorted")


def pod_labels(pod: Pod) -> dict[str, str]:
    """Return the three labels that identify sandboxes and containers of *pod*."""
    return {LABEL_POD_NAME: pod.name, LABEL_POD_NAMESPACE: pod.namespace, LABEL_POD_UID: pod.uid}


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    return {**pod_labels(pod), LABEL_CONTAINER_NAME: container.name}


def container_annotations(
    pod: Pod, container: Container, attempt: int, *, spec_hash: str, sandbox_id: str, backoff_seconds: int
) -> dict[str, str]:
    """Return the annotations from which the container can be restarted, stopped and reported after a restart."""
    annotations = {
        ANNOTATION_HASH: spec_hash,
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


class StopRecord(Struct, frozen=True):
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
    except (ValueError, RecursionError):
        pass  # Written by another agent: the container is stopped without the hook.
    return StopRecord(grace, pre_stop, ports)


def number(annotations: Mapping[str, str], key: str) -> int | None:
    """Return the integer in an annotation, or ``None``."""
    text = annotations.get(key, "")
    return int(text) if text.isascii() and text.isdigit() else None
