"""Cgroups as files, version 1 (also hybrid) and 2: made, limited, listed, removed. Blocking; called from threads."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

from nodeagent.errors import NodeAgentError
from nodeagent_plugins.cgroups.formulas import cpu_weight
from nodeagent_plugins.cgroups.hierarchy import UNIFIED_CONTROLLERS, Hierarchy
from nodeagent_plugins.cgroups.limits import UNLIMITED, CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, cgroupfs_path
from nodeagent_plugins.cgroups.processes import directories, kill_all, processes_in

_OWNER = "user.nodeagent.root"
"""Extended attribute that says which agent made a pod's cgroup."""
_KILL_ROUNDS = 5
_ROUND_SECONDS = 0.02
_REMOVE_SECONDS = 1.0
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class CgroupError(NodeAgentError):
    """A cgroup cannot be made, changed or removed."""

    reason = "CgroupError"
    transient = True


class CgroupBusy(CgroupError):
    """A limit is below what is in use."""


@dataclass(slots=True)
class CgroupFiles:
    """Makes, limits, lists and removes cgroups.

    :param owner: marks the pods' cgroups of this agent, so that another agent's on the same machine are left alone.
    """

    hierarchy: Hierarchy
    owner: str

    def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        """Create a cgroup with those above it and set its limits; repeatable.

        :param mark: note that this agent made it, where the kernel keeps such notes.
        :raises CgroupError: the kernel refuses.
        """
        try:
            for place in self.hierarchy.places(name):
                self._make_directory(place)
        except OSError as error:
            raise _explained(f"cgroup {cgroupfs_path(name)} cannot be made", error) from error
        if mark:
            with contextlib.suppress(OSError):
                os.setxattr(self.hierarchy.places(name)[0], _OWNER, self.owner.encode())
        if limits is not None:
            self.limit(name, limits)

    def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Set the limits of a cgroup that exists.

        :raises CgroupBusy: more memory is in use than it may have.
        :raises CgroupError: the kernel refuses.
        """
        self.refuse_busy(name, limits)
        try:
            if self.hierarchy.unified and name:
                root = self.hierarchy.roots[0]
                self._enable_down_to(root.joinpath(*name).parent, root)
            self._limit(name, limits)
        except OSError as error:
            raise _explained(f"limits of cgroup {cgroupfs_path(name)} cannot be set", error) from error

    def refuse_busy(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Make sure that a limit of memory leaves what is in use; version 1 refuses otherwise, version 2 would kill.

        :raises CgroupBusy: more memory is in use than the cgroup may have.
        """
        wanted = limits.memory_bytes
        if not self.hierarchy.unified or wanted is None or wanted == UNLIMITED or not self.exists(name):
            return
        used = self.memory_usage(name)
        if used > wanted:
            raise CgroupBusy(f"limits of cgroup {cgroupfs_path(name)} cannot be set: {used} bytes of memory are in use")

    def memory_usage(self, name: CgroupName) -> int:
        """Return the memory that a cgroup uses, in bytes, without what the kernel would give up to keep a limit.

        :raises CgroupError: the kernel does not tell.
        """
        unified = self.hierarchy.unified
        file = self.hierarchy.file("memory", name, "memory.current" if unified else "memory.usage_in_bytes")
        if file is None or not file.exists():
            return 0
        try:
            used = int(file.read_text())
            return max(used - _inactive(file.with_name("memory.stat")), 0) if unified else used
        except (OSError, ValueError) as error:
            raise CgroupError(f"memory use of cgroup {cgroupfs_path(name)} cannot be read: {error}") from error

    def children(self, name: CgroupName) -> list[str]:
        """Return the cgroups directly below *name* that this agent made; none when it does not exist."""
        try:
            found = directories(self.hierarchy.places(name)[0])
        except OSError as error:
            raise _explained(f"cgroup {cgroupfs_path(name)} cannot be read", error) from error
        return [place.name for place in found if self._is_ours(place)]

    def exists(self, name: CgroupName) -> bool:
        """Tell whether the cgroup is there for all controllers."""
        return all(place.is_dir() for place in self.hierarchy.places(name))

    def kill(self, name: CgroupName) -> None:
        """Kill what runs in a cgroup and below; gives up after some rounds."""
        places = [place for place in self.hierarchy.all_places(name) if place.is_dir()]
        for _ in range(_KILL_ROUNDS):
            if not kill_all(places):
                return
            time.sleep(_ROUND_SECONDS)

    def kill_below(self, name: CgroupName, part: str) -> None:
        """Kill what runs in the cgroups directly below *name* whose names contain *part*."""
        kill_all([child for place in self.hierarchy.places(name) for child in directories(place) if part in child.name])

    def remove(self, name: CgroupName) -> None:
        """Kill what runs in a cgroup and below, and remove it; repeatable.

        :raises CgroupError: something in it does not end.
        """
        self.kill(name)
        deadline = time.monotonic() + _REMOVE_SECONDS
        for place in self.hierarchy.all_places(name):
            while place.is_dir():
                try:
                    _remove_tree(place)
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise _explained(f"cgroup {cgroupfs_path(name)} cannot be removed", error) from error
                    kill_all([place])
                    time.sleep(_ROUND_SECONDS)

    # --- inside -----------------------------------------------------------------------------------------------

    def _make_directory(self, place: Path) -> None:
        root = next(root for root in self.hierarchy.roots if place.is_relative_to(root))
        if place == root:
            return
        above = place.parent
        if not place.is_dir():
            self._make_directory(above)
            if self.hierarchy.unified:
                self._enable(above)
            place.mkdir(exist_ok=True)
        elif self.hierarchy.unified:
            self._enable_down_to(above, root)
        if root == self.hierarchy.mounts.get("cpuset"):
            for file in ("cpuset.cpus", "cpuset.mems"):  # empty ones take no process on v1
                if (above / file).exists() and not (place / file).read_text().strip():
                    (place / file).write_text((above / file).read_text())

    def _enable_down_to(self, place: Path, root: Path) -> None:
        """Hand controllers down to a cgroup that is there; who made it, or systemd since, may have left some out."""
        if place != root:
            self._enable_down_to(place.parent, root)
        self._enable(place)

    def _enable(self, above: Path) -> None:
        """Hand the controllers that are there down to the children of *above* (v2)."""
        there = set((above / "cgroup.controllers").read_text().split())
        on = set((above / "cgroup.subtree_control").read_text().split())
        wanted = [f"+{name}" for name in UNIFIED_CONTROLLERS if name in there - on]
        if wanted:
            try:
                (above / "cgroup.subtree_control").write_text(" ".join(wanted))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                pids = ", ".join(map(str, processes_in(above)[:5]))
                raise OSError(errno.EBUSY, f"processes live in {above} itself (such as {pids})") from error

    def _limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        unified = self.hierarchy.unified
        if limits.cpu_shares is not None:
            if unified:
                self._write("cpu", name, "cpu.weight", str(cpu_weight(limits.cpu_shares)))
            else:
                self._write("cpu", name, "cpu.shares", str(limits.cpu_shares))
        if limits.cpu_quota is not None:
            self._write_quota(name, limits.cpu_quota, limits.cpu_period)
        if limits.memory_bytes is not None:
            file = "memory.max" if unified else "memory.limit_in_bytes"
            self._write("memory", name, file, self._number(limits.memory_bytes))
        if limits.pids is not None:
            self._write("pids", name, "pids.max", "max" if limits.pids == UNLIMITED else str(limits.pids))
        for size, amount in limits.hugepages.items():
            self._write("hugetlb", name, f"hugetlb.{size}.{'max' if unified else 'limit_in_bytes'}", str(amount))
        if unified:
            for file, value in limits.unified.items():
                self._write(file.partition(".")[0], name, file, value)

    def _write_quota(self, name: CgroupName, quota: int, period: int) -> None:
        if self.hierarchy.unified:
            self._write("cpu", name, "cpu.max", f"{self._number(quota)} {period}")
            return
        current = self.hierarchy.file("cpu", name, "cpu.cfs_period_us")
        if (
            quota != UNLIMITED
            and current is not None
            and current.exists()
            and current.read_text().split() != [str(period)]
        ):
            self._write("cpu", name, "cpu.cfs_quota_us", "-1")  # the old quota may not fit the new period
            self._write("cpu", name, "cpu.cfs_period_us", str(period))
        self._write("cpu", name, "cpu.cfs_quota_us", str(quota))

    def _number(self, amount: int) -> str:
        return "max" if amount == UNLIMITED and self.hierarchy.unified else str(amount)

    def _write(self, controller: str, name: CgroupName, file: str, value: str) -> None:
        """Write a limit; a controller or file that the kernel does not have limits nothing."""
        path = self.hierarchy.file(controller, name, file)
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise
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
    for child in directories(place):
        _remove_tree(child)
    with contextlib.suppress(FileNotFoundError):
        place.rmdir()


def _inactive(stat: Path) -> int:
    """Return the bytes of files that nobody has looked at lately."""
    lines = stat.read_text().splitlines() if stat.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _explained(what: str, error: OSError) -> CgroupError:
    """Return an error that says what an operator can do about it."""
    kind = CgroupBusy if error.errno == errno.EBUSY else CgroupError
    advice = ""
    if error.errno in _FORBIDDEN:
        advice = (
            "; make the cgroup file system writable, or set cgroupsPerQOS to false and enforceNodeAllocatable to []"
        )
    return kind(f"{what}: {error.strerror or error}{advice}")
