"""ConfigMaps and Secrets that a pod references. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from nodeagent.base.structs import Struct
from nodeagent.model.pod import Container, PodSpec, Volume


class References(Struct, frozen=True):
    """Names of objects in the pod's namespace."""

    config_maps: frozenset[str]
    secrets: frozenset[str]


def references(spec: PodSpec) -> References:
    """Return the references of containers' environments, pull secrets and volumes in *spec*."""
    found = {("secret", reference.name) for reference in spec.image_pull_secrets or ()}
    for containers in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        for container in containers or ():
            found.update(_of_environment(container))
    for volume in spec.volumes or ():
        found.update(_of_volume(volume))
    return References(
        frozenset(name for kind, name in found if kind == "config_map" and name),
        frozenset(name for kind, name in found if kind == "secret" and name),
    )


def _of_environment(container: Container) -> Iterator[tuple[str, str]]:
    for source in container.env_from or ():
        if source.config_map_ref is not None:
            yield "config_map", source.config_map_ref.name
        if source.secret_ref is not None:
            yield "secret", source.secret_ref.name
    for variable in container.env or ():
        value = variable.value_from
        if value is not None and value.config_map_key_ref is not None:
            yield "config_map", value.config_map_key_ref.name
        if value is not None and value.secret_key_ref is not None:
            yield "secret", value.secret_key_ref.name


def _of_volume(volume: Volume) -> Iterator[tuple[str, str]]:
    if volume.config_map is not None:
        yield "config_map", volume.config_map.name
    if volume.secret is not None:
        yield "secret", volume.secret.secret_name
    for part in (volume.projected.sources or ()) if volume.projected is not None else ():
        if part.config_map is not None:
            yield "config_map", part.config_map.name
        if part.secret is not None:
            yield "secret", part.secret.name
    if volume.csi is not None:
        yield "secret", (volume.csi.get("nodePublishSecretRef") or {}).get("name", "")
    if volume.flex_volume is not None and volume.flex_volume.secret_ref is not None:
        yield "secret", volume.flex_volume.secret_ref.name
