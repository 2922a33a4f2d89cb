"""Kernel parameters that a node relies on (spec: config.protectKernelDefaults)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import ConfigError, Problem

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

WANTED: Mapping[str, int] = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}
"""Memory is promised freely and taken back by killing, a broken kernel restarts, and keys suffice for many pods."""
SYSCTLS = Path("/proc/sys")


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, plugins: PluginHost) -> None:
    if config.protect_kernel_defaults:
        refuse_other(SYSCTLS)
    else:
        plugins.register(KernelTunables(SYSCTLS), name="kernel_tunables.setter")


def refuse_other(sysctls: Path) -> None:
    """Check that the kernel is set as a node relies on.

    :raises ConfigError: it is not, or does not tell; with every parameter that differs.
    """
    problems = [
        Problem("protectKernelDefaults", name, found, f"must be {WANTED[name]} before the agent starts")
        for name, found in read_other(sysctls).items()
    ]
    if problems:
        raise ConfigError(problems)


class KernelTunables:
    """Sets what differs, once; what the kernel refuses is logged."""

    name = "kernel tunables"

    def __init__(self, sysctls: Path) -> None:
        self._sysctls = sysctls

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    async def run(self) -> None:
        """Set the parameters, then wait to be cancelled."""
        await asyncio.to_thread(self.set)
        await asyncio.Event().wait()

    def set(self) -> None:
        """Write every parameter that differs."""
        for name, found in read_other(self._sysctls).items():
            details = {"sysctl": name, "found": found, "wanted": WANTED[name]}
            try:
                _path(self._sysctls, name).write_text(f"{WANTED[name]}\n", encoding="ascii")
            except OSError as error:
                _log.warning("Kernel parameter cannot be set", extra={**details, "err": str(error)})
            else:
                _log.info("Kernel parameter set", extra=details)


def read_other(sysctls: Path) -> dict[str, int | str]:
    """Return the parameters that are not as wanted, with what was found: a value, or why there is none."""
    other: dict[str, int | str] = {}
    for name, wanted in WANTED.items():
        found: int | str
        try:
            found = int(_path(sysctls, name).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            found = error.strerror or "unreadable" if isinstance(error, OSError) else "not a number"
        if found != wanted:
            other[name] = found
    return other


def _path(sysctls: Path, name: str) -> Path:
    return sysctls.joinpath(*name.split("."))
