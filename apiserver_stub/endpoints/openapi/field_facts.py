"""Properties of fields in published schemas that neither the wire format nor the JSON form show. Data, no I/O.

A line names a message and its fields; ``FIELD@FIRST-LAST`` limits a field to minor releases.
"""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.structs import Struct

_ALSO_REQUIRED = """
admissionregistration.MutatingWebhook clientConfig sideEffects
admissionregistration.ValidatingAdmissionPolicyBinding spec@36-
admissionregistration.ValidatingAdmissionPolicyBindingSpec policyName@36- validationActions@36-
admissionregistration.ValidatingWebhook clientConfig sideEffects
apiextensions.CustomResourceDefinition spec
apiextensions.CustomResourceDefinitionSpec names
apiserverinternal.ServerStorageVersion apiServerID@36- decodableVersions@36- encodingVersion@36-
apiserverinternal.StorageVersion metadata@36-
apps.DaemonSetSpec selector template
apps.DeploymentSpec selector template
apps.ReplicaSetSpec selector
apps.StatefulSetSpec selector template
authentication.TokenRequest spec@-35
authentication.TokenRequestStatus expirationTimestamp@-35
authentication.TokenReview spec
authentication.TokenReviewSpec token@36-
authorization.LocalSubjectAccessReview spec
authorization.SelfSubjectAccessReview spec
authorization.SelfSubjectRulesReview spec
authorization.SubjectAccessReview spec
autoscaling.ContainerResourceMetricSource target
autoscaling.ContainerResourceMetricStatus current
autoscaling.ExternalMetricSource metric target
autoscaling.ExternalMetricStatus current metric
autoscaling.HorizontalPodAutoscaler spec@36-
autoscaling.HorizontalPodAutoscalerSpec scaleTargetRef
autoscaling.ObjectMetricSource describedObject metric target
autoscaling.ObjectMetricStatus current describedObject metric
autoscaling.PodsMetricSource metric target
autoscaling.PodsMetricStatus current metric
autoscaling.ResourceMetricSource target
autoscaling.ResourceMetricStatus current
batch.CronJob spec@36-
batch.CronJobSpec jobTemplate
batch.JobSpec template
certificates.CertificateSigningRequest spec
certificates.ClusterTrustBundle spec
certificates.PodCertificateRequest spec
coordination.LeaseCandidate spec@36-
core.Binding target
core.ContainerRestartRule action
core.ContainerRestartRuleOnExitCodes operator
core.Event involvedObject metadata
core.HostAlias ip@31-
core.HostIP ip@31-
core.ImageVolumeStatus imageRef
core.PersistentVolumeClaimTemplate spec
core.PodCertificateProjection keyType signerName
core.PodIP ip@31-
core.PreferredSchedulingTerm preference
core.ScaleIOPersistentVolumeSource secretRef
core.ScaleIOVolumeSource secretRef
core.WeightedPodAffinityTerm podAffinityTerm
flowcontrol.FlowSchemaSpec priorityLevelConfiguration
meta.Condition lastTransitionTime
networking.HTTPIngressPath backend pathType
networking.IPAddress spec@36-
networking.IPAddressSpec parentRef@30-
networking.NetworkPolicySpec podSelector@-33
networking.ParentReference name@30- resource@30-
rbac.ClusterRoleBinding roleRef
rbac.RoleBinding roleRef
resource.CapacityRequestPolicyRange min
resource.CounterSet counters
resource.DeviceClass spec
resource.DeviceCounterConsumption counters
resource.DeviceTaintRule spec
resource.DeviceTaintRuleSpec taint
resource.OpaqueDeviceConfiguration parameters
resource.ResourceClaim spec
resource.ResourceClaimTemplate spec
resource.ResourceClaimTemplateSpec spec
resource.ResourcePoolStatusRequest metadata spec
resource.ResourceSlice spec@31-
resource.ResourceSliceSpec pool
scheduling.PodGroupSpec schedulingPolicy
scheduling.PodGroupTemplate schedulingPolicy
scheduling.Workload spec
storage.CSIDriver spec
storage.CSINode spec
storage.VolumeAttachment spec
storage.VolumeAttachmentSpec source
"""
"""Required fields besides those that are always present in JSON and are not objects."""

_NOT_REQUIRED = """
apiextensions.CustomResourceDefinitionStatus conditions storedVersions
apps.ControllerRevision data
apps.StatefulSetOrdinals start
apps.StatefulSetSpec serviceName@36-
apps.StatefulSetStatus availableReplicas
authentication.TokenRequestSpec audiences@36-
authentication.TokenRequestStatus token@36-
autoscaling.HorizontalPodAutoscalerStatus currentMetrics
batch.PodFailurePolicyOnPodConditionsPattern status@36-
certificates.PodCertificateRequestSpec stubPKCS10Request@-35 pkixPublicKey@36- proofOfPossession@36-
core.AzureFilePersistentVolumeSource secretNamespace
core.ContainerImage names
core.Event eventTime reportingComponent reportingInstance
core.EventSeries lastObservedTime
core.NodeRuntimeHandler name
core.ProjectedVolumeSource sources
core.ResourceFieldSelector divisor
core.ServicePort targetPort
core.TypedLocalObjectReference apiGroup
core.TypedObjectReference apiGroup
discovery.EndpointSlice ports endpoints@36-
flowcontrol.FlowSchemaSpec matchingPrecedence
flowcontrol.QueuingConfiguration handSize queueLengthLimit queues
flowcontrol.ResourcePolicyRule namespaces
policy.PodDisruptionBudgetStatus currentHealthy@36- desiredHealthy@36- disruptionsAllowed@36- expectedPods@36-
rbac.ClusterRole rules
rbac.Role rules
rbac.RoleRef apiGroup@36-
resource.AllocatedDeviceStatus conditions
resource.CapacityRequestPolicy default
resource.DeviceClaim requests
resource.DeviceRequest deviceClassName
scheduling.PriorityClass value@36-
storage.CSINodeDriver topologyKeys
"""
"""Fields that are always present in JSON, but may be omitted in requests."""

_LIST_TYPES_AT_1_29 = """
admissionregistration.MatchResources excludeResourceRules resourceRules
admissionregistration.MutatingWebhook matchConditions
admissionregistration.NamedRuleWithOperations apiGroups apiVersions operations resourceNames resources
admissionregistration.RuleWithOperations apiGroups apiVersions operations resources
admissionregistration.TypeChecking expressionWarnings
admissionregistration.ValidatingAdmissionPolicyBindingSpec validationActions
admissionregistration.ValidatingAdmissionPolicySpec auditAnnotations matchConditions validations variables
admissionregistration.ValidatingAdmissionPolicyStatus conditions
admissionregistration.ValidatingWebhook matchConditions
apiextensions.CustomResourceDefinitionStatus conditions
apiextensions.JSONSchemaProps x-kubernetes-validations
apiregistration.APIServiceStatus conditions
autoscaling.HPAScalingRules policies
autoscaling.HorizontalPodAutoscalerSpec metrics
autoscaling.HorizontalPodAutoscalerStatus conditions currentMetrics
batch.CronJobStatus active
batch.JobStatus conditions
batch.PodFailurePolicy rules
batch.PodFailurePolicyOnExitCodesRequirement values
batch.PodFailurePolicyRule onPodConditions
batch.UncountedTerminatedPods failed succeeded
certificates.CertificateSigningRequestSpec groups request usages
certificates.CertificateSigningRequestStatus certificate conditions
core.Container ports resizePolicy
core.EphemeralContainer ports resizePolicy
core.LoadBalancerIngress ports
core.PodAffinityTerm matchLabelKeys mismatchLabelKeys
core.PodSpec resourceClaims schedulingGates topologySpreadConstraints
core.PodStatus hostIPs resourceClaimStatuses
core.ResourceRequirements claims
core.ServiceSpec clusterIPs ipFamilies ports
core.ServiceStatus conditions
core.TopologySpreadConstraint matchLabelKeys
discovery.Endpoint addresses
discovery.EndpointHints forNodes forZones
discovery.EndpointSlice endpoints ports
flowcontrol.FlowSchemaSpec rules
flowcontrol.FlowSchemaStatus conditions
flowcontrol.NonResourcePolicyRule nonResourceURLs verbs
flowcontrol.PolicyRulesWithSubjects nonResourceRules resourceRules subjects
flowcontrol.PriorityLevelConfigurationStatus conditions
flowcontrol.ResourcePolicyRule apiGroups namespaces resources verbs
networking.HTTPIngressRuleValue paths
networking.IngressLoadBalancerIngress ports
networking.IngressSpec rules tls
networking.IngressTLS hosts
networking.ServiceCIDRStatus conditions
node.Scheduling tolerations
policy.PodDisruptionBudgetStatus conditions
resource.AllocationResult resourceHandles
resource.PodSchedulingContextSpec potentialNodes
resource.PodSchedulingContextStatus resourceClaims
resource.ResourceClaimSchedulingStatus unsuitableNodes
resource.ResourceClaimStatus reservedFor
storage.CSIDriverSpec tokenRequests volumeLifecycleModes
storage.CSIStorageCapacityList items
storage.StorageClass allowedTopologies
"""
"""Lists whose type the documents of 1.29 state; later ones state the type of every list except ``items``."""

_STATES_ALL_LIST_TYPES = 30

_BYTES_WITH_LIST_TYPE = """
apiregistration.APIServiceSpec caBundle
certificates.CertificateSigningRequestSpec request@-29
certificates.CertificateSigningRequestStatus certificate@-29
"""
"""Binary values whose schemas state the type of a list, that of their bytes."""


class _Range(Struct, frozen=True):
    first: int
    last: int

    def __contains__(self, minor: int) -> bool:
        return self.first <= minor <= self.last


_Table = Mapping[str, Mapping[str, _Range]]


def is_required(message: str, field: str, minor: int, *, always: bool) -> bool:
    """Return whether requests have to contain *field* of *message*, such as ``core.Container``.

    :param always: the field is always present in JSON and is not an object.
    """
    if minor in _ADDED.get(message, {}).get(field, _NEVER):
        return True
    return always and minor not in _REMOVED.get(message, {}).get(field, _NEVER)


def states_list_type(message: str, field: str, minor: int) -> bool:
    """Return whether the schema of the list *field* contains its type."""
    if (message, field) == ("meta.APIResource", "verbs"):
        return False
    if minor >= _STATES_ALL_LIST_TYPES:
        return not (field == "items" and message.endswith("List"))
    return field in _EARLY_LISTS.get(message, {})


def is_list_of_bytes(message: str, field: str, minor: int) -> bool:
    """Return whether the schema of the binary value *field* contains the type of a list."""
    return minor in _BYTES.get(message, {}).get(field, _NEVER)


def _parse(text: str) -> _Table:
    rows = (line.split() for line in text.split("\n") if line)
    return {message: dict(map(_field, fields)) for message, *fields in rows}


def _field(entry: str) -> tuple[str, _Range]:
    name, _, releases = entry.partition("@")
    first, _, last = releases.partition("-")
    return name, _Range(int(first or 0), int(last or 999))


_NEVER = _Range(1, 0)
_ADDED, _REMOVED, _EARLY_LISTS = map(_parse, (_ALSO_REQUIRED, _NOT_REQUIRED, _LIST_TYPES_AT_1_29))
_BYTES = _parse(_BYTES_WITH_LIST_TYPE)
