"""Names in configuration files: native ones and those of the ``KubeletConfiguration`` format.

The same table translates files of that format and suggests names when a file mixes both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.base import identity

NATIVE_KIND = "NodeAgentConfiguration"
KUBELET_KIND = "KubeletConfiguration"
CREDENTIAL_KIND = "CredentialProviderConfig"
SOURCE_KIND = "SerializedNodeConfigSource"
VERSION = "v1beta1"

KUBELET_FIELDS = {
    "kubeletCgroups": "nodeagentCgroups",
    "kubeReserved": "platformReserved",
    "kubeReservedCgroup": "platformReservedCgroup",
    "kubeAPIQPS": "platformAPIQPS",
    "kubeAPIBurst": "platformAPIBurst",
}
"""Native top-level field by its name in ``KubeletConfiguration``; all other fields have the same name."""

ENFORCEMENTS = {
    "kube-reserved": "platform-reserved",
    "kube-reserved-compressible": "platform-reserved-compressible",
}
"""Native entry of ``enforceNodeAllocatable`` by its kubelet name."""

_GATE_SPELLINGS = {"RuntimeClassInImageCriAPI": "RuntimeClassInImageCriApi"}
_GATE_WORDS = (("Kubelet", "NodeAgent"), ("KubeProxy", "PlatformProxy"))


def native_gate(name: str) -> str:
    """Return the native name of a feature gate by its kubelet name; both are accepted."""
    name = _GATE_SPELLINGS.get(name, name)
    for theirs, ours in _GATE_WORDS:
        name = name.replace(theirs, ours)
    return name


def kubelet_form(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return a native configuration in JSON form as a ``KubeletConfiguration``."""
    fields = {ours: theirs for theirs, ours in KUBELET_FIELDS.items()}
    enforcements = {ours: theirs for theirs, ours in ENFORCEMENTS.items()}
    converted: dict[str, Any] = {"kind": KUBELET_KIND, "apiVersion": kubelet_version()}
    converted |= {fields.get(name, name): value for name, value in native.items()}
    if enforced := converted.get("enforceNodeAllocatable"):
        converted["enforceNodeAllocatable"] = [enforcements.get(name, name) for name in enforced]
    if gates := converted.get("featureGates"):
        converted["featureGates"] = {kubelet_gate(name): enabled for name, enabled in gates.items()}
    return converted


def kubelet_gate(name: str) -> str:
    """Return the kubelet name of a feature gate by its native name."""
    name = next((theirs for theirs, ours in _GATE_SPELLINGS.items() if ours == name), name)
    for theirs, ours in _GATE_WORDS:
        name = name.replace(ours, theirs)
    return name


def native_version() -> str:
    """Return the apiVersion of the native format."""
    return f"{identity.current().config_group}/{VERSION}"


def kubelet_version() -> str:
    """Return the apiVersion of the ``KubeletConfiguration`` format."""
    return f"{identity.current().kubelet_config_group}/{VERSION}"
