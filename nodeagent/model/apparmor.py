"""AppArmor profiles of containers, from fields and annotations. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from nodeagent.base import identity
from nodeagent.model.pod import AppArmorProfile, Container, Pod

RUNTIME_DEFAULT, LOCALHOST, UNCONFINED = "RuntimeDefault", "Localhost", "Unconfined"
"""Types of profiles."""


def apparmor_profile(pod: Pod, container: Container) -> AppArmorProfile | None:
    """Return the profile of *container*, ``None`` for the default of the runtime.

    The container's field takes precedence over its annotation, which static pods and pods of Kubernetes before 1.30
    have, and that over the pod's field.
    """
    if container.security_context is not None and container.security_context.app_armor_profile is not None:
        return container.security_context.app_armor_profile
    annotation = (pod.metadata.annotations or {}).get(f"{_annotation_prefix()}{container.name}", "")
    if (profile := _annotated(annotation)) is not None:
        return profile
    return pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None


def apparmor_profiles(pod: Pod) -> Iterator[AppArmorProfile]:
    """Yield all profiles that *pod* states, those without an effect included."""
    contexts = [pod.spec.security_context, *(container.security_context for _, container in pod.containers())]
    for context in contexts:
        if context is not None and context.app_armor_profile is not None:
            yield context.app_armor_profile
    prefix = _annotation_prefix()
    for key, value in (pod.metadata.annotations or {}).items():
        if key.startswith(prefix):
            yield _annotated(value) or AppArmorProfile(type=value)


def _annotation_prefix() -> str:
    return identity.current().label("", "container.apparmor.security.beta")


def _annotated(value: str) -> AppArmorProfile | None:
    """Return the profile in an annotation, ``None`` if it is invalid."""
    if value == "runtime/default":
        return AppArmorProfile(type=RUNTIME_DEFAULT)
    if value == "unconfined":
        return AppArmorProfile(type=UNCONFINED)
    if value.startswith("localhost/"):
        return AppArmorProfile(type=LOCALHOST, localhost_profile=value.removeprefix("localhost/"))
    return None
