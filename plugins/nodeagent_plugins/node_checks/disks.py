"""Whether disks have room, and whether volumes were left behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodeagent.contracts.api import NODES, PODS
from nodeagent.contracts.checks import CheckInconclusive, Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext
from nodeagent.errors import NodeAgentError, RuntimeFailure

LOW_SHARE, SHORT_SHARE = 0.15, 0.10
LOW_INODES, SHORT_INODES = 0.10, 0.05
ORPHAN_SECONDS = 300.0
"""Volumes of pods that ended later than that are still being taken down."""
_SHOWN = 5


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of disks and volumes."""

    async def disks() -> Sequence[Finding]:
        places = {"nodefs": str(_there(context.root_dir))}
        try:
            for usage in await context.images.filesystem_usage():
                places["imagefs"] = usage.mountpoint
        except RuntimeFailure:
            pass  # told by the check of the runtime
        return await asyncio.to_thread(check_disks, places)

    async def volumes() -> Sequence[Finding]:
        known = await _known_pods(context)
        return await asyncio.to_thread(check_orphaned_volumes, context.root_dir, known, time.time())

    return NodeCheck("disks", disks), NodeCheck("orphaned volumes", volumes)


def check_disks(places: Mapping[str, str]) -> Sequence[Finding]:
    """Return findings for file systems that are nearly full; *places* are paths by what they are for."""
    found, seen = [], set()
    for name, path in places.items():
        try:
            disk, device = os.statvfs(path), os.stat(path).st_dev  # noqa: PTH116
        except OSError as error:
            found.append(problem(f"{name} at {path} cannot be looked at: {error.strerror}", "make the directory"))
            continue
        if device in seen:
            continue
        seen.add(device)
        free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0
        inodes = disk.f_favail / disk.f_files if disk.f_files else 1.0
        remedy = "`nodeagent image gc`, `nodeagent evict plan`; look for large logs and emptyDirs, or make it larger"
        found += _short(f"{name} ({path})", free, LOW_SHARE, SHORT_SHARE, remedy)
        found += _short(f"{name} ({path}) inodes", inodes, LOW_INODES, SHORT_INODES, "look for many small files")
    return found


def check_orphaned_volumes(root: Path, known: frozenset[str], now: float) -> Sequence[Finding]:
    """Return a finding when directories of pods that are not *known* still hold volumes."""
    left = []
    try:
        directories = [path for path in (root / "pods").iterdir() if path.is_dir() and path.name not in known]
    except OSError:
        return []
    for pod in directories:
        volumes = [path for path in pod.glob("volumes/*/*") if path.is_dir()]
        if volumes and now - pod.stat().st_mtime > ORPHAN_SECONDS:
            left.append(str(pod))
    if not left:
        return []
    shown = ", ".join(sorted(left)[:_SHOWN]) + (", …" if len(left) > _SHOWN else "")
    remedy = (
        "the running agent removes those of pods that are gone; of any that stay and that `nodeagent status` does not "
        "list, see its log, unmount what is mounted there and remove them"
    )
    pods = "1 pod" if len(left) == 1 else f"{len(left)} pods"
    return [warning(f"volumes are left of {pods} that nobody here knows: {shown}", remedy)]


def _there(path: Path) -> Path:
    """Return *path*, or where it would be made."""
    return next((place for place in (path, *path.parents) if place.is_dir()), path)


def _short(what: str, free: float, low: float, short: float, remedy: str) -> list[Finding]:
    text = f"{what}: {free:.0%} free"
    if free < short:
        return [problem(f"{text}; pods are evicted about here", remedy)]
    return [warning(text, remedy)] if free < low else []


async def _known_pods(context: ImageContext) -> frozenset[str]:
    """Return the UIDs of pods that the runtime or the API server knows.

    :raises CheckInconclusive: one of them does not respond, or the API server has no node of this name: no pod is
        bound to a wrong name, so volumes of pods that have not started yet would be reported as orphaned.
    """
    try:
        uids = {sandbox.uid for sandbox in await context.runtime.list_sandboxes()}
        if context.api is not None:
            await context.api.get(NODES, context.node_name, into=dict)
            selector = f"spec.nodeName={context.node_name}"
            for pod in (await context.api.list(PODS, into=dict, field_selector=selector, cached=True)).items:
                uids.add(pod["metadata"]["uid"])
    except NodeAgentError as error:
        raise CheckInconclusive from error
    return frozenset(uids)
