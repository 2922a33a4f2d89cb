"""The kernel's cgroup file system, version 1 (also hybrid) and 2. Blocking; called from threads."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US, cpu_weight
from nodeagent_plugins.cgroups.names import CgroupName, cgroupfs_path

from nodeagent.contracts.runtime import LinuxResources
from nodeagent.errors import NodeAgentError

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd")
_UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb")
_OWNER = "user.nodeagent.root"
"""Extended attribute that says which agent made a pod's cgroup."""
_KILL_ROUNDS = 5
_ROUND_SECONDS = 0.02
_REMOVE_SECONDS = 1.0


class CgroupError(NodeAgentError):
    """A cgroup cannot be made, changed or removed."""

    reason = "CgroupError"
    transient = True


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where cgroups live on this machine.

    :ivar unified: whether this is cgroup v2 alone.
    :ivar mounts: mount point by controller; those mounted together share one, v2 has all under the empty name.
    """

    unified: bool
    mounts: Mapping[str, Path]

    @property
    def roots(self) -> list[Path]:
        """Every mount point once, the one that limits are looked up in first."""
        return list(dict.fromkeys(self.mounts.values()))

    def places(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup."""
        return [root.joinpath(*name) for root in self.roots]

    def file(self, controller: str, name: CgroupName, file: str) -> Path | None:
        """Return the file of a cgroup, or ``None`` where the machine has no such controller."""
        root = self.mounts.get("" if self.unified else controller)
        return root.joinpath(*name, file) if root is not None else None


def find_hierarchy(mountinfo: str) -> Hierarchy | None:
    """Return what *mountinfo* (the text of ``/proc/self/mountinfo``) tells; ``None`` without any cgroup."""
    mounts: dict[str, Path] = {}
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        place = Path(fields[4].replace("\\040", " "))
        if kind[0] == "cgroup2":
            unified = unified or place
        elif kind[0] == "cgroup" and len(kind) >= 3:
            for option in kind[2].split(","):
                if option in CONTROLLERS:
                    mounts.setdefault(option, place)
    if mounts:
        order = ("memory", *CONTROLLERS)
        return Hierarchy(False, {name: mounts[name] for name in dict.fromkeys(order) if name in mounts})
    return Hierarchy(True, {"": unified}) if unified else None


@dataclass(slots=True)
class CgroupFiles:
    """Makes, limits, lists and removes cgroups.

    :param owner: marks the pods' cgroups of this agent, so that another agent's on the same machine are left alone.
    """

    hierarchy: Hierarchy
    owner: str
    _enabled: set[Path] = field(default_factory=set)

    def make(self, name: CgroupName, limits: LinuxResources | None = None, pids_limit: int = 0) -> None:
        """Create a cgroup with those above it and set its limits; repeatable.

        :raises CgroupError: the kernel refuses.
        """
        try:
            for place in self.hierarchy.places(name):
                self._make_directory(place)
            if limits is not None:
                self._limit(name, limits, pids_limit)
        except OSError as error:
            raise _explained(f"cgroup {cgroupfs_path(name)} cannot be made", error) from error

    def set_shares(self, name: CgroupName, shares: int) -> None:
        """Set the CPU weight of a cgroup that exists.

        :raises CgroupError: the kernel refuses.
        """
        try:
            self._write_shares(name, shares)
        except OSError as error:
            raise _explained(f"cgroup {cgroupfs_path(name)} cannot be changed", error) from error

    def mark(self, name: CgroupName) -> None:
        """Note that this agent made the cgroup, where the kernel keeps such notes."""
        with contextlib.suppress(OSError):
            os.setxattr(self.hierarchy.places(name)[0], _OWNER, self.owner.encode())

    def children(self, name: CgroupName) -> list[str]:
        """Return the cgroups directly below *name* that this agent made; none when it does not exist."""
        place = self.hierarchy.places(name)[0]
        try:
            with os.scandir(place) as entries:
                found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _explained(f"cgroup {cgroupfs_path(name)} cannot be read", error) from error
        return [child for child in found if self._is_ours(place / child)]

    def exists(self, name: CgroupName) -> bool:
        """Tell whether any part of the cgroup is there."""
        return any(place.is_dir() for place in self.hierarchy.places(name))

    def remove(self, name: CgroupName) -> None:
        """Kill what runs in a cgroup and below, and remove it; repeatable.

        :raises CgroupError: something in it does not end.
        """
        places = [place for place in self.hierarchy.places(name) if place.is_dir()]
        for _ in range(_KILL_ROUNDS):
            if not _kill_all(places):
                break
            time.sleep(_ROUND_SECONDS)
        deadline = time.monotonic() + _REMOVE_SECONDS
        for place in places:
            while True:
                try:
                    _remove_tree(place)
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise _explained(f"cgroup {cgroupfs_path(name)} cannot be removed", error) from error
                    _kill_all([place])
                    time.sleep(_ROUND_SECONDS)

    def _make_directory(self, place: Path) -> None:
        if place.is_dir():
            return
        root = next(root for root in self.hierarchy.roots if place.is_relative_to(root))
        above = place.parent
        if above != root:
            self._make_directory(above)
        if self.hierarchy.unified:
            self._enable(above)
        place.mkdir(exist_ok=True)
        if root == self.hierarchy.mounts.get("cpuset"):
            for file in ("cpuset.cpus", "cpuset.mems"):  # empty ones take no process on v1
                if not (place / file).read_text().strip():
                    (place / file).write_text((above / file).read_text())

    def _enable(self, above: Path) -> None:
        """Hand the controllers that are there down to the children of *above* (v2)."""
        if above in self._enabled:
            return
        there = set((above / "cgroup.controllers").read_text().split())
        wanted = [f"+{name}" for name in _UNIFIED_CONTROLLERS if name in there]
        (above / "cgroup.subtree_control").write_text(" ".join(wanted))
        self._enabled.add(above)

    def _limit(self, name: CgroupName, limits: LinuxResources, pids_limit: int) -> None:
        if limits.cpu_shares:
            self._write_shares(name, limits.cpu_shares)
        period = limits.cpu_period or DEFAULT_PERIOD_US
        if self.hierarchy.unified:
            self._write("cpu", name, "cpu.max", f"{limits.cpu_quota or 'max'} {period}")
            self._write("memory", name, "memory.max", str(limits.memory_limit_bytes or "max"))
        else:
            if limits.cpu_quota:
                self._write("cpu", name, "cpu.cfs_period_us", str(period))
            self._write("cpu", name, "cpu.cfs_quota_us", str(limits.cpu_quota or -1))
            self._write("memory", name, "memory.limit_in_bytes", str(limits.memory_limit_bytes or -1))
        if pids_limit > 0:
            self._write("pids", name, "pids.max", str(pids_limit))
        for size, amount in limits.hugepage_limits.items():
            suffix = "max" if self.hierarchy.unified else "limit_in_bytes"
            self._write("hugetlb", name, f"hugetlb.{size}.{suffix}", str(amount))

    def _write_shares(self, name: CgroupName, shares: int) -> None:
        if self.hierarchy.unified:
            self._write("cpu", name, "cpu.weight", str(cpu_weight(shares)))
        else:
            self._write("cpu", name, "cpu.shares", str(shares))

    def _write(self, controller: str, name: CgroupName, file: str, value: str) -> None:
        """Write a limit; a controller or file that the kernel does not have limits nothing."""
        path = self.hierarchy.file(controller, name, file)
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def _is_ours(self, place: Path) -> bool:
        try:
            return os.getxattr(place, _OWNER) == self.owner.encode()
        except OSError:
            return False


def _remove_tree(place: Path) -> None:
    for child in _directories(place):
        _remove_tree(child)
    with contextlib.suppress(FileNotFoundError):
        place.rmdir()


def _kill_all(places: Sequence[Path]) -> bool:
    """Send SIGKILL to every process in *places* and below, children first; return whether there was one."""
    pids: dict[int, None] = {}
    for place in places:
        _collect(place, pids)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def _collect(place: Path, pids: dict[int, None]) -> None:
    for child in _directories(place):
        _collect(child, pids)
    with contextlib.suppress(OSError):
        for line in (place / "cgroup.procs").read_text().split():
            if int(line) not in (0, os.getpid()):  # 0: a process of another PID namespace
                pids[int(line)] = None


def _directories(place: Path) -> Iterable[Path]:
    try:
        with os.scandir(place) as entries:
            return [place / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _explained(what: str, error: OSError) -> CgroupError:
    """Return an error that says what an operator can do about it."""
    advice = ""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        advice = (
            "; make the cgroup file system writable, or set cgroupsPerQOS to false and enforceNodeAllocatable to []"
        )
    return CgroupError(f"{what}: {error.strerror or error}{advice}")
