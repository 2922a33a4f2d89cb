"""Options of pod validation: feature gates, and rules that stored pods which break them are exempt from."""

from __future__ import annotations

from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

FIELD_GATES = (
    "AppArmorFields",
    "ClearingNominatedNodeNameAfterBinding",
    "ContainerRestartRules",
    "ContainerStopSignals",
    "EnvFiles",
    "HostnameOverride",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "PodCertificateRequest",
    "PodLifecycleSleepActionAllowZero",
    "RecursiveReadOnlyMounts",
    "RelaxedDNSSearchValidation",
    "RelaxedEnvironmentVariableValidation",
    "RestartAllContainersOnContainerExits",
    "SELinuxChangePolicy",
    "SELinuxMount",
    "StrictIPCIDRValidation",
    "SupplementalGroupsPolicy",
    "TaintTolerationComparisonOperators",
    "UserNamespacesHostNetworkSupport",
)
"""Feature gates of releases after 1.29 that add rules for fields of pods."""


class PodOptions(Struct, frozen=True):
    """Settings of the validation of a pod or of a pod template."""

    identity: Identity
    release: Release = OLDEST
    """Kubernetes release whose rules apply."""
    features: frozenset[str] = frozenset()
    """Enabled gates of :data:`FIELD_GATES`; for updates also those whose fields the stored object uses."""
    is_pod: bool = False
    """The object is a pod, not a pod template."""
    allow_privileged: bool = True
    """Privileged containers are allowed (spec: opt.allow-privileged)."""
    allow_host_ips: bool = True
    """Fields may refer to ``status.hostIPs`` (spec: gate.PodHostIPs)."""
    allow_scheduling_changes: bool = True
    """Node selector and node affinity of pods with scheduling gates may change (spec: gate.PodSchedulingReadiness)."""
    allow_resize: bool = False
    """Resources of containers may change (spec: gate.InPlacePodVerticalScaling)."""
    resize_by_update: bool = True
    """Resizes need not use the subresource ``resize``."""
    any_deletion_cost: bool = False
    """The deletion cost may be invalid."""
    any_selector_values: bool = False
    """Label selectors of pod affinity may have invalid values."""
    any_node_values: bool = False
    """Label values of required node affinity may be invalid."""
    any_token_paths: bool = False
    """Paths of service account tokens may leave the volume."""
    any_spread_selectors: bool = False
    """Label selectors of topology spread constraints may be invalid."""
    any_huge_pages: bool = False
    """Amounts of huge pages need not be multiples of the page size."""
    any_sysctls: bool = False
    """Namespaced kernel parameters may be set in pods that use the namespaces of the host."""
