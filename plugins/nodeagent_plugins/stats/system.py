"""System containers: cgroups of the agent, the runtime and the other system processes.

spec: config.nodeagentCgroups, config.systemCgroups
"""

from __future__ import annotations

import socket
import struct
import time

from nodeagent.contracts.context import ProberContext
from nodeagent.contracts.stats import ContainerUsage
from nodeagent_plugins.stats.cgroup_lookup import CgroupLocator
from nodeagent_plugins.stats.cgroups import CgroupReader
from nodeagent_plugins.stats.machine import Machine
from nodeagent_plugins.stats.pods import cpu_stats, io_stats, memory_stats
from nodeagent_plugins.stats.pressure import PressureReader
from nodeagent_plugins.stats.rates import CpuRates

CHECK_SECONDS = 300.0
"""Interval of the search for the runtime's cgroup if it is not configured."""
_UNIX = "unix://"


class SystemContainers:
    """Measures ``kubelet``, ``runtime``, ``misc`` and ``pods``, if their cgroups are known."""

    def __init__(
        self,
        context: ProberContext,
        machine: Machine,
        cgroups: CgroupReader,
        locator: CgroupLocator,
        rates: CpuRates,
        pressures: PressureReader,
    ) -> None:
        self._context, self._machine, self._cgroups = context, machine, cgroups
        self._locator, self._rates, self._pressures = locator, rates, pressures
        self._started_at = time.time_ns()
        self._runtime, self._next_check_at = "", 0.0

    def measure(self, now: int) -> tuple[ContainerUsage, ...]:
        config = self._context.config
        found = []
        for name, cgroup in (
            ("kubelet", config.nodeagent_cgroups or self._cgroups.own()),
            ("runtime", self._context.settings.runtime_cgroups or self._find_runtime()),
            ("misc", config.system_cgroups),
            ("pods", self._locator.all_pods()),
        ):
            if cgroup in ("", "/"):
                continue
            account = self._cgroups.account(cgroup)
            if account is None:
                continue
            started = self._started_at if name == "kubelet" else self._cgroups.created_at(cgroup)
            rate = self._rates.update(cgroup, now, account.cpu_nanoseconds)
            pressures = self._pressures.read(cgroup)
            cpu, memory = cpu_stats(account, now, rate, pressures.cpu), memory_stats(account, now, pressures.memory)
            found.append(ContainerUsage(name, started, cpu, memory, io=io_stats(pressures.io, now)))
        return tuple(found)

    def _find_runtime(self) -> str:
        """Return the cgroup of the process that listens on the runtime's socket."""
        now = self._context.clock.now()
        if now >= self._next_check_at:
            self._next_check_at = now + CHECK_SECONDS
            pid = _listener(self._context.config.container_runtime_endpoint)
            self._runtime = self._cgroups.own(pid) if pid else ""
        return self._runtime


def _listener(endpoint: str) -> int:
    """Return the process that listens on a Unix socket; 0 if unknown."""
    path = endpoint.removeprefix(_UNIX)
    if not path.startswith("/"):
        return 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(1)
            connection.connect(path)
            packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return 0
    pid: int = struct.unpack("3i", packed)[0]
    return pid
