"""Descriptions of kinds and fields in published schemas, as ``kubectl explain`` shows them. Data, no I/O.

A line is ``FIELD: text`` or ``package.Message.field: text``; the second form takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_FIELDS = """
accessModes: Ways in which nodes may mount the volume: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod.
acquireTime: Time at which the current holder acquired the lease.
action: Action that was taken, or is to be taken.
activeDeadlineSeconds: Seconds after its start until the system terminates it, counted once per object.
add: Capabilities to add to the default set.
addressType: Type of all addresses of the slice: IPv4, IPv6 or FQDN.
addresses: Addresses under which it is reachable.
affinity: Constraints on the nodes on which it is scheduled.
aggregationRule: Selectors of the roles whose rules this one contains; the controller then overwrites its rules.
allocatable: Resources that pods can use.
allocateLoadBalancerNodePorts: Whether a load balancer needs node ports; true by default.
allocatedResources: Resources that are allocated, which may differ from the requested ones during a resize.
allowPrivilegeEscalation: Whether a process can gain more privileges than its parent.
allowVolumeExpansion: Whether claims of the class can grow.
allowed: Whether the action is allowed.
allowedTopologies: Topologies in which volumes can be provisioned.
annotations: Arbitrary metadata for tools, not for selectors.
apiGroup: API group of the referenced object; empty for the core group.
apiGroups: API groups of the resources; * for all.
apiVersion: Group and version in which the object is written.
apiVersions: API versions of the resources; * for all.
appArmorProfile: AppArmor profile of the containers.
appProtocol: Application protocol of the port, for load balancers and service meshes.
architecture: Processor architecture of the node.
args: Arguments of the entry point; those of the image by default.
attachError: Most recent error of attaching the volume.
attachRequired: Whether volumes of the driver must be attached before they are mounted.
attached: Whether the volume is attached.
attacher: Name of the driver that attaches the volume.
audience: Intended recipient of the token.
audiences: Intended recipients of the token.
authenticated: Whether the token belongs to a known user.
automountServiceAccountToken: Whether a token of the service account is mounted into containers.
availableReplicas: Number of replicas that have been ready for minReadySeconds.
backend: Service or object that receives the traffic.
binaryData: Data that is not UTF-8 text, base64-encoded; keys are those of files.
blockOwnerDeletion: Whether a foreground deletion of the owner waits for this object.
boundObjectRef: Object with which the token expires.
caBundle: Certificates in PEM form by which the server is verified.
capabilities: Capabilities to add and drop.
capacity: Total amount of resources.
causes: Reasons of the failure, each with its field.
claimName: Name of the claim in the namespace of the pod.
claimRef: Claim to which the volume is bound.
claims: Resource claims that the container uses.
clientConfig: Address and certificates of the webhook.
clusterIP: Virtual address of the service; None for a headless service.
clusterIPs: Virtual addresses of the service, one per IP family.
code: HTTP status code.
collisionCount: Number of collisions of generated names.
command: Entry point; that of the image by default. It is not executed in a shell.
completions: Number of pods that must succeed.
conditions: Most recent observations of the state, by type.
configMap: Config map that provides the content.
configMapKeyRef: Key of a config map.
configMapRef: Config map all of whose keys are used.
containerID: ID of the container, prefixed with the runtime.
containerName: Name of the container.
containerPort: Port on which the container listens.
containerRuntimeVersion: Name and version of the container runtime.
containerStatuses: State of each container.
containers: Containers of the pod.
continue: Token with which the next page is requested.
controller: Whether the referenced object is the managing controller; or the controller that is responsible.
count: Number of occurrences.
creationTimestamp: Time at which the server created the object.
csi: Volume of a CSI driver.
daemonEndpoints: Ports of the daemons of the node.
data: Content of the object.
dataSource: Claim or snapshot from which the volume is populated.
dataSourceRef: Object from which the volume is populated, of any kind.
default: Values that are used if none are set.
defaultBackend: Backend of requests that match no rule.
defaultMode: Permissions of files, unless an item sets others.
defaultRequest: Requests that are used if none are set.
deletionGracePeriodSeconds: Seconds that the object has until its removal.
deletionTimestamp: Time at which the object is removed; set once its deletion was requested.
description: Explanation for people.
details: Additional data about the reason.
detachError: Most recent error of detaching the volume.
devicePath: Path of the device.
disruptionsAllowed: Number of pods that can be evicted now.
dnsConfig: DNS servers, search domains and options of the pod.
dnsPolicy: Origin of the DNS configuration of the pod.
downwardAPI: Fields of the pod as files.
driver: Name of the driver.
drivers: Drivers of the node.
driverName: Name of the driver.
drop: Capabilities to remove from the default set.
dryRun: All, for a request that stores nothing.
effect: Effect on pods without a matching toleration: NoSchedule, PreferNoSchedule or NoExecute.
emptyDir: Directory that exists as long as the pod.
enableServiceLinks: Whether services are described in environment variables.
endpoints: Endpoints of the slice.
env: Environment variables of the container.
envFrom: Sources of several environment variables.
ephemeral: Volume with a claim that exists as long as the pod.
ephemeralContainerStatuses: State of each ephemeral container.
ephemeralContainers: Containers that were added for debugging; only the subresource can add them.
error: Explanation of a failure.
evaluationError: Error that occurred during the evaluation; the result is valid nevertheless.
eventTime: Time of the first observation.
exec: Command that is executed in the container.
exitCode: Exit code of the process.
expirationSeconds: Requested lifetime in seconds.
expirationTimestamp: Time at which the token expires.
expression: CEL expression.
externalIPs: Addresses of nodes that accept traffic of the service.
externalName: DNS name to which the service refers.
externalTrafficPolicy: Routing of external traffic: Cluster, or Local for endpoints of the node only.
extra: Additional attributes of the user.
failurePolicy: Treatment of errors: Fail or Ignore.
failureThreshold: Number of consecutive failures after which the probe has failed.
fieldPath: Path of the field.
fieldRef: Field of the pod.
fieldsType: Format of the fields: FieldsV1.
fieldsV1: Fields that the manager owns.
finalizers: Names that must be removed before the object is deleted.
finishedAt: Time at which the container exited.
firstTimestamp: Time of the first observation.
fsGroup: Group that owns the volumes of the pod, and that its processes have.
fsGroupChangePolicy: Condition for changing the group of a volume: Always or OnRootMismatch.
fsGroupPolicy: Whether the driver supports changing the group of volumes.
fsType: Type of the file system.
generateName: Prefix of the generated name, if there is no name.
generation: Number of the most recent change of the desired state.
globalDefault: Whether the class applies to pods without one.
gracePeriodSeconds: Seconds until the object is deleted; 0 deletes it immediately.
group: API group of the resource.
groups: Groups of the user.
grpc: Call of the gRPC health service.
handler: Name of the configuration in the container runtime.
hard: Limits of the quota by resource.
healthCheckNodePort: Port on which nodes report whether they have endpoints of the service.
hints: Information for the choice of endpoints.
holderIdentity: Identity of the current holder.
host: Name of the host.
hostAliases: Additional entries of the hosts file of the pod.
hostIP: Address of the node.
hostIPC: Whether the pod uses the IPC namespace of the node.
hostIPs: Addresses of the node, one per IP family.
hostNetwork: Whether the pod uses the network of the node.
hostPID: Whether the pod uses the process namespace of the node.
hostPath: File or directory of the node.
hostPort: Port of the node that is forwarded to the container.
hostUsers: Whether the pod uses the user namespace of the node; true by default.
hostname: Name of the host.
hostnames: Names of the host.
hosts: Names of hosts.
http: Rules for requests.
httpGet: HTTP request, which succeeds with a status code from 200 to 399.
httpHeaders: Headers of the request.
image: Image of the container.
imageID: ID of the image.
imagePullPolicy: Condition for pulling the image: Always, IfNotPresent or Never.
imagePullSecrets: Secrets with credentials of image registries.
images: Images on the node.
immutable: Whether the content can no longer change.
ingressClassName: Class that selects the controller.
initContainerStatuses: State of each init container.
initContainers: Containers that run one after another before the others start.
initialDelaySeconds: Seconds after the start of the container until the first probe.
internalTrafficPolicy: Routing of traffic within the cluster: Cluster, or Local for endpoints of the node only.
involvedObject: Object that the event is about.
ip: IP address.
ipFamilies: IP families of the service, the primary one first.
ipFamilyPolicy: Number of IP families: SingleStack, PreferDualStack or RequireDualStack.
ipMode: Delivery of packets by the load balancer: VIP or Proxy.
items: Objects of the list, or files and their sources.
kernelVersion: Version of the kernel.
key: Name of the key.
kind: Kind of the object.
kubeProxyVersion: Deprecated: version of the service proxy.
kubeletVersion: Version of the node agent.
labelSelector: Selector of objects by their labels.
labels: Keys and values by which objects are selected.
lastHeartbeatTime: Time of the most recent report.
lastObservedTime: Time of the most recent occurrence.
lastProbeTime: Time of the most recent probe.
lastState: State of the previous instance of the container.
lastTimestamp: Time of the most recent occurrence.
lastTransitionTime: Time at which the status changed.
lastUpdateTime: Time of the most recent update.
leaseDurationSeconds: Seconds after the last renewal until others may acquire the lease.
leaseTransitions: Number of changes of the holder.
lifecycle: Actions after the start and before the stop of the container.
limits: Maximum amounts of resources.
livenessProbe: Probe whose failure restarts the container.
loadBalancer: State of the load balancer.
loadBalancerClass: Class that selects the implementation of the load balancer.
loadBalancerIP: Deprecated: requested address of the load balancer.
loadBalancerSourceRanges: Networks from which the load balancer accepts traffic.
local: Disk or directory of a node.
localhostProfile: Name of a profile on the node; for the type Localhost.
managedFields: Fields and their managers.
manager: Name of the field manager.
matchConditions: Additional CEL conditions for requests.
matchExpressions: Requirements that all have to be met.
matchLabelKeys: Labels of the pod whose values are added to the selector.
matchLabels: Labels and the values that they must have.
matchPolicy: Whether requests of other versions of the resources match: Exact or Equivalent.
max: Maximum amounts.
maxSkew: Maximum difference of the numbers of pods.
maxSurge: Number or percentage of pods above the desired number during an update.
maxUnavailable: Number or percentage of pods that may be unavailable.
medium: Storage medium: empty for the disk of the node, or Memory.
message: Explanation for people.
metadata: Standard metadata of objects.
min: Minimum amounts.
minAvailable: Number or percentage of pods that must remain available.
minReadySeconds: Seconds that a pod must be ready to be available.
mode: Permissions of the file.
mountOptions: Options with which the volume is mounted.
mountPath: Path in the container.
mountPropagation: Propagation of mounts between node and container.
name: Name, unique in its scope.
namespace: Namespace of the object.
namespaceSelector: Selector of namespaces by their labels.
namespaces: Names of namespaces.
nfs: Directory of an NFS server.
nodeAffinity: Constraints on labels and fields of nodes.
nodeID: Name of the node for the driver.
nodeInfo: Versions and identifiers of the node.
nodeName: Name of the node.
nodePort: Port of all nodes that accepts traffic of the service.
nodeSelector: Labels that the node must have.
nodeSelectorTerms: Terms of which one has to match.
nominatedNodeName: Node on which the pod is expected to be scheduled.
nonResourceURLs: Paths that are no resources; * matches at their end.
notReadyAddresses: Addresses that are not ready.
observedGeneration: Generation of the object that the status is based on.
objectSelector: Selector of objects by their labels.
operations: Operations of requests: CREATE, UPDATE, DELETE, CONNECT or * for all.
operator: Relation between key and values.
optional: Whether the source may be missing.
options: Additional options.
os: Operating system of the containers.
overhead: Resources that the pod uses beyond those of its containers.
ownerReferences: Objects on which this one depends; it is deleted with the last of them.
parallelism: Maximum number of pods that run concurrently.
parameters: Parameters of the driver or controller.
path: Path of the file, or of the request.
pathType: Interpretation of the path: Exact, Prefix or ImplementationSpecific.
paused: Whether updates are paused.
periodSeconds: Seconds between probes.
persistentVolumeClaim: Claim in the namespace of the pod.
persistentVolumeName: Name of the persistent volume.
persistentVolumeReclaimPolicy: Treatment of the volume after its release: Retain, Delete or Recycle.
phase: Summary of the state.
podAffinity: Constraints on pods in the same topology domain.
podAntiAffinity: Constraints on pods that must not be in the same topology domain.
podCIDR: Network of the pods of the node.
podCIDRs: Networks of the pods of the node, one per IP family.
podIP: Address of the pod.
podIPs: Addresses of the pod, one per IP family.
podInfoOnMount: Whether the driver receives attributes of the pod.
port: Number or name of the port.
ports: Ports and their protocols.
postStart: Action after the start of the container.
preStop: Action before the stop of the container.
preconditions: Conditions that the object has to meet.
preemptionPolicy: Whether pods of lower priority are evicted: PreemptLowerPriority or Never.
preferredDuringSchedulingIgnoredDuringExecution: Constraints that are preferred, by weight.
priority: Priority of the pod; the class sets it.
priorityClassName: Class that sets the priority of the pod.
privileged: Whether the container has the privileges of processes of the node.
procMount: Type of the mount of /proc.
progressDeadlineSeconds: Seconds without progress after which an update has failed.
projected: Several sources in one directory.
propagationPolicy: Treatment of dependent objects: Orphan, Background or Foreground.
protocol: Protocol of the port: TCP, UDP or SCTP.
providerID: ID of the node at its cloud provider.
provisioner: Name of the driver that provisions volumes.
publishNotReadyAddresses: Whether addresses are published before the pods are ready.
qosClass: Quality of service: Guaranteed, Burstable or BestEffort.
readOnly: Whether it is mounted read-only.
readOnlyRootFilesystem: Whether the root file system of the container is read-only.
readinessGates: Conditions that must be true for the pod to be ready.
readinessProbe: Probe that decides whether the container receives traffic.
ready: Whether it is ready.
readyReplicas: Number of replicas that are ready.
reason: Reason in one word, for clients.
reclaimPolicy: Treatment of volumes after their release: Delete or Retain.
recursiveReadOnly: Whether mounts below a read-only mount are read-only, too.
related: Second object of the event.
renewTime: Time of the most recent renewal.
replicas: Number of replicas.
reportingComponent: Controller that reported the event.
reportingController: Controller that reported the event.
reportingInstance: Instance of the controller.
requests: Minimum amounts of resources.
required: Constraints that have to be met.
requiredDuringSchedulingIgnoredDuringExecution: Constraints that have to be met for scheduling.
requiresRepublish: Whether the driver is called periodically for mounted volumes.
resizePolicy: Whether a change of a resource restarts the container.
resource: Name of the resource.
resourceClaims: Claims of devices that containers can use.
resourceFieldRef: Amount of a resource of a container.
resourceNames: Names of objects; empty for all.
resourceVersion: Version of the object in the store, for conflict detection and watches.
resources: Amounts or names of resources.
restartCount: Number of restarts.
restartPolicy: Condition for a restart of containers: Always, OnFailure or Never.
revision: Number of the revision.
revisionHistoryLimit: Number of old revisions that are kept.
roleRef: Role that is granted.
rollingUpdate: Parameters of rolling updates.
rules: Rules of the object.
runAsGroup: Group ID of the processes.
runAsNonRoot: Whether user ID 0 is rejected.
runAsUser: User ID of the processes.
running: Details of a running container.
runtimeClassName: Class that selects the configuration of the container runtime.
scheduling: Constraints on the nodes that support the class.
schedulerName: Scheduler that assigns the pod.
schedulingGates: Names that must be removed before the pod is scheduled.
scheme: Scheme of the URL: HTTP or HTTPS.
scope: Scope of the resources: Cluster, Namespaced or * for both.
scopeSelector: Scopes of the objects that the quota counts.
scopes: Scopes of the objects that the quota counts.
seLinuxMount: Whether the driver mounts volumes with an SELinux label.
seLinuxOptions: SELinux label of the processes.
searches: Search domains of names.
seccompProfile: Seccomp profile of the processes.
secret: Secret that provides the content.
secretKeyRef: Key of a secret.
secretName: Name of the secret.
secretRef: Secret with credentials, or all of whose keys are used.
secrets: Secrets that pods of the account may use.
securityContext: Users, groups and privileges of the processes.
selector: Selector of objects by their labels.
selfLink: Deprecated, always empty.
series: Number and time of repetitions.
server: Name or address of the server.
service: Reference to a service.
serviceAccount: Deprecated: use serviceAccountName.
serviceAccountName: Service account of the pod.
serviceAccountToken: Token of the service account.
serviceName: Name of the service that governs the pods.
sessionAffinity: Whether the requests of a client go to the same endpoint: ClientIP or None.
sessionAffinityConfig: Configuration of the session affinity.
setHostnameAsFQDN: Whether the host name is the fully qualified one.
shareProcessNamespace: Whether the containers of the pod share a process namespace.
sideEffects: Side effects of the webhook: None or NoneOnDryRun.
signerName: Signer of the certificate.
sizeLimit: Maximum size of the directory.
sleep: Wait for a number of seconds.
source: Component that reported the event, or source of a value.
sources: Sources of the files.
spec: Desired state.
startTime: Time at which it was started or acknowledged.
started: Whether the container has passed its startup probe.
startedAt: Time at which the container was started.
startupProbe: Probe that must succeed before the other probes start.
state: Current state of the container.
status: Most recently observed state.
stdin: Whether the standard input remains open.
stdinOnce: Whether the standard input is closed after the first client.
storageCapacity: Whether the scheduler takes the reported capacity of the driver into account.
storageClassName: Class of the volume.
strategy: Strategy of updates.
stringData: Data as text; it is stored in data and never returned.
subPath: Path in the volume that is mounted.
subPathExpr: Path in the volume that is mounted, with references to variables.
subdomain: Subdomain of the fully qualified name of the pod.
subjects: Users, groups and service accounts that have the role.
subresource: Subresource through which the fields were written.
subsets: Sets of addresses and ports.
successThreshold: Number of consecutive successes after which the probe has succeeded.
supplementalGroups: Additional group IDs of the processes.
supplementalGroupsPolicy: Whether groups of the image are added: Merge or Strict.
sysctls: Kernel parameters of the pod.
taints: Taints, which repel pods without a matching toleration.
targetPort: Number or name of the port of the pods.
tcpSocket: TCP connection, which succeeds if it is established.
template: Template of the objects that are created.
terminated: Details of a terminated container.
terminationGracePeriodSeconds: Seconds from the signal to stop until processes are killed.
terminationMessagePath: File whose content is the termination message.
terminationMessagePolicy: Origin of the termination message: File, or FallbackToLogsOnError.
time: Time of the operation.
timeoutSeconds: Seconds after which a request has failed.
tls: TLS configuration.
token: Token of the user or service account.
tokenRequests: Tokens that the driver receives.
tolerationSeconds: Seconds until a pod is evicted in spite of its toleration.
tolerations: Taints that the pod tolerates.
topologyKey: Label of nodes whose values are topology domains.
topologyKeys: Labels of nodes that the driver uses.
topologySpreadConstraints: Constraints on the distribution of pods over topology domains.
trafficDistribution: Preference for near endpoints.
tty: Whether a terminal is allocated.
type: Type, from a fixed set of values.
uid: Unique ID of the object.
unhealthyPodEvictionPolicy: Whether unhealthy pods can be evicted: IfHealthyBudget or AlwaysAllow.
unschedulable: Whether new pods are kept away from the node.
updateStrategy: Strategy of updates.
updatedReplicas: Number of replicas with the current template.
url: URL of the webhook.
usages: Uses of the key.
used: Amounts in use.
user: Name of the user.
userInfo: User of the request.
username: Name of the user.
value: Value.
valueFrom: Source of the value.
values: Values of the requirement.
verbs: Verbs of requests; * for all.
version: API version.
volumeAttributes: Attributes of the volume for the driver.
volumeAttributesClassName: Class of attributes that the driver can change.
volumeBindingMode: Time of binding: Immediate or WaitForFirstConsumer.
volumeClaimTemplate: Template of the claim.
volumeClaimTemplates: Templates of claims, one per replica.
volumeDevices: Block devices of the container.
volumeHandle: ID of the volume for the driver.
volumeLifecycleModes: Types of volumes that the driver supports: Persistent, Ephemeral.
volumeMode: Whether the volume has a file system: Filesystem or Block.
volumeMounts: Volumes that are mounted into the container.
volumeName: Name of the volume.
volumes: Volumes that containers can mount.
volumesAttached: Volumes that are attached to the node.
volumesInUse: Volumes that the node uses.
waiting: Details of a container that has not been started.
webhooks: Webhooks and the requests for which they are called.
weight: Weight of the preference, from 1 to 100.
whenUnsatisfiable: Treatment of pods that violate the constraint: DoNotSchedule or ScheduleAnyway.
workingDir: Working directory of the container.
zone: Name of the zone.
events.Event.action: Action that was taken, or failed, for the object; at most 128 characters.
events.Event.eventTime: Time of the first observation, to the microsecond.
events.Event.note: Text for people; at most 1 kB.
events.Event.reason: Reason of the action; at most 128 characters.
events.Event.regarding: Object that the event is about.
events.Event.type: Normal or Warning.
meta.Status.status: Success or Failure.
meta.Condition.status: True, False or Unknown.
core.PersistentVolumeClaimSpec.resources: Minimum size of the volume.
core.Secret.data: Content of the secret by key, base64-encoded.
core.ConfigMap.data: Content by key, as text.
core.Secret.type: Type of the content.
meta.APIGroup.preferredVersion: Version that clients use by default.
meta.APIGroup.versions: Versions of the group.
meta.APIGroupList.groups: Groups that the server serves.
meta.APIResource.categories: Groups of resources that contain it, such as all.
meta.APIResource.group: Group of its kind; empty for the group of the list.
meta.APIResource.name: Name in paths, in the plural.
meta.APIResource.namespaced: Whether its objects belong to a namespace.
meta.APIResource.shortNames: Short names for command-line tools.
meta.APIResource.singularName: Name in the singular.
meta.APIResource.storageVersionHash: Hash of the version in which objects are stored.
meta.APIResource.version: Version of its kind; empty for the version of the list.
meta.APIResourceList.groupVersion: Group and version of the resources.
meta.APIResourceList.resources: Resources of the group version.
meta.APIVersions.versions: Versions of the core group.
serverAddressByClientCIDRs: Addresses of the server, by those of clients.
meta.GroupVersionForDiscovery.groupVersion: Group and version, with a slash between them.
meta.ServerAddressByClientCIDR.clientCIDR: Addresses of the clients.
meta.ServerAddressByClientCIDR.serverAddress: Address of the server.
"""
_KINDS = """
admissionregistration.MutatingWebhookConfiguration: Webhooks that may change objects before they are stored.
admissionregistration.ValidatingAdmissionPolicy: CEL expressions that objects have to meet.
admissionregistration.ValidatingAdmissionPolicyBinding: Requests to which a policy applies, and its actions.
admissionregistration.ValidatingWebhookConfiguration: Webhooks that may reject requests.
apiextensions.JSON: Any JSON value.
apiregistration.APIService: API group version, and the extension API server that serves it.
apps.ControllerRevision: Immutable snapshot of the state of a controller.
apps.DaemonSet: Pods on every matching node.
apps.Deployment: Replicated pods with rolling updates.
apps.ReplicaSet: Fixed number of equal pods.
apps.StatefulSet: Replicated pods with stable names and volumes.
authentication.SelfSubjectReview: User of the request.
authentication.TokenRequest: Request for a token of a service account.
authentication.TokenReview: Verification of a token.
authorization.LocalSubjectAccessReview: Check whether a user may perform an action in a namespace.
authorization.SelfSubjectAccessReview: Check whether the user of the request may perform an action.
authorization.SelfSubjectRulesReview: Actions that the user of the request may perform in a namespace.
authorization.SubjectAccessReview: Check whether a user may perform an action.
autoscaling.HorizontalPodAutoscaler: Number of replicas by metrics.
autoscaling.Scale: Number of replicas of another object.
batch.CronJob: Jobs by schedule.
batch.Job: Pods that run to completion.
certificates.CertificateSigningRequest: Request for a certificate, and its approval.
certificates.ClusterTrustBundle: Certificates that clients trust.
certificates.PodCertificateRequest: Request for a certificate of a pod.
coordination.Lease: Lock with a holder that renews it.
core.Binding: Assignment of an object to another one.
core.ConfigMap: Configuration data for pods.
core.Endpoints: Addresses and ports of a service.
core.Event: Report of an occurrence in the cluster, stored for a limited time.
core.LimitRange: Minimum, maximum and default amounts of resources in a namespace.
core.Namespace: Scope of names.
core.Node: Host of pods.
core.PersistentVolume: Storage in the cluster.
core.PersistentVolumeClaim: Request for a volume.
core.Pod: Containers that run together on a node.
core.PodTemplate: Template of pods.
core.ReplicationController: Fixed number of equal pods.
core.ResourceQuota: Limits of the total amounts of resources in a namespace.
core.Secret: Confidential data for pods.
core.Service: Stable address of a set of pods.
core.ServiceAccount: Identity of processes in pods.
discovery.EndpointSlice: Part of the endpoints of a service.
events.Event: Report of an occurrence in the cluster, stored for a limited time.
flowcontrol.FlowSchema: Requests, and the priority level that limits them.
flowcontrol.PriorityLevelConfiguration: Limits of concurrent requests.
meta.APIGroup: Versions of a group, and the preferred one.
meta.APIGroupList: Groups that the server serves.
meta.APIResource: Resource, its kind and verbs.
meta.APIResourceList: Resources of a group version.
meta.APIVersions: Versions of the core group.
meta.DeleteOptions: Options of deletions.
meta.FieldsV1: Set of fields, as nested objects with a key for each field.
meta.GroupVersionForDiscovery: Version of a group.
meta.IntOrString: Number or text, such as a port or its name.
meta.ListMeta: Metadata of lists.
meta.MicroTime: Time with microseconds, in the format of RFC 3339.
meta.ObjectMeta: Metadata of objects.
meta.Quantity: Number with a unit, such as 500m or 2Gi.
meta.RawExtension: Object of any kind.
meta.ServerAddressByClientCIDR: Address of the server for some clients.
meta.ShardInfo: Shard selector of a list.
meta.Status: Result of a request without an object.
meta.Time: Time with seconds, in the format of RFC 3339.
networking.Ingress: Rules by which HTTP requests reach services.
networking.IngressClass: Controller of ingresses, and its parameters.
networking.NetworkPolicy: Traffic that pods accept and send.
node.RuntimeClass: Configuration of the container runtime.
policy.Eviction: Request to delete a pod that respects disruption budgets.
policy.PodDisruptionBudget: Number of pods that may be disrupted.
rbac.ClusterRole: Permissions in all namespaces and for cluster-wide resources.
rbac.ClusterRoleBinding: Subjects that have a role in all namespaces.
rbac.Role: Permissions in a namespace.
rbac.RoleBinding: Subjects that have a role in a namespace.
resource.DeviceClass: Devices that claims can request.
resource.ResourceClaim: Request for devices.
resource.ResourceClaimTemplate: Template of claims of pods.
resource.ResourceSlice: Devices that a driver offers.
scheduling.PriorityClass: Priority of pods.
storage.CSIDriver: Properties of a CSI driver.
storage.CSINode: CSI drivers of a node.
storage.CSIStorageCapacity: Capacity of a storage class in a topology domain.
storage.StorageClass: Class of volumes, and the driver that provisions them.
storage.VolumeAttachment: Attachment of a volume to a node.
storage.VolumeAttributesClass: Attributes of volumes that the driver can change.
"""
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z][a-z0-9]+|[a-z0-9]+")


def of_kind(message: str) -> str:
    """Return the description of a message, such as ``core.Pod``."""
    name = message.partition(".")[2]
    if (text := _KIND_TEXTS.get(message)) is not None:
        return text
    element = name.removesuffix("List")
    return f"List of {element} objects." if element != name else f"{_words(name)}."


def of_field(message: str, field: str) -> str:
    """Return the description of *field* of a message."""
    return _FIELD_TEXTS.get(f"{message}.{field}") or _FIELD_TEXTS.get(field) or f"{_words(field)}."


def _words(name: str) -> str:
    """Return *name*, written in camel case, as words: ``maxLimitRequestRatio`` as *Max limit request ratio*."""
    words = [word if word.isupper() else word.lower() for word in _WORD.findall(name)]
    text = " ".join(words)
    return text[:1].upper() + text[1:]


def _parse(text: str) -> Mapping[str, str]:
    return dict(line.split(": ", 1) for line in text.split("\n") if line)


_FIELD_TEXTS, _KIND_TEXTS = _parse(_FIELDS), _parse(_KINDS)
