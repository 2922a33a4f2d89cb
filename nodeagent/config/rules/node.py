"""Rules of cgroups, the runtime, images, kernel settings, DNS, logging and tracing."""

from __future__ import annotations

import os.path
import re

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.logging import LoggingSettings, StreamOptions, VModule, check_settings, format_gates
from nodeagent.base.names import is_ip
from nodeagent.base.quantity import Quantity
from nodeagent.base.release import SWAP_REVISED
from nodeagent.config.rules.check import Check
from nodeagent.config.rules.sysctls import check_pattern
from nodeagent.contracts.configuration import LoggingConfiguration
from nodeagent.model.image_allowlist import pattern_problem

_ID_RANGE = 65536
_MAX_IDS = (1 << 32) - 1
_DEFAULT_PERIOD = Duration.of(milliseconds=100)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d+$)")


def logging_settings(logging: LoggingConfiguration) -> LoggingSettings:
    """Return the settings of the logging library for the field ``logging``."""
    options, text = logging.options.json, logging.options.text
    return LoggingSettings(
        format=logging.format,
        flush_seconds=logging.flush_frequency.duration.seconds,
        verbosity=logging.verbosity,
        vmodule=tuple(VModule(item.file_pattern, item.verbosity) for item in logging.vmodule),
        json=StreamOptions(options.split_stream, options.info_buffer_size.value()),
        text=StreamOptions(text.split_stream, text.info_buffer_size.value()),
    )


_NAMED_CGROUPS = ("nodeagentCgroups", "systemCgroups", "systemReservedCgroup", "platformReservedCgroup")


def check_node(check: Check) -> None:
    """Check the fields that no other module covers."""
    _check_cgroups(check)
    _check_runtime(check)
    _check_images(check)
    _check_kernel(check)
    config = check.config
    check.one_of("configMapAndSecretChangeDetectionStrategy", ("Get", "Cache", "Watch"))
    for index, server in enumerate(config.cluster_dns):
        if not is_ip(server) or "%" in server:
            check.report(f"clusterDNS[{index}]", server, "must be an IP address")
    protobuf = identity.current().protobuf_media_type
    check.one_of("contentType", (protobuf, "application/json"))
    for problem in check_settings(logging_settings(config.logging), format_gates(), check.gates.enabled):
        value = problem.value if isinstance(problem.value, str | int | float | bool) else None
        check.report(f"logging.{problem.path}", value, problem.rule)
    _check_tracing(check)


def _check_cgroups(check: Check) -> None:
    config = check.config
    for path in (*_NAMED_CGROUPS, "cgroupRoot"):
        name = check.value(path)
        if name and (not name.startswith("/") or {".", ".."} & set(name.split("/"))):
            check.fail(path, "must be an absolute cgroup name")
        elif name and not name.strip("/") and path != "cgroupRoot":
            check.fail(path, "must not be the root cgroup")
    if config.system_cgroups and not config.cgroup_root:
        check.fail("systemCgroups", "needs cgroupRoot")
    check.one_of("cgroupDriver", ("cgroupfs", "systemd"))
    if not config.cgroups_per_qos:
        if config.qos_reserved:
            check.fail("qosReserved", "needs cgroupsPerQOS")
        if config.pod_pids_limit > 0:
            check.fail("podPidsLimit", "needs cgroupsPerQOS")
    _check_swap(check)
    factor = config.memory_throttling_factor
    if factor is not None and not 0 < factor <= 1:
        check.fail("memoryThrottlingFactor", "must be greater than 0 and at most 1")
    period = config.cpu_cfs_quota_period
    if check.gates.enabled("CustomCPUCFSQuotaPeriod"):
        if not Duration.of(milliseconds=1) <= period <= Duration.of(seconds=1):
            check.fail("cpuCFSQuotaPeriod", "must be between 1ms and 1s")
    elif period != _DEFAULT_PERIOD:
        check.needs_gate("cpuCFSQuotaPeriod", "CustomCPUCFSQuotaPeriod")


def _check_swap(check: Check) -> None:
    path, behavior = "memorySwap.swapBehavior", check.config.memory_swap.swap_behavior
    check.one_of(path, ("", "NoSwap", "LimitedSwap", "UnlimitedSwap"))
    if behavior not in ("LimitedSwap", "UnlimitedSwap"):
        return
    check.needs_gate(path, "NodeSwap")
    if behavior == "UnlimitedSwap" and check.release.release >= SWAP_REVISED:
        check.warnings.append(f"{path}: UnlimitedSwap is not part of releases since {SWAP_REVISED}; use LimitedSwap")


def _check_logs(check: Check) -> None:
    check.at_least(2, "containerLogMaxFiles")
    check.at_least(1, "containerLogMaxWorkers")
    if check.config.container_log_monitor_interval < Duration.of(seconds=3):
        check.fail("containerLogMonitorInterval", "must be at least 3s")
    directory = check.config.pod_logs_dir
    if not directory.isascii() or not directory.startswith("/") or os.path.normpath(directory) != directory:
        check.fail("podLogsDir", "must be an absolute path in canonical form, of ASCII characters")


def _check_runtime(check: Check) -> None:
    config = check.config
    if not config.container_runtime_endpoint:
        check.fail("containerRuntimeEndpoint", "must be set, such as unix:///run/containerd/containerd.sock")
    for path in ("containerRuntimeEndpoint", "imageServiceEndpoint"):
        endpoint: str = check.value(path)
        scheme, colon, rest = endpoint.partition("://")
        if endpoint.startswith("/"):
            check.warnings.append(f"{path}: {endpoint} has no scheme, which is deprecated; use unix://{endpoint}")
        elif endpoint and not (colon and scheme == "unix" and rest.startswith("/")):
            check.fail(path, "must be a Unix socket such as unix:///run/containerd/containerd.sock")
    check.positive("runtimeRequestTimeout")
    check.one_of("hairpinMode", ("promiscuous-bridge", "hairpin-veth", "none"))
    _check_logs(check)
    try:
        Quantity.parse(config.container_log_max_size)
    except ValueError as error:
        check.fail("containerLogMaxSize", str(error))


def _check_images(check: Check) -> None:
    config = check.config
    check.at_least(0, "registryPullQPS", "registryBurst")
    check.between(0, 100, "imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
    if config.image_gc_low_threshold_percent >= config.image_gc_high_threshold_percent:
        high = config.image_gc_high_threshold_percent
        check.fail("imageGCLowThresholdPercent", f"must be lower than imageGCHighThresholdPercent ({high})")
    check.not_negative("imageMinimumGCAge", "imageMaximumGCAge")
    age = config.image_maximum_gc_age
    if age > Duration() and age <= config.image_minimum_gc_age:
        check.fail("imageMaximumGCAge", f"must be greater than imageMinimumGCAge ({config.image_minimum_gc_age})")
    if age:
        check.needs_gate("imageMaximumGCAge", "ImageMaximumGCAge")
    _check_pull_verification(check)
    if config.max_parallel_image_pulls is not None:
        if config.max_parallel_image_pulls < 1:
            check.fail("maxParallelImagePulls", "must be at least 1")
        if config.serialize_image_pulls:
            check.fail("maxParallelImagePulls", "cannot be set while serializeImagePulls is true")


def _check_pull_verification(check: Check) -> None:
    name, listed = "imagePullCredentialsVerificationPolicy", "NeverVerifyAllowlistedImages"
    policies = ("", "NeverVerify", "NeverVerifyPreloadedImages", listed, "AlwaysVerify")
    check.one_of(name, policies)
    policy, patterns = check.value(name), check.config.preloaded_images_verification_allowlist
    if policy in policies[2:]:  # Without the feature gate, no image is verified.
        check.needs_gate(name, "NodeAgentEnsureSecretPulledImages")
    if patterns and policy != listed:
        check.fail("preloadedImagesVerificationAllowlist", f"must be empty unless {name} is {listed}")
    for index, pattern in enumerate(patterns):
        if problem := pattern_problem(pattern):
            check.report(f"preloadedImagesVerificationAllowlist[{index}]", pattern, problem)


def _check_kernel(check: Check) -> None:
    check.one_of("memoryReservationPolicy", ("None", "TieredReservation"))
    if check.config.memory_reservation_policy == "TieredReservation":
        check.needs_gate("memoryReservationPolicy", "MemoryQoS")
    ids = check.config.user_namespaces.ids_per_pod
    if ids is not None and (ids % _ID_RANGE or not _ID_RANGE <= ids <= _MAX_IDS):
        check.fail("userNamespaces.idsPerPod", f"must be a multiple of {_ID_RANGE}, from {_ID_RANGE} to {_MAX_IDS}")
    check.at_least(0, "maxOpenFiles")
    check.between(-1000, 1000, "oomScoreAdj")
    check.between(0, 31, "iptablesMasqueradeBit", "iptablesDropBit")
    for index, text in enumerate(check.config.allowed_unsafe_sysctls):
        if rule := check_pattern(text):
            check.report(f"allowedUnsafeSysctls[{index}]", text, rule)


def _check_tracing(check: Check) -> None:
    tracing = check.config.tracing
    if tracing is None:
        return
    check.needs_gate("tracing", "NodeAgentTracing")
    rate = tracing.sampling_rate_per_million
    if rate is not None and not 0 <= rate <= 1_000_000:
        check.fail("tracing.samplingRatePerMillion", "must be between 0 and 1000000")
    scheme = _SCHEME.match(tracing.endpoint or "")
    if scheme and scheme[1].lower() not in ("dns", "unix", "unix-abstract"):
        check.fail("tracing.endpoint", "must have no scheme, or one of dns, unix, unix-abstract")
