"""Values of enumerated fields in published schemas (spec: gate.OpenAPIEnums). Data, no I/O.

A line names a message and a field, then its values, with ``_`` for a blank and two quotes for the empty text;
``VALUE@MINOR`` exists from a minor release on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

OF_ITEMS_SINCE = 30
"""First minor release that states the values of list items and map values too."""
_TABLE = """
admissionregistration.MatchResources.matchPolicy Equivalent Exact
admissionregistration.MutatingAdmissionPolicySpec.failurePolicy Fail Ignore
admissionregistration.MutatingAdmissionPolicySpec.reinvocationPolicy IfNeeded Never
admissionregistration.MutatingWebhook.failurePolicy Fail Ignore
admissionregistration.MutatingWebhook.matchPolicy Equivalent Exact
admissionregistration.MutatingWebhook.reinvocationPolicy IfNeeded Never
admissionregistration.MutatingWebhook.sideEffects None NoneOnDryRun Some Unknown
admissionregistration.Mutation.patchType ApplyConfiguration JSONPatch
admissionregistration.NamedRuleWithOperations.operations * CONNECT CREATE DELETE UPDATE
admissionregistration.NamedRuleWithOperations.scope * Cluster Namespaced
admissionregistration.Rule.scope * Cluster Namespaced
admissionregistration.RuleWithOperations.operations * CONNECT CREATE DELETE UPDATE
admissionregistration.RuleWithOperations.scope *@30 Cluster@30 Namespaced@30
admissionregistration.ValidatingAdmissionPolicyBindingSpec.validationActions Audit Deny Warn
admissionregistration.ValidatingAdmissionPolicySpec.failurePolicy Fail Ignore
admissionregistration.ValidatingWebhook.failurePolicy Fail Ignore
admissionregistration.ValidatingWebhook.matchPolicy Equivalent Exact
admissionregistration.ValidatingWebhook.sideEffects None NoneOnDryRun Some Unknown
apiextensions.ValidationRule.reason FieldValueDuplicate FieldValueForbidden FieldValueInvalid FieldValueRequired
apps.DaemonSetUpdateStrategy.type OnDelete RollingUpdate
apps.DeploymentStrategy.type Recreate RollingUpdate
apps.StatefulSetSpec.podManagementPolicy OrderedReady Parallel
apps.StatefulSetUpdateStrategy.type OnDelete RollingUpdate
batch.CronJobSpec.concurrencyPolicy Allow Forbid Replace
batch.JobSpec.completionMode Indexed NonIndexed
batch.JobSpec.podReplacementPolicy Failed TerminatingOrFailed
batch.PodFailurePolicyOnExitCodesRequirement.operator In NotIn
batch.PodFailurePolicyRule.action Count FailIndex FailJob Ignore
certificates.CertificateSigningRequestSpec.usages any cert_sign client_auth code_signing content_commitment \\
   crl_sign data_encipherment decipher_only digital_signature email_protection encipher_only ipsec_end_system \\
   ipsec_tunnel ipsec_user key_agreement key_encipherment microsoft_sgc netscape_sgc ocsp_signing s/mime \\
   server_auth signing timestamping
core.AppArmorProfile.type Localhost RuntimeDefault Unconfined
core.AzureDiskVolumeSource.cachingMode None ReadOnly ReadWrite
core.AzureDiskVolumeSource.kind Dedicated Managed Shared
core.Container.imagePullPolicy Always IfNotPresent Never
core.Container.terminationMessagePolicy FallbackToLogsOnError File
core.ContainerPort.protocol SCTP TCP UDP
core.EndpointPort.protocol SCTP TCP UDP
core.EphemeralContainer.imagePullPolicy Always IfNotPresent Never
core.EphemeralContainer.terminationMessagePolicy FallbackToLogsOnError File
core.HTTPGetAction.scheme HTTP HTTPS
core.HostPathVolumeSource.type '' BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket
core.ImageVolumeSource.pullPolicy Always IfNotPresent Never
core.ModifyVolumeStatus.status InProgress Infeasible Pending
core.NamespaceStatus.phase Active Terminating
core.NodeSelectorRequirement.operator DoesNotExist Exists Gt In Lt NotIn
core.NodeStatus.phase Pending Running Terminated
core.PersistentVolumeClaimSpec.accessModes ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.PersistentVolumeClaimSpec.volumeMode Block Filesystem
core.PersistentVolumeClaimStatus.accessModes ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.PersistentVolumeClaimStatus.allocatedResourceStatuses ControllerResizeInProgress ControllerResizeInfeasible \\
   NodeResizeInProgress NodeResizeInfeasible NodeResizePending
core.PersistentVolumeClaimStatus.phase Bound Lost Pending
core.PersistentVolumeSpec.accessModes ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod
core.PersistentVolumeSpec.persistentVolumeReclaimPolicy Delete Recycle Retain
core.PersistentVolumeSpec.volumeMode Block Filesystem
core.PersistentVolumeStatus.phase Available Bound Failed Pending Released
core.PodSecurityContext.fsGroupChangePolicy Always OnRootMismatch
core.PodSecurityContext.supplementalGroupsPolicy Merge Strict
core.PodSpec.dnsPolicy ClusterFirst ClusterFirstWithHostNet Default None
core.PodSpec.preemptionPolicy Never PreemptLowerPriority
core.PodSpec.restartPolicy Always Never OnFailure
core.PodStatus.phase Failed Pending Running Succeeded Unknown
core.PodStatus.qosClass BestEffort Burstable Guaranteed
core.PortStatus.protocol SCTP TCP UDP
core.ResourceQuotaSpec.scopes BestEffort CrossNamespacePodAffinity NotBestEffort NotTerminating PriorityClass \\
   Terminating VolumeAttributesClass@34
core.ScopedResourceSelectorRequirement.operator DoesNotExist Exists In NotIn
core.ScopedResourceSelectorRequirement.scopeName BestEffort CrossNamespacePodAffinity NotBestEffort \\
   NotTerminating PriorityClass Terminating VolumeAttributesClass@34
core.SeccompProfile.type Localhost RuntimeDefault Unconfined
core.SecurityContext.procMount Default Unmasked
core.ServicePort.protocol SCTP TCP UDP
core.ServiceSpec.externalTrafficPolicy Cluster Local
core.ServiceSpec.internalTrafficPolicy Cluster Local
core.ServiceSpec.ipFamilies '' IPv4 IPv6
core.ServiceSpec.ipFamilyPolicy PreferDualStack RequireDualStack SingleStack
core.ServiceSpec.sessionAffinity ClientIP None
core.ServiceSpec.type ClusterIP ExternalName LoadBalancer NodePort
core.Taint.effect NoExecute NoSchedule PreferNoSchedule
core.Toleration.effect NoExecute NoSchedule PreferNoSchedule
core.Toleration.operator Equal Exists Gt@35 Lt@35
core.TopologySpreadConstraint.nodeAffinityPolicy Honor Ignore
core.TopologySpreadConstraint.nodeTaintsPolicy Honor Ignore
core.TopologySpreadConstraint.whenUnsatisfiable DoNotSchedule ScheduleAnyway
core.VolumeMount.mountPropagation Bidirectional HostToContainer None
discovery.EndpointPort.protocol SCTP TCP UDP
discovery.EndpointSlice.addressType FQDN IPv4 IPv6
networking.HTTPIngressPath.pathType Exact ImplementationSpecific Prefix
networking.IngressPortStatus.protocol SCTP TCP UDP
networking.NetworkPolicyPort.protocol SCTP TCP UDP
networking.NetworkPolicySpec.policyTypes Egress Ingress
policy.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy AlwaysAllow IfHealthyBudget
resource.DeviceAllocationConfiguration.source FromClaim FromClass
resource.DeviceRequest.allocationMode All ExactCount
resource.DeviceSubRequest.allocationMode All ExactCount
resource.DeviceTaint.effect NoExecute NoSchedule None
resource.DeviceToleration.effect NoExecute NoSchedule None
resource.DeviceToleration.operator Equal Exists
resource.ExactDeviceRequest.allocationMode All ExactCount
scheduling.PodGroupSpec.disruptionMode Pod PodGroup
scheduling.PodGroupTemplate.disruptionMode Pod PodGroup
scheduling.PriorityClass.preemptionPolicy Never PreemptLowerPriority
storage.StorageClass.reclaimPolicy Delete Recycle Retain
storage.StorageClass.volumeBindingMode Immediate WaitForFirstConsumer
"""
_SIGNAL_FIELDS = ("core.ContainerStatus.stopSignal", "core.Lifecycle.stopSignal")
_SIGNALS = """
SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE SIGPOLL
SIGPROF SIGPWR SIGQUIT SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1
SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ
"""
_REALTIME_SIGNALS = 15


def values_of(message: str, field: str, minor: int) -> list[str]:
    """Return the values of *field* of *message*, such as ``core.Container``; empty if others are allowed."""
    return [value for value, since in _VALUES.get(f"{message}.{field}", ()) if since <= minor]


def _rows() -> Iterator[tuple[str, Sequence[tuple[str, int]]]]:
    for line in _TABLE.replace("\\\n", " ").split("\n"):
        name, *entries = line.split() or [""]
        if name:
            yield name, [_value(entry) for entry in entries]
    named = _SIGNALS.split()
    upper = ["SIGRTMAX", *(f"SIGRTMAX-{number}" for number in range(1, _REALTIME_SIGNALS))]
    lower = ["SIGRTMIN", *(f"SIGRTMIN+{number}" for number in range(1, _REALTIME_SIGNALS + 1))]
    for field in _SIGNAL_FIELDS:
        yield field, [(signal, 0) for signal in sorted([*named, *upper, *lower])]


def _value(entry: str) -> tuple[str, int]:
    text, _, since = entry.partition("@")
    return "" if text == "''" else text.replace("_", " "), int(since or 0)


_VALUES: Mapping[str, Sequence[tuple[str, int]]] = dict(_rows())
