"""Where the kernel's cgroups are mounted: version 1, also hybrid, or version 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nodeagent_plugins.cgroups.names import CgroupName

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "name=systemd")
UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "hugetlb")
REQUIRED_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
_TRACKING = "name=systemd"
"""Limits nothing; systemd tells by it which process belongs to which unit."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where cgroups live on this machine.

    :ivar unified: whether this is cgroup v2 alone.
    :ivar mounts: mount point by controller; those mounted together share one, v2 has all under the empty name.
    :ivar others: mount points that limit nothing for us, in which a runtime makes the same cgroups (v1).
    """

    unified: bool
    mounts: Mapping[str, Path]
    others: tuple[Path, ...] = ()

    @property
    def roots(self) -> list[Path]:
        """Every mount point once, the one that limits are looked up in first."""
        return list(dict.fromkeys(self.mounts.values()))

    @property
    def limiting_roots(self) -> list[Path]:
        """Every mount point that has controllers."""
        return list(dict.fromkeys(root for name, root in self.mounts.items() if name != _TRACKING))

    def places(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup."""
        return [root.joinpath(*name) for root in self.roots]

    def all_places(self, name: CgroupName) -> list[Path]:
        """Return the directories of a cgroup with those that only a runtime made."""
        return [root.joinpath(*name) for root in (*self.roots, *self.others)]

    def file(self, controller: str, name: CgroupName, file: str) -> Path | None:
        """Return the file of a cgroup, or ``None`` where the machine has no such controller."""
        root = self.mounts.get("" if self.unified else controller)
        return root.joinpath(*name, file) if root is not None else None

    def lacks(self, name: CgroupName, controllers: Iterable[str]) -> list[str]:
        """Return those of *controllers* that the cgroup *name* does not exist for; reads the disk."""
        if self.unified:
            place = self.mounts[""].joinpath(*name)
            return [] if place.is_dir() else [str(place)]
        return [
            each for each in controllers if (root := self.mounts.get(each)) is None or not root.joinpath(*name).is_dir()
        ]

    def limits_swap(self) -> bool:
        """Tell whether the kernel counts swap by cgroup; reads the disk."""
        if self.unified:  # the root itself has no such file
            return any(True for _ in self.mounts[""].glob("*/memory.swap.max"))
        root = self.mounts.get("memory")
        return root is not None and (root / "memory.memsw.limit_in_bytes").exists()


def find_hierarchy(mountinfo: str) -> Hierarchy | None:
    """Return what *mountinfo* (the text of ``/proc/self/mountinfo``) tells; ``None`` without any cgroup."""
    mounts: dict[str, Path] = {}
    found: dict[Path, None] = {}
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        place = Path(fields[4].replace("\\040", " "))
        if kind[0] == "cgroup2":
            unified = unified or place
            found[place] = None
        elif kind[0] == "cgroup" and len(kind) >= 3:
            found[place] = None
            for option in kind[2].split(","):
                if option in CONTROLLERS:
                    mounts.setdefault(option, place)
    if mounts:
        order = ("memory", *CONTROLLERS)
        ours = {name: mounts[name] for name in dict.fromkeys(order) if name in mounts}
        return Hierarchy(False, ours, tuple(place for place in found if place not in ours.values()))
    return Hierarchy(True, {"": unified}) if unified else None
