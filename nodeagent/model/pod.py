"""Pods (core/v1, releases 1.29 to 1.36).

Fields that only other components use (affinity, topology spread, …) are plain data, so that a mirror pod has
them unchanged.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from nodeagent.model.meta import ObjectMeta, ObjectReference
from nodeagent.model.wire import WireStruct

QuantityText = str | int | float
"""Unparsed quantity; files may have numbers. Parse with ``nodeagent.base.quantity``."""
ResourceList = dict[str, QuantityText]
PlainObject = dict[str, Any]


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class RestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class ContainerKind(StrEnum):
    """List of the spec that has the container; the value is its field path."""

    INIT = "spec.initContainers"
    REGULAR = "spec.containers"
    EPHEMERAL = "spec.ephemeralContainers"


# --- containers -----------------------------------------------------------------------------------------------


class ContainerPort(WireStruct, frozen=True):
    container_port: int
    name: str = ""
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = ""


class ObjectFieldSelector(WireStruct, frozen=True):
    field_path: str
    api_version: str = "v1"


class ResourceFieldSelector(WireStruct, frozen=True):
    resource: str
    container_name: str = ""
    divisor: QuantityText = "0"


class KeySelector(WireStruct, frozen=True):
    """A key of a config map or secret."""

    key: str
    name: str = ""
    optional: bool | None = None


class FileKeySelector(WireStruct, frozen=True):
    """A variable of an env file in a volume of the pod."""

    volume_name: str
    path: str
    key: str
    optional: bool | None = None


class EnvVarSource(WireStruct, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(WireStruct, frozen=True):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFromRef(WireStruct, frozen=True):
    name: str = ""
    optional: bool | None = None


class EnvFromSource(WireStruct, frozen=True):
    prefix: str = ""
    config_map_ref: EnvFromRef | None = None
    secret_ref: EnvFromRef | None = None


class ClaimUse(WireStruct, frozen=True):
    """Use of a resource claim of the pod by a container."""

    name: str
    request: str = ""
    """Request of the claim; empty for all devices."""


class ResourceRequirements(WireStruct, frozen=True):
    limits: ResourceList | None = None
    requests: ResourceList | None = None
    claims: list[ClaimUse] | None = None


class VolumeMount(WireStruct, frozen=True):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(WireStruct, frozen=True):
    name: str
    device_path: str


class HttpHeader(WireStruct, frozen=True):
    name: str
    value: str


class HttpGetAction(WireStruct, frozen=True):
    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = "HTTP"
    http_headers: list[HttpHeader] | None = None


class TcpSocketAction(WireStruct, frozen=True):
    port: int | str
    host: str = ""


class ExecAction(WireStruct, frozen=True):
    command: list[str] | None = None


class GrpcAction(WireStruct, frozen=True):
    port: int
    service: str = ""


class SleepAction(WireStruct, frozen=True):
    seconds: int


class Probe(WireStruct, frozen=True):
    """Probe of a container; times in seconds."""

    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    grpc: GrpcAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(WireStruct, frozen=True):
    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(WireStruct, frozen=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Capabilities(WireStruct, frozen=True):
    add: list[str] | None = None
    drop: list[str] | None = None


class SeLinuxOptions(WireStruct, frozen=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(WireStruct, frozen=True):
    type: str
    localhost_profile: str | None = None


class AppArmorProfile(WireStruct, frozen=True):
    type: str
    localhost_profile: str | None = None


class SecurityContext(WireStruct, frozen=True):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SeLinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    windows_options: PlainObject | None = None


class RestartRuleExitCodes(WireStruct, frozen=True):
    """Exit codes that match a restart rule."""

    operator: str = ""
    """``In`` or ``NotIn``."""
    values: list[int] | None = None


class ContainerRestartRule(WireStruct, frozen=True):
    """Action for certain exit codes of a container."""

    action: str = ""
    """``Restart`` or ``RestartAllContainers``."""
    exit_codes: RestartRuleExitCodes | None = None


class Container(WireStruct, frozen=True):
    """A container of any kind; ``target_container_name`` is set on ephemeral ones only."""

    name: str
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str = ""
    ports: list[ContainerPort] | None = None
    env_from: list[EnvFromSource] | None = None
    env: list[EnvVar] | None = None
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    resize_policy: list[PlainObject] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None
    volume_devices: list[VolumeDevice] | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    target_container_name: str = ""

    @property
    def restartable_init(self) -> bool:
        """Return whether this init container is a sidecar (``restartPolicy: Always``)."""
        return self.restart_policy == RestartPolicy.ALWAYS


# --- volumes --------------------------------------------------------------------------------------------------


class KeyToPath(WireStruct, frozen=True):
    key: str
    path: str
    mode: int | None = None


class EmptyDirVolume(WireStruct, frozen=True):
    medium: str = ""
    size_limit: QuantityText | None = None


class HostPathVolume(WireStruct, frozen=True):
    path: str
    type: str | None = None


class ConfigMapVolume(WireStruct, frozen=True):
    name: str = ""
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class SecretVolume(WireStruct, frozen=True):
    secret_name: str = ""
    items: list[KeyToPath] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class DownwardItem(WireStruct, frozen=True):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardVolume(WireStruct, frozen=True):
    items: list[DownwardItem] | None = None
    default_mode: int | None = None


class ProjectedObject(WireStruct, frozen=True):
    """A secret or config map inside a projected volume."""

    name: str = ""
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class ServiceAccountToken(WireStruct, frozen=True):
    path: str
    audience: str = ""
    expiration_seconds: int | None = None


class ClusterTrustBundle(WireStruct, frozen=True):
    """Trust anchors of a bundle, or of the bundles of a signer."""

    path: str
    name: str | None = None
    signer_name: str | None = None
    label_selector: PlainObject | None = None
    optional: bool | None = None


class PodCertificate(WireStruct, frozen=True):
    """Private key and certificate of the pod."""

    signer_name: str = ""
    key_type: str = ""
    max_expiration_seconds: int | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: dict[str, str] | None = None


class VolumeProjection(WireStruct, frozen=True):
    secret: ProjectedObject | None = None
    config_map: ProjectedObject | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: ServiceAccountToken | None = None
    cluster_trust_bundle: ClusterTrustBundle | None = None
    pod_certificate: PodCertificate | None = None


class ProjectedVolume(WireStruct, frozen=True):
    sources: list[VolumeProjection] | None = None
    default_mode: int | None = None


class LocalReference(WireStruct, frozen=True):
    name: str = ""


class FlexSecretReference(WireStruct, frozen=True):
    """Secret for the driver of a FlexVolume."""

    name: str = ""
    namespace: str = ""
    """Empty in the volume of a pod, whose namespace applies."""


class FlexVolume(WireStruct, frozen=True):
    """Volume of a FlexVolume driver, an executable on the node."""

    driver: str = ""
    fs_type: str = ""
    secret_ref: FlexSecretReference | None = None
    read_only: bool = False
    options: dict[str, str] | None = None


class ImageVolume(WireStruct, frozen=True):
    """Volume with the content of an image."""

    reference: str = ""
    pull_policy: str = ""


class Volume(WireStruct, frozen=True):
    """A volume; exactly one source is set. Sources that no bundled plugin mounts are kept as plain data."""

    name: str
    empty_dir: EmptyDirVolume | None = None
    host_path: HostPathVolume | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None
    persistent_volume_claim: PlainObject | None = None
    ephemeral: PlainObject | None = None
    csi: PlainObject | None = None
    nfs: PlainObject | None = None
    iscsi: PlainObject | None = None
    fc: PlainObject | None = None
    flex_volume: FlexVolume | None = None
    git_repo: PlainObject | None = None
    image: ImageVolume | None = None
    aws_elastic_block_store: PlainObject | None = None
    azure_disk: PlainObject | None = None
    azure_file: PlainObject | None = None
    cephfs: PlainObject | None = None
    cinder: PlainObject | None = None
    flocker: PlainObject | None = None
    gce_persistent_disk: PlainObject | None = None
    glusterfs: PlainObject | None = None
    photon_persistent_disk: PlainObject | None = None
    portworx_volume: PlainObject | None = None
    quobyte: PlainObject | None = None
    rbd: PlainObject | None = None
    scale_io: PlainObject | None = msgspec.field(default=None, name="scaleIO")
    storageos: PlainObject | None = None
    vsphere_volume: PlainObject | None = None


# --- the pod --------------------------------------------------------------------------------------------------


class Toleration(WireStruct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class HostAlias(WireStruct, frozen=True):
    ip: str
    hostnames: list[str] | None = None


class DnsOption(WireStruct, frozen=True):
    name: str = ""
    value: str | None = None


class PodDnsConfig(WireStruct, frozen=True):
    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[DnsOption] | None = None


class Sysctl(WireStruct, frozen=True):
    name: str
    value: str


class PodSecurityContext(WireStruct, frozen=True):
    se_linux_options: SeLinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: list[int] | None = None
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    sysctls: list[Sysctl] | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None
    windows_options: PlainObject | None = None


class ReadinessGate(WireStruct, frozen=True):
    condition_type: str


class PodOs(WireStruct, frozen=True):
    name: str


class ClaimSource(WireStruct, frozen=True):
    """Reference of a resource claim before Kubernetes 1.31."""

    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodResourceClaim(WireStruct, frozen=True):
    """A resource claim that containers of the pod can use, by name or created from a template."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""
    source: ClaimSource | None = None

    @property
    def claim_name(self) -> str:
        """Name of the existing claim; empty with a template."""
        return self.resource_claim_name or (self.source.resource_claim_name if self.source is not None else "")

    @property
    def template_name(self) -> str:
        """Name of the template; empty with an existing claim."""
        source = self.source
        return self.resource_claim_template_name or (source.resource_claim_template_name if source is not None else "")


class PodSpec(WireStruct, frozen=True):
    """Desired state of a pod; times in seconds."""

    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = "ClusterFirst"
    dns_config: PodDnsConfig | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool | None = None
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: list[LocalReference] | None = None
    hostname: str = ""
    hostname_override: str | None = None
    subdomain: str = ""
    set_hostname_as_fqdn: bool | None = None
    affinity: PlainObject | None = None
    scheduler_name: str = ""
    tolerations: list[Toleration] | None = None
    host_aliases: list[HostAlias] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    readiness_gates: list[ReadinessGate] | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    overhead: ResourceList | None = None
    topology_spread_constraints: list[PlainObject] | None = None
    os: PodOs | None = None
    scheduling_gates: list[PlainObject] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    resources: ResourceRequirements | None = None
    scheduling_group: PlainObject | None = None


# --- status ---------------------------------------------------------------------------------------------------


class PodCondition(WireStruct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class ContainerStateWaiting(WireStruct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(WireStruct, frozen=True):
    started_at: datetime | None = None


class ContainerStateTerminated(WireStruct, frozen=True, omit_defaults=True):
    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""


class ContainerState(WireStruct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class LinuxContainerUser(WireStruct, frozen=True, omit_defaults=False):
    """User and groups of a container's first process."""

    uid: int
    gid: int
    supplemental_groups: list[int] | msgspec.UnsetType = msgspec.UNSET


class ContainerUser(WireStruct, frozen=True):
    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(WireStruct, frozen=True):
    """The image of a volume, with its digest."""

    image_ref: str = ""


class VolumeStatus(WireStruct, frozen=True):
    """Status of a mounted volume, by its type."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(WireStruct, frozen=True):
    """A mount as it was made; the mode of a writable one is not reported."""

    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None


class ResourceHealth(WireStruct, frozen=True):
    """Health of one device."""

    resource_id: str = msgspec.field(name="resourceID")
    health: str = ""
    message: str = ""


class ResourceStatus(WireStruct, frozen=True):
    """Health of the devices of one resource, or of one claim."""

    name: str
    resources: list[ResourceHealth] | None = None


class ContainerStatus(WireStruct, frozen=True, omit_defaults=False):
    """Reported state of a container; required fields are always encoded."""

    name: str
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str | msgspec.UnsetType = msgspec.UNSET
    started: bool | None = None
    volume_mounts: list[VolumeMountStatus] | msgspec.UnsetType = msgspec.UNSET
    user: ContainerUser | msgspec.UnsetType = msgspec.UNSET
    stop_signal: str | msgspec.UnsetType = msgspec.UNSET
    """Effective stop signal, that of the image included."""
    allocated_resources: ResourceList | msgspec.UnsetType = msgspec.UNSET
    """Requests that the node has granted."""
    resources: ResourceRequirements | msgspec.UnsetType = msgspec.UNSET
    """Requests and limits in effect."""
    allocated_resources_status: list[ResourceStatus] | msgspec.UnsetType = msgspec.UNSET
    """Health of the container's devices."""


class PodIp(WireStruct, frozen=True):
    ip: str


class PodResourceClaimStatus(WireStruct, frozen=True):
    """Name of the claim that was created from a template; empty if the pod does not need it."""

    name: str
    resource_claim_name: str = ""


class ExtendedResourceMapping(WireStruct, frozen=True):
    """Request of a claim that provides an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(WireStruct, frozen=True):
    """Claim that provides extended resources of the pod."""

    resource_claim_name: str = ""
    request_mappings: list[ExtendedResourceMapping] | None = None


class PodStatus(WireStruct, frozen=True):
    """Reported state of a pod."""

    observed_generation: int = 0
    """Generation of the pod that the status is about."""
    phase: str = ""
    conditions: list[PodCondition] | None = None
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: list[PodIp] | None = None
    pod_ip: str = ""
    pod_ips: list[PodIp] | None = None
    start_time: datetime | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    qos_class: str = ""
    allocated_resources: ResourceList | None = None
    """Requests that the node has granted to a pod with pod-level resources."""
    resources: ResourceRequirements | None = None
    """Requests and limits of such a pod that are in effect."""
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    """Written by the controller of resource claims, only read by the node."""
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    """Written by the scheduler, only read by the node."""


class Pod(WireStruct, frozen=True):
    """Pod: desired state (``spec``) and last reported state (``status``)."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
    api_version: str = "v1"
    kind: str = "Pod"

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def terminal(self) -> bool:
        """Return whether the reported phase is final."""
        return self.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    def containers(self) -> list[tuple[ContainerKind, Container]]:
        """Return every container with its kind: init, regular, ephemeral."""
        spec = self.spec
        return [
            *((ContainerKind.INIT, c) for c in spec.init_containers or ()),
            *((ContainerKind.REGULAR, c) for c in spec.containers),
            *((ContainerKind.EPHEMERAL, c) for c in spec.ephemeral_containers or ()),
        ]

    def reference(self, field_path: str = "") -> ObjectReference:
        """Return a reference to this pod, or to a part of it."""
        return ObjectReference(
            kind="Pod",
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            api_version="v1",
            resource_version=self.metadata.resource_version,
            field_path=field_path,
        )


def container_field_path(kind: ContainerKind, name: str) -> str:
    """Return the field path of a container in events: ``spec.containers{web}``."""
    return f"{kind.value}{{{name}}}"
