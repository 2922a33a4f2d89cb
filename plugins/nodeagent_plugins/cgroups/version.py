"""Check of the host's cgroup version against the configuration and the selected release."""

from __future__ import annotations

import logging

from nodeagent.base.metrics import Gauge
from nodeagent.base.release import CGROUP_V1_DEPRECATED, CGROUP_V1_REJECTED, ReleaseOrigin
from nodeagent.contracts.context import RecorderContext
from nodeagent.contracts.events import EventType
from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)

CGROUP_VERSION = Gauge("cgroup_version", "Version of the host's cgroups.")
LOSING_SUPPORT = Gauge(
    "cri_losing_support",
    "Kubernetes version that no longer supports the runtime, because it does not report its cgroup driver.",
    ("version",),
)
LOSING_SUPPORT_VERSION = "1.37.0"
_REASON = "CgroupV1"
_WARNING = (
    "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to "
    "cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1"
)


def check_cgroup_version(context: RecorderContext, *, unified: bool) -> None:
    """Check settings that depend on the cgroup version; warn about version 1.

    A release that rejects version 1 by default does so only if ``--compatibility-version`` states it: an upgrade of
    the API server must not keep the agent from restarting.

    :param unified: whether the host uses cgroup v2.
    :raises ConfigError: the configuration, or the stated release, does not permit version 1.
    """
    config, selected = context.config, context.release
    CGROUP_VERSION.set(2 if unified else 1)
    if unified:
        return
    if config.single_process_oom_kill is False:
        rule = "must not be explicitly set to false when using cgroup v1"
        raise ConfigError([Problem("configuration", "singleProcessOOMKill", False, rule)])
    if config.fail_cgroup_v1:
        raise ConfigError([Problem("configuration", "failCgroupV1", True, "does not permit this host, with cgroup v1")])
    stated = selected.origin is ReleaseOrigin.FLAG
    if config.fail_cgroup_v1 is None and stated and selected.release >= CGROUP_V1_REJECTED:
        rule = (
            f"is true by default in release {selected.release} and does not permit this host, with cgroup v1; set it "
            "to false to start anyway"
        )
        raise ConfigError([Problem("configuration", "failCgroupV1", None, rule)])
    if selected.release >= CGROUP_V1_DEPRECATED:
        _log.warning("Detected cgroup v1, migrate to cgroup v2", extra={"release": str(selected.release)})
        context.recorder.record(context.node_reference(), EventType.WARNING, _REASON, _WARNING)
