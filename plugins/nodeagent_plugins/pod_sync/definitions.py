"""Changes of container definitions, detected by the hash that each container has from its creation. No I/O."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.runtime import RuntimeContainerStatus
from nodeagent.model.pod import Container, EnvVar, ResourceRequirements
from nodeagent_plugins.pod_sync.labels import recorded_hash

_DIGEST_BYTES = 8
_LEGACY_DIGEST_BYTES = 4
_encoder = msgspec.json.Encoder(order="sorted")


def container_hash(container: Container) -> str:
    """Return a hash of 16 hex digits that changes with the container's spec.

    Resources are omitted, because they can be resized in place.
    """
    fixed = msgspec.structs.replace(container, resources=ResourceRequirements(), resize_policy=None)
    return _digest(fixed, _DIGEST_BYTES)


def legacy_hashes(container: Container) -> tuple[str, str]:
    """Return the hashes of 8 hex digits that earlier releases of the agent recorded.

    They covered the resources, and at first ignored the fields of releases after Kubernetes 1.29.
    """
    return _digest(container, _LEGACY_DIGEST_BYTES), _digest(_without_later_fields(container), _LEGACY_DIGEST_BYTES)


def definition_changed(container: Container, seen: RuntimeContainerStatus) -> bool:
    """Return whether *seen* was created from another spec than that of *container*.

    False for containers of another agent, whose hashes cannot be compared.
    """
    return Definitions().changed(container, seen)


class Definitions(MutableStruct):
    """Checks the containers of one pod, including those that earlier releases of the agent created."""

    _first: dict[str, str] = field(default_factory=dict)
    """Current form of the hash at the first check, by ID of a container with a legacy hash."""

    def changed(self, container: Container, seen: RuntimeContainerStatus, *, resizable: bool = False) -> bool:
        """Return whether *seen* was created from another spec than that of *container*.

        :param resizable: the agent has recorded resources of the container, so its legacy hash was checked before,
            and no longer matches if the container was resized since.
        """
        noted = recorded_hash(seen)
        if noted is None:
            return False
        current = container_hash(container)
        if len(noted) == len(current):
            return noted != current
        if seen.id not in self._first:
            if not resizable and noted not in legacy_hashes(container):
                return True
            self._first[seen.id] = current
        return self._first[seen.id] != current


def _digest(container: Container, size: int) -> str:
    return hashlib.blake2b(_encoder.encode(container), digest_size=size).hexdigest()


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
