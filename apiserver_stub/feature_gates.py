"""Feature gates of the API server at a release, with their stages and defaults (spec: gate.*)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from apiserver_stub.gate_table import ALWAYS_ON_BEFORE, LIFE_CYCLES
from nodeagent.base.gate_stages import existing_gates, last_gate_of, stage_of
from nodeagent.base.gates import FeatureGate, FeatureGates, GateError, GateProblem, Stage
from nodeagent.base.release import OLDEST, Release

GATES_IN_USE = frozenset(
    {
        "APIResponseCompression",
        "APIServerIdentity",
        "APIServerTracing",
        "AdmissionWebhookMatchConditions",
        "AggregatedDiscoveryEndpoint",
        "AggregatedDiscoveryRemoveBetaType",
        "AllowInsecureNodeAgentCertificateSigningRequests",
        "AllowParsingUserUIDFromCertAuth",
        "AllowServiceLBStatusOnNonLB",
        "AllowUnsafeMalformedObjectDeletion",
        "AnonymousAuthConfigurableEndpoints",
        "AnyVolumeDataSource",
        "AppArmor",
        "AppArmorFields",
        "AuthorizeNodeWithSelectors",
        "AuthorizePodWebsocketUpgradeCreatePermission",
        "AuthorizeWithSelectors",
        "CRDValidationRatcheting",
        "CSIServiceAccountTokenSecrets",
        "ClearingNominatedNodeNameAfterBinding",
        "ClusterTrustBundle",
        "ClusterTrustBundleProjection",
        "ComponentFlagz",
        "ComponentSLIs",
        "ComponentStatusz",
        "ConstrainedImpersonation",
        "ContainerRestartRules",
        "ContainerStopSignals",
        "CoordinatedLeaderElection",
        "CrossNamespaceVolumeDataSource",
        "CustomResourceFieldSelectors",
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRAResourceClaimGranularStatusAuthorization",
        "DeploymentReplicaSetTerminatingReplicas",
        "DynamicResourceAllocation",
        "ElasticIndexedJob",
        "EnvFiles",
        "ExtendWebSocketsToNodeAgent",
        "ExternalServiceAccountTokenSigner",
        "GenericWorkload",
        "HPAConfigurableTolerance",
        "HPAContainerMetrics",
        "HPAScaleToZero",
        "HostnameOverride",
        "ImageVolume",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "JobBackoffLimitPerIndex",
        "JobManagedBy",
        "JobPodFailurePolicy",
        "JobPodReplacementPolicy",
        "JobSuccessPolicy",
        "KMSv1",
        "LegacyServiceAccountTokenCleanUp",
        "ListFromCacheSnapshot",
        "LoadBalancerIPMode",
        "ManifestBasedAdmissionControlConfig",
        "MatchLabelKeysInPodAffinity",
        "MatchLabelKeysInPodTopologySpread",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "MaxUnavailableStatefulSet",
        "MinDomainsInPodTopologySpread",
        "MultiCIDRServiceAllocator",
        "MutableCSINodeAllocatableCount",
        "MutablePVNodeAffinity",
        "MutablePodResourcesForSuspendedJobs",
        "MutableSchedulingDirectivesForSuspendedJobs",
        "MutatingAdmissionPolicy",
        "NodeAgentFineGrainedAuthz",
        "NodeAgentServiceAccountTokenForCredentialProviders",
        "NodeDeclaredFeatures",
        "NodeInclusionPolicyInPodTopologySpread",
        "OpenAPIEnums",
        "PDBUnhealthyPodEvictionPolicy",
        "PersistentVolumeLastPhaseTransitionTime",
        "PodCertificateRequest",
        "PodDeletionCost",
        "PodDisruptionConditions",
        "PodHostIPs",
        "PodLevelResources",
        "PodLifecycleSleepAction",
        "PodLifecycleSleepActionAllowZero",
        "PodLogsQuerySplitStreams",
        "PodObservedGenerationTracking",
        "PodSchedulingReadiness",
        "PodTopologyLabelsAdmission",
        "PortForwardWebsockets",
        "PreferSameTrafficDistribution",
        "ProcMountType",
        "RecoverVolumeExpansionFailure",
        "RecursiveReadOnlyMounts",
        "RelaxedServiceNameValidation",
        "RelaxedDNSSearchValidation",
        "RelaxedEnvironmentVariableValidation",
        "RemoteRequestHeaderUID",
        "ResourceHealthStatus",
        "RestartAllContainersOnContainerExits",
        "SELinuxChangePolicy",
        "SELinuxMount",
        "SELinuxMountReadWriteOncePod",
        "SecurityContextDeny",
        "ServiceAccountNodeAudienceRestriction",
        "ServiceAccountTokenJTI",
        "ServiceAccountTokenNodeBinding",
        "ServiceAccountTokenNodeBindingValidation",
        "ServiceAccountTokenPodNodeInfo",
        "ServiceCIDRStatusFieldWiping",
        "ServiceTrafficDistribution",
        "ShardedListAndWatch",
        "SidecarContainers",
        "SizeBasedListCostEstimate",
        "StatefulSetAutoDeletePVC",
        "StatefulSetStartOrdinal",
        "StorageVersionAPI",
        "StorageVersionHash",
        "StrictIPCIDRValidation",
        "StructuredAuthenticationConfiguration",
        "StructuredAuthenticationConfigurationEgressSelector",
        "StructuredAuthenticationConfigurationJWKSMetrics",
        "StructuredAuthorizationConfiguration",
        "SupplementalGroupsPolicy",
        "TaintTolerationComparisonOperators",
        "TokenRequestServiceAccountUIDValidation",
        "TopologyAwareHints",
        "TranslateStreamCloseWebsocketRequests",
        "UnauthenticatedHTTP2DOSMitigation",
        "UnknownVersionInteroperabilityProxy",
        "UserNamespacesHostNetworkSupport",
        "UserNamespacesPodSecurityStandards",
        "UserNamespacesSupport",
        "ValidatingAdmissionPolicy",
        "VolumeAttributesClass",
        "VolumeLimitScaling",
        "WatchList",
        "ZeroLimitedNominalConcurrencyShares",
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
    "AllowInsecureKubeletCertificateSigningRequests": "AllowInsecureNodeAgentCertificateSigningRequests",
    "ChangeContainerStatusOnKubeletRestart": "ChangeContainerStatusOnNodeAgentRestart",
    "ExtendWebSocketsToKubelet": "ExtendWebSocketsToNodeAgent",
    "KubeletCrashLoopBackOffMax": "NodeAgentCrashLoopBackOffMax",
    "KubeletEnsureSecretPulledImages": "NodeAgentEnsureSecretPulledImages",
    "KubeletFineGrainedAuthz": "NodeAgentFineGrainedAuthz",
    "KubeletPSI": "NodeAgentPSI",
    "KubeletPodResourcesListUseActivePods": "NodeAgentPodResourcesListUseActivePods",
    "KubeletRegistrationGetOnExistsOnly": "NodeAgentRegistrationGetOnExistsOnly",
    "KubeletServiceAccountTokenForCredentialProviders": "NodeAgentServiceAccountTokenForCredentialProviders",
    "ReloadKubeletClientCAFile": "ReloadNodeAgentClientCAFile",
    "ReloadKubeletServerCertificateFile": "ReloadNodeAgentServerCertificateFile",
    "RuntimeClassInImageCriAPI": "RuntimeClassInImageCriApi",
}
"""Canonical names of gates by alternative name."""


_PEERS, _STORAGE_VERSIONS = "UnknownVersionInteroperabilityProxy", "StorageVersionAPI"


@functools.cache
def gates_at(release: Release) -> tuple[FeatureGate, ...]:
    """Return all feature gates of the API server at *release*, with stage and default."""
    return existing_gates(LIFE_CYCLES, release)


def build_gates(settings: Mapping[str, bool], release: Release = OLDEST) -> FeatureGates:
    """Return the state of all gates under *settings*.

    Settings of gates that only other releases have are ignored; see :func:`idle`.

    :raises GateError: a gate is unknown, a locked gate would change, or a gate requires another one that is disabled.
    """
    known = {gate.name: gate for gate in gates_at(release)}
    named = {ALIASES.get(name, name): value for name, value in settings.items()}
    effective = {name: value for name, value in named.items() if name in known or name not in LIFE_CYCLES}
    gates = FeatureGates(known.values(), effective, absent=_absent(release))
    if known[_PEERS].stage is Stage.ALPHA and gates.enabled(_PEERS) and not gates.enabled(_STORAGE_VERSIONS):
        raise GateError([GateProblem(_PEERS, True, f"requires {_STORAGE_VERSIONS} feature flag to be enabled")])
    return gates


def validation_errors(settings: Mapping[str, bool], release: Release = OLDEST) -> list[str]:
    """Return the errors in *settings*, in the wording of command-line errors."""
    try:
        build_gates(settings, release)
    except GateError as error:
        return [_error_text(problem) for problem in error.problems]
    return []


def idle(settings: Mapping[str, bool], release: Release = OLDEST) -> Iterator[str]:
    """Yield a warning for each gate that *settings* change from its default without effect in this server."""
    known = {gate.name: gate for gate in gates_at(release)}
    for spelling, value in settings.items():
        name = ALIASES.get(spelling, spelling)
        if name in known:
            if name not in GATES_IN_USE and known[name].default is not value:
                yield f"feature gate {name} has no effect in this server"
        elif name in LIFE_CYCLES:
            yield f"feature gate {name} {_absence(name, release)}"


@functools.cache
def _absent(release: Release) -> Mapping[str, bool]:
    """Return whether the features are on whose gates *release* does not have."""
    known = {gate.name for gate in gates_at(release)}
    return {name: _is_on_without_gate(name, release) for name in LIFE_CYCLES if name not in known}


def _is_on_without_gate(name: str, release: Release) -> bool:
    gate = last_gate_of(LIFE_CYCLES[name], release)
    return name in ALWAYS_ON_BEFORE if gate is None else gate.default


def _absence(name: str, release: Release) -> str:
    """Return the reason why *release* does not have a gate, a predicate."""
    stage = stage_of(LIFE_CYCLES[name], release)
    if stage is None:
        return f"does not exist before release {LIFE_CYCLES[name][0].since}; the server serves {release}"
    state = "enabled" if _is_on_without_gate(name, release) else "disabled"
    return f"no longer exists since release {stage.since}: the feature is always {state}"


def _error_text(problem: GateProblem) -> str:
    if "unrecognized" in problem.rule:
        setting = f"{problem.name}={str(problem.value).lower()}"
        hint = problem.rule.partition(";")[2]
        text = f'invalid argument "{setting}" for "--feature-gates" flag: unrecognized feature gate: {problem.name}'
        return f"{text};{hint}" if hint else text
    if "locked" in problem.rule:
        return f"cannot set feature gate {problem.name} to {str(problem.value).lower()}, feature {problem.rule}"
    return f"{problem.name} feature {problem.rule}"
