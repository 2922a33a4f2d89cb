"""SELinux labels of mounts. Blocking."""

from __future__ import annotations

import os
from pathlib import Path

_ENABLED = Path("/sys/fs/selinux/enforce")
_MOUNTINFO = Path("/proc/self/mountinfo")


def needs_relabel(path: Path, *, enabled: Path = _ENABLED, table: Path = _MOUNTINFO) -> bool:
    """Return whether the runtime has to relabel the files of a mount: it supports labels and has no fixed one.

    :param path: the mount point.
    """
    if not enabled.exists():
        return False
    real = os.path.realpath(path)
    found = False
    for line in table.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        fields, _, details = line.partition(" - ")
        if fields.split(" ")[4:5] == [real]:
            options = details.split(" ")[-1].split(",")
            found = "seclabel" in options
    return found
