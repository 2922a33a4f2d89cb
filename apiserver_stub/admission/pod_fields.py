"""Fields of pods that several plugins inspect: containers and references to other objects. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig
from nodeagent.base.identity import Identity

_WITH_SECRET_REFERENCE = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
ALL_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def mirror_annotation(identity: Identity) -> str:
    """Return the annotation of mirror pods."""
    return identity.label("config.mirror")


def containers(spec: Object, *kinds: str) -> Iterator[tuple[str, Object]]:
    """Yield the containers of a pod, each with its field path (``spec.containers[0]``)."""
    for kind in kinds or ALL_CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            if isinstance(container, dict):
                yield f"spec.{kind}[{index}]", container


def secret_names(spec: Object) -> Iterator[tuple[str, Object, str]]:
    """Yield list name, container and secret name for every secret that the environment of a container references."""
    yield from _environment(spec, "secretKeyRef", "secretRef")


def config_map_names(spec: Object) -> Iterator[tuple[str, Object, str]]:
    """Yield list name, container and name for every config map, as :func:`secret_names`."""
    yield from _environment(spec, "configMapKeyRef", "configMapRef")


def has_secrets(spec: Object) -> bool:
    """Return whether containers, image pulls or volumes of a pod refer to a secret."""
    secrets = any(True for _ in volume_references(spec, "secret", "secret"))
    return bool(secrets or spec.get("imagePullSecrets") or any(secret_names(spec))) or any(
        _has_secret_reference(volume) for volume in spec.get("volumes") or ()
    )


def _has_secret_reference(volume: Object) -> bool:
    """Return whether a volume of a type other than secrets refers to one."""
    if dig(volume, ("azureFile", "secretName")) or dig(volume, ("csi", "nodePublishSecretRef", "name")):
        return True
    return any(dig(volume, (name, "secretRef", "name")) for name in _WITH_SECRET_REFERENCE)


def volume_references(spec: Object, member: str, source: str) -> Iterator[Any]:
    """Yield the *source* of every volume, projected ones included (``secret``, ``configMap``)."""
    for volume in spec.get("volumes") or ():
        if volume.get(source) is not None:
            yield volume[source]
        for projected in (volume.get("projected") or {}).get("sources") or ():
            if projected.get(member) is not None:
                yield projected[member]


def _environment(spec: Object, key_member: str, from_member: str) -> Iterator[tuple[str, Object, str]]:
    for kind in ALL_CONTAINERS:
        for container in spec.get(kind) or ():
            for variable in container.get("env") or ():
                if reference := (variable.get("valueFrom") or {}).get(key_member):
                    yield kind, container, reference.get("name") or ""
            for group in container.get("envFrom") or ():
                if reference := group.get(from_member):
                    yield kind, container, reference.get("name") or ""
