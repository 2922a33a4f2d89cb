"""Counters of cgroups and processes: throttling, disk I/O, tasks, interfaces, open files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nodeagent.base.structs import MutableStruct, Struct
from nodeagent_plugins.stats.cgroups import UNLIMITED, CgroupReader
from nodeagent_plugins.stats.machine import Machine, field, number, read

_MANY_FILES = 1000
"""Maximum number of open files per process for counting sockets."""
_NETWORK = {
    "receive_bytes": 0,
    "receive_packets": 1,
    "receive_errors": 2,
    "receive_packets_dropped": 3,
    "transmit_bytes": 8,
    "transmit_packets": 9,
    "transmit_errors": 10,
    "transmit_packets_dropped": 11,
}
"""Columns of ``/proc/<pid>/net/dev`` by metric name."""


class Throttling(Struct, frozen=True):
    """Enforcement periods of a CPU quota, and the throttled time."""

    periods: int
    throttled: int
    nanoseconds: int


class IoCounts(MutableStruct):
    """I/O of a cgroup on one device."""

    read_bytes: int = 0
    written_bytes: int = 0
    reads: int = 0
    writes: int = 0


class CpuLimits(Struct, frozen=True):
    """Limits in microseconds and v1 shares; ``None`` if unlimited."""

    quota: int | None = None
    period: int | None = None
    shares: int | None = None


class MemoryLimits(Struct, frozen=True):
    """Limits in bytes, 0 if unlimited, and how they were approached."""

    highest_bytes: int | None = None
    """Maximum usage since the cgroup was created."""
    failures: int = 0
    """Number of times that the usage reached the limit."""
    reservation: int = 0
    swap: int = 0
    """Limit of swap; in version 1, of memory and swap."""


def cpu_times(cgroups: CgroupReader, name: str) -> tuple[int, int] | None:
    """Return the CPU time in user and kernel mode in nanoseconds."""
    text = cgroups.file("cpuacct", name, "cpu.stat" if cgroups.unified else "cpuacct.stat")
    if text is None:
        return None
    text = b"\n" + text
    if cgroups.unified:
        return field(text, b"\nuser_usec ") * 1000, field(text, b"\nsystem_usec ") * 1000
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return field(text, b"\nuser ") * tick, field(text, b"\nsystem ") * tick


def memory_limits(cgroups: CgroupReader, name: str) -> MemoryLimits:
    """Return the memory limits of a cgroup."""
    if cgroups.unified:
        names = "memory.peak", "memory.min", "memory.swap.max"
        highest, reservation, swap = (number(cgroups.file("", name, file)) for file in names)
        return MemoryLimits(highest, 0, reservation or 0, swap or 0)
    names = "memory.max_usage_in_bytes", "memory.soft_limit_in_bytes", "memory.memsw.limit_in_bytes"
    highest, reservation, swap = (number(cgroups.file("memory", name, file)) for file in names)
    failures = number(cgroups.file("memory", name, "memory.failcnt")) or 0
    return MemoryLimits(highest, failures, _limit(reservation), _limit(swap))


def _limit(value: int | None) -> int:
    return value if value is not None and value < UNLIMITED else 0


def throttling(cgroups: CgroupReader, name: str) -> Throttling | None:
    """Return the enforcement statistics of the CPU quota."""
    text = cgroups.file("cpu", name, "cpu.stat")
    if text is None:
        return None
    text = b"\n" + text
    held = field(text, b"\nthrottled_usec ") * 1000 if cgroups.unified else field(text, b"\nthrottled_time ")
    return Throttling(field(text, b"\nnr_periods "), field(text, b"\nnr_throttled "), held)


def limits(cgroups: CgroupReader, name: str) -> CpuLimits:
    """Return the CPU limits of a cgroup."""
    if cgroups.unified:
        quota, _, period = (cgroups.file("", name, "cpu.max") or b"").decode().partition(" ")
        weight = number(cgroups.file("", name, "cpu.weight"))
        shares = 2 + (weight - 1) * 262142 // 9999 if weight else None
        return CpuLimits(int(quota) if quota.isdecimal() else None, int(period) if period.strip() else None, shares)
    limit = number(cgroups.file("cpu", name, "cpu.cfs_quota_us"))
    return CpuLimits(
        limit if limit is not None and limit > 0 else None,
        number(cgroups.file("cpu", name, "cpu.cfs_period_us")),
        number(cgroups.file("cpu", name, "cpu.shares")),
    )


def oom_kills(cgroups: CgroupReader, name: str) -> int | None:
    """Return the number of OOM kills in the cgroup."""
    text = cgroups.file("memory", name, "memory.events" if cgroups.unified else "memory.oom_control")
    return None if text is None else field(b"\n" + text, b"\noom_kill ")


def io_counts(cgroups: CgroupReader, name: str) -> dict[str, IoCounts]:
    """Return the I/O counts by device number, such as ``8:0``."""
    found: dict[str, IoCounts] = {}
    if cgroups.unified:
        for line in (cgroups.file("", name, "io.stat") or b"").decode().splitlines():
            device, *pairs = line.split()
            counts = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            found[device] = IoCounts(*(int(counts.get(key, 0)) for key in ("rbytes", "wbytes", "rios", "wios")))
        return found
    for file, names in (
        ("blkio.throttle.io_service_bytes_recursive", ("read_bytes", "written_bytes")),
        ("blkio.throttle.io_serviced_recursive", ("reads", "writes")),
    ):
        for line in (cgroups.file("blkio", name, file) or b"").decode().splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] in ("Read", "Write"):
                counted = found.setdefault(parts[0], IoCounts())
                setattr(counted, names[parts[1] == "Write"], int(parts[2]))
    return found


def task_counts(cgroups: CgroupReader, name: str) -> tuple[int | None, int]:
    """Return the number of tasks and the limit; 0 is unlimited."""
    return number(cgroups.file("pids", name, "pids.current")), number(cgroups.file("pids", name, "pids.max")) or 0


def network_counts(machine: Machine, pid: int) -> dict[str, dict[str, int]]:
    """Return the interface counters of a process' network namespace, without loopback."""
    found = {}
    for line in (read(machine.root / f"proc/{pid}/net/dev") or b"").decode().splitlines()[2:] if pid else ():
        name, _, rest = line.partition(":")
        counters = rest.split()
        if len(counters) > 11 and machine.shows(name.strip()):
            found[name.strip()] = {metric: int(counters[column]) for metric, column in _NETWORK.items()}
    return found


def descriptors(machine: Machine, pids: Iterable[int]) -> tuple[int, int]:
    """Return the number of open files of the processes, and how many of these are sockets."""
    files = sockets = 0
    for pid in pids:
        path = f"{machine.root}/proc/{pid}/fd"
        try:
            names = os.listdir(path)  # noqa: PTH208  a hundred times a scrape
        except OSError:
            continue
        files += len(names)
        for name in names[:_MANY_FILES]:
            try:
                sockets += os.readlink(f"{path}/{name}").startswith("socket:")  # noqa: PTH115
            except OSError:
                continue
    return files, sockets
