"""Cgroup file system, version 1 (also hybrid) and 2: create, limit, list and remove. Blocking; called in threads."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

from nodeagent.base.structs import MutableStruct
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.cgroups.formulas import cpu_weight
from nodeagent_plugins.cgroups.hierarchy import UNIFIED_CONTROLLERS, Hierarchy
from nodeagent_plugins.cgroups.limits import UNLIMITED, CgroupLimits
from nodeagent_plugins.cgroups.names import CgroupName, cgroupfs_path
from nodeagent_plugins.cgroups.processes import directories, kill_all, processes_in

_OWNER = "user.nodeagent.root"
"""Extended attribute with the owner of a pod's cgroup."""
_KILL_ROUNDS = 5
_ROUND_SECONDS = 0.02
_REMOVE_SECONDS = 1.0
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class CgroupError(NodeAgentError):
    """A cgroup cannot be created, changed or removed."""

    reason = "CgroupError"
    transient = True


class CgroupBusy(CgroupError):
    """A limit is below the current usage."""


class CgroupFiles(MutableStruct):
    """Creates, limits, lists and removes cgroups.

    :param owner: marks the pod cgroups of this agent, so that those of another agent on the host are not touched.
    """

    hierarchy: Hierarchy
    owner: str

    def make(self, name: CgroupName, limits: CgroupLimits | None = None, *, mark: bool = False) -> None:
        """Create a cgroup and its ancestors, and set its limits; idempotent.

        :param mark: record this agent as the owner, if the file system supports extended attributes.
        :raises CgroupError: the kernel rejects the operation.
        """
        try:
            for root in self.hierarchy.roots:
                self._make_directory(root, name)
        except OSError as error:
            raise _explained(f"failed to create cgroup {cgroupfs_path(name)}", error) from error
        if mark:
            with contextlib.suppress(OSError):
                os.setxattr(self.hierarchy.paths(name)[0], _OWNER, self.owner.encode())
        if limits is not None:
            self.check_usage(name, limits)
            self._limit_explained(name, limits)

    def limit(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Set the limits of an existing cgroup.

        :raises CgroupBusy: the memory in use exceeds the limit.
        :raises CgroupError: the kernel rejects a limit.
        """
        self.check_usage(name, limits)
        self._limit_explained(name, limits, enable=True)

    def check_usage(self, name: CgroupName, limits: CgroupLimits) -> None:
        """Check that a memory limit is not below the usage: version 1 rejects it, and version 2 would OOM-kill.

        :raises CgroupBusy: the memory in use exceeds the limit.
        """
        limit = limits.memory_bytes
        if not self.hierarchy.unified or limit is None or limit == UNLIMITED or not self.exists(name):
            return
        used = self.memory_usage(name)
        if used > limit:
            usage = f"{used} bytes of memory are in use"
            raise CgroupBusy(f"failed to set limits of cgroup {cgroupfs_path(name)}: {usage}")

    def memory_usage(self, name: CgroupName) -> int:
        """Return the memory usage in bytes, without the file cache that the kernel would reclaim to meet a limit.

        :raises CgroupError: the usage cannot be read.
        """
        unified = self.hierarchy.unified
        file = self.hierarchy.file("memory", name, "memory.current" if unified else "memory.usage_in_bytes")
        if file is None or not file.exists():
            return 0
        try:
            used = int(file.read_text())
            return max(used - _inactive(file.with_name("memory.stat")), 0) if unified else used
        except (OSError, ValueError) as error:
            raise CgroupError(f"failed to read memory usage of cgroup {cgroupfs_path(name)}: {error}") from error

    def children(self, name: CgroupName) -> list[str]:
        """Return the cgroups directly below *name* that this agent created; empty if *name* does not exist."""
        try:
            with os.scandir(self.hierarchy.paths(name)[0]) as entries:
                return [
                    each.name for each in entries if each.is_dir(follow_symlinks=False) and self._is_ours(each.path)
                ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _explained(f"failed to read cgroup {cgroupfs_path(name)}", error) from error

    def exists(self, name: CgroupName) -> bool:
        """Return whether the cgroup exists for all controllers."""
        return all(path.is_dir() for path in self.hierarchy.paths(name))

    def kill(self, name: CgroupName) -> None:
        """Kill the processes in a cgroup and its descendants; gives up after a few attempts."""
        paths = [path for path in self.hierarchy.all_paths(name) if path.is_dir()]
        for _ in range(_KILL_ROUNDS):
            if not kill_all(paths):
                return
            time.sleep(_ROUND_SECONDS)

    def kill_below(self, name: CgroupName, part: str) -> None:
        """Kill the processes in the cgroups directly below *name* whose names contain *part*."""
        kill_all([child for path in self.hierarchy.paths(name) for child in directories(path) if part in child.name])

    def remove(self, name: CgroupName) -> None:
        """Kill the processes in a cgroup and its descendants, and remove it; idempotent.

        :raises CgroupError: a process in it does not exit.
        """
        try:
            left = [path for path in self.hierarchy.all_paths(name) if not _is_removed(path)]
        except OSError as error:
            raise _explained(f"failed to remove cgroup {cgroupfs_path(name)}", error) from error
        if left:
            self.kill(name)
        deadline = time.monotonic() + _REMOVE_SECONDS
        for path in left:
            while path.is_dir():
                try:
                    _remove_tree(path)
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        raise _explained(f"failed to remove cgroup {cgroupfs_path(name)}", error) from error
                    kill_all([path])
                    time.sleep(_ROUND_SECONDS)

    # --- helpers ----------------------------------------------------------------------------------------------

    def _make_directory(self, root: Path, name: CgroupName) -> None:
        if not name:
            return
        path, above = root.joinpath(*name), root.joinpath(*name[:-1])
        if self.hierarchy.unified:
            if path.is_dir():
                self._enable_down_to(above, root)
            else:
                self._make_directory(root, name[:-1])
                self._enable(above)
                path.mkdir(exist_ok=True)
            return
        try:
            path.mkdir(exist_ok=True)
        except FileNotFoundError:
            self._make_directory(root, name[:-1])
            path.mkdir(exist_ok=True)
        if root == self.hierarchy.mounts.get("cpuset"):
            for file in ("cpuset.cpus", "cpuset.mems"):  # Version 1 rejects processes while these are empty.
                if (above / file).exists() and not (path / file).read_text().strip():
                    (path / file).write_text((above / file).read_text())

    def _enable_down_to(self, path: Path, root: Path) -> None:
        """Delegate controllers down to an existing cgroup, whose creator or systemd may have omitted some."""
        if path != root:
            self._enable_down_to(path.parent, root)
        self._enable(path)

    def _enable(self, above: Path) -> None:
        """Enable the available controllers for the children of *above* (v2)."""
        there = set((above / "cgroup.controllers").read_text().split())
        on = set((above / "cgroup.subtree_control").read_text().split())
        missing = [f"+{name}" for name in UNIFIED_CONTROLLERS if name in there - on]
        if missing:
            try:
                (above / "cgroup.subtree_control").write_text(" ".join(missing))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                pids = ", ".join(map(str, processes_in(above)[:5]))
                raise OSError(errno.EBUSY, f"{above} itself contains processes (such as {pids})") from error

    def _limit_explained(self, name: CgroupName, limits: CgroupLimits, *, enable: bool = False) -> None:
        try:
            if enable and self.hierarchy.unified and name:
                root = self.hierarchy.roots[0]
                self._enable_down_to(root.joinpath(*name[:-1]), root)
            self._limit(name, limits)
        except OSError as error:
            raise _explained(f"failed to set limits of cgroup {cgroupfs_path(name)}", error) from error

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
            self._write("cpu", name, "cpu.cfs_quota_us", "-1")  # The old quota may be invalid for the new period.
            self._write("cpu", name, "cpu.cfs_period_us", str(period))
        self._write("cpu", name, "cpu.cfs_quota_us", str(quota))

    def _number(self, amount: int) -> str:
        return "max" if amount == UNLIMITED and self.hierarchy.unified else str(amount)

    def _write(self, controller: str, name: CgroupName, file: str, value: str) -> None:
        """Write a limit; ignored if the kernel lacks the controller or the file."""
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

    def _is_ours(self, path: Path | str) -> bool:
        try:
            return os.getxattr(path, _OWNER) == self.owner.encode()
        except OSError:
            return False


def _is_removed(path: Path) -> bool:
    """Remove a cgroup unless it has processes or descendants; return whether it no longer exists."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        return False
    return True


def _remove_tree(path: Path) -> None:
    for child in directories(path):
        _remove_tree(child)
    with contextlib.suppress(FileNotFoundError):
        path.rmdir()


def _inactive(stat: Path) -> int:
    """Return the bytes of inactive file cache."""
    lines = stat.read_text().splitlines() if stat.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _explained(attempt: str, error: OSError) -> CgroupError:
    """Return an error with advice for the operator."""
    kind = CgroupBusy if error.errno == errno.EBUSY else CgroupError
    advice = ""
    if error.errno in _FORBIDDEN:
        advice = (
            "; make the cgroup file system writable, or set cgroupsPerQOS to false and enforceNodeAllocatable to []"
        )
    return kind(f"{attempt}: {error.strerror or error}{advice}")
