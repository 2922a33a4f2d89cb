"""Capabilities of the host."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.capabilities import from_mask
from nodeagent_plugins.embedded_runtime.helpers.oci_root import is_chroot

CGROUPS = Path("/sys/fs/cgroup")
SEARCH = os.pathsep.join(("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"))


class Host(Struct, frozen=True):
    """The host as detected at startup."""

    capabilities: frozenset[str]
    remapped: bool
    """True if root is mapped in a user namespace."""
    cgroup_version: int
    """1 (also for hybrid), 2, or 0 if cgroups cannot be created."""
    oom_score_adj: int
    """Minimum OOM score of child processes without additional privileges."""
    mixed_cgroups: bool = False
    """True if version 2 controllers are used alongside version 1, which crun does not support."""
    chrooted: bool = False
    """True if the root is a plain directory, which OCI runtimes do not support."""

    @classmethod
    def detect(cls) -> Host:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        capabilities = from_mask(int(status.partition("CapEff:")[2].split()[0], 16))
        unmapped = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]
        can_lower = "SYS_RESOURCE" in capabilities and unmapped
        current = int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii"))
        version = _cgroup_version() if unmapped else 0
        return cls(
            capabilities, not unmapped, version, -1000 if can_lower else current, _has_mixed_cgroups(), is_chroot()
        )


def find_executable(name: str) -> str:
    """Return the path of the executable *name*; empty if there is none."""
    return shutil.which(name, path=SEARCH) or ""


def _has_mixed_cgroups() -> bool:
    try:
        return bool((CGROUPS / "unified" / "cgroup.controllers").read_text(encoding="ascii").strip())
    except OSError:
        return False


def _cgroup_version() -> int:
    if (CGROUPS / "cgroup.controllers").exists():
        return 2 if os.access(CGROUPS, os.W_OK) else 0
    return 1 if os.access(CGROUPS / "memory", os.W_OK) else 0
