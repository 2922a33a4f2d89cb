"""Cgroups of pods by QoS class.

With the driver ``cgroupfs`` the cgroups are made here; with ``systemd`` the runtime is told the names of slices and has
systemd make them. Without ``cgroupsPerQOS`` no cgroup is touched and pods live where the runtime puts them.
spec: config.cgroupsPerQOS, config.cgroupDriver, config.cgroupRoot, config.cpuCFSQuota, config.cpuCFSQuotaPeriod
"""

from __future__ import annotations

import os
from pathlib import Path

from nodeagent_plugins.cgroups.hierarchy import CgroupFiles, find_hierarchy
from nodeagent_plugins.cgroups.manager import FileCgroups, PlainCgroups, SliceCgroups
from nodeagent_plugins.cgroups.names import Driver, parse_name
from nodeagent_plugins.cgroups.resources import Policy

from nodeagent import hookimpl
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ConfigError, Problem

_MOUNTINFO = Path("/proc/self/mountinfo")
_HUGEPAGES = Path("/sys/kernel/mm/hugepages")


@hookimpl
def nodeagent_provide_cgroups(context: AgentContext) -> CgroupManager | None:
    config = context.config
    policy = Policy(
        quota=config.cpu_cfs_quota,
        period_us=config.cpu_cfs_quota_period.nanoseconds // 1000,
        memory_capacity_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        page_sizes=_page_sizes(_HUGEPAGES),
    )
    driver, root = Driver(config.cgroup_driver), parse_name(config.cgroup_root)
    if not config.cgroups_per_qos:
        return PlainCgroups(policy, driver, root)
    if driver is Driver.SYSTEMD:
        return SliceCgroups(policy, root)
    hierarchy = find_hierarchy(_MOUNTINFO.read_text())
    if hierarchy is None:
        rule = "needs a mounted cgroup file system; set it to false and enforceNodeAllocatable to [] to do without"
        raise ConfigError([Problem("configuration", "cgroupsPerQOS", True, rule)])
    files = CgroupFiles(hierarchy, str(context.root_dir))
    return FileCgroups(policy, root, files, pids_limit=config.pod_pids_limit)


def _page_sizes(directory: Path) -> tuple[int, ...]:
    try:
        names = [entry.name for entry in directory.iterdir()]
    except OSError:
        return ()
    return tuple(sorted(int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024 for name in names))
