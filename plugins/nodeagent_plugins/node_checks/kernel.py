"""Kernel checks: features for containers, cgroup controllers and swap."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from nodeagent.contracts.checks import Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext

CONTROLLERS = ("cpu", "cpuset", "memory", "pids")
_LOAD = "load it now and at boot: `modprobe {0}`, and {0} in /etc/modules-load.d/"


def checks(context: ImageContext, root: Path = Path("/")) -> Sequence[NodeCheck]:
    """Return the checks of the kernel; *root* is the parent directory of ``proc`` and ``sys``."""

    async def swap() -> Sequence[Finding]:
        return await asyncio.to_thread(check_swap, root, context.config.fail_swap_on)

    async def features() -> Sequence[Finding]:
        return await asyncio.to_thread(check_kernel_features, root)

    async def cgroups() -> Sequence[Finding]:
        return await asyncio.to_thread(check_cgroup_controllers, root)

    return NodeCheck("swap", swap), NodeCheck("kernel features", features), NodeCheck("cgroup controllers", cgroups)


def check_swap(root: Path, fail_swap_on: bool) -> Sequence[Finding]:
    """Return a finding if swap is enabled; *fail_swap_on* is ``failSwapOn``."""
    lines = _read(root / "proc/swaps").splitlines()[1:]
    if not lines:
        return []
    paths = ", ".join(line.split()[0] for line in lines)
    if fail_swap_on:
        remedy = "`swapoff -a` and remove it from /etc/fstab, or set failSwapOn: false"
        return [problem(f"swap is on ({paths}), and failSwapOn prevents the agent from starting", remedy)]
    return [warning(f"swap is on ({paths}): memory limits are less exact", "`swapoff -a`, unless it is intended")]


def check_kernel_features(root: Path) -> Sequence[Finding]:
    """Return findings for missing or disabled features."""
    found = []
    filesystems = {line.split()[-1] for line in _read(root / "proc/filesystems").splitlines() if line.strip()}
    if "overlay" not in filesystems:
        found.append(problem("the kernel has no overlay file system", _LOAD.format("overlay")))
    bridge = root / "proc/sys/net/bridge/bridge-nf-call-iptables"
    if not bridge.exists():
        text = "br_netfilter is not loaded: Services fail to reach pods behind a bridge"
        found.append(warning(text, _LOAD.format("br_netfilter")))
    elif _read(bridge).strip() != "1":
        text = "net.bridge.bridge-nf-call-iptables is off: Services fail to reach pods behind a bridge"
        found.append(warning(text, "set it to 1 in /etc/sysctl.d/"))
    if _read(root / "proc/sys/net/ipv4/ip_forward").strip() != "1":
        text = "net.ipv4.ip_forward is off: pods on different nodes cannot communicate"
        found.append(problem(text, "`sysctl -w net.ipv4.ip_forward=1`, and in /etc/sysctl.d/"))
    return found


def check_cgroup_controllers(root: Path) -> Sequence[Finding]:
    """Return a finding if controllers are missing, for both versions of cgroups."""
    enabled = set(_read(root / "sys/fs/cgroup/cgroup.controllers").split())
    for line in _read(root / "proc/cgroups").splitlines():
        fields = line.split()
        if not line.startswith("#") and len(fields) == 4 and fields[1] != "0" and fields[3] == "1":
            enabled.add(fields[0])  # Attached to a version 1 hierarchy.
    missing = [name for name in CONTROLLERS if name not in enabled]
    if not missing:
        return []
    remedy = "enable them at boot (for example cgroup_enable=memory), and mount /sys/fs/cgroup"
    return [problem(f"cgroup controllers are missing: {', '.join(missing)}", remedy)]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
