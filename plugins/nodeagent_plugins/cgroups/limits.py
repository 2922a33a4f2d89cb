"""Limits of one cgroup."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US

UNLIMITED = -1
HUGEPAGES_UNLIMITED = 1 << 62


class CgroupLimits(Struct, frozen=True):
    """Limits of a cgroup: ``None`` keeps the current value, ``UNLIMITED`` removes the limit.

    :ivar cpu_shares: CPU shares of cgroup v1.
    :ivar cpu_quota: microseconds per period.
    :ivar hugepages: bytes by page size in kernel notation, such as ``2MB``.
    :ivar unified: additional cgroup v2 files and their values.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int = DEFAULT_PERIOD_US
    memory_bytes: int | None = None
    pids: int | None = None
    hugepages: Mapping[str, int] = field(default_factory=dict)
    unified: Mapping[str, str] = field(default_factory=dict)
