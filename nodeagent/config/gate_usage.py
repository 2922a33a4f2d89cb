"""Usage of feature gates: gates that are accepted but have no effect."""

from __future__ import annotations

from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import NEWEST, Release
from nodeagent.config.features import gates_at
from nodeagent.config.gate_table import COMPONENTS

GATES_IN_USE = frozenset(
    {
        "AllowDNSOnlyNodeCSR",
        "AppArmor",
        "CPUManagerPolicyAlphaOptions",
        "CPUManagerPolicyBetaOptions",
        "CPUManagerPolicyOptions",
        "CSIVolumeHealth",
        "ClusterTrustBundleProjection",
        "ComponentFlagz",
        "ComponentSLIs",
        "ComponentStatusz",
        "ContainerCheckpoint",
        "ContainerRestartRules",
        "ContainerStopSignals",
        "CustomCPUCFSQuotaPeriod",
        "DisableCPUQuotaWithExclusiveCPUs",
        "DevicePluginCDIDevices",
        "DisableNodePlatformProxyVersion",
        "DynamicResourceAllocation",
        "EnvFiles",
        "EventedPLEG",
        "ExecProbeTimeout",
        "ExtendWebSocketsToNodeAgent",
        "GracefulNodeShutdown",
        "GracefulNodeShutdownBasedOnPodPriority",
        "HostnameOverride",
        "ImageMaximumGCAge",
        "ImageVolumeWithDigest",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "LocalStorageCapacityIsolationFSQuotaMonitoring",
        "LoggingAlphaOptions",
        "LoggingBetaOptions",
        "MemoryManager",
        "MemoryQoS",
        "MutableCSINodeAllocatableCount",
        "NodeAgentEnsureSecretPulledImages",
        "NodeAgentFineGrainedAuthz",
        "NodeAgentInUserNamespace",
        "NodeAgentPSI",
        "NodeAgentSeparateDiskGC",
        "NodeAgentCgroupDriverFromCRI",
        "NodeAgentCrashLoopBackOffMax",
        "ReduceDefaultCrashLoopBackOffDecay",
        "NodeAgentServiceAccountTokenForCredentialProviders",
        "NodeAgentTracing",
        "NodeDeclaredFeatures",
        "NodeLogQuery",
        "NodeAgentPodResourcesDynamicResources",
        "NodeAgentPodResourcesGet",
        "NodeAgentPodResourcesListUseActivePods",
        "NodeSwap",
        "PodAndContainerStatsFromCRI",
        "PodCertificateRequest",
        "PodDisruptionConditions",
        "PodHostIPs",
        "PodLevelResources",
        "PodLifecycleSleepAction",
        "PodObservedGenerationTracking",
        "PodReadyToStartContainersCondition",
        "PreventStaticPodAPIReferences",
        "ProcMountType",
        "QOSReserved",
        "RelaxedEnvironmentVariableValidation",
        "ResourceHealthStatus",
        "ResourceHealthStatusMessage",
        "RestartAllContainersOnContainerExits",
        "RecoverVolumeExpansionFailure",
        "RotateNodeAgentServerCertificate",
        "RuntimeClassInImageCriApi",
        "SELinuxChangePolicy",
        "SELinuxMount",
        "SELinuxMountReadWriteOncePod",
        "SidecarContainers",
        "SizeMemoryBackedVolumes",
        "TopologyManager",
        "TopologyManagerPolicyBetaOptions",
        "TopologyManagerPolicyOptions",
        "UserNamespacesSupport",
    }
)
"""Feature gates that the code reads. Setting another gate has no effect; a locked gate cannot be set."""


_REASONS = {
    "the feature is always enabled": """
        AppArmorFields CPUManager ConsistentHTTPGetHandlers ContextualLogging ExpandedDNSConfig NodeAgentPodResources
        IPTablesOwnershipCleanup ImageVolume InPlacePodVerticalScalingAllocatedStatus NewVolumeManagerReconstruction
        PodLifecycleSleepActionAllowZero ProbeTerminationGracePeriod RecursiveReadOnlyMounts
        ReloadNodeAgentClientCAFile ReloadNodeAgentServerCertificateFile SupplementalGroupsPolicy SystemdWatchdog
    """,
    "cloud providers run outside the agent": """
        CloudDualStackNodeIPs DisableCloudProviders DisableNodeAgentCloudCredentialProviders
    """,
    "claims of workloads, and node resources in claims, are not supported": """
        DRANodeAllocatableResources DRAWorkloadResourceClaims
    """,
    "the scheduler applies it; claims are prepared as allocated": """
        DRAConsumableCapacity DRAExtendedResource DRAPartitionableDevices
    """,
    "it restores a deprecated behavior, which the agent does not have": """
        AllowOverwriteTerminationGracePeriodSeconds ChangeContainerStatusOnNodeAgentRestart
        GitRepoVolumeDriver NodeAgentRegistrationGetOnExistsOnly
    """,
    "an alpha feature that is off by default and not implemented": """
        CRIListStreaming InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
        NativeHistograms PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI TaintTolerationComparisonOperators
        UserNamespacesHostNetworkSupport
    """,
    "there are no alpha options of the topology manager": """
        TopologyManagerPolicyAlphaOptions
    """,
    "pods are listed on demand in every release": """
        PLEGOnDemandRelist
    """,
    "the API server enforces or translates it; nothing to change on a node": """
        AllowInsecureNodeAgentCertificateSigningRequests AuthorizeNodeWithSelectors PortForwardWebsockets
        RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ServiceAccountNodeAudienceRestriction
        TranslateStreamCloseWebsocketRequests
    """,
}
_NOT_IMPLEMENTED = "not implemented"


def reason_without_effect(name: str) -> str:
    """Return the reason why a gate has no effect on the node, or the empty string if it has one."""
    if name in GATES_IN_USE:
        return ""
    if name in COMPONENTS:
        return f"for {COMPONENTS[name]}"
    return next((reason for reason, names in _REASONS.items() if name in names.split()), _NOT_IMPLEMENTED)


def ineffective_settings(gates: FeatureGates) -> list[str]:
    """Return the paths of the feature gates that are changed from their default without an effect."""
    return [
        f"featureGates.{gate.name}"
        for gate, enabled in gates
        if gate.name not in GATES_IN_USE and enabled != gate.default
    ]


def all_ineffective_settings(release: Release = NEWEST) -> list[str]:
    """Return the paths of all feature gates of *release* without an effect."""
    gates = sorted(gate.name for gate in gates_at(release) if gate.name not in GATES_IN_USE and not gate.locked)
    return [f"featureGates.{name}" for name in gates]
