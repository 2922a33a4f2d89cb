"""How configuration names are spelled: field names on the wire, and the names that existing files use instead.

One table for both directions: reading a file in the reference form, and telling someone who mixes the two.
"""

from __future__ import annotations

from nodeagent.base import identity

NATIVE_KIND = "NodeAgentConfiguration"
REFERENCE_KIND = "KubeletConfiguration"
CREDENTIAL_KIND = "CredentialProviderConfig"
SOURCE_KIND = "SerializedNodeConfigSource"
VERSION = "v1beta1"

REFERENCE_FIELDS = {
    "kubeletCgroups": "nodeagentCgroups",
    "kubeReserved": "platformReserved",
    "kubeReservedCgroup": "platformReservedCgroup",
    "kubeAPIQPS": "platformAPIQPS",
    "kubeAPIBurst": "platformAPIBurst",
}
"""Top-level field in the reference form → our field; every other field has the same name."""

ENFORCEMENTS = {"kube-reserved": "platform-reserved"}
"""Other spelling of an entry of ``enforceNodeAllocatable`` → ours."""

GATE_ALIASES = {
    "RuntimeClassInImageCriAPI": "RuntimeClassInImageCriApi",
    "DisableKubeletCloudCredentialProviders": "DisableNodeAgentCloudCredentialProviders",
    "KubeletCgroupDriverFromCRI": "NodeAgentCgroupDriverFromCRI",
    "KubeletInUserNamespace": "NodeAgentInUserNamespace",
    "KubeletPodResources": "NodeAgentPodResources",
    "KubeletPodResourcesDynamicResources": "NodeAgentPodResourcesDynamicResources",
    "KubeletPodResourcesGet": "NodeAgentPodResourcesGet",
    "KubeletSeparateDiskGC": "NodeAgentSeparateDiskGC",
    "KubeletTracing": "NodeAgentTracing",
    "RotateKubeletServerCertificate": "RotateNodeAgentServerCertificate",
}
"""Other spelling of a feature gate → ours; both are accepted wherever a gate is named."""


def native_version() -> str:
    """Return the apiVersion of the native form."""
    return f"{identity.current().config_group}/{VERSION}"


def reference_version() -> str:
    """Return the apiVersion under which existing files carry the same kinds."""
    return f"{identity.current().reference_config_group}/{VERSION}"
