"""Counters of the block devices with mounted file systems, from ``/proc/diskstats``."""

from __future__ import annotations

from nodeagent.base.structs import Struct
from nodeagent_plugins.stats.machine import Machine, filesystem, read

_COLUMNS = 14
_MILLI = 1000


class DeviceCounts(Struct, frozen=True):
    """I/O of a device; times in seconds."""

    reads: int
    reads_merged: int
    sectors_read: int
    read_seconds: float
    writes: int
    writes_merged: int
    sectors_written: int
    write_seconds: float
    in_progress: int
    io_seconds: float
    weighted_seconds: float


class MountedDevice(Struct, frozen=True):
    """A device with the size and usage of its file system in bytes and inodes."""

    path: str
    limit_bytes: int
    usage_bytes: int
    inodes_total: int
    inodes_free: int
    counts: DeviceCounts | None


def mounted_devices(machine: Machine, now: int) -> list[MountedDevice]:
    """Return the devices in the order of their first mount.

    :param now: the time of the measurement, in epoch nanoseconds.
    """
    counts = _counts(machine)
    found: dict[str, MountedDevice] = {}
    for line in (read(machine.root / "proc/self/mountinfo") or b"").decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, source = before.split(), after.split()
        if len(fields) < 5 or len(source) < 2 or not source[1].startswith("/dev/") or source[1] in found:
            continue
        stats = filesystem(machine.root / fields[4].replace("\\040", " ").lstrip("/"), now)
        if stats is None:
            continue
        found[source[1]] = MountedDevice(
            source[1],
            stats.capacity_bytes or 0,
            stats.used_bytes or 0,
            stats.inodes or 0,
            stats.inodes_free or 0,
            counts.get(fields[2]),
        )
    return list(found.values())


def open_file_limit(machine: Machine, pid: int) -> int | None:
    """Return the soft limit of open files of a process, -1 if unlimited; ``None`` if it does not exist."""
    text = read(machine.root / f"proc/{pid}/limits") or b""
    line = next((line for line in text.splitlines() if line.startswith(b"Max open files")), None)
    if line is None:
        return None
    soft = line.split()[3]
    return int(soft) if soft.isdigit() else -1


def _counts(machine: Machine) -> dict[str, DeviceCounts]:
    """Return the counters by device number."""
    found = {}
    for line in (read(machine.root / "proc/diskstats") or b"").decode().splitlines():
        parts = line.split()
        if len(parts) < _COLUMNS:
            continue
        n = [int(part) for part in parts[3:_COLUMNS]]
        found[f"{parts[0]}:{parts[1]}"] = DeviceCounts(
            n[0], n[1], n[2], n[3] / _MILLI, n[4], n[5], n[6], n[7] / _MILLI, n[8], n[9] / _MILLI, n[10] / _MILLI
        )
    return found
