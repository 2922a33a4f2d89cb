"""Kernel parameters of a node (spec: config.protectKernelDefaults)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.logging import v_level
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import ConfigError, Problem

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

REQUIRED: Mapping[str, int] = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}
"""Memory overcommit with the OOM killer, reboot after a panic, and key quotas for many pods."""
SYSCTLS = Path("/proc/sys")


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, plugins: PluginHost) -> None:
    if config.protect_kernel_defaults:
        check_parameters(SYSCTLS)
    else:
        plugins.register(KernelTunables(SYSCTLS), name="kernel_tunables.setter")


def check_parameters(sysctls: Path) -> None:
    """Check that the kernel parameters have the required values.

    :raises ConfigError: parameters differ or are unreadable; contains an error per parameter.
    """
    problems = [
        Problem("protectKernelDefaults", name, found, f"must be {REQUIRED[name]} before the agent starts")
        for name, found in read_other(sysctls).items()
    ]
    if problems:
        raise ConfigError(problems)


class KernelTunables:
    """Sets parameters that differ, once; failures are logged."""

    name = "kernel tunables"

    def __init__(self, sysctls: Path) -> None:
        self._sysctls = sysctls

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    async def run(self) -> None:
        """Set the parameters, then wait until cancelled."""
        await asyncio.to_thread(self.set)
        await asyncio.Event().wait()

    def set(self) -> None:
        """Write every parameter that differs."""
        for name, found in read_other(self._sysctls).items():
            details = {"flag": name, "actualValue": found, "expectedValue": REQUIRED[name]}
            try:
                _path(self._sysctls, name).write_text(f"{REQUIRED[name]}\n", encoding="ascii")
            except OSError as error:
                _log.warning("Failed to update kernel flag", extra={**details, "err": str(error)})
            else:
                _log.log(v_level(2), "Updating kernel flag", extra=details)


def read_other(sysctls: Path) -> dict[str, int | str]:
    """Return the parameters that differ, with the current value or the reason why it is unavailable."""
    other: dict[str, int | str] = {}
    for name, required in REQUIRED.items():
        found: int | str
        try:
            found = int(_path(sysctls, name).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            found = error.strerror or "unreadable" if isinstance(error, OSError) else "not a number"
        if found != required:
            other[name] = found
    return other


def _path(sysctls: Path, name: str) -> Path:
    return sysctls.joinpath(*name.split("."))
