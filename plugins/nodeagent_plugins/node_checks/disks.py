"""Disk checks: free space and orphaned volumes."""

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
"""Volumes of pods that terminated more recently may still be in teardown."""
_SHOWN = 5


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of disks and volumes."""

    async def disks() -> Sequence[Finding]:
        paths = {"nodefs": str(_there(context.root_dir))}
        try:
            for usage in await context.images.filesystem_usage():
                paths["imagefs"] = usage.mountpoint
        except RuntimeFailure:
            pass  # The runtime check reports it.
        return await asyncio.to_thread(check_disks, paths)

    async def volumes() -> Sequence[Finding]:
        known = await known_pods(context)
        return await asyncio.to_thread(check_orphaned_volumes, context.root_dir, known, time.time())

    return NodeCheck("disks", disks), NodeCheck("orphaned volumes", volumes)


def check_disks(paths: Mapping[str, str]) -> Sequence[Finding]:
    """Return findings for file systems that are nearly full; *paths* are paths by purpose."""
    found, seen = [], set()
    for name, path in paths.items():
        try:
            disk, device = os.statvfs(path), os.stat(path).st_dev  # noqa: PTH116
        except OSError as error:
            found.append(problem(f"{name} at {path} is not accessible: {error.strerror}", "create the directory"))
            continue
        if device in seen:
            continue
        seen.add(device)
        free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0
        inodes = disk.f_favail / disk.f_files if disk.f_files else 1.0
        remedy = "`nodeagent image gc`, `nodeagent evict plan`; remove large logs and emptyDirs, or extend it"
        found += _short(f"{name} ({path})", free, LOW_SHARE, SHORT_SHARE, remedy)
        found += _short(f"{name} ({path}) inodes", inodes, LOW_INODES, SHORT_INODES, "remove small files")
    return found


def check_orphaned_volumes(root: Path, known: frozenset[str], now: float) -> Sequence[Finding]:
    """Return a finding if directories of pods that are not *known* contain volumes."""
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
        "the running agent removes those of deleted pods; if some remain that `nodeagent status` does not list, "
        "check its log, unmount file systems in them and remove them"
    )
    pods = "1 pod" if len(left) == 1 else f"{len(left)} pods"
    return [warning(f"orphaned volumes of {pods}: {shown}", remedy)]


def _there(path: Path) -> Path:
    """Return *path*, or its nearest existing parent."""
    return next((path for path in (path, *path.parents) if path.is_dir()), path)


def _short(name: str, free: float, low: float, short: float, remedy: str) -> list[Finding]:
    text = f"{name}: {free:.0%} free"
    if free < short:
        return [problem(f"{text}; pods are evicted near this level", remedy)]
    return [warning(text, remedy)] if free < low else []


async def known_pods(context: ImageContext) -> frozenset[str]:
    """Return the UIDs of pods in the runtime and on the API server.

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
