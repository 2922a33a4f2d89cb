"""From requests and limits to what the kernel is told. Pure."""

from __future__ import annotations

import math
import os

MIN_SHARES = 2
MAX_SHARES = 262_144
DEFAULT_PERIOD_US = 100_000
MIN_QUOTA_US = 1000


def cpu_shares(milli_cpu: int) -> int:
    """Return the relative weight of *milli_cpu* on cgroup v1; nothing asked for is the least there is."""
    return max(MIN_SHARES, min(MAX_SHARES, milli_cpu * 1024 // 1000)) if milli_cpu > 0 else MIN_SHARES


def cpu_weight(shares: int) -> int:
    """Return the weight on cgroup v2, 1 to 10000, that stands for v1 *shares*."""
    if shares >= MAX_SHARES:
        return 10_000
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def cfs_quota(milli_cpu: int, period_us: int) -> int:
    """Return how many microseconds of each period *milli_cpu* may use; 0 is no quota."""
    return max(MIN_QUOTA_US, milli_cpu * period_us // 1000) if milli_cpu > 0 else 0


def memory_high(request: int, limit: int, factor: float) -> int:
    """Return the bytes from which on the kernel throttles (v2), in whole pages between *request* and *limit*."""
    page = os.sysconf("SC_PAGE_SIZE")
    return math.floor((request + (limit - request) * factor) / page) * page


def swap_share(request: int, memory: int, swap: int) -> int:
    """Return the bytes of the node's *swap* that go with a *request* of its *memory*."""
    return int(request / memory * swap) if memory else 0
