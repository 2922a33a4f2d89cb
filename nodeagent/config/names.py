"""Names in configuration files: native ones and those of the ``KubeletConfiguration`` format.

The same table translates files of that format and suggests names when a file mixes both.
"""

from __future__ import annotations

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


def native_version() -> str:
    """Return the apiVersion of the native format."""
    return f"{identity.current().config_group}/{VERSION}"


def kubelet_version() -> str:
    """Return the apiVersion of the ``KubeletConfiguration`` format."""
    return f"{identity.current().kubelet_config_group}/{VERSION}"
