"""The limits of one cgroup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US

UNLIMITED = -1
HUGEPAGES_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """What a cgroup may use: ``None`` leaves what is in force, ``UNLIMITED`` lifts it.

    :ivar cpu_shares: weight as cgroup v1 has it.
    :ivar cpu_quota: microseconds of each period.
    :ivar hugepages: bytes by page size as the kernel spells it, such as ``2MB``.
    :ivar unified: further files of cgroup v2 with what is written to them.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int = DEFAULT_PERIOD_US
    memory_bytes: int | None = None
    pids: int | None = None
    hugepages: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)
