"""``/metrics/cadvisor``: cgroup statistics under the names of cAdvisor.

Collected in a thread for each scrape; nothing is collected between scrapes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from aiohttp import web
from msgspec import field

from nodeagent.base.metrics import Family, expose, label_text
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.contracts.context import ProberContext
from nodeagent.contracts.server import Exposure, Route
from nodeagent.contracts.stats import PodUsage
from nodeagent_plugins.stats.cgroups import CgroupReader
from nodeagent_plugins.stats.counters import (
    IoCounts,
    Throttling,
    cpu_times,
    descriptors,
    io_counts,
    limits,
    memory_limits,
    network_counts,
    oom_kills,
    task_counts,
    throttling,
)
from nodeagent_plugins.stats.devices import mounted_devices, open_file_limit
from nodeagent_plugins.stats.machine import Machine, nanoseconds
from nodeagent_plugins.stats.pods import RunningPod
from nodeagent_plugins.stats.pressure import PressureReader
from nodeagent_plugins.stats.provider import MeasuredStats

LABELS = ("container", "id", "image", "name", "namespace", "pod")
_BILLION = 1_000_000_000
_LIMIT = "Number of bytes that the filesystem holds."
_USAGE = "Number of bytes that are consumed by the container on this filesystem."


class Subject(Struct, frozen=True):
    """A cgroup and its labels."""

    id: str
    container: str = ""
    image: str = ""
    name: str = ""
    namespace: str = ""
    pod: str = ""
    started_at: int = 0
    network: bool = False
    """Report the network interfaces of its processes."""

    def labels(self) -> str:
        values = (self.container, self.id, self.image, self.name, self.namespace, self.pod)
        return label_text(LABELS, values)


def cadvisor_routes(context: ProberContext, stats: MeasuredStats) -> Sequence[Route]:
    """Return the route of the metrics page."""

    async def metrics(request: web.Request) -> web.Response:
        running, usage = await stats.running_pods(), {pod.uid: pod for pod in await stats.pods()}
        now = nanoseconds(context.clock.wall())
        accept, shown = request.headers.get("Accept", ""), bool(context.config.show_hidden_metrics_for_version)

        def collect() -> tuple[bytes, str]:
            scrape = Scrape(stats.cgroups, stats.machine, stats.pressures, now)
            for subject in _subjects(stats, running):
                scrape.add(subject)
            scrape.add_disks(stats, running, usage)
            return expose([*scrape.families.values(), *_of_machine(stats.machine)], accept, deprecated=shown)

        body, content_type = await asyncio.to_thread(collect)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return (Route("GET", "/metrics/cadvisor", metrics, Exposure.READ_ONLY, ("metrics",)),)


def _subjects(stats: MeasuredStats, pods: Sequence[RunningPod]) -> Iterator[Subject]:
    yield Subject("/", network=True)
    top = stats.locator.all_pods()
    if top and stats.cgroups.exists(top):
        yield Subject(top)
        yield from (
            Subject(name) for name in stats.cgroups.children(top) if "burstable" in name or "besteffort" in name
        )
    for pod in pods:
        sandbox = pod.sandbox
        if own := stats.locator.pod(sandbox.uid):
            yield Subject(own, "", "", "", sandbox.namespace, sandbox.name, sandbox.created_at)
        if path := stats.locator.container(sandbox.uid, sandbox.id):
            yield Subject(path, "", "", sandbox.id, sandbox.namespace, sandbox.name, sandbox.created_at, network=True)
        for container in pod.containers:
            path = stats.locator.container(sandbox.uid, container.id)
            if path:
                yield Subject(
                    path,
                    container.name,
                    container.image,
                    container.id,
                    sandbox.namespace,
                    sandbox.name,
                    container.created_at,
                )


class Scrape(MutableStruct):
    """Collects the samples of one scrape, all with the time *now*."""

    cgroups: CgroupReader
    machine: Machine
    pressures: PressureReader
    now: int
    families: dict[str, Family] = field(default_factory=dict)

    def add(self, subject: Subject) -> None:
        """Add the statistics of a cgroup; a removed one is skipped."""
        root = subject.id == "/"
        account = self.cgroups.root() if root else self.cgroups.account(subject.id)
        if account is None:
            return
        labels = subject.labels()
        self._seconds(
            "cpu_usage_seconds_total", "Cumulative cpu time consumed", account.cpu_nanoseconds, f'{labels},cpu="total"'
        )
        if (times := cpu_times(self.cgroups, subject.id)) is not None:
            self._seconds("cpu_user_seconds_total", "Cumulative user cpu time consumed", times[0], labels)
            self._seconds("cpu_system_seconds_total", "Cumulative system cpu time consumed", times[1], labels)
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
            self._sample(name, text, value, labels)
        for kind, count in (("pgfault", account.page_faults), ("pgmajfault", account.major_page_faults)):
            scope = f'{labels},failure_type="{kind}",scope="hierarchy"'
            self._sample("memory_failures_total", "Cumulative count of memory allocation failures.", count, scope)
        self._limits(subject.id, account.memory_limit_bytes, labels)
        self._pressures(subject.id, labels)
        if subject.started_at:
            started = subject.started_at / _BILLION
            self._sample("start_time_seconds", "Start time of the container since unix epoch", started, labels)
        throttled = throttling(self.cgroups, subject.id)
        if throttled is not None and throttled.periods:
            self._throttling(throttled, labels)
        for device, io in io_counts(self.cgroups, subject.id).items():
            self._io(device, io, labels)
        if root:
            self._devices(labels)
        else:
            self._processes(subject.id, labels)
        if subject.network:
            pids = [1] if root else self.cgroups.processes(subject.id)
            for interface, counts in network_counts(self.machine, next(filter(None, pids), 0)).items():
                for name, count in counts.items():
                    where = f'{labels},interface="{interface}"'
                    self._sample(f"network_{name}_total", "Cumulative count of a network interface", count, where)

    def add_disks(self, stats: MeasuredStats, pods: Sequence[RunningPod], usage: Mapping[str, PodUsage]) -> None:
        """Add the disk usage of writable layers and logs from the last measurement."""
        for pod in pods:
            sandbox, measured = pod.sandbox, usage.get(pod.sandbox.uid)
            layers = {c.container_id: c for c in measured.containers} if measured is not None else {}
            for container in pod.containers:
                found, path = layers.get(container.id), stats.locator.container(sandbox.uid, container.id)
                if found is None or found.rootfs is None or not path:
                    continue
                names = (container.name, path, container.image, container.id, sandbox.namespace, sandbox.name, "")
                labels = label_text((*LABELS, "device"), names)
                used = (found.rootfs.used_bytes or 0) + (found.logs.used_bytes or 0 if found.logs is not None else 0)
                for name, text, value in (
                    ("usage_bytes", _USAGE, used),
                    ("limit_bytes", _LIMIT, found.rootfs.capacity_bytes),
                ):
                    self._sample(f"fs_{name}", text, value, labels, kind="gauge")

    def _limits(self, name: str, memory: int | None, labels: str) -> None:
        found = limits(self.cgroups, name)
        self._sample("spec_memory_limit_bytes", "Memory limit for the container.", memory or 0, labels)
        bounds = memory_limits(self.cgroups, name)
        for metric, text, value in (
            ("spec_memory_reservation_limit_bytes", "Memory reservation limit for the container.", bounds.reservation),
            ("spec_memory_swap_limit_bytes", "Memory swap limit for the container.", bounds.swap),
            ("memory_failcnt", "Number of memory usage hits limits", bounds.failures),
            ("memory_max_usage_bytes", "Maximum memory usage recorded in bytes", bounds.highest_bytes),
        ):
            self._sample(metric, text, value, labels, kind="counter" if metric == "memory_failcnt" else "")
        self._sample("spec_cpu_period", "CPU period of the container.", found.period, labels)
        self._sample("spec_cpu_quota", "CPU quota of the container.", found.quota, labels)
        self._sample("spec_cpu_shares", "CPU share of the container.", found.shares, labels)

    def _pressures(self, name: str, labels: str) -> None:
        for resource, found in self.pressures.read(name)._asdict().items():
            if found is None:
                continue
            waited, stalled = f"pressure_{resource}_waiting_seconds_total", f"pressure_{resource}_stalled_seconds_total"
            text = f"Total time in which tasks in the container waited due to {resource} congestion"
            self._seconds(waited, text, found.some.total_nanoseconds, labels)
            text = f"Total time in which no tasks in the container could make progress due to {resource} congestion"
            self._seconds(stalled, text, found.full.total_nanoseconds, labels)

    def _throttling(self, found: Throttling, labels: str) -> None:
        periods = "Number of elapsed enforcement period intervals."
        self._sample("cpu_cfs_periods_total", periods, found.periods, labels)
        throttled = "Number of throttled period intervals."
        self._sample("cpu_cfs_throttled_periods_total", throttled, found.throttled, labels)
        text = "Total time duration the container has been throttled"
        self._seconds("cpu_cfs_throttled_seconds_total", text, found.nanoseconds, labels)

    def _io(self, number: str, found: IoCounts, labels: str) -> None:
        device = _device(number, self.machine)
        where = f'{labels},device="{device}"'
        major, _, minor = number.partition(":")
        for operation, count in (("Read", found.read_bytes), ("Write", found.written_bytes)):
            scope = f'{where},major="{major}",minor="{minor}",operation="{operation}"'
            self._sample("blkio_device_usage_total", "Blkio Device bytes usage", count, scope)
        for name, text, value in (
            ("reads_bytes", "Cumulative count of bytes read", found.read_bytes),
            ("reads", "Cumulative count of reads completed", found.reads),
            ("writes_bytes", "Cumulative count of bytes written", found.written_bytes),
            ("writes", "Cumulative count of writes completed", found.writes),
        ):
            self._sample(f"fs_{name}_total", text, value, where)

    def _devices(self, labels: str) -> None:
        """Add the file systems of the host and the counters of their devices."""
        for device in mounted_devices(self.machine, self.now):
            where = f'{labels},device="{device.path}"'
            for name, text, size in (
                ("inodes_free", "Number of available Inodes", device.inodes_free),
                ("inodes_total", "Number of Inodes", device.inodes_total),
                ("limit_bytes", _LIMIT, device.limit_bytes),
                ("usage_bytes", _USAGE, device.usage_bytes),
            ):
                self._sample(f"fs_{name}", text, size, where, kind="gauge")
            if (counts := device.counts) is None:
                continue
            for name, text, value in (
                ("io_current", "Number of I/Os currently in progress", counts.in_progress),
                ("io_time_seconds_total", "Cumulative count of seconds spent doing I/Os", counts.io_seconds),
                ("io_time_weighted_seconds_total", "Cumulative weighted I/O time in seconds", counts.weighted_seconds),
                ("read_seconds_total", "Cumulative count of seconds spent reading", counts.read_seconds),
                ("reads_merged_total", "Cumulative count of reads merged", counts.reads_merged),
                ("sector_reads_total", "Cumulative count of sector reads completed", counts.sectors_read),
                ("sector_writes_total", "Cumulative count of sector writes completed", counts.sectors_written),
                ("write_seconds_total", "Cumulative count of seconds spent writing", counts.write_seconds),
                ("writes_merged_total", "Cumulative count of writes merged", counts.writes_merged),
            ):
                self._sample(f"fs_{name}", text, value, where)

    def _processes(self, name: str, labels: str) -> None:
        pids = self.cgroups.processes(name)
        threads, most = task_counts(self.cgroups, name)
        files, sockets = descriptors(self.machine, [pid for pid in pids if pid])
        for metric, text, value in (
            ("processes", "Number of processes running inside the container.", len(pids)),
            ("threads", "Number of threads running inside the container", threads),
            ("threads_max", "Maximum number of threads allowed inside the container, infinity if value is zero", most),
            ("file_descriptors", "Number of open file descriptors for the container.", files),
            ("sockets", "Number of open sockets for the container.", sockets),
        ):
            self._sample(metric, text, value, labels)
        files_limit = open_file_limit(self.machine, next(filter(None, pids), 0))
        text = "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice"
        self._sample("ulimits_soft", text, files_limit, f'{labels},ulimit="max_open_files"')

    def _seconds(self, name: str, text: str, nanoseconds: int | None, labels: str) -> None:
        if nanoseconds is not None:
            self._sample(name, f"{text} in seconds.", nanoseconds / _BILLION, labels)

    def _sample(self, name: str, text: str, value: float | None, labels: str, kind: str = "") -> None:
        """Add a sample; names that end in ``_total`` are counters unless *kind* is set."""
        if value is None:
            return
        family = self.families.get(name)
        if family is None:
            kind = kind or ("counter" if name.endswith("_total") else "gauge")
            family = self.families[name] = Family(f"container_{name}", kind, text)
        family.add_text(value, labels, self.now)


def _of_machine(machine: Machine) -> Iterator[Family]:
    for name, text, value in (
        ("cpu_cores", "Number of logical CPU cores.", os.cpu_count() or 1),
        ("memory_bytes", "Amount of memory installed on the machine.", machine.memory_capacity()),  # wording: ok
        ("swap_bytes", "Amount of swap memory available on the machine.", machine.swap()[0]),  # wording: ok
    ):
        family = Family(f"machine_{name}", "gauge", text, ("boot_id", "machine_id", "system_uuid"))
        family.add(value, *machine.identity())
        yield family


@cache
def _device(number: str, machine: Machine) -> str:
    """Return the path of the device with a number such as ``8:0``, or the number."""
    try:
        return f"/dev/{(machine.root / 'sys/dev/block' / number).readlink().name}"
    except OSError:
        return number
