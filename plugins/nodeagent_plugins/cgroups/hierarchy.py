"""Mount points of the kernel's cgroup hierarchies: version 1, also hybrid, or version 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.cgroups.names import CgroupName

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd")
UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb")
REQUIRED_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
_TRACKING = "name=systemd"
"""Has no limits; systemd tracks the processes of its units with it."""


class Hierarchy(Struct, frozen=True):
    """Cgroup mounts of the host.

    :ivar unified: whether the host uses cgroup v2 only.
    :ivar mounts: mount point by controller; v1 controllers can share one, v2 has one under the empty name.
    :ivar others: mount points without limits in which a runtime also creates the cgroups (v1).
    """

    unified: bool
    mounts: Mapping[str, Path]
    others: tuple[Path, ...] = ()

    @property
    def roots(self) -> list[Path]:
        """Mount points without duplicates; limits are looked up in the first."""
        return list(dict.fromkeys(self.mounts.values()))

    @property
    def limiting_roots(self) -> list[Path]:
        """Mount points that have controllers."""
        return list(dict.fromkeys(root for name, root in self.mounts.items() if name != _TRACKING))

    def paths(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup."""
        return [root.joinpath(*name) for root in self.roots]

    def all_paths(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup, including those that only a runtime creates."""
        return [root.joinpath(*name) for root in (*self.roots, *self.others)]

    def file(self, controller: str, name: CgroupName, file: str) -> Path | None:
        """Return the file of a cgroup, or ``None`` if the host lacks the controller."""
        root = self.mounts.get("" if self.unified else controller)
        return root.joinpath(*name, file) if root is not None else None

    def lacks(self, name: CgroupName, controllers: Iterable[str]) -> list[str]:
        """Return the *controllers* for which the cgroup *name* does not exist; reads the disk."""
        if self.unified:
            path = self.mounts[""].joinpath(*name)
            return [] if path.is_dir() else [str(path)]
        return [
            each for each in controllers if (root := self.mounts.get(each)) is None or not root.joinpath(*name).is_dir()
        ]

    def limits_swap(self) -> bool:
        """Return whether the kernel accounts swap per cgroup; reads the disk."""
        if self.unified:  # The root cgroup lacks the file.
            return any(True for _ in self.mounts[""].glob("*/memory.swap.max"))
        root = self.mounts.get("memory")
        return root is not None and (root / "memory.memsw.limit_in_bytes").exists()


def find_hierarchy(mountinfo: str) -> Hierarchy | None:
    """Parse the text of ``/proc/self/mountinfo``; return ``None`` if no cgroup hierarchy is mounted."""
    mounts: dict[str, Path] = {}
    found: dict[Path, None] = {}
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        path = Path(fields[4].replace("\\040", " "))
        if kind[0] == "cgroup2":
            unified = unified or path
            found[path] = None
        elif kind[0] == "cgroup" and len(kind) >= 3:
            found[path] = None
            for option in kind[2].split(","):
                if option in CONTROLLERS:
                    mounts.setdefault(option, path)
    if mounts:
        order = ("memory", *CONTROLLERS)
        ours = {name: mounts[name] for name in dict.fromkeys(order) if name in mounts}
        return Hierarchy(False, ours, tuple(path for path in found if path not in ours.values()))
    return Hierarchy(True, {"": unified}) if unified else None
