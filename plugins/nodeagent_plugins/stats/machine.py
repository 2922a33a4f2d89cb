"""What the kernel tells of the whole machine: memory, processors, processes, interfaces, file systems."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from nodeagent.contracts.stats import FilesystemStats, InterfaceStats

_KIBI = 1024
_PIECE = 4096
"""Enough for most files of the kernel; a large buffer is mapped and given back for each reading."""
_NO_INTERFACES_OF_THE_NODE = ("lo", "veth", "docker", "nerdctl")
"""Beginnings of the names of interfaces that carry nothing from or to the outside."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Reads below *root*; everything here blocks for microseconds."""

    root: Path = Path("/")

    def boot_time(self) -> int:
        """Return when the machine was started, in epoch nanoseconds; 0 when it does not tell."""
        return field(read(self.root / "proc/stat") or b"", b"\nbtime ") * 1_000_000_000

    def memory_capacity(self) -> int:
        """Return the size of the memory in bytes."""
        return field(b"\n" + (read(self.root / "proc/meminfo") or b""), b"\nMemTotal:") * _KIBI

    def memory_used(self) -> int:
        """Return the bytes of memory that are not free."""
        text = b"\n" + (read(self.root / "proc/meminfo") or b"")
        return (field(text, b"\nMemTotal:") - field(text, b"\nMemFree:")) * _KIBI

    def swap(self) -> tuple[int, int]:
        """Return the bytes of swap in all, and those that are free."""
        text = read(self.root / "proc/meminfo") or b""
        return field(text, b"\nSwapTotal:") * _KIBI, field(text, b"\nSwapFree:") * _KIBI

    def cpu_nanoseconds(self) -> int | None:
        """Return the time for which processors have worked, steal left out."""
        line = (read(self.root / "proc/stat") or b"").split(b"\n", 1)[0].split()
        if len(line) < 8 or line[0] != b"cpu":
            return None
        user, nice, system, _idle, _iowait, irq, softirq = (int(part) for part in line[1:8])
        return (user + nice + system + irq + softirq) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))

    def max_pids(self) -> int | None:
        """Return how many tasks there may be: the lower of the kernel's two limits."""
        limits = [number(read(self.root / "proc/sys/kernel" / name)) for name in ("pid_max", "threads-max")]
        return min((limit for limit in limits if limit is not None), default=None)

    def current_pids(self) -> int | None:
        """Return how many tasks there are."""
        parts = (read(self.root / "proc/loadavg") or b"").split()
        return int(parts[3].split(b"/")[1]) if len(parts) > 3 else None

    def identity(self) -> tuple[str, str, str]:
        """Return boot id, machine id and system UUID; empty where the machine does not tell."""
        files = ("proc/sys/kernel/random/boot_id", "etc/machine-id", "sys/class/dmi/id/product_uuid")
        boot, machine, system = ((read(self.root / file) or b"").decode().strip() for file in files)
        return boot, machine, system

    def shows(self, interface: str) -> bool:
        """Tell whether an interface carries something from or to the outside."""
        return not interface.startswith(_NO_INTERFACES_OF_THE_NODE)

    def interfaces(self, pid: int | str = 1) -> list[InterfaceStats]:
        """Return the interfaces in the network namespace of a process, ``eth0`` first."""
        found = parse_interfaces(read(self.root / f"proc/{pid}/net/dev") or b"")
        return sorted(found, key=lambda interface: interface.name != "eth0")


def filesystem(place: Path | str, now: int) -> FilesystemStats | None:
    """Return size and use of the file system of *place*, or of the nearest directory above that exists.

    :param now: the time of the measure, in epoch nanoseconds.
    """
    path = Path(place)
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
    """Return what ``/proc/<pid>/net/dev`` lists, without loopback and the node's ends of other namespaces' links."""
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
    """Return what is in a file of the kernel, or ``None`` where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, _PIECE)
        while piece := os.read(descriptor, _PIECE):  # a long file comes in pieces, however large a buffer is
            text += piece
        return text
    except OSError:  # a process or cgroup that is just going
        return None
    finally:
        os.close(descriptor)


def field(text: bytes, key: bytes) -> int:
    """Return the number behind *key*, 0 when it is not there."""
    start = text.find(key)
    if start < 0:
        return 0
    return int(text[start + len(key) : start + len(key) + 32].split()[0])


def number(text: bytes | None) -> int | None:
    """Return the number that *text* is; ``max`` and nothing are ``None``."""
    try:
        return int(text) if text else None
    except ValueError:
        return None


def nanoseconds(moment: datetime) -> int:
    """Return a time of day in epoch nanoseconds."""
    return int(moment.timestamp() * 1_000_000) * 1000
