"""Resource usage of pods and containers as measured by the container runtime."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.structs import Struct
from nodeagent.contracts.stats import InterfaceStats


class ContainerStats(Struct, frozen=True):
    """Usage of one container; cumulative CPU in nanoseconds, sizes in bytes, times in epoch nanoseconds."""

    id: str
    name: str
    pod_uid: str
    timestamp: int = 0
    cpu_usage_core_nanoseconds: int = 0
    memory_working_set_bytes: int = 0
    memory_usage_bytes: int = 0
    memory_rss_bytes: int = 0
    writable_layer_bytes: int = 0
    writable_layer_inodes: int = 0
    writable_layer_mountpoint: str = ""
    """Mount point of the file system of writable layers, or a directory in it."""
    memory_available_bytes: int | None = None
    """``None`` without a limit."""
    page_faults: int = 0
    major_page_faults: int = 0
    swap_usage_bytes: int | None = None
    swap_available_bytes: int | None = None
    cpu_usage_nanocores: int | None = None
    """The runtime's own rate of CPU usage, if reported."""


class SandboxStats(Struct, frozen=True):
    """Usage of one pod and its containers as measured by the runtime; unreported values are ``None``."""

    id: str
    pod_uid: str
    timestamp: int = 0
    cpu_usage_core_nanoseconds: int | None = None
    cpu_usage_nanocores: int | None = None
    memory_available_bytes: int | None = None
    memory_working_set_bytes: int | None = None
    memory_usage_bytes: int | None = None
    memory_rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    process_count: int | None = None
    interfaces: Sequence[InterfaceStats] = ()
    """The default one first."""
    containers: Sequence[ContainerStats] = ()
