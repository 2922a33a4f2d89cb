"""Rules of pod sources, limits on pods, registration, node status and shutdown."""

from __future__ import annotations

import re
from ipaddress import ip_network
from urllib.parse import urlsplit

from nodeagent.base.duration import Duration
from nodeagent.base.names import label_value_problems, qualified_name_problems
from nodeagent.base.release import Release
from nodeagent.config.rules.check import Check

_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+", re.ASCII)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_RUN_ONCE_REJECTED = Release(1, 35)
_SECOND = Duration.of(seconds=1)


def check_pods(check: Check) -> None:
    """Check the fields of part *Pods, sync and registration* and the related limits."""
    config = check.config
    _check_sources(check)
    check.positive(
        "syncFrequency",
        "fileCheckFrequency",
        "httpCheckFrequency",
        "nodeStatusUpdateFrequency",
        "nodeStatusReportFrequency",
    )
    check.at_least(0, "maxPods", "podsPerCore", "eventRecordQPS", "eventBurst", "platformAPIQPS", "platformAPIBurst")
    if config.pods_per_core > config.max_pods >= 0:
        check.fail("podsPerCore", f"must not exceed maxPods ({config.max_pods})")
    if config.node_lease_duration_seconds <= 0:
        check.fail("nodeLeaseDurationSeconds", "must be greater than 0")
    check.at_least(-1, "nodeStatusMaxImages")
    if not _is_pod_cidr(config.pod_cidr):
        check.fail("podCIDR", "must be a CIDR such as 10.88.0.0/16, or one per IP family joined by a comma")
    _check_taints(check)
    _check_shutdown(check)
    _check_restarts(check)
    if config.run_once and check.release.release >= _RUN_ONCE_REJECTED:
        check.warnings.append(f"runOnce is not part of releases since {_RUN_ONCE_REJECTED}")


def _check_restarts(check: Check) -> None:
    path, longest = "crashLoopBackOff.maxContainerRestartPeriod", check.config.crash_loop_back_off
    period = longest.max_container_restart_period
    if period is None:
        return
    check.needs_gate(path, "NodeAgentCrashLoopBackOffMax")
    if not _SECOND <= period <= Duration.of(seconds=300):
        check.fail(path, "must be between 1s and 300s")


def _check_sources(check: Check) -> None:
    config = check.config
    if config.static_pod_url:
        try:
            parts = urlsplit(config.static_pod_url)
            fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            fine = False
        if not fine:
            check.report("staticPodURL", None, "must be an http or https URL")
    elif config.static_pod_url_header:
        check.warnings.append("staticPodURLHeader has no effect without staticPodURL")
    for name, values in config.static_pod_url_header.items():
        path = f"staticPodURLHeader[{name}]" if "." in name else f"staticPodURLHeader.{name}"
        if not _TOKEN.fullmatch(name):
            check.report(path, None, "must have the name of an HTTP header")
        if any(set("\r\n\0") & set(value) for value in values):
            check.report(path, None, "must have values without line ends")


def _check_taints(check: Check) -> None:
    taints = check.config.register_with_taints
    if taints and not check.config.register_node:
        check.warnings.append("registerWithTaints has no effect without registerNode")
    seen = set()
    for index, taint in enumerate(taints):
        path = f"registerWithTaints[{index}]"
        if qualified_name_problems(taint.key):
            check.report(f"{path}.key", taint.key, "must be a qualified name such as example.com/gpu")
        if label_value_problems(taint.value):
            check.report(f"{path}.value", taint.value, "must be a label value")
        if taint.effect not in _EFFECTS:
            check.report(f"{path}.effect", taint.effect, f"must be one of {', '.join(_EFFECTS)}")
        if taint.time_added is not None:
            check.report(f"{path}.timeAdded", taint.time_added, "must be absent")
        if (taint.key, taint.effect) in seen:
            check.report(path, taint.key, f"repeats the taint with effect {taint.effect}")
        seen.add((taint.key, taint.effect))


def _check_shutdown(check: Check) -> None:
    config = check.config
    total, critical = config.shutdown_grace_period, config.shutdown_grace_period_critical_pods
    for path, length in (("shutdownGracePeriod", total), ("shutdownGracePeriodCriticalPods", critical)):
        if length and length < _SECOND:
            check.fail(path, "must be 0 or at least 1s")
    if critical and critical >= total:
        check.fail("shutdownGracePeriodCriticalPods", f"must be smaller than shutdownGracePeriod ({total})")
    if total or critical:
        check.needs_gate("shutdownGracePeriod" if total else "shutdownGracePeriodCriticalPods", "GracefulNodeShutdown")
    entries = config.shutdown_grace_period_by_pod_priority
    if not entries:
        return
    path = "shutdownGracePeriodByPodPriority"
    if total or critical:
        check.fail(path, "must be empty when shutdownGracePeriod or shutdownGracePeriodCriticalPods is set")
    if check.needs_gate(path, "GracefulNodeShutdown"):
        check.needs_gate(path, "GracefulNodeShutdownBasedOnPodPriority")
    priorities = [entry.priority for entry in entries]
    for index, entry in enumerate(entries):
        if entry.shutdown_grace_period_seconds < 0:
            value = entry.shutdown_grace_period_seconds
            check.report(f"{path}[{index}].shutdownGracePeriodSeconds", value, "must not be negative")
        if entry.priority in priorities[:index]:
            check.report(f"{path}[{index}].priority", entry.priority, "is already used by an earlier entry")


def _is_pod_cidr(text: str) -> bool:
    if not text:
        return True
    try:
        networks = [ip_network(part.strip(), strict=False) for part in text.split(",")]
    except ValueError:
        return False
    return "/" in text and len(networks) <= 2 and len({network.version for network in networks}) == len(networks)
