"""``/metrics/cadvisor``: every account of each cgroup, under the names that dashboards ask for.

Read when asked for, in a thread; between scrapes it costs nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from aiohttp import web
from nodeagent_plugins.stats.cgroups import CgroupReader
from nodeagent_plugins.stats.counters import (
    IoCounts,
    Throttling,
    descriptors,
    io_counts,
    limits,
    network_counts,
    oom_kills,
    task_counts,
    throttling,
)
from nodeagent_plugins.stats.machine import Machine, nanoseconds
from nodeagent_plugins.stats.pods import RunningPod
from nodeagent_plugins.stats.provider import MeasuredStats

from nodeagent.base.metrics import Family, expose
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.server import Reach, Route
from nodeagent.contracts.stats import PodUsage

LABELS = ("container", "id", "image", "name", "namespace", "pod")
_BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Subject:
    """A cgroup with what is known of it."""

    id: str
    container: str = ""
    image: str = ""
    name: str = ""
    namespace: str = ""
    pod: str = ""
    started_at: int = 0
    network: bool = False
    """Whether the interfaces of its processes are told under it."""

    @property
    def values(self) -> tuple[str, ...]:
        return (self.container, self.id, self.image, self.name, self.namespace, self.pod)


def cadvisor_routes(context: AgentContext, stats: MeasuredStats) -> Sequence[Route]:
    """Return the route."""

    async def metrics(request: web.Request) -> web.Response:
        running, usage = await stats.running_pods(), {pod.uid: pod for pod in await stats.pods()}
        now = nanoseconds(context.clock.wall())
        accept, shown = request.headers.get("Accept", ""), bool(context.config.show_hidden_metrics_for_version)

        def collect() -> tuple[bytes, str]:
            scrape = Scrape(stats.cgroups, stats.machine, now)
            for subject in _subjects(stats, running):
                scrape.add(subject)
            scrape.add_disks(stats, running, usage)
            return expose([*scrape.families.values(), *_of_machine(stats.machine)], accept, deprecated=shown)

        body, content_type = await asyncio.to_thread(collect)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return (Route("GET", "/metrics/cadvisor", metrics, Reach.READ_ONLY, ("metrics",)),)


def _subjects(stats: MeasuredStats, pods: Sequence[RunningPod]) -> Iterator[Subject]:
    yield Subject("/", network=True)
    top = stats.places.all_pods()
    if top and stats.cgroups.exists(top):
        yield Subject(top)
        yield from (
            Subject(name) for name in stats.cgroups.children(top) if "burstable" in name or "besteffort" in name
        )
    for pod in pods:
        sandbox = pod.sandbox
        if own := stats.places.pod(sandbox.uid):
            yield Subject(own, "", "", "", sandbox.namespace, sandbox.name, sandbox.created_at)
        if place := stats.places.container(sandbox.uid, sandbox.id):
            yield Subject(place, "", "", sandbox.id, sandbox.namespace, sandbox.name, sandbox.created_at, network=True)
        for container in pod.containers:
            place = stats.places.container(sandbox.uid, container.id)
            if place:
                yield Subject(
                    place,
                    container.name,
                    container.image,
                    container.id,
                    sandbox.namespace,
                    sandbox.name,
                    container.created_at,
                )


@dataclass(slots=True)
class Scrape:
    """Collects the samples of one scrape, all with the time *now*."""

    cgroups: CgroupReader
    machine: Machine
    now: int
    families: dict[str, Family] = field(default_factory=dict)

    def add(self, subject: Subject) -> None:
        """Read the accounts of a cgroup; one that is gone is left out."""
        root = subject.id == "/"
        account = self.cgroups.root() if root else self.cgroups.account(subject.id)
        if account is None:
            return
        values = subject.values
        self._seconds(
            "container_cpu_usage_seconds_total", "Cumulative cpu time consumed", account.cpu_nanoseconds, values
        )
        for name, text, value in (
            ("memory_usage_bytes", "Current memory usage, including all memory", account.memory_bytes),
            ("memory_working_set_bytes", "Current working set", account.working_set_bytes),
            ("memory_rss", "Size of RSS in bytes.", account.rss_bytes),
            ("memory_cache", "Number of bytes of page cache memory.", account.cache_bytes),
            ("memory_mapped_file", "Size of memory mapped files in bytes.", account.mapped_file_bytes),
            ("memory_swap", "Container swap usage in bytes.", account.swap_bytes),
            ("oom_events_total", "Count of out of memory events observed", oom_kills(self.cgroups, subject.id)),
            ("last_seen", "Last time a container was seen by the exporter", self.now // _BILLION),
        ):
            self._gauge(f"container_{name}", text, value, values)
        self._failures(account.page_faults, account.major_page_faults, values)
        self._limits(subject, account.memory_limit_bytes)
        if subject.started_at:
            started = subject.started_at / _BILLION
            self._family("container_start_time_seconds", "gauge", "Start time of the container").add(started, *values)
        throttled = throttling(self.cgroups, subject.id)
        if throttled is not None and throttled.periods:
            self._throttling(throttled, values)
        for device, io in io_counts(self.cgroups, subject.id).items():
            self._io(_device(device, self.machine), io, values)
        if not root:
            self._processes(subject)
        if subject.network:
            pids = [1] if root else self.cgroups.processes(subject.id)
            for interface, counts in network_counts(self.machine, next(filter(None, pids), 0)).items():
                for name, count in counts.items():
                    self._family(
                        f"container_network_{name}_total",
                        "counter",
                        "Cumulative count of a network interface",
                        "interface",
                    ).add(count, *values, interface, at=self.now)

    def add_disks(self, stats: MeasuredStats, pods: Sequence[RunningPod], usage: Mapping[str, PodUsage]) -> None:
        """Add what writable layers and logs take, as it was last measured."""
        for pod in pods:
            measured = (
                {container.name: container for container in usage[pod.sandbox.uid].containers}
                if (pod.sandbox.uid in usage)
                else {}
            )
            for container in pod.containers:
                found, place = measured.get(container.name), stats.places.container(pod.sandbox.uid, container.id)
                if found is None or found.rootfs is None or not place:
                    continue
                sandbox = pod.sandbox
                values = (container.name, place, container.image, container.id, sandbox.namespace, sandbox.name, "")
                used = (found.rootfs.used_bytes or 0) + (found.logs.used_bytes or 0 if found.logs is not None else 0)
                for name, text, value in (
                    ("usage_bytes", "Number of bytes that are consumed by the container on this filesystem.", used),
                    (
                        "limit_bytes",
                        "Number of bytes that can be consumed by the container on this filesystem.",
                        found.rootfs.capacity_bytes,
                    ),
                    ("inodes_free", "Number of available Inodes", found.rootfs.inodes_free),
                    ("inodes_total", "Number of Inodes", found.rootfs.inodes),
                ):
                    if value is not None:
                        self._family(f"container_fs_{name}", "gauge", text, "device").add(value, *values, at=self.now)

    def _limits(self, subject: Subject, memory: int | None) -> None:
        values = subject.values
        found = limits(self.cgroups, subject.id)
        self._gauge("container_spec_memory_limit_bytes", "Memory limit for the container.", memory or 0, values)
        self._gauge("container_spec_cpu_period", "CPU period of the container.", found.period, values)
        self._gauge("container_spec_cpu_quota", "CPU quota of the container.", found.quota, values)
        self._gauge("container_spec_cpu_shares", "CPU share of the container.", found.shares, values)

    def _failures(self, faults: int | None, major: int | None, values: tuple[str, ...]) -> None:
        family = self._family(
            "container_memory_failures_total",
            "counter",
            "Cumulative count of memory allocation failures.",
            "failure_type",
            "scope",
        )
        for kind, count in (("pgfault", faults), ("pgmajfault", major)):
            if count is not None:
                family.add(count, *values, kind, "hierarchy", at=self.now)

    def _throttling(self, found: Throttling, values: tuple[str, ...]) -> None:
        for name, text, value in (
            ("periods", "Number of elapsed enforcement period intervals.", found.periods),
            ("throttled_periods", "Number of throttled period intervals.", found.throttled),
        ):
            self._family(f"container_cpu_cfs_{name}_total", "counter", text).add(value, *values, at=self.now)
        self._seconds(
            "container_cpu_cfs_throttled_seconds_total",
            "Total time duration the container has been throttled.",
            found.nanoseconds,
            values,
        )

    def _io(self, device: str, found: IoCounts, values: tuple[str, ...]) -> None:
        for name, text, value in (
            ("reads_bytes", "Cumulative count of bytes read", found.read_bytes),
            ("reads", "Cumulative count of reads completed", found.reads),
            ("writes_bytes", "Cumulative count of bytes written", found.written_bytes),
            ("writes", "Cumulative count of writes completed", found.writes),
        ):
            self._family(f"container_fs_{name}_total", "counter", text, "device").add(
                value, *values, device, at=self.now
            )

    def _processes(self, subject: Subject) -> None:
        values, pids = subject.values, self.cgroups.processes(subject.id)
        threads, most = task_counts(self.cgroups, subject.id)
        files, sockets = descriptors(self.machine, [pid for pid in pids if pid])
        for name, text, value in (
            ("processes", "Number of processes running inside the container.", len(pids)),
            ("threads", "Number of threads running inside the container", threads),
            ("threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero", most),
            ("file_descriptors", "Number of open file descriptors for the container.", files),
            ("sockets", "Number of open sockets for the container.", sockets),
        ):
            self._gauge(f"container_{name}", text, value, values)

    def _gauge(self, name: str, text: str, value: int | None, values: tuple[str, ...]) -> None:
        if value is not None:
            kind = "counter" if name.endswith("_total") else "gauge"
            self._family(name, kind, text).add(value, *values, at=self.now)

    def _seconds(self, name: str, text: str, value: int | None, values: tuple[str, ...]) -> None:
        if value is not None:
            extra = ("total",) if name == "container_cpu_usage_seconds_total" else ()
            labels = ("cpu",) if extra else ()
            self._family(name, "counter", f"{text} in seconds.", *labels).add(
                value / _BILLION, *values, *extra, at=self.now
            )

    def _family(self, name: str, kind: str, text: str, *extra: str) -> Family:
        found = self.families.get(name)
        if found is None:
            found = self.families[name] = Family(name, kind, text, (*LABELS, *extra))
        return found


def _of_machine(machine: Machine) -> Iterator[Family]:
    for name, text, value in (
        ("cpu_cores", "Number of logical CPU cores.", os.cpu_count() or 1),
        ("memory_bytes", "Amount of memory installed on the machine.", machine.memory_capacity()),
        ("swap_bytes", "Amount of swap memory available on the machine.", machine.swap()[0]),
    ):
        family = Family(f"machine_{name}", "gauge", text, ("boot_id", "machine_id", "system_uuid"))
        family.add(value, *machine.identity())
        yield family


@cache
def _device(number: str, machine: Machine) -> str:
    """Return the device that a number such as ``8:0`` stands for, or the number."""
    try:
        return f"/dev/{(machine.root / 'sys/dev/block' / number).readlink().name}"
    except OSError:
        return number
