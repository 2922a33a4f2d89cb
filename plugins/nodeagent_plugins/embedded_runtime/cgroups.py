"""Resource usage of a container from its cgroups."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.host import CGROUPS


class Usage(Struct, frozen=True):
    """Usage of a container."""

    cpu_nanoseconds: int = 0
    memory_bytes: int = 0
    working_set_bytes: int = 0
    rss_bytes: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    swap_bytes: int = 0
    processes: int = 0


def find_groups(path: str) -> dict[str, str]:
    """Return the directories of the cgroup at *path* by controller; version 2 has an empty name."""
    if (CGROUPS / "cgroup.controllers").exists():
        return {"": str(CGROUPS / path.lstrip("/"))}
    directories = ((controller.name, controller / path.lstrip("/")) for controller in CGROUPS.iterdir())
    return {name: str(directory) for name, directory in directories if directory.is_dir()}


def usage(groups: Mapping[str, str], pid: int) -> Usage:
    """Return the usage of the cgroups; without cgroups, that of the process *pid* only."""
    if "memory" in groups:
        return _usage_v1(groups)
    if groups.get(""):
        return _usage_v2(Path(groups[""]))
    return _usage_of_process(pid)


def memory_ran_out(groups: Mapping[str, str]) -> bool:
    """Return whether the kernel OOM-killed a process of the cgroup."""
    if "memory" in groups:
        return _pairs(Path(groups["memory"], "memory.oom_control")).get("oom_kill", 0) > 0
    return bool(groups.get("")) and _pairs(Path(groups[""], "memory.events")).get("oom_kill", 0) > 0


def _usage_v1(groups: Mapping[str, str]) -> Usage:
    memory = Path(groups["memory"])
    counts = _pairs(memory / "memory.stat")
    used = _number(memory / "memory.usage_in_bytes")
    return Usage(
        cpu_nanoseconds=_number(Path(groups.get("cpuacct", ""), "cpuacct.usage")),
        memory_bytes=used,
        working_set_bytes=max(0, used - counts.get("total_inactive_file", 0)),
        rss_bytes=counts.get("total_rss", 0),
        page_faults=counts.get("total_pgfault", 0),
        major_page_faults=counts.get("total_pgmajfault", 0),
        swap_bytes=counts.get("total_swap", 0),
        processes=_number(Path(groups.get("pids", ""), "pids.current")),
    )


def _usage_v2(group: Path) -> Usage:
    counts, used = _pairs(group / "memory.stat"), _number(group / "memory.current")
    return Usage(
        cpu_nanoseconds=_pairs(group / "cpu.stat").get("usage_usec", 0) * 1000,
        memory_bytes=used,
        working_set_bytes=max(0, used - counts.get("inactive_file", 0)),
        rss_bytes=counts.get("anon", 0),
        page_faults=counts.get("pgfault", 0),
        major_page_faults=counts.get("pgmajfault", 0),
        swap_bytes=_number(group / "memory.swap.current"),
        processes=_number(group / "pids.current"),
    )


def _usage_of_process(pid: int) -> Usage:
    import os

    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return Usage()
    ticks = sum(map(int, fields[11:15]))
    rss = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return Usage(
        cpu_nanoseconds=ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK"),
        memory_bytes=rss,
        working_set_bytes=rss,
        rss_bytes=rss,
        page_faults=int(fields[7]),
        major_page_faults=int(fields[9]),
        processes=1,
    )


def _number(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return 0


def _pairs(path: Path) -> dict[str, int]:
    found = {}
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if value.isdecimal():
                found[name] = int(value)
    return found
