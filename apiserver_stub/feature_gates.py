"""Feature gates of the API server, with their stages and defaults (spec: gate.*)."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.gates import FeatureGate, FeatureGates, GateError, GateProblem, Stage

_LATER = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
)
"""Gates of later releases."""
_ALPHA = (
    "CloudControllerManagerWebhook",
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "ConsistentListFromCache",
    "ContainerCheckpoint",
    "ContextualLogging",
    "CPUManagerPolicyAlphaOptions",
    "CRDValidationRatcheting",
    "CrossNamespaceVolumeDataSource",
    "CSIVolumeHealth",
    "CustomCPUCFSQuotaPeriod",
    "DisableNodePlatformProxyVersion",
    "DynamicResourceAllocation",
    "HonorPVReclaimPolicy",
    "HPAScaleToZero",
    "ImageMaximumGCAge",
    "InPlacePodVerticalScaling",
    "InTreePluginAWSUnregister",
    "InTreePluginAzureDiskUnregister",
    "InTreePluginAzureFileUnregister",
    "InTreePluginGCEUnregister",
    "InTreePluginOpenStackUnregister",
    "InTreePluginPortworxUnregister",
    "InTreePluginvSphereUnregister",
    "LoadBalancerIPMode",
    "LocalStorageCapacityIsolationFSQuotaMonitoring",
    "LoggingAlphaOptions",
    "MatchLabelKeysInPodAffinity",
    "MaxUnavailableStatefulSet",
    "MemoryQoS",
    "MultiCIDRServiceAllocator",
    "NFTablesProxyMode",
    "NodeAgentCgroupDriverFromCRI",
    "NodeAgentInUserNamespace",
    "NodeAgentPodResourcesDynamicResources",
    "NodeAgentPodResourcesGet",
    "NodeAgentSeparateDiskGC",
    "NodeLogQuery",
    "PlatformProxyDrainingTerminatingNodes",
    "PodAndContainerStatsFromCRI",
    "PodLifecycleSleepAction",
    "ProcMountType",
    "QOSReserved",
    "RecoverVolumeExpansionFailure",
    "RuntimeClassInImageCriApi",
    "SecurityContextDeny",
    "ServiceAccountTokenJTI",
    "ServiceAccountTokenNodeBinding",
    "ServiceAccountTokenNodeBindingValidation",
    "ServiceAccountTokenPodNodeInfo",
    "StorageVersionAPI",
    "StructuredAuthenticationConfiguration",
    "StructuredAuthorizationConfiguration",
    "TopologyManagerPolicyAlphaOptions",
    "TranslateStreamCloseWebsocketRequests",
    "UnknownVersionInteroperabilityProxy",
    "UserNamespacesPodSecurityStandards",
    "UserNamespacesSupport",
    "VolumeAttributesClass",
    "VolumeCapacityPriority",
    "WatchList",
    "WinDSR",
)
_ALPHA_ON = ("WindowsHostNetwork",)
_BETA_ON = (
    "AdmissionWebhookMatchConditions",
    "AggregatedDiscoveryEndpoint",
    "AnyVolumeDataSource",
    "APIResponseCompression",
    "APIServerIdentity",
    "APIServerTracing",
    "AppArmor",
    "CloudDualStackNodeIPs",
    "ComponentSLIs",
    "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions",
    "CronJobsScheduledAnnotation",
    "DevicePluginCDIDevices",
    "DisableCloudProviders",
    "DisableNodeAgentCloudCredentialProviders",
    "ElasticIndexedJob",
    "GracefulNodeShutdown",
    "GracefulNodeShutdownBasedOnPodPriority",
    "HPAContainerMetrics",
    "JobBackoffLimitPerIndex",
    "JobPodFailurePolicy",
    "JobPodReplacementPolicy",
    "LegacyServiceAccountTokenCleanUp",
    "LogarithmicScaleDown",
    "LoggingBetaOptions",
    "MatchLabelKeysInPodTopologySpread",
    "MemoryManager",
    "MinDomainsInPodTopologySpread",
    "NewVolumeManagerReconstruction",
    "NodeAgentTracing",
    "NodeInclusionPolicyInPodTopologySpread",
    "OpenAPIEnums",
    "PDBUnhealthyPodEvictionPolicy",
    "PersistentVolumeLastPhaseTransitionTime",
    "PodDeletionCost",
    "PodDisruptionConditions",
    "PodHostIPs",
    "PodIndexLabel",
    "PodReadyToStartContainersCondition",
    "PodSchedulingReadiness",
    "RotateNodeAgentServerCertificate",
    "SELinuxMountReadWriteOncePod",
    "SeparateTaintEvictionController",
    "SidecarContainers",
    "SizeMemoryBackedVolumes",
    "StableLoadBalancerNodeSet",
    "StatefulSetAutoDeletePVC",
    "StatefulSetStartOrdinal",
    "StorageVersionHash",
    "TopologyAwareHints",
    "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions",
    "UnauthenticatedHTTP2DOSMitigation",
    "WinOverlay",
)
_BETA_OFF = (
    "CSIMigrationPortworx",
    "EventedPLEG",
    "NodeSwap",
    "SchedulerQueueingHints",
    "ValidatingAdmissionPolicy",
    "ZeroLimitedNominalConcurrencyShares",
)
_LOCKED = (
    "APIListChunking",
    "APIPriorityAndFairness",
    "CPUManager",
    "CSIMigrationAzureFile",
    "CSIMigrationvSphere",
    "CSINodeExpandSecret",
    "CustomResourceValidationExpressions",
    "EfficientWatchResumption",
    "ExpandedDNSConfig",
    "IPTablesOwnershipCleanup",
    "JobReadyPods",
    "KMSv2",
    "KMSv2KDF",
    "LegacyServiceAccountTokenTracking",
    "MinimizeIPTablesRestore",
    "NodeAgentPodResources",
    "NodeOutOfServiceVolumeDetach",
    "OpenAPIV3",
    "ProbeTerminationGracePeriod",
    "ProxyTerminatingEndpoints",
    "ReadWriteOncePod",
    "RemainingItemCount",
    "RemoveSelfLink",
    "RetroactiveDefaultStorageClass",
    "ServerSideApply",
    "ServerSideFieldValidation",
    "ServiceNodePortStaticSubrange",
    "TopologyManager",
    "WatchBookmark",
)
_GA = ("ConsistentHTTPGetHandlers", "ExecProbeTimeout")
_DEPRECATED = (
    "CSIMigrationRBD",
    "DefaultHostNetworkHostPortsInPodTemplates",
    "InTreePluginRBDUnregister",
    "KMSv1",
    "SkipReadOnlyValidationGCE",
)

GATES_IN_USE = frozenset(
    {
        "APIResponseCompression",
        "APIServerTracing",
        "AdmissionWebhookMatchConditions",
        "AggregatedDiscoveryEndpoint",
        "AnyVolumeDataSource",
        "AppArmor",
        "ClusterTrustBundle",
        "ClusterTrustBundleProjection",
        "ComponentSLIs",
        "CrossNamespaceVolumeDataSource",
        "DynamicResourceAllocation",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "LegacyServiceAccountTokenCleanUp",
        "MatchLabelKeysInPodAffinity",
        "MatchLabelKeysInPodTopologySpread",
        "MinDomainsInPodTopologySpread",
        "NodeInclusionPolicyInPodTopologySpread",
        "PDBUnhealthyPodEvictionPolicy",
        "PersistentVolumeLastPhaseTransitionTime",
        "PodDeletionCost",
        "PodDisruptionConditions",
        "PodHostIPs",
        "PodLifecycleSleepAction",
        "PodSchedulingReadiness",
        "ProcMountType",
        "RecoverVolumeExpansionFailure",
        "SELinuxMountReadWriteOncePod",
        "SecurityContextDeny",
        "ServiceAccountTokenJTI",
        "ServiceAccountTokenNodeBinding",
        "ServiceAccountTokenNodeBindingValidation",
        "ServiceAccountTokenPodNodeInfo",
        "SidecarContainers",
        "StorageVersionHash",
        "StructuredAuthenticationConfiguration",
        "StructuredAuthorizationConfiguration",
        "UnauthenticatedHTTP2DOSMitigation",
        "UserNamespacesSupport",
        "ValidatingAdmissionPolicy",
        "VolumeAttributesClass",
        "WatchList",
    }
)
"""Gates with an effect in this server; all others belong to other components or to features that it lacks."""

ALIASES = {
    "DisableKubeletCloudCredentialProviders": "DisableNodeAgentCloudCredentialProviders",
    "DisableNodeKubeProxyVersion": "DisableNodePlatformProxyVersion",
    "KubeProxyDrainingTerminatingNodes": "PlatformProxyDrainingTerminatingNodes",
    "KubeletCgroupDriverFromCRI": "NodeAgentCgroupDriverFromCRI",
    "KubeletInUserNamespace": "NodeAgentInUserNamespace",
    "KubeletPodResources": "NodeAgentPodResources",
    "KubeletPodResourcesDynamicResources": "NodeAgentPodResourcesDynamicResources",
    "KubeletPodResourcesGet": "NodeAgentPodResourcesGet",
    "KubeletSeparateDiskGC": "NodeAgentSeparateDiskGC",
    "KubeletTracing": "NodeAgentTracing",
    "RotateKubeletServerCertificate": "RotateNodeAgentServerCertificate",
    "RuntimeClassInImageCriAPI": "RuntimeClassInImageCriApi",
}
"""Canonical names of gates by alternative name."""

KNOWN: tuple[FeatureGate, ...] = (
    *(FeatureGate(name, Stage.ALPHA, False) for name in _LATER),
    *(FeatureGate(name, Stage.ALPHA, False) for name in _ALPHA),
    *(FeatureGate(name, Stage.ALPHA, True) for name in _ALPHA_ON),
    *(FeatureGate(name, Stage.BETA, True) for name in _BETA_ON),
    *(FeatureGate(name, Stage.BETA, False) for name in _BETA_OFF),
    *(FeatureGate(name, Stage.GA, True, locked=True) for name in _LOCKED),
    *(FeatureGate(name, Stage.GA, True) for name in _GA),
    *(FeatureGate(name, Stage.DEPRECATED, name == "SkipReadOnlyValidationGCE") for name in _DEPRECATED),
)


def build_gates(settings: Mapping[str, bool]) -> FeatureGates:
    """Return the state of all gates under *settings*.

    :raises GateError: a gate is unknown, a locked gate would change, or a gate requires another one that is disabled.
    """
    gates = FeatureGates(KNOWN, settings, ALIASES)
    if gates.enabled("UnknownVersionInteroperabilityProxy") and not gates.enabled("StorageVersionAPI"):
        rule = "requires StorageVersionAPI feature flag to be enabled"
        raise GateError([GateProblem("UnknownVersionInteroperabilityProxy", True, rule)])
    return gates


def validation_errors(settings: Mapping[str, bool]) -> list[str]:
    """Return the errors in *settings*, in the wording of command-line errors."""
    try:
        build_gates(settings)
    except GateError as error:
        return [_error_text(problem) for problem in error.problems]
    return []


def idle(settings: Mapping[str, bool]) -> list[str]:
    """Return a warning for each gate that *settings* change from its default without effect in this server."""
    defaults = {gate.name: gate.default for gate in KNOWN}
    named = {ALIASES.get(name, name): value for name, value in settings.items()}
    return [
        f"feature gate {name} has no effect in this server"
        for name, value in named.items()
        if name not in GATES_IN_USE and defaults.get(name, value) is not value
    ]


def _error_text(problem: GateProblem) -> str:
    if "unrecognized" in problem.rule:
        setting = f"{problem.name}={str(problem.value).lower()}"
        hint = problem.rule.partition(";")[2]
        text = f'invalid argument "{setting}" for "--feature-gates" flag: unrecognized feature gate: {problem.name}'
        return f"{text};{hint}" if hint else text
    if "locked" in problem.rule:
        return f"cannot set feature gate {problem.name} to {str(problem.value).lower()}, feature {problem.rule}"
    return f"{problem.name} feature {problem.rule}"
