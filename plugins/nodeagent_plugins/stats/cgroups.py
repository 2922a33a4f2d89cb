"""Cgroup statistics of the kernel: v1, hybrid and v2.

Custom, since ``psutil`` does not read cgroups.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.stats.machine import Machine, field, number, read

UNLIMITED = 1 << 62
"""Version 1 reports a number near the maximum if there is no limit."""
_CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "pids", "blkio"})


class CgroupStats(Struct, frozen=True):
    """Usage of a cgroup and its descendants in nanoseconds and bytes; ``None`` if not accounted."""

    cpu_nanoseconds: int | None = None
    memory_bytes: int | None = None
    working_set_bytes: int | None = None
    """Memory without inactive file pages, which reclaim would free immediately."""
    rss_bytes: int | None = None
    cache_bytes: int | None = None
    mapped_file_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    swap_bytes: int | None = None
    swap_limit_bytes: int | None = None
    """Limit of swap; ``None`` if unlimited, and with cgroup v1, which limits only memory and swap together."""
    memory_limit_bytes: int | None = None


class CgroupReader:
    """Reads statistics by cgroup name, such as ``/kubepods/burstable``; blocks for microseconds.

    :param mounts: mount point by controller; v2 has one under the empty name.
    """

    def __init__(self, mounts: Mapping[str, str], machine: Machine) -> None:
        self.unified = "" in mounts
        self._machine = machine
        self._mounts = mounts

    @classmethod
    def find(cls, machine: Machine) -> CgroupReader:
        """Return a reader of the cgroups that are mounted on the host."""
        mounts: dict[str, str] = {}
        unified = ""
        for line in (read(machine.root / "proc/self/mountinfo") or b"").decode(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            fields, kind = before.split(), after.split()
            if len(fields) < 5 or not kind:
                continue
            path = str(machine.root / fields[4].replace("\\040", " ").lstrip("/"))
            if kind[0] == "cgroup2":
                unified = unified or path
            elif kind[0] == "cgroup" and len(kind) > 2:
                for option in _CONTROLLERS.intersection(kind[2].split(",")):
                    mounts.setdefault(option, path)
        return cls(mounts if mounts or not unified else {"": unified}, machine)

    def account(self, name: str) -> CgroupStats | None:
        """Return the usage of the cgroup, or ``None`` if it does not exist."""
        account = self._account_v2(name) if self.unified else self._account_v1(name)
        if account.cpu_nanoseconds is None and account.memory_bytes is None:
            return None
        return account

    def memory(self, name: str) -> CgroupStats | None:
        """Return only the memory usage of the cgroup, or ``None`` if it does not exist."""
        account = self._memory_v2(name, None) if self.unified else self._memory_v1(name, None)
        return account if account.memory_bytes is not None else None

    def root(self) -> CgroupStats:
        """Return the usage of the host; values that the root cgroup lacks are read from ``/proc``."""
        machine, account = self._machine, self.account("/") or CgroupStats()
        capacity = machine.memory_capacity()
        if account.memory_bytes is None:
            used = machine.memory_used()
            idle = field(b"\n" + (self.file("memory", "/", "memory.stat") or b""), b"\ninactive_file ")
            account = replace(account, memory_bytes=used, working_set_bytes=max(0, used - idle))
        if account.cpu_nanoseconds is None:
            account = replace(account, cpu_nanoseconds=machine.cpu_nanoseconds())
        total, free = machine.swap()
        return replace(account, swap_bytes=total - free, memory_limit_bytes=capacity)

    def processes(self, name: str) -> list[int]:
        """Return the processes of the cgroup without its descendants; 0 for those of another PID namespace."""
        text = self.file("memory" if "memory" in self._mounts else "cpuacct", name, "cgroup.procs") or b""
        return [int(line) for line in text.split()]

    def created_at(self, name: str) -> int:
        """Return when the cgroup was created or last got a child, in epoch nanoseconds; 0 if it does not exist."""
        path = self.path("memory" if "memory" in self._mounts else "cpuacct", name)
        with contextlib.suppress(OSError):
            return Path(path).stat().st_mtime_ns if path else 0
        return 0

    def children(self, name: str) -> list[str]:
        """Return the child cgroups."""
        path = self.path("memory" if "memory" in self._mounts else "cpuacct", name)
        try:
            found = sorted(entry.name for entry in Path(path or "/nowhere").iterdir() if entry.is_dir())
        except OSError:
            return []
        return [f"{name.rstrip('/')}/{child}" for child in found]

    def exists(self, name: str) -> bool:
        path = self.path("memory" if "memory" in self._mounts else "cpuacct", name)
        return path is not None and Path(path).is_dir()

    def own(self, pid: int | str = "self") -> str:
        """Return the cgroup of a process in the memory hierarchy, ``/`` if it is in none."""
        found: dict[str, str] = {}
        if not self._mounts:
            return "/"
        for line in (read(self._machine.root / f"proc/{pid}/cgroup") or b"").decode(errors="replace").splitlines():
            _, controllers, name = line.split(":", 2)
            found.update(dict.fromkeys(controllers.split(","), name))
        return found.get("" if self.unified else "memory", "/")

    def path(self, controller: str, name: str) -> str | None:
        """Return the directory of a cgroup, or ``None`` if the controller is not mounted."""
        mount = self._mounts.get("" if self.unified else controller)
        return None if mount is None else mount + name if name != "/" else mount

    def file(self, controller: str, name: str, file: str) -> bytes | None:
        """Return the content of a cgroup file, or ``None`` if it does not exist."""
        path = self.path(controller, name)
        return None if path is None else read(f"{path}/{file}")

    def _account_v1(self, name: str) -> CgroupStats:
        return self._memory_v1(name, number(self.file("cpuacct", name, "cpuacct.usage")))

    def _memory_v1(self, name: str, cpu: int | None) -> CgroupStats:
        used = number(self.file("memory", name, "memory.usage_in_bytes"))
        if used is None:
            return CgroupStats(cpu)
        text = self.file("memory", name, "memory.stat") or b""
        limit = number(self.file("memory", name, "memory.limit_in_bytes"))
        return CgroupStats(
            cpu_nanoseconds=cpu,
            memory_bytes=used,
            working_set_bytes=max(0, used - field(text, b"\ntotal_inactive_file ")),
            rss_bytes=field(text, b"\ntotal_rss "),
            cache_bytes=field(text, b"\ntotal_cache "),
            mapped_file_bytes=field(text, b"\ntotal_mapped_file "),
            page_faults=field(text, b"\ntotal_pgfault "),
            major_page_faults=field(text, b"\ntotal_pgmajfault "),
            swap_bytes=field(text, b"\ntotal_swap "),
            memory_limit_bytes=limit if limit is not None and limit < UNLIMITED else None,
        )

    def _account_v2(self, name: str) -> CgroupStats:
        times = self.file("", name, "cpu.stat")
        return self._memory_v2(name, field(b"\n" + times, b"\nusage_usec ") * 1000 if times else None)

    def _memory_v2(self, name: str, cpu: int | None) -> CgroupStats:
        used = number(self.file("", name, "memory.current"))
        if used is None:
            return CgroupStats(cpu)
        text = b"\n" + (self.file("", name, "memory.stat") or b"")
        return CgroupStats(
            cpu_nanoseconds=cpu,
            memory_bytes=used,
            working_set_bytes=max(0, used - field(text, b"\ninactive_file ")),
            rss_bytes=field(text, b"\nanon "),
            cache_bytes=field(text, b"\nfile "),
            mapped_file_bytes=field(text, b"\nfile_mapped "),
            page_faults=field(text, b"\npgfault "),
            major_page_faults=field(text, b"\npgmajfault "),
            swap_bytes=number(self.file("", name, "memory.swap.current")),
            swap_limit_bytes=number(self.file("", name, "memory.swap.max")),
            memory_limit_bytes=number(self.file("", name, "memory.max")),
        )


def path_of(parent: str) -> str:
    """Return the cgroup of a CRI ``cgroup_parent``: a path, or a systemd slice below those of its prefixes."""
    if not parent.endswith(".slice") or "/" in parent.lstrip("/"):
        return parent
    parts = parent.strip("/").removesuffix(".slice").split("-")
    return "".join(f"/{'-'.join(parts[: i + 1])}.slice" for i in range(len(parts)))


def container_paths(parent: str, container_id: str) -> list[str]:
    """Return the possible cgroups of a container, which depend on the runtime."""
    if parent and parent != "/":
        path = path_of(parent)
        names = [container_id, f"cri-containerd-{container_id}.scope", f"crio-{container_id}.scope"]
        if not parent.endswith(".slice"):
            names.append(f"crio-{container_id}")
        return [f"{path}/{name}" for name in names]
    return [f"/k8s.io/{container_id}", f"/system.slice/cri-containerd-{container_id}.scope", f"/{container_id}"]
