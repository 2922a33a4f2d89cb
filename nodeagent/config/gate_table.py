"""Life cycle of feature gates over the releases (spec: config.featureGates, gate.*). Data, no I/O."""

from __future__ import annotations

from nodeagent.base.gate_stages import GateStage, last_gate_of, parse_table, stage_of
from nodeagent.base.gates import FeatureGate
from nodeagent.base.release import Release

_TABLE = """
AllowDNSOnlyNodeCSR                                before+ deprecated-1.31
AllowInsecureNodeAgentCertificateSigningRequests   before+ deprecated-1.31
AllowOverwriteTerminationGracePeriodSeconds        before+ deprecated-1.32 deprecated-!1.35
AppArmor                                           beta+1.4 ga+!1.31 removed1.33
AppArmorFields                                     beta+1.30 ga+!1.31 removed1.33
AuthorizeNodeWithSelectors                         alpha-1.31 beta+1.32 ga+!1.34
ChangeContainerStatusOnNodeAgentRestart            before+ deprecated-1.35
CloudDualStackNodeIPs                              alpha-1.27 beta+1.29 ga+!1.30 removed1.32
ClusterTrustBundleProjection                       alpha-1.29 beta-1.33
ComponentFlagz                                     before+ alpha-1.32 beta+1.36
ComponentSLIs                                      beta+1.27 ga+!1.32 removed1.35
ComponentStatusz                                   before+ alpha-1.32 beta+1.36
ConsistentHTTPGetHandlers                          ga+1.25 ga+!1.30 removed1.31
ContainerCheckpoint                                alpha-1.25 beta+1.30
ContainerRestartRules                              alpha-1.34 beta+1.35
ContainerStopSignals                               alpha-1.33
ContextualLogging                                  alpha-1.24 beta+1.30
CPUManager                                         ga+!1.26 removed1.33
CPUManagerPolicyAlphaOptions                       alpha-1.23
CPUManagerPolicyBetaOptions                        beta+1.23
CPUManagerPolicyOptions                            alpha-1.22 beta+1.23 ga+!1.33
CRIListStreaming                                   alpha-1.36
CSIVolumeHealth                                    alpha-1.21
CustomCPUCFSQuotaPeriod                            alpha-1.12 ga+1.36
DevicePluginCDIDevices                             beta+1.29 ga+!1.31 removed1.34
DisableCloudProviders                              beta+1.29 ga+!1.31 removed1.33
DisableCPUQuotaWithExclusiveCPUs                   beta+1.33 deprecated+1.36
DisableNodeAgentCloudCredentialProviders           beta+1.29 ga+!1.31 removed1.33
DisableNodePlatformProxyVersion                    alpha-1.29 deprecated-1.31 deprecated+1.33 deprecated+!1.36
DRAConsumableCapacity                              alpha-1.34 beta+1.36
DRAExtendedResource                                alpha-1.34 beta+1.36
DRANodeAllocatableResources                        alpha-1.36
DRAPartitionableDevices                            alpha-1.33 beta+1.36
DRAWorkloadResourceClaims                          alpha-1.36
DynamicResourceAllocation                          alpha-1.26 beta-1.32 ga+1.34 ga+!1.35
EnvFiles                                           alpha-1.34 beta+1.35
EventedPLEG                                        alpha-1.26 beta-1.27 alpha-1.30
ExecProbeTimeout                                   ga+1.20 ga+!1.35
ExpandedDNSConfig                                  ga+!1.28 removed1.30
ExtendWebSocketsToNodeAgent                        beta+1.36
GitRepoVolumeDriver                                before+ deprecated-1.33 deprecated-!1.36
GracefulNodeShutdown                               alpha-1.20 beta+1.21
GracefulNodeShutdownBasedOnPodPriority             alpha-1.23 beta+1.24
HostnameOverride                                   alpha-1.34 beta+1.35
ImageMaximumGCAge                                  alpha-1.29 beta+1.30 ga+!1.35
ImageVolume                                        alpha-1.31 beta-1.33 beta+1.35 ga+!1.36
ImageVolumeWithDigest                              alpha-1.36
InPlacePodLevelResourcesVerticalScaling            alpha-1.35 beta+1.36
InPlacePodVerticalScaling                          alpha-1.27 beta+1.33 ga+!1.35
InPlacePodVerticalScalingAllocatedStatus           alpha-1.32 deprecated-1.33 removed1.36
InPlacePodVerticalScalingExclusiveCPUs             alpha-1.32
InPlacePodVerticalScalingExclusiveMemory           alpha-1.34
InPlacePodVerticalScalingInitContainers            beta+1.36
IPTablesOwnershipCleanup                           ga+!1.28 removed1.30
LocalStorageCapacityIsolationFSQuotaMonitoring     alpha-1.15 beta-1.31
LoggingAlphaOptions                                alpha-1.24
LoggingBetaOptions                                 beta+1.24
MemoryManager                                      beta+1.22 ga+!1.32 removed1.36
MemoryQoS                                          alpha-1.22
MutableCSINodeAllocatableCount                     alpha-1.33 beta-1.34 beta+1.35 ga+!1.36
NativeHistograms                                   alpha-1.36
NewVolumeManagerReconstruction                     beta+1.28 ga+!1.30 removed1.32
NodeAgentCgroupDriverFromCRI                       alpha-1.28 beta+1.31 ga+!1.34
NodeAgentCrashLoopBackOffMax                       alpha-1.32 beta+1.35
NodeAgentEnsureSecretPulledImages                  alpha-1.33 beta+1.35
NodeAgentFineGrainedAuthz                          alpha-1.32 beta+1.33 ga+!1.36
NodeAgentInUserNamespace                           alpha-1.22
NodeAgentPodResources                              ga+!1.28 removed1.30
NodeAgentPodResourcesDynamicResources              alpha-1.27 beta+1.34 ga+!1.36
NodeAgentPodResourcesGet                           alpha-1.27 beta+1.34 ga+!1.36
NodeAgentPodResourcesListUseActivePods             before- deprecated+1.34
NodeAgentPSI                                       alpha-1.33 beta+1.34 ga+!1.36
NodeAgentRegistrationGetOnExistsOnly               before+ deprecated-1.32
NodeAgentSeparateDiskGC                            alpha-1.29 beta+1.31
NodeAgentServiceAccountTokenForCredentialProviders alpha-1.33 beta+1.34
NodeAgentTracing                                   alpha-1.25 beta+1.27 ga+!1.34
NodeDeclaredFeatures                               alpha-1.35 beta+1.36
NodeLogQuery                                       alpha-1.27 beta-1.30 ga+!1.36
NodeSwap                                           alpha-1.22 beta-1.28 beta+1.30 ga+!1.34
PLEGOnDemandRelist                                 beta+1.36
PodAndContainerStatsFromCRI                        alpha-1.23
PodCertificateRequest                              alpha-1.34 beta-1.35
PodDisruptionConditions                            beta+1.26 ga+!1.31 removed1.34
PodHostIPs                                         alpha-1.28 beta+1.29 ga+!1.30 removed1.32
PodLevelResourceManagers                           alpha-1.36
PodLevelResources                                  alpha-1.32 beta+1.34
PodLifecycleSleepAction                            alpha-1.29 beta+1.30 ga+!1.34
PodLifecycleSleepActionAllowZero                   alpha-1.32 beta+1.33 ga+!1.34
PodLogsQuerySplitStreams                           alpha-1.32
PodObservedGenerationTracking                      alpha-1.33 beta+1.34 ga+!1.35
PodReadyToStartContainersCondition                 alpha-1.28 beta+1.29
PodsAPI                                            alpha-1.36
PortForwardWebsockets                              alpha-1.30 beta+1.31
PreventStaticPodAPIReferences                      beta+1.34
ProbeTerminationGracePeriod                        ga+!1.28 removed1.30
ProcMountType                                      alpha-1.12 beta-1.31 beta+1.33 ga+!1.36
QOSReserved                                        alpha-1.11
RecoverVolumeExpansionFailure                      alpha-1.23 beta+1.32 ga+!1.34
RecursiveReadOnlyMounts                            alpha-1.30 beta+1.31 ga+!1.33
ReduceDefaultCrashLoopBackOffDecay                 alpha-1.33
RelaxedDNSSearchValidation                         alpha-1.32 beta+1.33 ga+!1.34
RelaxedEnvironmentVariableValidation               alpha-1.30 beta+1.32 ga+!1.34
ReloadNodeAgentClientCAFile                        beta+1.36
ReloadNodeAgentServerCertificateFile               beta+1.31
ResourceHealthStatus                               alpha-1.31 beta+1.36
ResourceHealthStatusMessage                        beta+1.36
RestartAllContainersOnContainerExits               alpha-1.35 beta+1.36
RotateNodeAgentServerCertificate                   alpha-1.7 beta+1.12
RuntimeClassInImageCriApi                          alpha-1.29
SELinuxChangePolicy                                alpha-1.32 beta+1.33 ga+!1.36
SELinuxMount                                       alpha-1.30 beta-1.33
SELinuxMountReadWriteOncePod                       alpha-1.25 beta-1.27 beta+1.28 ga+!1.36
ServiceAccountNodeAudienceRestriction              beta-1.32 beta+1.33
SidecarContainers                                  alpha-1.28 beta+1.29 ga+!1.33
SizeMemoryBackedVolumes                            beta+1.22 ga+!1.32 removed1.35
SupplementalGroupsPolicy                           alpha-1.31 beta+1.33 ga+!1.35
SystemdWatchdog                                    beta+1.32 ga+!1.35
TaintTolerationComparisonOperators                 alpha-1.35
TopologyManager                                    beta+1.18 removed1.30
TopologyManagerPolicyAlphaOptions                  alpha-1.26
TopologyManagerPolicyBetaOptions                   beta-1.26 beta+1.28
TopologyManagerPolicyOptions                       alpha-1.26 beta+1.28 ga+1.32 ga+!1.36
TranslateStreamCloseWebsocketRequests              alpha-1.29 beta+1.30
UserNamespacesHostNetworkSupport                   alpha-1.35
UserNamespacesSupport                              alpha-1.25 beta-1.30 beta+1.33 ga+!1.36
"""
"""Gates of the agent, one per line: name, then the stages with the release in which each starts.

``+`` is on and ``-`` is off by default, ``!`` is locked, ``removed`` is the first release without the gate: the
feature remains enabled. ``before+`` is a behavior that was constant before its gate existed; without it, a feature is
absent before the first stage.
"""

_OTHERS = {
    "kube-apiserver": """
        AdmissionWebhookMatchConditions AggregatedDiscoveryEndpoint AggregatedDiscoveryRemoveBetaType
        AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AllowServiceLBStatusOnNonLB
        AllowUnsafeMalformedObjectDeletion AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
        APIListChunking APIPriorityAndFairness APIResponseCompression APISelfSubjectReview APIServerIdentity
        APIServerTracing APIServingWithRoutine AuthorizePodWebsocketUpgradeCreatePermission
        AuthorizeWithSelectors BtreeWatchCache CBORServingAndStorage ClearingNominatedNodeNameAfterBinding
        ClusterTrustBundle ConcurrentWatchObjectDecode ConsistentListFromCache ConstrainedImpersonation
        CRDObservedGenerationTracking CRDValidationRatcheting CrossNamespaceVolumeDataSource
        CustomResourceFieldSelectors CustomResourceValidationExpressions DeclarativeValidation
        DeclarativeValidationBeta DeclarativeValidationTakeover DefaultHostNetworkHostPortsInPodTemplates
        DetectCacheInconsistency DisableAllocatorDualWrite DRAResourceClaimGranularStatusAuthorization
        EfficientWatchResumption ElasticIndexedJob ExperimentalHostUserNamespaceDefaulting
        ExternalServiceAccountTokenSigner KMSv1 KMSv2 KMSv2KDF LegacyServiceAccountTokenTracking
        ListFromCacheSnapshot LoadBalancerIPMode ManifestBasedAdmissionControlConfig MatchLabelKeysInPodAffinity
        MatchLabelKeysInPodTopologySpreadSelectorMerge MutablePodResourcesForSuspendedJobs MutablePVNodeAffinity
        MutatingAdmissionPolicy OpenAPIEnums OpenAPIV3 PDBUnhealthyPodEvictionPolicy
        PersistentVolumeLastPhaseTransitionTime PodTopologyLabelsAdmission ProbeHostPodSecurityStandards
        RelaxedServiceNameValidation RemainingItemCount RemoteRequestHeaderUID RemoveSelfLink
        ResilientWatchCacheInitialization RetryGenerateName SecurityContextDeny SeparateCacheWatchRPC
        ServerSideApply ServerSideFieldValidation ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceCIDRStatusFieldWiping
        ServiceNodePortStaticSubrange ShardedListAndWatch SizeBasedListCostEstimate SkipReadOnlyValidationGCE
        StorageNamespaceIndex StorageVersionAPI StorageVersionHash StreamingCollectionEncodingToJSON
        StreamingCollectionEncodingToProtobuf StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks
        StrictIPCIDRValidation StructuredAuthenticationConfiguration
        StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
        StructuredAuthorizationConfiguration TokenRequestServiceAccountUIDValidation
        UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UserNamespacesPodSecurityStandards
        ValidatingAdmissionPolicy WatchBookmark WatchCacheInitializationPostStartHook
        WatchFromStorageWithoutResourceVersion WatchList ZeroLimitedNominalConcurrencyShares
    """,
    "kube-controller-manager": """
        ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection CronJobsScheduledAnnotation
        DeploymentReplicaSetTerminatingReplicas DRAResourcePoolStatus GenericWorkload HonorPVReclaimPolicy
        HPAConfigurableTolerance HPAContainerMetrics HPAScaleToZero JobBackoffLimitPerIndex JobManagedBy
        JobPodFailurePolicy JobPodReplacementPolicy JobReadyPods JobSuccessPolicy
        LegacyServiceAccountTokenCleanUp LogarithmicScaleDown MaxUnavailableStatefulSet
        MultiCIDRServiceAllocator MutableSchedulingDirectivesForSuspendedJobs NodeOutOfServiceVolumeDetach
        OrderedNamespaceDeletion PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodIndexLabel
        PreferSameTrafficDistribution  SeparateTaintEvictionController
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetAutoDeletePVC StatefulSetSemanticRevisionComparison
        StatefulSetStartOrdinal StorageVersionMigrator TopologyAwareHints VolumeAttributesClass
        WorkloadWithJob
    """,
    "kube-scheduler": """
        DRAAdminAccess DRAControlPlaneController DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
        DRAListTypeAttributes DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout
        GangScheduling LegacySidecarContainers MatchLabelKeysInPodTopologySpread MinDomainsInPodTopologySpread
        NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation OpportunisticBatching
        PodSchedulingReadiness SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ
        SchedulerQueueingHints StorageCapacityScoring TopologyAwareWorkloadScheduling VolumeCapacityPriority
        VolumeLimitScaling WorkloadAwarePreemption
    """,
    "Windows nodes": """
        WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork WinDSR WinOverlay
    """,
    "persistent volumes": """
        CSIMigrationAzureFile CSIMigrationPortworx CSIMigrationRBD CSIMigrationvSphere CSINodeExpandSecret
        CSIServiceAccountTokenSecrets InTreePluginAWSUnregister InTreePluginAzureDiskUnregister
        InTreePluginAzureFileUnregister InTreePluginGCEUnregister InTreePluginOpenStackUnregister
        InTreePluginPortworxUnregister InTreePluginRBDUnregister InTreePluginvSphereUnregister
        ReadWriteOncePod RetroactiveDefaultStorageClass
    """,
    "the Go client library": """
        AtomicFIFO ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR InOrderInformers
        InOrderInformersBatchProcess InformerResourceVersion UnlockWhileProcessingFIFO WatchListClient
    """,
    "cloud-controller-manager": """
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
        StableLoadBalancerNodeSet
    """,
    "kube-proxy": """
        MinimizeIPTablesRestore NFTablesProxyMode PlatformProxyDrainingTerminatingNodes
        ProxyTerminatingEndpoints ServiceTrafficDistribution
    """,
}
"""Gates of other components, and of features that a node does not have, by component."""

LIFE_CYCLES = parse_table(_TABLE)
"""Stages of each gate of the agent, oldest first."""

ALWAYS_ON_BEFORE = frozenset(line.split()[0] for line in _TABLE.strip().splitlines() if "before+" in line)
"""Gates whose feature was enabled before the gate existed."""

COMPONENTS = {name: component for component, names in _OTHERS.items() for name in names.split()}
"""Component of each gate that is not a gate of the agent."""


def stage_at(name: str, release: Release) -> GateStage | None:
    """Return the stage of a gate of the agent at *release*, or ``None`` before its first release."""
    return stage_of(LIFE_CYCLES[name], release)


def last_gate(name: str, release: Release) -> FeatureGate | None:
    """Return the gate with its last stage up to *release*, even if it was removed since then."""
    return last_gate_of(LIFE_CYCLES[name], release)
