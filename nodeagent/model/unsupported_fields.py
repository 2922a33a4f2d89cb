"""Pod fields that this agent does not implement, or that a feature gate disables. No I/O.

A pod that uses one would not run as its author intended. Fields that concern only other components are not listed, and
neither are volume sources, which plugins can add: a pod with a source that no plugin supports waits with an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.model.pod import (
    Container,
    ContainerRestartRule,
    EnvVarSource,
    Lifecycle,
    Pod,
    PodSecurityContext,
    PodSpec,
    ResourceRequirements,
    SecurityContext,
    VolumeProjection,
)
from nodeagent.model.wire import WireStruct, to_wire

FIELD_NOT_SUPPORTED = "PodFieldNotSupported"
"""Reason for fields for which Kubernetes defines none."""
_MAX_VALUE_CHARACTERS = 80


class UnsupportedField(Struct, frozen=True):
    """A field that is not implemented or not enabled."""

    owner: type[WireStruct]
    name: str
    detail: str
    reason: str = FIELD_NOT_SUPPORTED
    """Reason of the rejection, the kubelet's where it has one."""
    accepted: tuple[object, ...] = ()
    """Values that describe the behavior without the field."""
    accepted_at: str = ""
    """Prefix of the paths where these values are accepted."""
    gate: str = ""
    """Feature gate that enables the field; without one it is not implemented."""


class UnsupportedUse(Struct, frozen=True):
    """Use of such a field in a pod."""

    field: UnsupportedField
    path: str
    value: Any

    def __str__(self) -> str:
        value = msgspec.json.encode(to_wire(self.value)).decode(errors="replace")
        if len(value) > _MAX_VALUE_CHARACTERS:
            value = f"{value[:_MAX_VALUE_CHARACTERS]}…"
        return f"{self.path}: {value} ({self.field.detail})"


UNSUPPORTED_FIELDS: Sequence[UnsupportedField] = (
    UnsupportedField(
        PodSpec,
        "resources",
        "feature gate PodLevelResources is disabled",
        reason="PodLevelResourcesNotSupported",
        gate="PodLevelResources",
    ),
    UnsupportedField(
        PodSpec, "hostname_override", "feature gate HostnameOverride is disabled", gate="HostnameOverride"
    ),
    UnsupportedField(
        PodSpec,
        "resource_claims",
        "feature gate DynamicResourceAllocation is disabled",
        gate="DynamicResourceAllocation",
    ),
    UnsupportedField(
        ResourceRequirements,
        "claims",
        "feature gate DynamicResourceAllocation is disabled",
        gate="DynamicResourceAllocation",
    ),
    UnsupportedField(PodSecurityContext, "app_armor_profile", "feature gate AppArmor is disabled", gate="AppArmor"),
    UnsupportedField(SecurityContext, "app_armor_profile", "feature gate AppArmor is disabled", gate="AppArmor"),
    UnsupportedField(
        Container,
        "restart_policy",
        "feature gate ContainerRestartRules is disabled",
        accepted=("Always",),
        accepted_at="spec.initContainers",
        gate="ContainerRestartRules",
    ),
    UnsupportedField(
        Container,
        "restart_policy_rules",
        "feature gate ContainerRestartRules is disabled",
        gate="ContainerRestartRules",
    ),
    UnsupportedField(
        ContainerRestartRule,
        "action",
        "feature gate RestartAllContainersOnContainerExits is disabled",
        reason="PodFeatureUnsupported",
        accepted=("Restart",),
        gate="RestartAllContainersOnContainerExits",
    ),
    UnsupportedField(EnvVarSource, "file_key_ref", "feature gate EnvFiles is disabled", gate="EnvFiles"),
    UnsupportedField(
        Lifecycle, "stop_signal", "feature gate ContainerStopSignals is disabled", gate="ContainerStopSignals"
    ),
    UnsupportedField(
        VolumeProjection,
        "cluster_trust_bundle",
        "feature gate ClusterTrustBundleProjection is disabled",
        gate="ClusterTrustBundleProjection",
    ),
    UnsupportedField(
        VolumeProjection,
        "pod_certificate",
        "feature gate PodCertificateRequest is disabled",
        gate="PodCertificateRequest",
    ),
)
_BY_FIELD = {(each.owner, each.name): each for each in UNSUPPORTED_FIELDS}


def unsupported_uses(pod: Pod, gates: FeatureGates) -> list[UnsupportedUse]:
    """Return the unsupported fields of *pod* that have values other than the accepted ones."""
    return _without_enabled(_uses(pod.spec, "spec"), gates)


def unsupported_in_container(container: Container, path: str, gates: FeatureGates) -> list[UnsupportedUse]:
    """Return the same for *container*, which is at *path*; ephemeral containers are added to admitted pods."""
    return _without_enabled(_uses(container, path), gates)


def _without_enabled(uses: Iterable[UnsupportedUse], gates: FeatureGates) -> list[UnsupportedUse]:
    return [use for use in uses if not (use.field.gate and gates.enabled(use.field.gate))]


def _uses(value: Any, path: str) -> Iterator[UnsupportedUse]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _uses(item, f"{path}[{index}]")
    elif isinstance(value, WireStruct):
        for name, encoded, unsupported in _fields_of(type(value)):
            content = getattr(value, name)
            if content is None or (unsupported is None and not isinstance(content, WireStruct | list)):
                continue
            at = f"{path}.{encoded}"
            if unsupported is None:
                yield from _uses(content, at)
            elif content != [] and not (content in unsupported.accepted and at.startswith(unsupported.accepted_at)):
                yield UnsupportedUse(unsupported, at, content)
                yield from _uses(content, at)


@cache
def _fields_of(struct: type[WireStruct]) -> list[tuple[str, str, UnsupportedField | None]]:
    """Return the fields of *struct*: name, name in JSON, and the entry of an unsupported one."""
    # msgspec.structs.fields would evaluate the annotations.
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return [(name, encoded, _BY_FIELD.get((struct, name))) for name, encoded in names]
