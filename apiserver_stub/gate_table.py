"""Life cycle of the feature gates of the API server over the releases (spec: gate.*). Data, no I/O."""

from __future__ import annotations

from nodeagent.base.gate_stages import parse_table

_TABLE = """
AdmissionWebhookMatchConditions                      beta+1.28 ga+!1.30 removed1.33
AggregatedDiscoveryEndpoint                          beta+1.27 ga+!1.30 removed1.33
AggregatedDiscoveryRemoveBetaType                    deprecated+1.33 deprecated+!1.35
AllowDNSOnlyNodeCSR                                  before+ deprecated-1.31
AllowInsecureNodeAgentCertificateSigningRequests     before+ deprecated-1.31
AllowOverwriteTerminationGracePeriodSeconds          before+ deprecated-1.32 deprecated-!1.35
AllowParsingUserUIDFromCertAuth                      beta+1.33
AllowServiceExternalIPs                              before+ ga+1.36
AllowServiceLBStatusOnNonLB                          deprecated-1.30 deprecated-!1.32 removed1.35
AllowUnsafeMalformedObjectDeletion                   alpha-1.32
AnonymousAuthConfigurableEndpoints                   alpha-1.31 beta+1.32 ga+!1.34
AnyVolumeDataSource                                  beta+1.24 ga+!1.33
APIListChunking                                      ga+!1.29 removed1.33
APIPriorityAndFairness                               ga+!1.29 removed1.31
APIResponseCompression                               beta+1.16
APIServerIdentity                                    beta+1.26
APIServerTracing                                     beta+1.27 ga+!1.34
APIServingWithRoutine                                alpha-1.30
AppArmor                                             beta+1.4 ga+!1.31 removed1.33
AppArmorFields                                       beta+1.30 ga+!1.31 removed1.33
AtomicFIFO                                           beta+1.36
AuthorizeNodeWithSelectors                           alpha-1.31 beta+1.32 ga+!1.34
AuthorizePodWebsocketUpgradeCreatePermission         beta+1.35
AuthorizeWithSelectors                               alpha-1.31 beta+1.32 ga+!1.34
BtreeWatchCache                                      beta+1.32 ga+!1.33
CBORServingAndStorage                                alpha-1.32
ChangeContainerStatusOnNodeAgentRestart              before+ deprecated-1.35
ClearingNominatedNodeNameAfterBinding                alpha-1.34 beta+1.35
ClientsAllowCARotation                               beta+1.36
ClientsAllowCBOR                                     alpha-1.32
ClientsAllowTLSCacheGC                               beta+1.36
ClientsPreferCBOR                                    alpha-1.32
CloudControllerManagerWatchBasedRoutesReconciliation alpha-1.35
CloudControllerManagerWebhook                        alpha-1.27
CloudDualStackNodeIPs                                beta+1.29 ga+!1.30 removed1.32
ClusterTrustBundle                                   alpha-1.27 beta-1.33
ClusterTrustBundleProjection                         alpha-1.29 beta-1.33
ComponentFlagz                                       alpha-1.32 beta+1.36
ComponentSLIs                                        beta+1.27 ga+!1.32 removed1.35
ComponentStatusz                                     alpha-1.32 beta+1.36
ConcurrentWatchObjectDecode                          beta-1.31
ConsistentHTTPGetHandlers                            ga+1.29 ga+!1.30 removed1.31
ConsistentListFromCache                              alpha-1.28 beta+1.31 ga+!1.34
ConstrainedImpersonation                             alpha-1.35 beta+1.36
ContainerCheckpoint                                  alpha-1.25 beta+1.30
ContainerRestartRules                                alpha-1.34 beta+1.35
ContainerStopSignals                                 alpha-1.33
ContextualLogging                                    alpha-1.24 beta+1.30
ControllerManagerReleaseLeaderElectionLockOnExit     alpha-1.36
CoordinatedLeaderElection                            alpha-1.31 beta-1.33
CPUManager                                           ga+!1.26 removed1.33
CPUManagerPolicyAlphaOptions                         alpha-1.23
CPUManagerPolicyBetaOptions                          beta+1.23
CPUManagerPolicyOptions                              beta+1.23 ga+!1.33
CRDObservedGenerationTracking                        beta-1.35 beta+1.36
CRDValidationRatcheting                              alpha-1.28 beta+1.30 ga+!1.33
CRIListStreaming                                     alpha-1.36
CronJobsScheduledAnnotation                          beta+1.28 ga+!1.32 removed1.35
CrossNamespaceVolumeDataSource                       alpha-1.26
CSIMigrationAzureFile                                ga+!1.29 removed1.30
CSIMigrationPortworx                                 beta-1.25 beta+1.31 ga+!1.33 removed1.36
CSIMigrationRBD                                      deprecated-1.29 removed1.31
CSIMigrationvSphere                                  ga+!1.29 removed1.30
CSINodeExpandSecret                                  ga+!1.29 removed1.31
CSIServiceAccountTokenSecrets                        beta+1.35 ga+!1.36
CSIVolumeHealth                                      alpha-1.21
CustomCPUCFSQuotaPeriod                              alpha-1.12 ga+1.36
CustomResourceFieldSelectors                         alpha-1.30 beta+1.31 ga+!1.32
CustomResourceValidationExpressions                  ga+!1.29 removed1.31
DeclarativeValidation                                beta+1.33 ga+!1.36
DeclarativeValidationBeta                            beta+1.36
DeclarativeValidationTakeover                        beta-1.33 deprecated-1.36
DefaultHostNetworkHostPortsInPodTemplates            deprecated-1.29 removed1.31
DeploymentReplicaSetTerminatingReplicas              alpha-1.33 beta+1.35
DetectCacheInconsistency                             beta+1.34
DevicePluginCDIDevices                               beta+1.29 ga+!1.31 removed1.34
DisableAllocatorDualWrite                            alpha-1.31 beta-1.33 ga+1.34 ga+!1.35
DisableCloudProviders                                beta+1.29 ga+!1.31 removed1.33
DisableCPUQuotaWithExclusiveCPUs                     beta+1.33 deprecated+1.36
DisableNodeAgentCloudCredentialProviders             beta+1.29 ga+!1.31 removed1.33
DisableNodePlatformProxyVersion                      alpha-1.29 deprecated-1.31 deprecated+1.33 deprecated+!1.36
DRAAdminAccess                                       alpha-1.32 beta+1.34 ga+!1.36
DRAConsumableCapacity                                alpha-1.34 beta+1.36
DRAControlPlaneController                            alpha-1.31 removed1.32
DRADeviceBindingConditions                           alpha-1.34 beta+1.36
DRADeviceTaintRules                                  alpha-1.35 beta-1.36
DRADeviceTaints                                      alpha-1.33 beta+1.36
DRAExtendedResource                                  alpha-1.34 beta+1.36
DRAListTypeAttributes                                alpha-1.36
DRANodeAllocatableResources                          alpha-1.36
DRAPartitionableDevices                              alpha-1.33 beta+1.36
DRAPrioritizedList                                   alpha-1.33 beta+1.34 ga+1.36
DRAResourceClaimDeviceStatus                         alpha-1.32 beta+1.33
DRAResourceClaimGranularStatusAuthorization          beta+1.36
DRAResourcePoolStatus                                alpha-1.36
DRASchedulerFilterTimeout                            beta+1.34
DRAWorkloadResourceClaims                            alpha-1.36
DynamicResourceAllocation                            alpha-1.26 beta-1.32 ga+1.34 ga+!1.35
EfficientWatchResumption                             ga+!1.24 removed1.33
ElasticIndexedJob                                    beta+1.27 ga+!1.31 removed1.34
EnvFiles                                             alpha-1.34 beta+1.35
EventedPLEG                                          beta-1.29 alpha-1.30
ExecProbeTimeout                                     ga+1.20 ga+!1.35
ExpandedDNSConfig                                    ga+!1.29 removed1.30
ExtendWebSocketsToNodeAgent                          beta+1.36
ExternalServiceAccountTokenSigner                    alpha-1.32 beta+1.34 ga+!1.36
GangScheduling                                       alpha-1.35
GenericWorkload                                      alpha-1.35
GitRepoVolumeDriver                                  before+ deprecated-1.33 deprecated-!1.36
GracefulNodeShutdown                                 beta+1.21
GracefulNodeShutdownBasedOnPodPriority               beta+1.24
HonorPVReclaimPolicy                                 alpha-1.23 beta+1.31 ga+!1.33 removed1.36
HostnameOverride                                     alpha-1.34 beta+1.35
HPAConfigurableTolerance                             alpha-1.33 beta+1.35
HPAContainerMetrics                                  beta+1.29 ga+!1.30 removed1.32
HPAScaleToZero                                       alpha-1.16
ImageMaximumGCAge                                    alpha-1.29 beta+1.30 ga+!1.35
ImageVolume                                          alpha-1.31 beta-1.33 beta+1.35 ga+!1.36
ImageVolumeWithDigest                                alpha-1.36
InformerResourceVersion                              alpha-1.30 ga+1.35
InOrderInformers                                     beta+1.33 ga+!1.36
InOrderInformersBatchProcess                         beta+1.35
InPlacePodLevelResourcesVerticalScaling              alpha-1.29 beta+1.36
InPlacePodVerticalScaling                            alpha-1.27 beta+1.33 ga+!1.35
InPlacePodVerticalScalingAllocatedStatus             alpha-1.32 deprecated-1.33 removed1.36
InPlacePodVerticalScalingExclusiveCPUs               alpha-1.32
InPlacePodVerticalScalingExclusiveMemory             alpha-1.34
InPlacePodVerticalScalingInitContainers              alpha-1.29 beta+1.36
InTreePluginAWSUnregister                            alpha-1.29 removed1.31
InTreePluginAzureDiskUnregister                      alpha-1.29 removed1.31
InTreePluginAzureFileUnregister                      alpha-1.29 removed1.31
InTreePluginGCEUnregister                            alpha-1.29 removed1.31
InTreePluginOpenStackUnregister                      alpha-1.29 removed1.31
InTreePluginPortworxUnregister                       alpha-1.23 removed1.36
InTreePluginRBDUnregister                            deprecated-1.29 removed1.31
InTreePluginvSphereUnregister                        alpha-1.29 removed1.31
IPTablesOwnershipCleanup                             ga+!1.29 removed1.30
JobBackoffLimitPerIndex                              beta+1.29 ga+!1.33
JobManagedBy                                         alpha-1.30 beta+1.32 ga+!1.35
JobPodFailurePolicy                                  beta+1.26 ga+!1.31 removed1.33
JobPodReplacementPolicy                              beta+1.29 ga+!1.34
JobReadyPods                                         ga+!1.29 removed1.31
JobSuccessPolicy                                     alpha-1.30 beta+1.31 ga+!1.33
KMSv1                                                deprecated-1.29
KMSv2                                                ga+!1.29 removed1.32
KMSv2KDF                                             ga+!1.29 removed1.32
LegacyServiceAccountTokenCleanUp                     beta+1.29 ga+!1.30 removed1.32
LegacyServiceAccountTokenTracking                    ga+!1.29 removed1.30
ListFromCacheSnapshot                                alpha-1.33 beta+1.34
LoadBalancerIPMode                                   alpha-1.29 beta+1.30 ga+!1.32 removed1.35
LocalStorageCapacityIsolationFSQuotaMonitoring       alpha-1.15 beta-1.31
LogarithmicScaleDown                                 beta+1.22 ga+!1.31
LoggingAlphaOptions                                  alpha-1.24
LoggingBetaOptions                                   beta+1.24
ManifestBasedAdmissionControlConfig                  alpha-1.36
MatchLabelKeysInPodAffinity                          alpha-1.29 beta+1.31 ga+!1.33
MatchLabelKeysInPodTopologySpread                    beta+1.27
MatchLabelKeysInPodTopologySpreadSelectorMerge       beta+1.34
MaxUnavailableStatefulSet                            alpha-1.24 beta-1.35
MemoryManager                                        beta+1.22 ga+!1.32 removed1.36
MemoryQoS                                            alpha-1.22
MinDomainsInPodTopologySpread                        beta+1.29 ga+!1.30 removed1.32
MinimizeIPTablesRestore                              ga+!1.29 removed1.30
MultiCIDRServiceAllocator                            alpha-1.27 beta-1.31 ga+1.33 ga+!1.34
MutableCSINodeAllocatableCount                       alpha-1.33 beta-1.34 beta+1.35 ga+!1.36
MutablePodResourcesForSuspendedJobs                  alpha-1.35 beta+1.36
MutablePVNodeAffinity                                alpha-1.35
MutableSchedulingDirectivesForSuspendedJobs          alpha-1.35 beta+1.36
MutatingAdmissionPolicy                              alpha-1.30 beta-1.34 ga+1.36
NewVolumeManagerReconstruction                       beta+1.29 ga+!1.30 removed1.32
NFTablesProxyMode                                    alpha-1.29 beta+1.31 ga+!1.33
NodeAgentCgroupDriverFromCRI                         alpha-1.28 beta+1.31 ga+!1.34
NodeAgentCrashLoopBackOffMax                         alpha-1.32 beta+1.35
NodeAgentEnsureSecretPulledImages                    alpha-1.33 beta+1.35
NodeAgentFineGrainedAuthz                            alpha-1.32 beta+1.33 ga+!1.36
NodeAgentInUserNamespace                             alpha-1.22
NodeAgentPodResources                                ga+!1.29 removed1.30
NodeAgentPodResourcesDynamicResources                alpha-1.27 beta+1.34 ga+!1.36
NodeAgentPodResourcesGet                             alpha-1.27 beta+1.34 ga+!1.36
NodeAgentPodResourcesListUseActivePods               deprecated+1.34
NodeAgentPSI                                         alpha-1.33 beta+1.34 ga+!1.36
NodeAgentRegistrationGetOnExistsOnly                 before+ deprecated-1.32
NodeAgentSeparateDiskGC                              alpha-1.29 beta+1.31
NodeAgentServiceAccountTokenForCredentialProviders   alpha-1.33 beta+1.34
NodeAgentTracing                                     beta+1.27 ga+!1.34
NodeDeclaredFeatures                                 alpha-1.35 beta+1.36
NodeInclusionPolicyInPodTopologySpread               beta+1.26 ga+!1.33
NodeLogQuery                                         alpha-1.27 beta-1.30 ga+!1.36
NodeOutOfServiceVolumeDetach                         ga+!1.29 removed1.32
NodeSwap                                             beta-1.28 beta+1.30 ga+!1.34
NominatedNodeNameForExpectation                      alpha-1.34 beta+1.35
OpenAPIEnums                                         beta+1.24
OpenAPIV3                                            ga+!1.29 removed1.30
OpportunisticBatching                                beta+1.35
OrderedNamespaceDeletion                             beta-1.30 beta+1.33 ga+!1.34
PDBUnhealthyPodEvictionPolicy                        beta+1.27 ga+!1.31 removed1.33
PersistentVolumeClaimUnusedSinceTime                 alpha-1.36
PersistentVolumeLastPhaseTransitionTime              beta+1.29 ga+!1.31 removed1.33
PlatformProxyDrainingTerminatingNodes                alpha-1.28 beta+1.30 ga+!1.31 removed1.33
PLEGOnDemandRelist                                   beta+1.36
PodAndContainerStatsFromCRI                          alpha-1.23
PodCertificateRequest                                alpha-1.34 beta-1.35
PodDeletionCost                                      beta+1.22
PodDisruptionConditions                              beta+1.26 ga+!1.31 removed1.34
PodHostIPs                                           beta+1.29 ga+!1.30 removed1.32
PodIndexLabel                                        beta+1.28 ga+!1.32 removed1.35
PodLevelResourceManagers                             alpha-1.36
PodLevelResources                                    alpha-1.32 beta+1.34
PodLifecycleSleepAction                              alpha-1.29 beta+1.30 ga+!1.34
PodLifecycleSleepActionAllowZero                     alpha-1.32 beta+1.33 ga+!1.34
PodLogsQuerySplitStreams                             alpha-1.32
PodObservedGenerationTracking                        alpha-1.33 beta+1.34 ga+!1.35
PodReadyToStartContainersCondition                   beta+1.29
PodsAPI                                              alpha-1.36
PodSchedulingReadiness                               beta+1.27 ga+!1.30
PodTopologyLabelsAdmission                           alpha-1.33 beta+1.35
PortForwardWebsockets                                alpha-1.30 beta+1.31
PreferSameTrafficDistribution                        alpha-1.33 beta+1.34 ga+!1.35
PreventStaticPodAPIReferences                        beta+1.34
ProbeTerminationGracePeriod                          ga+!1.29 removed1.30
ProcMountType                                        alpha-1.12 beta-1.31 beta+1.33 ga+!1.36
ProxyTerminatingEndpoints                            ga+!1.29 removed1.30
QOSReserved                                          alpha-1.11
ReadWriteOncePod                                     ga+!1.29 removed1.31
RecoverVolumeExpansionFailure                        alpha-1.23 beta+1.32 ga+!1.34
RecursiveReadOnlyMounts                              alpha-1.30 beta+1.31 ga+!1.33
ReduceDefaultCrashLoopBackOffDecay                   alpha-1.33
RelaxedDNSSearchValidation                           alpha-1.32 beta+1.33 ga+!1.34
RelaxedEnvironmentVariableValidation                 alpha-1.30 beta+1.32 ga+!1.34
RelaxedServiceNameValidation                         alpha-1.34 beta+1.36
ReloadNodeAgentClientCAFile                          beta+1.36
ReloadNodeAgentServerCertificateFile                 beta+1.31
RemainingItemCount                                   ga+!1.29 removed1.33
RemoteRequestHeaderUID                               alpha-1.32 beta+1.33
RemoveSelfLink                                       ga+!1.29 removed1.30
ResilientWatchCacheInitialization                    beta-1.31 beta+1.32 ga+!1.34
ResourceHealthStatus                                 alpha-1.31 beta+1.36
ResourceHealthStatusMessage                          beta+1.36
RestartAllContainersOnContainerExits                 alpha-1.35 beta+1.36
RetroactiveDefaultStorageClass                       ga+!1.29 removed1.30
RetryGenerateName                                    alpha-1.30 beta+1.31 ga+!1.32
RotateNodeAgentServerCertificate                     beta+1.12
RuntimeClassInImageCriApi                            alpha-1.29
SchedulerAsyncAPICalls                               beta-1.34
SchedulerAsyncPreemption                             alpha-1.32 beta+1.33
SchedulerPopFromBackoffQ                             beta+1.33
SchedulerQueueingHints                               beta-1.28 beta+1.32 ga+!1.34
SecurityContextDeny                                  alpha-1.27 removed1.30
SELinuxChangePolicy                                  alpha-1.32 beta+1.33 ga+!1.36
SELinuxMount                                         alpha-1.30 beta-1.33
SELinuxMountReadWriteOncePod                         beta+1.28 ga+!1.36
SeparateCacheWatchRPC                                beta+1.30 deprecated-1.33 deprecated-!1.36
SeparateTaintEvictionController                      beta+1.29 ga+!1.34
ServerSideApply                                      ga+!1.29 removed1.32
ServerSideFieldValidation                            ga+!1.29 removed1.32
ServiceAccountNodeAudienceRestriction                beta-1.32 beta+1.33
ServiceAccountTokenJTI                               alpha-1.29 beta+1.30 ga+!1.32
ServiceAccountTokenNodeBinding                       alpha-1.29 beta+1.31 ga+!1.33
ServiceAccountTokenNodeBindingValidation             alpha-1.29 beta+1.30 ga+!1.32
ServiceAccountTokenPodNodeInfo                       alpha-1.29 beta+1.30 ga+!1.32
ServiceCIDRStatusFieldWiping                         before+ deprecated+1.36
ServiceNodePortStaticSubrange                        ga+!1.29 removed1.31
ServiceTrafficDistribution                           alpha-1.30 beta+1.31 ga+!1.33 removed1.36
ShardedListAndWatch                                  alpha-1.36
SidecarContainers                                    beta+1.29 ga+!1.33
SizeBasedListCostEstimate                            beta+1.34
SizeMemoryBackedVolumes                              beta+1.22 ga+!1.32 removed1.35
SkipReadOnlyValidationGCE                            deprecated+1.29 removed1.31
StableLoadBalancerNodeSet                            beta+1.29 ga+!1.30 removed1.32
StaleControllerConsistencyDaemonSet                  beta+1.36
StaleControllerConsistencyJob                        beta+1.36
StaleControllerConsistencyReplicaSet                 beta+1.36
StaleControllerConsistencyStatefulSet                beta+1.36
StatefulSetAutoDeletePVC                             beta+1.27 ga+!1.32 removed1.35
StatefulSetSemanticRevisionComparison                beta+1.34
StatefulSetStartOrdinal                              beta+1.27 ga+!1.31 removed1.34
StorageCapacityScoring                               alpha-1.33
StorageNamespaceIndex                                beta+1.30 deprecated+1.33
StorageVersionAPI                                    alpha-1.20
StorageVersionHash                                   beta+1.15
StorageVersionMigrator                               alpha-1.30 beta-1.35
StreamingCollectionEncodingToJSON                    beta-1.30 beta+1.33 ga+!1.34
StreamingCollectionEncodingToProtobuf                beta-1.30 beta+1.33 ga+!1.34
StrictCostEnforcementForVAP                          beta-1.30 ga+!1.32 removed1.35
StrictCostEnforcementForWebhooks                     beta-1.30 ga+!1.32 removed1.35
StrictIPCIDRValidation                               alpha-1.33 beta+1.36
StructuredAuthenticationConfiguration                alpha-1.29 beta+1.30 ga+!1.34
StructuredAuthenticationConfigurationEgressSelector  beta+1.34
StructuredAuthenticationConfigurationJWKSMetrics     beta+1.35
StructuredAuthorizationConfiguration                 alpha-1.29 beta+1.30 ga+!1.32 removed1.36
SupplementalGroupsPolicy                             alpha-1.31 beta+1.33 ga+!1.35
SystemdWatchdog                                      beta+1.32 ga+!1.35
TaintTolerationComparisonOperators                   alpha-1.35
TokenRequestServiceAccountUIDValidation              beta+1.34
TopologyAwareHints                                   beta+1.24 ga+!1.33 removed1.36
TopologyAwareWorkloadScheduling                      alpha-1.36
TopologyManager                                      ga+!1.29 removed1.30
TopologyManagerPolicyAlphaOptions                    alpha-1.26
TopologyManagerPolicyBetaOptions                     beta+1.28
TopologyManagerPolicyOptions                         beta+1.28 ga+1.32 ga+!1.36
TranslateStreamCloseWebsocketRequests                alpha-1.29 beta+1.30
UnauthenticatedHTTP2DOSMitigation                    beta+1.29
UnknownVersionInteroperabilityProxy                  alpha-1.28 beta+1.36
UnlockWhileProcessingFIFO                            beta+1.36
UserNamespacesHostNetworkSupport                     alpha-1.35
UserNamespacesPodSecurityStandards                   alpha-1.29 removed1.35
UserNamespacesSupport                                alpha-1.25 beta-1.30 beta+1.33 ga+!1.36
ValidatingAdmissionPolicy                            beta-1.29 ga+!1.30 removed1.32
VolumeAttributesClass                                alpha-1.29 beta-1.31 ga+1.34 ga+!1.36
VolumeCapacityPriority                               alpha-1.21 removed1.33
VolumeLimitScaling                                   alpha-1.35
WatchBookmark                                        ga+!1.17 removed1.33
WatchCacheInitializationPostStartHook                beta-1.31 beta+1.36
WatchFromStorageWithoutResourceVersion               beta-1.30 deprecated-!1.33 removed1.36
WatchList                                            alpha-1.27 beta+1.32 beta-1.33 beta+1.34
WatchListClient                                      beta-1.30 beta+1.35
WindowsCPUAndMemoryAffinity                          alpha-1.32
WindowsGracefulNodeShutdown                          alpha-1.32 beta+1.34
WindowsHostNetwork                                   alpha+1.29 deprecated-1.33
WinDSR                                               alpha-1.14 beta+1.33 ga+!1.34
WinOverlay                                           beta+1.20 ga+!1.34
WorkloadAwarePreemption                              alpha-1.36
WorkloadWithJob                                      alpha-1.36
ZeroLimitedNominalConcurrencyShares                  beta-1.29 ga+!1.30 removed1.32
"""
"""Gates of the API server, one per line: name, then the stages with the release in which each starts.

``+`` is on and ``-`` is off by default, ``!`` is locked, ``removed`` is the first release without the gate: the
feature has the last default of the gate. ``before+`` is a behavior that was constant before its gate existed; without
it, a feature is absent before the first stage. ``InPlacePodLevelResourcesVerticalScaling`` and
``InPlacePodVerticalScalingInitContainers`` can be enabled in all releases.
"""

LIFE_CYCLES = parse_table(_TABLE)
"""Stages of each gate, oldest first."""

ALWAYS_ON_BEFORE = frozenset(line.split()[0] for line in _TABLE.strip().splitlines() if "before+" in line)
"""Gates whose feature was enabled before the gate existed."""
