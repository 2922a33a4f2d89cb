"""Pressure stall information (PSI) of the kernel, for the host and for cgroups of version 2."""

from __future__ import annotations

from typing import NamedTuple

from nodeagent.contracts.stats import Pressure, PressureShare
from nodeagent_plugins.stats.cgroups import CgroupReader
from nodeagent_plugins.stats.machine import Machine, read


class Pressures(NamedTuple):
    """Pressure of each resource; ``None`` if the kernel does not measure it."""

    cpu: Pressure | None = None
    memory: Pressure | None = None
    io: Pressure | None = None


class PressureReader:
    """Reads the pressure of cgroups; blocks for microseconds.

    :param enabled: whether the feature gate ``NodeAgentPSI`` is enabled; otherwise nothing is read.
    """

    def __init__(self, cgroups: CgroupReader, machine: Machine, *, enabled: bool) -> None:
        self._cgroups, self._machine, self._enabled = cgroups, machine, enabled

    def read(self, name: str) -> Pressures:
        """Return the pressure of the cgroup *name*, ``/`` for the host."""
        if not self._enabled or (name != "/" and not self._cgroups.unified):
            return Pressures()
        return Pressures(*(parse(self._file(name, resource)) for resource in Pressures._fields))

    def _file(self, name: str, resource: str) -> bytes | None:
        if name == "/":
            return read(self._machine.root / "proc/pressure" / resource)
        return self._cgroups.file("", name, f"{resource}.pressure")


def parse(text: bytes | None) -> Pressure | None:
    """Return the content of a pressure file, or ``None`` if it is missing or has another format."""
    shares: dict[str, PressureShare] = {}
    for line in (text or b"").decode(errors="replace").splitlines():
        kind, *pairs = line.split()
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        try:
            averages = [float(values[name]) for name in ("avg10", "avg60", "avg300")]
            shares[kind] = PressureShare(int(values["total"]) * 1000, *averages)
        except (KeyError, ValueError):
            return None
    if "some" not in shares:
        return None
    return Pressure(shares["some"], shares.get("full", PressureShare()))
