"""Configuration types: one field per row of the configuration specification, with its default.

Names follow the specification in ``snake_case``; ``msgspec.structs.fields`` returns the name in files. Lists are
tuples, maps are dicts that must not be modified. The annotation of a field documents it; documentation, flags and
``nodeagent config explain`` are generated from the annotations. Values are stored as written. A rule that is
*case-insensitive* leaves comparing to the reader.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Quantity

_WORDS = {
    "api": "API",
    "ca": "CA",
    "cfs": "CFS",
    "cidr": "CIDR",
    "cpus": "CPUs",
    "dns": "DNS",
    "gc": "GC",
    "id": "ID",
    "iptables": "IPTables",
    "qos": "QOS",
    "qps": "QPS",
    "tls": "TLS",
    "oom": "OOM",
    "ttl": "TTL",
    "url": "URL",
}

Int32 = Annotated[int, Meta(title="int32", ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(title="int64", ge=-(2**63), le=2**63 - 1)]
UInt32 = Annotated[int, Meta(title="uint32", ge=0, le=2**32 - 1)]
ResourceList = dict[str, Quantity]


def wire_name(snake: str) -> str:
    """Return the name of a field in files: ``cpu_cfs_quota_period`` → ``cpuCFSQuotaPeriod``."""
    first, *rest = snake.split("_")
    return first + "".join(_WORDS.get(word) or word.capitalize() for word in rest)


def doc(text: str, *, since: str = "") -> Meta:
    """Return the documentation of a field and of its rule.

    :param since: release that added the field; empty for 1.29, whose fields have specification rows.
    """
    return Meta(description=f"{text} Since {since}." if since else text, extra={"since": since})


def seconds(amount: float) -> Duration:
    """Return a duration, for defaults."""
    return Duration.of(seconds=amount)


class ConfigStruct(Struct, frozen=True, rename=wire_name, kw_only=True):
    """Base of every configuration type; ``row`` starts the ids of its specification rows."""

    row: ClassVar[str] = ""


class X509Authentication(ConfigStruct, frozen=True):
    row = "type.NodeAgentX509Authentication"

    client_ca_file: Annotated[
        str,
        doc(
            "PEM bundle; a client certificate signed by it gives the user (CommonName) and its groups (Organization). "
            "Relative to the file."
        ),
    ] = ""


class WebhookAuthentication(ConfigStruct, frozen=True):
    row = "type.NodeAgentWebhookAuthentication"

    enabled: Annotated[bool, doc("Authenticate bearer tokens through the TokenReview API.")] = True
    cache_ttl: Annotated[Duration, doc("Cache duration of results.")] = seconds(120)


class AnonymousAuthentication(ConfigStruct, frozen=True):
    row = "type.NodeAgentAnonymousAuthentication"

    enabled: Annotated[bool, doc("Accept requests without credentials as anonymous.")] = False


class Authentication(ConfigStruct, frozen=True):
    row = "type.NodeAgentAuthentication"

    x509: Annotated[X509Authentication, doc("Client certificates.")] = field(default_factory=X509Authentication)
    webhook: Annotated[WebhookAuthentication, doc("Bearer tokens.")] = field(default_factory=WebhookAuthentication)
    anonymous: Annotated[AnonymousAuthentication, doc("Requests without credentials.")] = field(
        default_factory=AnonymousAuthentication
    )


class WebhookAuthorization(ConfigStruct, frozen=True):
    row = "type.NodeAgentWebhookAuthorization"

    cache_authorized_ttl: Annotated[Duration, doc("Cache duration of allowed requests.")] = seconds(300)
    cache_unauthorized_ttl: Annotated[Duration, doc("Cache duration of denied requests.")] = seconds(30)


class Authorization(ConfigStruct, frozen=True):
    row = "type.NodeAgentAuthorization"

    mode: Annotated[str, doc("AlwaysAllow or Webhook (subject access reviews).")] = "Webhook"
    webhook: Annotated[WebhookAuthorization, doc("Caches of mode Webhook.")] = field(
        default_factory=WebhookAuthorization
    )


class Taint(ConfigStruct, frozen=True):
    """A taint as the node object carries it."""

    key: Annotated[str, doc("Qualified name.")] = ""
    value: Annotated[str, doc("Label value.")] = ""
    effect: Annotated[str, doc("NoSchedule, PreferNoSchedule or NoExecute.")] = ""
    time_added: Annotated[str | None, doc("Must be absent.")] = None


class ShutdownGracePeriodByPodPriority(ConfigStruct, frozen=True):
    row = "type.ShutdownGracePeriodByPodPriority"

    priority: Annotated[Int32, doc("Minimum priority of the group.")] = 0
    shutdown_grace_period_seconds: Annotated[
        Int64, doc("Grace period of pods with a priority from this value up to the next higher entry; not negative.")
    ] = 0


class MemorySwapConfiguration(ConfigStruct, frozen=True):
    row = "type.MemorySwapConfiguration"

    swap_behavior: Annotated[
        str,
        doc(
            "LimitedSwap: containers of Burstable pods swap in proportion to their memory request; before 1.30 memory "
            "and swap together stay within the memory limit. UnlimitedSwap: swap up to the allocatable limit; not part "
            "of releases since 1.30. Both need the gate NodeSwap. NoSwap: none. Empty is NoSwap since 1.30, before "
            "LimitedSwap with the gate."
        ),
    ] = ""


class CrashLoopBackOffConfig(ConfigStruct, frozen=True):
    max_container_restart_period: Annotated[
        Duration | None,
        doc(
            "Maximum back-off before a crashing container is restarted, 1s to 300s; unset: 300s. Needs the gate "
            "NodeAgentCrashLoopBackOffMax.",
            since="1.32",
        ),
    ] = None


class UserNamespaces(ConfigStruct, frozen=True):
    ids_per_pod: Annotated[
        Int64 | None,
        doc("IDs in the user namespace of a pod: 65536, the default, or a multiple of it.", since="1.33"),
    ] = None


class MemoryReservation(ConfigStruct, frozen=True):
    row = "type.MemoryReservation"

    numa_node: Annotated[Int32, doc("NUMA node; not negative.")] = 0
    limits: Annotated[ResourceList, doc("Reserved quantities of memory and hugepages-<size>; not zero.")] = {}


class TimeOrMetaDuration(ConfigStruct, frozen=True):
    """Duration that is encoded in the form in which it was read: text, or a number of nanoseconds."""

    row = "type.TimeOrMetaDuration"

    duration: Duration = seconds(0)
    serialize_as_string: bool = True


class VModuleItem(ConfigStruct, frozen=True):
    file_pattern: Annotated[
        str, doc("Glob pattern for the source file's name without extension; not empty, without '=' and ','.")
    ] = ""
    verbosity: Annotated[UInt32, doc("Threshold in matching files; at most 2147483647.")] = 0


class JSONOptions(ConfigStruct, frozen=True):
    row = "type.JSONOptions"

    split_stream: Annotated[bool, doc("Errors to stderr, info to stdout with buffering. Alpha.")] = False
    info_buffer_size: Annotated[
        Quantity, doc("Size of the info buffer with split streams, at most 2Gi; 0 disables buffering. Alpha.")
    ] = Quantity(0)


class TextOptions(ConfigStruct, frozen=True):
    split_stream: Annotated[bool, doc("Errors to stderr, info to stdout with buffering. Alpha.", since="1.30")] = False
    info_buffer_size: Annotated[
        Quantity,
        doc("Size of the info buffer with split streams, at most 2Gi; 0 disables buffering. Alpha.", since="1.30"),
    ] = Quantity(0)


class FormatOptions(ConfigStruct, frozen=True):
    row = "type.FormatOptions"

    json: Annotated[JSONOptions, doc("Options of the format json. Alpha.")] = field(default_factory=JSONOptions)
    text: Annotated[TextOptions, doc("Options of the format text. Alpha.", since="1.30")] = field(
        default_factory=TextOptions
    )


class LoggingConfiguration(ConfigStruct, frozen=True):
    row = "type.LoggingConfiguration"

    format: Annotated[str, doc("text or json; plugins may add formats.")] = "text"
    flush_frequency: Annotated[
        TimeOrMetaDuration, doc("Maximum time between flushes; a string is a duration, a number is nanoseconds.")
    ] = TimeOrMetaDuration(duration=seconds(5))
    verbosity: Annotated[UInt32, doc("Threshold for messages, 0 to 2147483647; errors are always logged.")] = 0
    vmodule: Annotated[tuple[VModuleItem, ...], doc("Thresholds by file; format text only.")] = ()
    options: Annotated[FormatOptions, doc("Options by format; need the gate LoggingAlphaOptions.")] = field(
        default_factory=FormatOptions
    )


class TracingConfiguration(ConfigStruct, frozen=True):
    row = "type.TracingConfiguration"

    endpoint: Annotated[
        str | None, doc("Collector; the connection has no TLS. Unset: localhost:4317. Schemes: none, dns, unix.")
    ] = None
    sampling_rate_per_million: Annotated[
        Int32 | None,
        doc("Number of sampled root spans per million, 0 to 1000000. Unset: only spans with a sampled parent."),
    ] = None


def _protobuf() -> str:
    return identity.current().protobuf_media_type


def _volume_plugin_dir() -> str:
    return f"/usr/libexec/{identity.current().platform_dir}/nodeagent-plugins/volume/exec/"


def _eviction_hard() -> dict[str, str]:
    return {
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
    }


DEFAULT_POD_LOGS_DIR = "/var/log/pods"


class NodeAgentConfiguration(ConfigStruct, frozen=True):
    """Configuration of the node agent; read-only once loaded."""

    row = "config"

    # Serving

    enable_server: Annotated[bool, doc("Serves the secured port.")] = True
    address: Annotated[str, doc("IP address to serve on.")] = "0.0.0.0"  # noqa: S104  the documented default
    port: Annotated[Int32, doc("Secured port, 1 to 65535.")] = 10250
    read_only_port: Annotated[Int32, doc("Port without authentication, 1 to 65535; 0 turns it off.")] = 0
    tls_cert_file: Annotated[
        str,
        doc(
            "Serving certificate, its CA after it; relative to the file. Without certificate and key a self-signed "
            "pair is made in --cert-dir."
        ),
    ] = ""
    tls_private_key_file: Annotated[str, doc("Key of tlsCertFile; relative to the file.")] = ""
    tls_cipher_suites: Annotated[
        tuple[str, ...], doc("Allowed cipher suites up to TLS 1.2; those of TLS 1.3 are not configurable.")
    ] = ()
    tls_curve_preferences: Annotated[
        tuple[Int32, ...],
        doc(
            "Curves of key exchanges by Go's identifiers: 23, 24, 25 or 29; more than one requires Python 3.15. Empty: "
            "those of OpenSSL.",
            since="1.36",
        ),
    ] = ()
    tls_min_version: Annotated[str, doc("VersionTLS10 to VersionTLS13; empty is VersionTLS12.")] = ""
    rotate_certificates: Annotated[bool, doc("Renew the client certificate through the certificates API.")] = False
    server_tls_bootstrap: Annotated[
        bool,
        doc(
            "Request the serving certificate from the certificates API; needs an approver and the gate "
            "RotateNodeAgentServerCertificate."
        ),
    ] = False
    authentication: Annotated[Authentication, doc("Authentication of requests to the server.")] = field(
        default_factory=Authentication
    )
    authorization: Annotated[Authorization, doc("Authorization of requests to the server.")] = field(
        default_factory=Authorization
    )
    enable_debugging_handlers: Annotated[bool, doc("Serve logs, exec, attach, run and port-forward.")] = True
    enable_contention_profiling: Annotated[bool, doc("Block profiling; needs enableDebuggingHandlers.")] = False
    healthz_port: Annotated[Int32, doc("Health port, 1 to 65535; 0 disables it.")] = 10248
    healthz_bind_address: Annotated[str, doc("IP address of the health port.")] = "127.0.0.1"
    enable_system_log_handler: Annotated[bool, doc("Serve system logs under /logs/.")] = True
    enable_system_log_query: Annotated[bool, doc("Serve log queries on /logs; needs enableSystemLogHandler.")] = False
    enable_profiling_handler: Annotated[bool, doc("Serve /debug/pprof/.")] = True
    enable_debug_flags_handler: Annotated[bool, doc("Serve /debug/flags/v.")] = True
    streaming_connection_idle_timeout: Annotated[
        Duration, doc("Idle time after which a streaming connection is closed.")
    ] = seconds(4 * 3600)

    # Pods, sync and registration

    static_pod_path: Annotated[str, doc("Directory of static pods, or one file; relative to the file.")] = ""
    static_pod_url: Annotated[str, doc("URL of static pods, http or https.")] = ""
    static_pod_url_header: Annotated[
        dict[str, tuple[str, ...]], doc("HTTP headers for staticPodURL; the values are never logged or displayed.")
    ] = {}
    sync_frequency: Annotated[Duration, doc("Maximum time between two syncs of a pod; above 0.")] = seconds(60)
    file_check_frequency: Annotated[Duration, doc("Interval of reading staticPodPath.")] = seconds(20)
    http_check_frequency: Annotated[Duration, doc("Interval of polling staticPodURL.")] = seconds(20)
    run_once: Annotated[
        bool, doc("Read the pods from the API server once, run them and the static pods, and exit.")
    ] = False
    register_node: Annotated[bool, doc("Register the node with the API server.")] = True
    register_with_taints: Annotated[
        tuple[Taint, ...], doc("Taints of the node at its first registration; only with registerNode.")
    ] = ()
    provider_id: Annotated[str, doc("Unique id of the instance for an external provider.")] = ""
    max_pods: Annotated[Int32, doc("Maximum number of pods on this node; not negative.")] = 110
    pods_per_core: Annotated[
        Int32, doc("Maximum number of pods per core, limited by maxPods; 0 disables the limit.")
    ] = 0
    pod_cidr: Annotated[str, doc("Address range of pods on a node without an API server.")] = ""
    pod_pids_limit: Annotated[Int64, doc("Maximum number of processes per pod; -1 means unlimited.")] = -1
    node_status_update_frequency: Annotated[Duration, doc("Interval of computing the node status.")] = seconds(10)
    node_status_report_frequency: Annotated[
        Duration,
        doc(
            "Interval of posting an unchanged node status; a change is posted immediately. Follows "
            "nodeStatusUpdateFrequency when only that is set."
        ),
    ] = seconds(300)
    node_lease_duration_seconds: Annotated[Int32, doc("Duration of the node's lease; above 0.")] = 40
    node_status_max_images: Annotated[
        Int32, doc("Maximum number of images in the node status; -1 means unlimited, 0 omits images.")
    ] = 50
    shutdown_grace_period: Annotated[Duration, doc("Delay of a node shutdown; 0 or at least 1s.")] = seconds(0)
    shutdown_grace_period_critical_pods: Annotated[
        Duration, doc("Part of shutdownGracePeriod for critical pods; smaller than shutdownGracePeriod.")
    ] = seconds(0)
    shutdown_grace_period_by_pod_priority: Annotated[
        tuple[ShutdownGracePeriodByPodPriority, ...],
        doc("Grace periods by priority; not together with the two fields above; needs the gate GracefulNodeShutdown."),
    ] = ()

    # Resources, cgroups, images

    nodeagent_cgroups: Annotated[
        str, doc("Absolute path of the cgroup of the agent; empty keeps the current cgroup.")
    ] = ""
    system_cgroups: Annotated[
        str, doc("Absolute path of the cgroup for processes outside of containers; not '/'; needs cgroupRoot.")
    ] = ""
    cgroup_root: Annotated[str, doc("Root cgroup of pods; empty is '/' with cgroupsPerQOS.")] = ""
    cgroups_per_qos: Annotated[bool, doc("Create cgroups per QoS class.")] = True
    cgroup_driver: Annotated[str, doc("cgroupfs or systemd; must match the runtime.")] = "cgroupfs"
    cpu_manager_policy: Annotated[str, doc("none or static (case-insensitive).")] = "None"
    cpu_manager_policy_options: Annotated[
        dict[str, str],
        doc(
            "full-pcpus-only, distribute-cpus-across-numa, align-by-socket, distribute-cpus-across-cores (1.31), "
            "strict-cpu-reservation (1.32), prefer-align-cpus-by-uncorecache (1.32): true or false. Needs policy "
            "static and the gate CPUManagerPolicyOptions."
        ),
    ] = {}
    cpu_manager_reconcile_period: Annotated[Duration, doc("Interval of reconciling CPU sets.")] = seconds(10)
    memory_manager_policy: Annotated[str, doc("none or static (case-insensitive); needs the gate MemoryManager.")] = (
        "none"
    )
    topology_manager_policy: Annotated[str, doc("none, best-effort, restricted or single-numa-node.")] = "none"
    topology_manager_scope: Annotated[str, doc("container or pod.")] = "container"
    topology_manager_policy_options: Annotated[
        dict[str, str],
        doc(
            "prefer-closest-numa-nodes: true or false; max-allowable-numa-nodes (1.31): 8 or more. Needs the gates "
            "TopologyManager and its …PolicyOptions."
        ),
    ] = {}
    qos_reserved: Annotated[
        dict[str, str], doc("memory: percentage reserved for guaranteed pods; needs the gate QOSReserved.")
    ] = {}
    runtime_request_timeout: Annotated[
        Duration, doc("Timeout of runtime requests other than pull, logs, exec and attach.")
    ] = seconds(120)
    hairpin_mode: Annotated[
        str,
        doc(
            "promiscuous-bridge, hairpin-veth or none: access of a pod to itself through a Service. For the bridge of"
            " the embedded runtime; network plugins of other runtimes have separate settings."
        ),
    ] = "promiscuous-bridge"
    resolv_conf: Annotated[
        str, doc("Resolver file of pods with DNS policy Default; '' disables lookups. Relative to the file.")
    ] = "/etc/resolv.conf"
    cluster_domain: Annotated[str, doc("Search domain added to containers.")] = ""
    cluster_dns: Annotated[tuple[str, ...], doc("IP addresses of the cluster's DNS servers.")] = ()
    cpu_cfs_quota: Annotated[bool, doc("Enforce CPU limits by CFS quota.")] = True
    cpu_cfs_quota_period: Annotated[
        Duration, doc("Quota period, 1ms to 1s; other than 100ms needs the gate CustomCPUCFSQuotaPeriod.")
    ] = seconds(0.1)
    max_open_files: Annotated[Int64, doc("Maximum number of open files of the agent; not negative.")] = 1_000_000
    oom_score_adj: Annotated[Int32, doc("OOM score of the agent, -1000 to 1000.")] = -999
    image_minimum_gc_age: Annotated[Duration, doc("Minimum age of an unused image before it is garbage collected.")] = (
        seconds(120)
    )
    image_maximum_gc_age: Annotated[
        Duration,
        doc("Maximum age of an unused image before it is garbage collected; 0s disables it; above imageMinimumGCAge."),
    ] = seconds(0)
    image_gc_high_threshold_percent: Annotated[
        Int32, doc("Disk usage at which image garbage collection starts, 0 to 100; above the low threshold.")
    ] = 85
    image_gc_low_threshold_percent: Annotated[
        Int32, doc("Disk usage at which image garbage collection stops, 0 to 100; below the high threshold.")
    ] = 80
    volume_stats_agg_period: Annotated[
        Duration, doc("Interval of measuring volume usage; a negative value disables it.")
    ] = seconds(60)
    serialize_image_pulls: Annotated[bool, doc("Pull one image at a time.")] = True
    max_parallel_image_pulls: Annotated[
        Int32 | None,
        doc("Maximum number of parallel pulls, at least 1; only with serializeImagePulls false; unset: no limit."),
    ] = None
    enable_controller_attach_detach: Annotated[
        bool, doc("A controller attaches the volumes of the node; otherwise the agent requests this.")
    ] = True
    protect_kernel_defaults: Annotated[
        bool, doc("Fail if kernel flags differ from the defaults, instead of setting them.")
    ] = False
    make_iptables_util_chains: Annotated[bool, doc("Create the hint chain for other components.")] = True
    iptables_masquerade_bit: Annotated[Int32, doc("Deprecated, no effect; 0 to 31.")] = 14
    iptables_drop_bit: Annotated[Int32, doc("Deprecated, no effect; 0 to 31.")] = 15
    fail_swap_on: Annotated[bool, doc("Fail to start if swap is enabled.")] = True
    memory_swap: Annotated[MemorySwapConfiguration, doc("Swap available to workloads.")] = field(
        default_factory=MemorySwapConfiguration
    )
    container_log_max_size: Annotated[
        str, doc("Size at which a container log is rotated, a quantity; a negative value disables rotation.")
    ] = "10Mi"
    container_log_max_files: Annotated[Int32, doc("Maximum number of log files per container; above 1.")] = 5
    container_log_max_workers: Annotated[
        Int32, doc("Maximum number of logs that are rotated in parallel; at least 1.", since="1.30")
    ] = 1
    container_log_monitor_interval: Annotated[
        Duration, doc("Interval of checking log sizes; at least 3s.", since="1.30")
    ] = seconds(10)
    pod_logs_dir: Annotated[
        str, doc("Directory of pod logs: an absolute path in canonical form, ASCII.", since="1.30")
    ] = DEFAULT_POD_LOGS_DIR
    crash_loop_back_off: Annotated[CrashLoopBackOffConfig, doc("Back-off of crashing containers.", since="1.32")] = (
        field(default_factory=CrashLoopBackOffConfig)
    )
    user_namespaces: Annotated[UserNamespaces, doc("User namespaces of pods.", since="1.33")] = field(
        default_factory=UserNamespaces
    )
    image_pull_credentials_verification_policy: Annotated[
        str,
        doc(
            "Images on the node that a pod may use only if its credentials permit a pull. NeverVerify: none. "
            "NeverVerifyPreloadedImages: those that the agent pulled. NeverVerifyAllowlistedImages: those that are not "
            "in preloadedImagesVerificationAllowlist. AlwaysVerify: all. Unset: NeverVerifyPreloadedImages with the "
            "feature gate NodeAgentEnsureSecretPulledImages, else NeverVerify.",
            since="1.33",
        ),
    ] = ""
    preloaded_images_verification_allowlist: Annotated[
        tuple[str, ...],
        doc("Image names without tag and digest, as written in pods, or prefixes that end with /*.", since="1.33"),
    ] = ()
    fail_cgroup_v1: Annotated[
        bool | None,
        doc(
            "Fails to start on a host with cgroup v1. Unset: true with --compatibility-version 1.35 or later, else "
            "false.",
            since="1.31",
        ),
    ] = None
    single_process_oom_kill: Annotated[
        bool | None,
        doc(
            "Out of memory, the kernel kills one process instead of all processes of the container. Unset: false on "
            "cgroup v2; false is not possible on cgroup v1.",
            since="1.32",
        ),
    ] = None
    memory_reservation_policy: Annotated[
        str,
        doc(
            "None or TieredReservation: protect requested memory from reclaim, with memory.min for Guaranteed and "
            "memory.low for Burstable pods; needs the gate MemoryQoS. Before release 1.36, None means memory.min for "
            "both.",
            since="1.36",
        ),
    ] = "None"
    config_map_and_secret_change_detection_strategy: Annotated[str, doc("Get, Cache or Watch.")] = "Watch"  # noqa: S105
    system_reserved: Annotated[
        dict[str, str], doc("Resources reserved for the system: cpu, memory, ephemeral-storage and pid.")
    ] = {}
    platform_reserved: Annotated[
        dict[str, str], doc("Resources reserved for platform components: cpu, memory, ephemeral-storage and pid.")
    ] = {}
    reserved_system_cpus: Annotated[
        str, doc("CPU list such as 0-3,8 reserved for host and platform threads; not with the two reserved cgroups.")
    ] = ""
    system_reserved_cgroup: Annotated[str, doc("Absolute path of the cgroup on which systemReserved is enforced.")] = ""
    platform_reserved_cgroup: Annotated[
        str, doc("Absolute path of the cgroup on which platformReserved is enforced.")
    ] = ""
    enforce_node_allocatable: Annotated[
        tuple[str, ...],
        doc(
            "Only none, or any of pods, system-reserved and platform-reserved; the last two also with -compressible, "
            "which limits only cpu."
        ),
    ] = ("pods",)
    allowed_unsafe_sysctls: Annotated[
        tuple[str, ...], doc("Names of namespaced sysctls, or prefixes ending in '*', that pods may set.")
    ] = ()
    volume_plugin_dir: Annotated[str, doc("Directory of third-party volume plugins; relative to the file.")] = field(
        default_factory=_volume_plugin_dir
    )
    kernel_memcg_notification: Annotated[
        bool, doc("Receive kernel notifications of memory pressure, on cgroup v2 of memory stalls.")
    ] = False
    reserved_memory: Annotated[
        tuple[MemoryReservation, ...], doc("Memory reserved on each NUMA node, for the memory manager's policy static.")
    ] = ()
    memory_throttling_factor: Annotated[
        float | None, doc("Factor for memory.high, above 0 to 1; used with the gate MemoryQoS on cgroup v2.")
    ] = 0.9
    seccomp_default: Annotated[bool, doc("Containers without a profile get RuntimeDefault.")] = False
    local_storage_capacity_isolation: Annotated[
        bool, doc("Account and limit ephemeral storage, and evict pods that exceed it.")
    ] = True
    container_runtime_endpoint: Annotated[str, doc("Required. Socket of the runtime: unix:///path.")] = ""
    image_service_endpoint: Annotated[str, doc("Socket of the image service; empty is containerRuntimeEndpoint.")] = ""
    feature_gates: Annotated[
        dict[str, bool], doc("Feature gate → true or false; other gates have their defaults.")
    ] = {}
    content_type: Annotated[str, doc("Media type of requests to the API server: its protobuf type or JSON.")] = field(
        default_factory=_protobuf
    )
    logging: Annotated[LoggingConfiguration, doc("Log format, thresholds and flushing.")] = field(
        default_factory=LoggingConfiguration
    )
    tracing: Annotated[TracingConfiguration | None, doc("Trace export; needs the gate NodeAgentTracing.")] = None
    show_hidden_metrics_for_version: Annotated[
        str, doc("Previous minor version whose hidden metrics are exposed: <major>.<minor>.")
    ] = ""

    # Limits

    registry_pull_qps: Annotated[Int32, doc("Maximum number of pulls per second; 0 is unlimited.")] = 5
    registry_burst: Annotated[Int32, doc("Burst of pulls; used with registryPullQPS above 0.")] = 10
    event_record_qps: Annotated[Int32, doc("Maximum number of created events per second; 0 is unlimited.")] = 50
    event_burst: Annotated[Int32, doc("Burst of events; used with eventRecordQPS above 0.")] = 100
    platform_api_qps: Annotated[
        Int32, doc("Maximum number of requests per second to the API server; not negative.")
    ] = 50
    platform_api_burst: Annotated[Int32, doc("Burst of requests to the API server; not negative.")] = 100

    # Eviction

    eviction_hard: Annotated[
        dict[str, str],
        doc("Signal → quantity or percentage below which pods are evicted immediately; a map replaces the default."),
    ] = field(default_factory=_eviction_hard)
    merge_default_eviction_settings: Annotated[
        bool, doc("evictionHard is completed with the default thresholds instead of replacing them.", since="1.31")
    ] = False
    eviction_soft: Annotated[
        dict[str, str], doc("Signal → quantity or percentage below which pods are evicted after a grace period.")
    ] = {}
    eviction_soft_grace_period: Annotated[
        dict[str, str], doc("Signal → time for which its soft threshold must be met; required for every soft signal.")
    ] = {}
    eviction_minimum_reclaim: Annotated[
        dict[str, str], doc("Signal → minimum quantity or percentage that an eviction reclaims.")
    ] = {}
    eviction_pressure_transition_period: Annotated[
        Duration, doc("Time for which a pressure condition persists after it was last observed.")
    ] = seconds(300)
    eviction_max_pod_grace_period: Annotated[
        Int32,
        doc(
            "Grace period in seconds of pods evicted by a soft threshold: since 1.32 limited to that of the pod, in "
            "earlier releases instead of it; 0 selects that of the pod."
        ),
    ] = 0


class ExecEnvVar(ConfigStruct, frozen=True):
    row = "type.ExecEnvVar"

    name: Annotated[str, doc("Required.")] = ""
    value: Annotated[str, doc("Value of the variable.")] = ""


class ServiceAccountTokenAttributes(ConfigStruct, frozen=True):
    """Token of the pod's service account in the requests to a credential provider."""

    row = "credential"

    service_account_token_audience: Annotated[str, doc("Required. Audience of the token.", since="1.33")] = ""
    cache_type: Annotated[
        str,
        doc(
            "Required. Token or ServiceAccount: whether a response is cached for the token or for the service account.",
            since="1.33",
        ),
    ] = ""
    require_service_account: Annotated[
        bool | None,
        doc("Required. Whether the provider is skipped for pods without a service account.", since="1.33"),
    ] = None
    required_service_account_annotation_keys: Annotated[
        tuple[str, ...],
        doc("Annotations in the request; the provider is skipped for service accounts without one.", since="1.33"),
    ] = ()
    optional_service_account_annotation_keys: Annotated[
        tuple[str, ...], doc("Annotations in the request, if the service account has them.", since="1.33")
    ] = ()


class CredentialProvider(ConfigStruct, frozen=True):
    row = "credential"

    name: Annotated[str, doc("Required. File name of the executable in --image-credential-provider-bin-dir.")] = ""
    match_images: Annotated[
        tuple[str, ...], doc("Required. Image patterns: domain with globs by label, optional port and path.")
    ] = ()
    default_cache_duration: Annotated[
        Duration | None, doc("Required. Cache duration of responses without one; not negative.")
    ] = None
    api_version: Annotated[str, doc("Required. Version of the exec request and response.")] = ""
    args: Annotated[tuple[str, ...], doc("Arguments of the command.")] = ()
    env: Annotated[tuple[ExecEnvVar, ...], doc("Environment variables, in addition to those of the agent.")] = ()
    token_attributes: Annotated[
        ServiceAccountTokenAttributes | None,
        doc("Token of the pod's service account in requests; needs the apiVersion with v1.", since="1.33"),
    ] = None


class CredentialProviderConfig(ConfigStruct, frozen=True):
    """Executables that provide registry credentials; an earlier provider takes precedence over a later one."""

    row = "credential"

    providers: Annotated[tuple[CredentialProvider, ...], doc("Required, at least one.")] = ()


class ConfigMapNodeConfigSource(ConfigStruct, frozen=True):
    """Origin of a checkpointed configuration; the names are those of the core API."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    kubelet_config_key: str = ""


class NodeConfigSource(ConfigStruct, frozen=True):
    config_map: ConfigMapNodeConfigSource | None = None


class SerializedNodeConfigSource(ConfigStruct, frozen=True):
    """Tracks a checkpointed configuration; kept readable for tools that still store it."""

    row = "type.SerializedNodeConfigSource"

    source: Annotated[NodeConfigSource, doc("The serialized source.")] = field(default_factory=NodeConfigSource)
