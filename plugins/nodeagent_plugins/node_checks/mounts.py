"""Storage checks: orphaned mounts, mount propagation, and CSI drivers that do not respond."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.mounts.table import MountEntry, containing_mount, mounts_below, read_mounts
from nodeagent.contracts.checks import Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext
from nodeagent_plugins.node_checks.disks import ORPHAN_SECONDS, known_pods

RESPONSE_SECONDS = 3.0
_SHOWN = 5
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""Start of an HTTP/2 connection with empty settings; a gRPC server responds with its settings."""
_FRAME_HEADER_BYTES, _TYPE, _SETTINGS = 9, 3, 4


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of mounts and CSI drivers."""
    root = context.root_dir

    async def mounts() -> Sequence[Finding]:
        known, now = await known_pods(context), context.clock.wall().timestamp()
        return await asyncio.to_thread(lambda: check_orphaned_mounts(root, known, read_mounts(), now))

    async def drivers() -> Sequence[Finding]:
        sockets = await asyncio.to_thread(driver_sockets, root)
        shared = await asyncio.to_thread(lambda: check_propagation(root, read_mounts(), used=bool(sockets)))
        return [*shared, *await check_drivers(sockets)]

    return NodeCheck("orphaned mounts", mounts), NodeCheck("CSI drivers", drivers)


def check_orphaned_mounts(
    root: Path, known: frozenset[str], mounts: Iterable[MountEntry], now: float
) -> Sequence[Finding]:
    """Return a finding if file systems are mounted below directories of pods that are not *known*."""
    pods, left = root / "pods", []
    for entry in mounts_below(pods, mounts):
        with contextlib.suppress(ValueError):
            uid = Path(entry.path).relative_to(pods.resolve()).parts[:1]
            if uid and uid[0] not in known and now - _changed_at(pods / uid[0]) > ORPHAN_SECONDS:
                left.append(entry.path)
    if not left:
        return []
    shown = ", ".join(sorted(left)[:_SHOWN]) + (", …" if len(left) > _SHOWN else "")
    remedy = (
        "the running agent unmounts the volumes of deleted pods; if a mount remains, check its log for the reason, "
        "stop the processes that use it, and unmount it without -l; never remove directories below a mount"
    )
    return [warning(f"{len(left)} orphaned mount{'s' * (len(left) > 1)} of deleted pods: {shown}", remedy)]


def check_propagation(root: Path, mounts: Iterable[MountEntry], *, used: bool) -> Sequence[Finding]:
    """Return a finding if mounts that drivers make below *root* do not reach other containers. Blocking.

    :param used: a driver has registered; without one, the finding is only a warning.
    """
    entry = containing_mount(root, mounts)
    if entry is None or entry.shared or not (root / "plugins_registry").is_dir():  # No agent has started there.
        return []
    remedy = (
        f"restart the agent, which makes {root} a shared mount, and check its log; its unit must not have "
        "PrivateMounts, PrivateTmp or ProtectSystem. Or run `mount --bind DIR DIR && mount --make-rshared DIR` while "
        "nothing is mounted below"
    )
    if used:
        return [problem(f"the root directory {root} is not a shared mount: volumes of CSI drivers stay empty", remedy)]
    return [warning(f"the root directory {root} is not a shared mount: containers of CSI drivers cannot start", remedy)]


def driver_sockets(root: Path) -> list[Path]:
    """Return the sockets of CSI drivers and of their registrars. Blocking."""
    found = [*root.glob("plugins_registry/*.sock"), *root.glob("plugins/*/csi.sock")]
    return sorted(path for path in found if _is_socket(path))


async def check_drivers(sockets: Sequence[Path]) -> Sequence[Finding]:
    """Return a finding for each socket whose server does not respond."""
    reasons = await asyncio.gather(*(_problem_of(path) for path in sockets))
    remedy = "check the pod of the driver with `nodeagent why`, and its logs; volumes of the driver wait for it"
    return [
        warning(f"CSI driver at {path} does not respond: {reason}", remedy)
        for path, reason in zip(sockets, reasons, strict=True)
        if reason
    ]


async def _problem_of(path: Path) -> str:
    """Return why the server of a socket does not respond; empty if it does."""
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                writer.write(_PREFACE)
                await writer.drain()
                frame = await reader.readexactly(_FRAME_HEADER_BYTES)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        return f"no response within {RESPONSE_SECONDS:.0f} s"
    except asyncio.IncompleteReadError:
        return "connection closed"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if frame[_TYPE] == _SETTINGS else "the response is not gRPC"


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
