"""OOM kill counters of cgroups, for nodes whose kernel log is not readable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_SLICE = ".slice"


def memory_root(cgroups: Path = CGROUPS) -> Path:
    """Return the root of the memory cgroups, a separate hierarchy in version 1."""
    return cgroups / "memory" if (cgroups / "memory").is_dir() else cgroups


def cgroup_dir(root: Path, parent: str) -> Path:
    """Return the directory of a pod's cgroup from its name in CRI: a path, or a systemd slice."""
    if not parent.endswith(_SLICE) or "/" in parent:
        return root / parent.lstrip("/")
    parts = parent.removesuffix(_SLICE).split("-")
    return root.joinpath(*("-".join(parts[: end + 1]) + _SLICE for end in range(len(parts))))


def count_kills(pod: Path) -> Iterator[tuple[str, int]]:
    """Yield the number of kills by cgroup: those of the containers and of the pod."""
    with suppress(OSError), os.scandir(pod) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and (kills := _kills(Path(entry.path))) is not None:
                yield entry.path, kills
    if (kills := _kills(pod)) is not None:
        yield str(pod), kills


def _kills(directory: Path) -> int | None:
    for name in ("memory.events.local", "memory.events", "memory.oom_control"):
        with suppress(OSError, ValueError):
            for line in (directory / name).read_text(encoding="ascii").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill":
                    return int(value)
    return None
