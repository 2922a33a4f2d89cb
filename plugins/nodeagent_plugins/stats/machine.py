"""Statistics of the host: memory, CPUs, processes, network interfaces and file systems."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.stats import FilesystemStats, InterfaceStats

_KIBI = 1024
_PIECE = 4096
"""Sufficient for most kernel files; a larger buffer would be mapped and unmapped for each read."""
_NO_INTERFACES_OF_THE_NODE = ("lo", "veth", "docker", "nerdctl")
"""Name prefixes of interfaces without external traffic."""


class Machine(Struct, frozen=True):
    """Reads the files below *root*; every method blocks for microseconds."""

    root: Path = Path("/")

    def boot_time(self) -> int:
        """Return the boot time in epoch nanoseconds; 0 if unknown."""
        return field(read(self.root / "proc/stat") or b"", b"\nbtime ") * 1_000_000_000

    def memory_capacity(self) -> int:
        """Return the total memory in bytes."""
        return field(b"\n" + (read(self.root / "proc/meminfo") or b""), b"\nMemTotal:") * _KIBI

    def memory_used(self) -> int:
        """Return the used memory in bytes."""
        text = b"\n" + (read(self.root / "proc/meminfo") or b"")
        return (field(text, b"\nMemTotal:") - field(text, b"\nMemFree:")) * _KIBI

    def swap(self) -> tuple[int, int]:
        """Return total and free swap in bytes."""
        text = read(self.root / "proc/meminfo") or b""
        return field(text, b"\nSwapTotal:") * _KIBI, field(text, b"\nSwapFree:") * _KIBI

    def cpu_nanoseconds(self) -> int | None:
        """Return the CPU time of all CPUs without steal time."""
        line = (read(self.root / "proc/stat") or b"").split(b"\n", 1)[0].split()
        if len(line) < 8 or line[0] != b"cpu":
            return None
        user, nice, system, _idle, _iowait, irq, softirq = (int(part) for part in line[1:8])
        return (user + nice + system + irq + softirq) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))

    def max_pids(self) -> int | None:
        """Return the maximum number of tasks: the lower of the kernel's two limits."""
        limits = [number(read(self.root / "proc/sys/kernel" / name)) for name in ("pid_max", "threads-max")]
        return min((limit for limit in limits if limit is not None), default=None)

    def current_pids(self) -> int | None:
        """Return the number of tasks."""
        parts = (read(self.root / "proc/loadavg") or b"").split()
        return int(parts[3].split(b"/")[1]) if len(parts) > 3 else None

    def identity(self) -> tuple[str, str, str]:
        """Return boot ID, machine ID and system UUID; empty if unknown."""  # wording: ok
        files = ("proc/sys/kernel/random/boot_id", "etc/machine-id", "sys/class/dmi/id/product_uuid")
        boot, machine, system = ((read(self.root / file) or b"").decode().strip() for file in files)
        return boot, machine, system

    def shows(self, interface: str) -> bool:
        """Return whether an interface has external traffic."""
        return not interface.startswith(_NO_INTERFACES_OF_THE_NODE)

    def interfaces(self, pid: int | str = 1) -> list[InterfaceStats]:
        """Return the interfaces in the network namespace of a process, ``eth0`` first."""
        found = parse_interfaces(read(self.root / f"proc/{pid}/net/dev") or b"")
        return sorted(found, key=lambda interface: interface.name != "eth0")


def filesystem(path: Path | str, now: int) -> FilesystemStats | None:
    """Return size and usage of the file system of *path*, or of the nearest existing parent directory.

    :param now: the time of the measurement, in epoch nanoseconds.
    """
    path = Path(path)
    for directory in (path, *path.parents):
        with contextlib.suppress(OSError):
            status = os.statvfs(directory)
            return FilesystemStats(
                now,
                available_bytes=status.f_bavail * status.f_frsize,
                capacity_bytes=status.f_blocks * status.f_frsize,
                used_bytes=(status.f_blocks - status.f_bfree) * status.f_frsize,
                inodes_free=status.f_ffree,
                inodes=status.f_files,
                inodes_used=status.f_files - status.f_ffree,
            )
    return None


def parse_interfaces(text: bytes) -> list[InterfaceStats]:
    """Parse ``/proc/<pid>/net/dev``, without loopback and the host's ends of virtual links."""
    found = []
    for line in text.split(b"\n")[2:]:
        name, _, rest = line.partition(b":")
        counters = rest.split()
        if len(counters) < 12:
            continue
        shown = name.strip().decode()
        if not shown.startswith(_NO_INTERFACES_OF_THE_NODE):
            found.append(InterfaceStats(shown, int(counters[0]), int(counters[2]), int(counters[8]), int(counters[10])))
    return found


def read(path: Path | str) -> bytes | None:
    """Return the content of a kernel file, or ``None`` if it is not readable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, _PIECE)
        while piece := os.read(descriptor, _PIECE):  # The kernel returns long files in several parts.
            text += piece
        return text
    except OSError:  # The process or cgroup was removed.
        return None
    finally:
        os.close(descriptor)


def field(text: bytes, key: bytes) -> int:
    """Return the number after *key*, 0 if it is missing."""
    start = text.find(key)
    if start < 0:
        return 0
    return int(text[start + len(key) : start + len(key) + 32].split()[0])


def number(text: bytes | None) -> int | None:
    """Parse a number; ``None`` for ``max`` and an empty text."""
    try:
        return int(text) if text else None
    except ValueError:
        return None


def nanoseconds(time: datetime) -> int:
    """Return a time in epoch nanoseconds."""
    return int(time.timestamp() * 1_000_000) * 1000
