"""Mount table of the kernel (``/proc/self/mountinfo``), and its references to a mount."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct

MOUNTINFO = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
_FIXED_FIELDS = 6
_ESCAPED = frozenset(" \t\n\\#")
"""Characters that the kernel may write as octal numbers."""


class MountEntry(Struct, frozen=True):
    """One line of the mount table."""

    mount_id: int
    parent_id: int
    device: str
    """``major:minor`` of the file system."""
    root: str
    """Path in the file system that is mounted; with *device* it identifies the source of a bind mount."""
    path: str
    options: tuple[str, ...]
    propagation: tuple[str, ...]
    """Such as ``shared:3`` or ``master:1``; empty for a private mount."""
    file_system: str
    source: str

    @property
    def shared(self) -> bool:
        """True if mounts below propagate to the other members of a peer group."""
        return any(each.startswith("shared:") for each in self.propagation)

    @property
    def read_only(self) -> bool:
        """True if this mount is read-only; the file system may be writable elsewhere."""
        return "ro" in self.options


def read_mounts(table: Path = MOUNTINFO) -> list[MountEntry]:
    """Return the mounts in the mount namespace of this process, in the order of the kernel.

    :param table: a file in the format of ``/proc/self/mountinfo``.
    :raises OSError: the table cannot be read.
    """
    return parse_mounts(table.read_text(encoding="utf-8", errors="surrogateescape"))


def parse_mounts(text: str, *, around: str = "") -> list[MountEntry]:
    """Return the mounts of a mount table; malformed lines are skipped.

    :param text: content of ``mountinfo``.
    :param around: omit mounts whose line does not contain this path, which is much faster than parsing all.
    """
    lines = text.splitlines()
    if around and _ESCAPED.isdisjoint(around):
        lines = [line for line in lines if around in line] if around in text else []
    return [entry for line in lines if (entry := _parse(line)) is not None]


def read_mounts_below(directory: Path, table: Path = MOUNTINFO) -> list[MountEntry]:
    """Return the mounts at and below *directory* as :func:`mounts_below` does.

    :raises OSError: the table cannot be read.
    """
    text = table.read_text(encoding="utf-8", errors="surrogateescape")
    return mounts_below(directory, parse_mounts(text, around=_real(directory)))


def mounts_below(directory: Path, mounts: Iterable[MountEntry]) -> list[MountEntry]:
    """Return the mounts at and below *directory*, deepest first, and the topmost first at the same path.

    :param directory: a path whose parents may contain symbolic links.
    :param mounts: the mount table.
    """
    prefix = _real(directory)
    found = [entry for entry in mounts if entry.path == prefix or entry.path.startswith(f"{prefix}/")]
    found.reverse()
    return sorted(found, key=lambda entry: -entry.path.count("/"))


def mounts_at(path: Path, mounts: Iterable[MountEntry]) -> list[MountEntry]:
    """Return the mounts whose mount point is *path*, the topmost last.

    :param path: a path whose parents may contain symbolic links.
    :param mounts: the mount table.
    """
    real = _real(path)
    return [entry for entry in mounts if entry.path == real]


def mount_references(path: Path, mounts: Sequence[MountEntry]) -> list[str]:
    """Return the other mount points of the file system and directory that are mounted at *path*.

    Mount points that contain the path below ``/plugins/kubernetes.io/`` are views of the same mount through another
    bind of the root directory and are omitted.

    :param path: a mount point, such as a staging path.
    :param mounts: the mount table.
    :returns: the sorted mount points; empty if *path* is not a mount point.
    """
    own = mounts_at(path, mounts)
    if not own:
        return []
    real, key = own[-1].path, (own[-1].device, own[-1].root)
    _, marker, rest = real.partition("/plugins/kubernetes.io/")
    view = f"{marker}{rest}" if marker else real
    return sorted({e.path for e in mounts if (e.device, e.root) == key and e.path != real and view not in e.path})


def containing_mount(path: Path, mounts: Iterable[MountEntry]) -> MountEntry | None:
    """Return the mount on which *path* is located, or ``None`` if the table does not contain it.

    :param path: an existing path.
    :param mounts: the mount table.
    """
    real, best = os.path.realpath(path), None
    for entry in mounts:
        prefix = entry.path.rstrip("/")
        covers = real == prefix or real.startswith(f"{prefix}/")
        if covers and (best is None or len(entry.path) >= len(best.path)):
            best = entry
    return best


def _real(path: Path) -> str:
    # The last component may be on a dead server; the kernel lists mount points with resolved parents.
    return str(Path(os.path.realpath(path.parent), path.name))


def _parse(line: str) -> MountEntry | None:
    fields, dash, source = line.partition(" - ")
    values, details = fields.split(" "), source.split(" ")
    if not dash or len(values) < _FIXED_FIELDS or len(details) < 2:
        return None
    try:
        numbers = int(values[0]), int(values[1])
    except ValueError:
        return None
    return MountEntry(
        *numbers,
        values[2],
        _unescaped(values[3]),
        _unescaped(values[4]),
        tuple(values[5].split(",")),
        tuple(values[_FIXED_FIELDS:]),
        details[0],
        _unescaped(details[1]),
    )


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text) if "\\" in text else text
