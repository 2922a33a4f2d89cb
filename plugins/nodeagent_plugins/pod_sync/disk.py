"""Directories, links and logs of pods. Blocking; called in threads."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from nodeagent.base.mounts.points import is_mount_point
from nodeagent.errors import NodeAgentError, VolumeError
from nodeagent_plugins.pod_sync.paths import PodPaths

_OWNER_FILE = ".owner"
_MAX_OWNER_BYTES = 4096


def make_pod_directories(paths: PodPaths) -> None:
    """Create the directories of a pod; idempotent.

    :raises NodeAgentError: the file system returned an error.
    """
    try:
        for directory in (paths.root, paths.root / "volumes", paths.root / "plugins"):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        paths.logs.mkdir(mode=0o755, parents=True, exist_ok=True)
        _claim_logs(paths.logs, paths.root.parent.parent)
    except OSError as error:
        text = f"error making pod data directories: {error.filename}: {error.strerror or error}"
        raise NodeAgentError(text, transient=True) from error


def link_log(paths: PodPaths, container: str, attempt: int, container_id: str) -> None:
    """Create the link by which log collectors find the log; idempotent.

    :raises OSError: the file system returned an error.
    """
    link = paths.legacy_link(container, container_id)
    try:
        link.symlink_to(paths.log(container, attempt))
    except FileExistsError:
        return
    except FileNotFoundError:
        link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        link.symlink_to(paths.log(container, attempt))


def remove_log(paths: PodPaths, container: str, attempt: int, container_id: str) -> None:
    """Remove the log files of one run, including rotated ones, and the link; idempotent."""
    with contextlib.suppress(OSError):
        for file in (paths.logs / container).glob(f"{attempt}.log*"):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        paths.legacy_link(container, container_id).unlink(missing_ok=True)


def remove_messages(directory: Path, files: Iterable[str]) -> None:
    """Remove the termination message files in *directory*; others are not touched."""
    for file in map(Path, files):
        if file.parent == directory:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def remove_pod_directory(root: Path) -> list[str]:
    """Remove a pod's directory if it contains only files of the agent; return the paths that remain.

    :raises VolumeError: a file system is still mounted below it.
    """
    mounted = mounts_below(root)
    if mounted:
        raise VolumeError(f"remove {root}: still mounted: {', '.join(mounted)}")
    shutil.rmtree(root / "containers", ignore_errors=True)
    with contextlib.suppress(OSError):
        (root / "etc-hosts").unlink(missing_ok=True)
    for directory, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
    return sorted(str(path) for path in root.rglob("*") if not path.is_dir()) if root.exists() else []


def remove_log_directory(paths_logs: Path) -> None:
    """Remove all logs of a deleted pod; idempotent."""
    shutil.rmtree(paths_logs, ignore_errors=True)


def _claim_logs(directory: Path, agent_root: Path) -> None:
    """Record the agent that created a log directory, since agents on one host can share its parent."""
    with contextlib.suppress(FileExistsError), (directory / _OWNER_FILE).open("x", encoding="utf-8") as file:
        file.write(f"{agent_root}\n")


def belongs_to_other_agent(directory: Path, agent_root: Path) -> bool:
    """Return whether a log directory was created by an agent with another root directory that still exists."""
    try:
        with (directory / _OWNER_FILE).open("rb") as file:
            owner = os.fsdecode(file.read(_MAX_OWNER_BYTES)).rstrip("\n")
    except OSError:
        return False
    return owner != str(agent_root) and Path(owner).is_absolute() and Path(owner).is_dir()


def remove_dead_links(log_root: Path) -> None:
    """Remove links to deleted logs."""
    with contextlib.suppress(FileNotFoundError):
        for link in (log_root / "containers").iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink(missing_ok=True)


def directories(parent: Path) -> list[str]:
    """Return the names of the directories in *parent*; empty if it does not exist."""
    try:
        with os.scandir(parent) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def mounts_below(root: Path) -> list[str]:
    """Return the mount points below *root* in the mount namespace of this process, without those below others.

    The few directories that a released pod has are searched faster than the mounts of a node with many pods.
    """
    found, left = [], [root]
    while left:
        with contextlib.suppress(FileNotFoundError), os.scandir(left.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if is_mount_point(path):
                    found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    left.append(path)
    return sorted(found)
