"""Conversion of requests and limits to kernel values. No I/O."""

from __future__ import annotations

import math
import os

MIN_SHARES = 2
MAX_SHARES = 262_144
DEFAULT_PERIOD_US = 100_000
MIN_QUOTA_US = 1000


def cpu_shares(milli_cpu: int) -> int:
    """Return the cgroup v1 CPU shares for *milli_cpu*; the minimum for 0."""
    return max(MIN_SHARES, min(MAX_SHARES, milli_cpu * 1024 // 1000)) if milli_cpu > 0 else MIN_SHARES


def cpu_weight(shares: int) -> int:
    """Return the cgroup v2 weight, 1 to 10000, that is equivalent to v1 *shares*."""
    if shares >= MAX_SHARES:
        return 10_000
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def cfs_quota(milli_cpu: int, period_us: int) -> int:
    """Return the microseconds per period that *milli_cpu* may use; 0 disables the quota."""
    return max(MIN_QUOTA_US, milli_cpu * period_us // 1000) if milli_cpu > 0 else 0


def memory_high(request: int, limit: int, factor: float) -> int:
    """Return the throttling limit in bytes (v2), a page boundary between *request* and *limit*."""
    page = os.sysconf("SC_PAGE_SIZE")
    return math.floor((request + (limit - request) * factor) / page) * page


def swap_share(request: int, memory: int, swap: int) -> int:
    """Return the share of the node's *swap* for a *request* of its *memory*, in bytes."""
    return int(request / memory * swap) if memory else 0
