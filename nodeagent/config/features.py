"""Feature gates of the agent, with stage and default as of Kubernetes 1.29 (spec: config.featureGates)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.gates import FeatureGate, FeatureGates, Stage
from nodeagent.config.names import GATE_ALIASES

_LOCKED = ("CPUManager", "ExpandedDNSConfig", "IPTablesOwnershipCleanup", "NodeAgentPodResources")
_GA = ("ConsistentHTTPGetHandlers", "ExecProbeTimeout")
_BETA_ON = (
    "AppArmor",
    "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions",
    "CloudDualStackNodeIPs",
    "DevicePluginCDIDevices",
    "DisableCloudProviders",
    "DisableNodeAgentCloudCredentialProviders",
    "GracefulNodeShutdown",
    "GracefulNodeShutdownBasedOnPodPriority",
    "LoggingBetaOptions",
    "MemoryManager",
    "NewVolumeManagerReconstruction",
    "NodeAgentTracing",
    "PodDisruptionConditions",
    "PodHostIPs",
    "PodReadyToStartContainersCondition",
    "RotateNodeAgentServerCertificate",
    "SELinuxMountReadWriteOncePod",
    "SidecarContainers",
    "SizeMemoryBackedVolumes",
    "TopologyManager",
    "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions",
)
_BETA_OFF = ("EventedPLEG", "NodeSwap")
_ALPHA = (
    "CPUManagerPolicyAlphaOptions",
    "CSIVolumeHealth",
    "ClusterTrustBundleProjection",
    "ContainerCheckpoint",
    "ContextualLogging",
    "CustomCPUCFSQuotaPeriod",
    "DynamicResourceAllocation",
    "ImageMaximumGCAge",
    "InPlacePodVerticalScaling",
    "LocalStorageCapacityIsolationFSQuotaMonitoring",
    "LoggingAlphaOptions",
    "MemoryQoS",
    "NodeAgentCgroupDriverFromCRI",
    "NodeAgentInUserNamespace",
    "NodeAgentPodResourcesDynamicResources",
    "NodeAgentPodResourcesGet",
    "NodeAgentSeparateDiskGC",
    "NodeLogQuery",
    "PodAndContainerStatsFromCRI",
    "PodLifecycleSleepAction",
    "ProcMountType",
    "QOSReserved",
    "RuntimeClassInImageCriApi",
    "TopologyManagerPolicyAlphaOptions",
    "TranslateStreamCloseWebsocketRequests",
    "UserNamespacesSupport",
)

KNOWN: tuple[FeatureGate, ...] = (
    *(FeatureGate(name, Stage.GA, True, locked=True) for name in _LOCKED),
    *(FeatureGate(name, Stage.GA, True) for name in _GA),
    *(FeatureGate(name, Stage.BETA, True) for name in _BETA_ON),
    *(FeatureGate(name, Stage.BETA, False) for name in _BETA_OFF),
    *(FeatureGate(name, Stage.ALPHA, False) for name in _ALPHA),
)
"""All feature gates of the agent. ``TopologyManager`` has no stage in the specification: it enables the former beta
feature, and disabling it forbids the settings of the topology manager."""


def build_gates(settings: Mapping[str, bool]) -> FeatureGates:
    """Return the state of all feature gates with *settings* (the value of ``featureGates``).

    :raises nodeagent.base.gates.GateError: a gate is unknown, or locked to another value.
    """
    return FeatureGates(KNOWN, settings, GATE_ALIASES)
