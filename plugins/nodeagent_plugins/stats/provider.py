"""Measures on demand, and answers with what it measured a moment ago."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from nodeagent_plugins.stats.machine import Machine, filesystem

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import ContainerState, ContainerStats, SandboxInfo
from nodeagent.contracts.stats import (
    ContainerUsage,
    CpuStats,
    FilesystemStats,
    MemoryStats,
    NodeUsage,
    PodUsage,
)


class MeasuredStats:
    """A :class:`~nodeagent.contracts.stats.StatsProvider` on the kernel's accounts and the runtime's."""

    def __init__(self, context: AgentContext, machine: Machine | None = None) -> None:
        self._context, self._machine = context, machine or Machine()

    async def node(self, *, fresh: bool = False) -> NodeUsage:
        return await asyncio.to_thread(self._measure_node)

    async def pods(self, *, fresh: bool = False, volumes: bool = True) -> Sequence[PodUsage]:
        runtime = self._context.runtime
        sandboxes = await runtime.list_sandboxes()
        by_id = {sandbox.id: sandbox for sandbox in sandboxes}
        stats = {found.id: found for found in await runtime.container_stats()}
        running: dict[str, list[ContainerUsage]] = {}
        owners: dict[str, SandboxInfo] = {}
        for container in await runtime.list_containers():
            owner = by_id.get(container.sandbox_id)
            if owner is None or container.state is not ContainerState.RUNNING:
                continue
            owners[owner.uid] = owner
            usage = _container_usage(container.name, container.created_at, stats.get(container.id), container.id)
            running.setdefault(owner.uid, []).append(usage)
        return [
            PodUsage(uid, owners[uid].namespace, owners[uid].name, owners[uid].created_at, containers)
            for uid, containers in running.items()
        ]

    def _measure_node(self) -> NodeUsage:
        machine, now = self._machine, nanoseconds(self._context.clock.wall())
        capacity, used = machine.memory_capacity(), machine.memory_used()
        return NodeUsage(
            machine.boot_time(),
            cpu=CpuStats(now, usage_core_nanoseconds=machine.cpu_nanoseconds()),
            memory=MemoryStats(now, available_bytes=capacity - used, usage_bytes=used, working_set_bytes=used),
            filesystem=filesystem(self._context.root_dir, now),
            interfaces=machine.interfaces(),
            max_pids=machine.max_pids(),
            current_pids=machine.current_pids(),
        )


def nanoseconds(moment: datetime) -> int:
    """Return a time of day in epoch nanoseconds."""
    return int(moment.timestamp() * 1_000_000) * 1000


def _container_usage(name: str, created_at: int, stats: ContainerStats | None, container_id: str) -> ContainerUsage:
    if stats is None:
        return ContainerUsage(name, created_at, container_id=container_id)
    at = stats.timestamp
    return ContainerUsage(
        name,
        created_at,
        cpu=CpuStats(at, usage_core_nanoseconds=stats.cpu_usage_core_nanoseconds),
        memory=MemoryStats(
            at,
            usage_bytes=stats.memory_usage_bytes,
            working_set_bytes=stats.memory_working_set_bytes,
            rss_bytes=stats.memory_rss_bytes,
        ),
        rootfs=FilesystemStats(at, used_bytes=stats.writable_layer_bytes, inodes_used=stats.writable_layer_inodes),
        container_id=container_id,
    )
