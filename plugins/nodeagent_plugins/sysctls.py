"""Admission of sysctls: safe ones and allowed unsafe ones (spec: config.allowedUnsafeSysctls)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.sysctls import normalize_sysctl, sysctl_name_problems
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

Kernel = tuple[int, int]

_SAFE: dict[str, Kernel] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
}
"""Safe sysctls with the first kernel version that has them namespaced."""
_IPC_PREFIXES = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_IPC_NAMES = frozenset(("kernel.sem",))
_NET_PREFIX = "net."


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, plugins: PluginHost) -> None:
    allowed = (*safe_sysctls(kernel_version(os.uname().release)), *config.allowed_unsafe_sysctls)
    plugins.register(SysctlAdmission(allowed), name="sysctls.admission")


class SysctlAdmission:
    """Rejects pods with sysctls that are not allowed.

    :param allowed: names, and prefixes that end with ``*``.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        patterns = [normalize_sysctl(pattern) for pattern in allowed]
        self._names = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))

    @hookimpl(tryfirst=True)
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        context = pod.spec.security_context
        for sysctl in (context.sysctls if context is not None else None) or ():
            name = normalize_sysctl(sysctl.name)
            problem = ""
            valid = not sysctl_name_problems(sysctl.name)  # A prefix would match invalid names too.
            if name not in self._names and not (valid and name.startswith(self._prefixes)):
                problem = "not allowlisted"
            elif pod.spec.host_network and name.startswith(_NET_PREFIX):
                problem = "not allowed with host Net enabled"
            elif pod.spec.host_ipc and (name in _IPC_NAMES or name.startswith(_IPC_PREFIXES)):
                problem = "not allowed with host IPC enabled"
            if problem:
                return Rejection("SysctlForbidden", f'forbidden sysctl: "{name}" {problem}')
        return None


def safe_sysctls(kernel: Kernel) -> list[str]:
    """Return the safe sysctls of this kernel."""
    return [name for name, since in _SAFE.items() if kernel >= since]


def kernel_version(release: str) -> Kernel:
    """Return major and minor version of a kernel release such as ``6.1.0-13-amd64``."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
