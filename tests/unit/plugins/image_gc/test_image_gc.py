"""Tests for image garbage collection."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.eviction import Reclaimed
from nodeagent.contracts.image_pins import write_pins
from nodeagent.contracts.runtime import FilesystemUsage
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import RuntimeFailure, RuntimeUnavailable
from nodeagent.testing import (
    FakeImages,
    FakePodDirectory,
    FakeRuntime,
    load_plugin,
    make_config,
    make_container,
    make_context,
    make_pod,
)
from nodeagent_plugins import image_gc
from nodeagent_plugins.image_gc import collector
from nodeagent_plugins.image_gc.collector import Disk

CAPACITY = 1000


class Store(FakeImages):
    """An image store on a disk of 1000 bytes with *other* bytes of other files."""

    def __init__(self, mountpoint):
        super().__init__()
        self.other, self.capacity, self._mountpoint = 0, CAPACITY, str(mountpoint)

    async def filesystem_usage(self):
        await self._pass("filesystem_usage")
        return (FilesystemUsage(self._mountpoint, 0, 0),)

    def measure(self, path):
        assert path == self._mountpoint
        used = self.other + sum(image.size_bytes for image in self._images.values())
        return Disk(self.capacity, self.capacity - used)

    def tags(self):
        return sorted(tag.rpartition("/")[2].partition(":")[0] for i in self._images.values() for tag in i.repo_tags)


class Node:
    def __init__(self, tmp_path, clock, monkeypatch):
        self.root, self.clock = tmp_path, clock
        self.images, self.runtime, self.pods = Store(tmp_path), FakeRuntime(clock), FakePodDirectory()
        monkeypatch.setattr(collector, "measure", self.measure)

    def measure(self, path):
        return self.images.measure(path)

    def plugin(self, settings=None, release=None, **config):
        gates = {"ImageMaximumGCAge": True} if "image_maximum_gc_age" in config else {}
        config = make_config(feature_gates=gates, **config)
        self.context = make_context(
            self.root,
            clock=self.clock,
            config=config,
            images=self.images,
            runtime=self.runtime,
            pods=self.pods,
            gates=build_gates(gates),
            release=release or SelectedRelease(),
            **({"settings": settings} if settings else {}),
        )
        self.plugins = load_plugin(image_gc, context=self.context)
        return self.plugins

    @property
    def events(self):
        return [(event.reason, event.note) for event in self.context.recorder.events]

    @asynccontextmanager
    async def collecting(self, settings=None, **config):
        plugin = self.plugin(settings, **config)
        loops = [
            loop
            for result in plugin.provide_all("nodeagent_provide_background_loops", context=self.context, plugins=plugin)
            for loop in result.value
        ]
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        await self.clock.advance(1)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def reclaim(self, signal):
        async with self.collecting():
            await self.clock.advance(300)
            results = await self.plugins.gather("nodeagent_reclaim_disk", signal=signal)
        return [result.value for result in results]

    def run(self, name, image):
        return self.runtime.start(name, make_pod(name), image=image.id)


@pytest.fixture
def node(tmp_path, clock, monkeypatch):
    return Node(tmp_path, clock, monkeypatch)


def fill(node, *names, size=100):
    return [node.images.add(f"reg.test/{name}:1", size_bytes=size) for name in names]


@pytest.mark.row("config.imageGCHighThresholdPercent", "config.imageGCLowThresholdPercent")
async def test_images_are_removed_down_to_the_low_threshold(node):
    fill(node, "a", "b", "c")
    node.images.other = 390  # 69 % full
    async with node.collecting(image_gc_high_threshold_percent=70, image_gc_low_threshold_percent=55):
        await node.clock.advance(600)
        below, counted = node.images.tags(), collector.REMOVED.value("space")
        node.images.other = 400  # 70 %
        await node.clock.advance(300)
        above = node.images.tags()

    assert collector.REMOVED.value("space") - counted == 2
    assert below == ["a", "b", "c"]
    assert len(above) == 1
    assert node.events == []


async def test_disk_usage_over_the_high_threshold_is_logged(node, caplog):
    caplog.set_level("INFO")
    fill(node, "a", "b", "c")
    node.images.other = 400
    async with node.collecting(image_gc_high_threshold_percent=70, image_gc_low_threshold_percent=55):
        await node.clock.advance(600)

    record = next(vars(record) for record in caplog.records if "over the high threshold" in record.getMessage())
    assert [record[name] for name in ("usage", "highThreshold", "lowThreshold", "amountToFree")] == [70, 70, 55, 150]


@pytest.mark.row("config.imageGCHighThresholdPercent")
async def test_high_threshold_of_100_disables_the_collection(node):
    fill(node, "a")
    node.images.other = CAPACITY
    async with node.collecting(
        image_gc_high_threshold_percent=100, image_maximum_gc_age=Duration.parse("3m"), image_gc_low_threshold_percent=0
    ):
        await node.clock.advance(3600)

    assert node.images.tags() == ["a"]


async def test_high_threshold_of_100_collects_by_age_since_1_30(node):
    fill(node, "a")
    node.images.other = CAPACITY - 200
    counted = collector.REMOVED.value("age")
    async with node.collecting(
        release=SelectedRelease(Release(1, 30)),
        image_gc_high_threshold_percent=100,
        image_maximum_gc_age=Duration.parse("3m"),
    ):
        await node.clock.advance(3600)

    assert node.images.tags() == []
    assert collector.REMOVED.value("age") - counted == 1


async def test_least_recently_used_image_is_removed_first(node):
    first, second, third, never = fill(node, "first", "second", "third", "never", size=200)
    order = []
    async with node.collecting():
        users = [node.run(f"user{n}", image) for n, image in enumerate((third, first, second))]
        await node.clock.advance(600)
        for user in (users[1], users[2], users[0]):
            await node.runtime.remove_container(user)
            await node.clock.advance(300)
        for other in (100, 300, 500, 700):
            node.images.other = other
            await node.clock.advance(300)
            order.append(node.images.tags())

    assert order == [["first", "second", "third"], ["second", "third"], ["third"], []]
    assert never.id not in {image.id for image in await node.images.list_images()}


@pytest.mark.row("config.imageMinimumGCAge")
async def test_recently_detected_image_is_retained(node):
    node.images.other = 900
    async with node.collecting(image_minimum_gc_age=Duration.parse("6m")):
        fill(node, "a", size=50)
        await node.clock.advance(300)
        young = node.images.tags()
        await node.clock.advance(300)
        still = node.images.tags()
        await node.clock.advance(300)

    assert (young, still, node.images.tags()) == (["a"], ["a"], [])


@pytest.mark.row("config.imageMaximumGCAge")
async def test_image_over_the_maximum_age_is_removed_without_disk_usage(node):
    used, unused = fill(node, "used", "unused", size=1)
    user = node.run("user", used)
    async with node.collecting(image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(3300)
        before = node.images.tags()
        await node.clock.advance(600)
        at_the_age = node.images.tags()
        await node.runtime.remove_container(user)
        await node.clock.advance(3300)
        later = node.images.tags()
        await node.clock.advance(900)

    assert (before, at_the_age, later) == (["unused", "used"], ["used"], ["used"])
    assert node.images.tags() == []
    assert unused.id not in {image.id for image in await node.images.list_images()}


@pytest.mark.row("config.imageMaximumGCAge")
async def test_without_maximum_age_no_image_is_too_old(node):
    fill(node, "a")
    async with node.collecting():
        await node.clock.advance(86400)

    assert node.images.tags() == ["a"]


@pytest.mark.row("config.imageMaximumGCAge")
async def test_ages_persist_across_restarts(node):
    fill(node, "a", size=1)
    async with node.collecting(image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(2400)
    async with node.collecting(image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(1500)

    assert node.images.tags() == []


@pytest.mark.row("config.imageMaximumGCAge")
async def test_since_1_30_ages_count_from_the_start_of_the_agent(node):
    fill(node, "a", size=1)
    release = SelectedRelease(Release(1, 30))
    async with node.collecting(release=release, image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(2400)
    async with node.collecting(release=release, image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(3300)
        before = node.images.tags()
        await node.clock.advance(600)

    assert (before, node.images.tags()) == (["a"], [])


@pytest.mark.parametrize(("pods_known", "left"), [(False, ["a"]), (True, [])])
async def test_restarted_agent_retains_images_that_unknown_pods_may_use(node, pods_known, left):
    fill(node, "a", size=50)
    async with node.collecting():
        await node.clock.advance(600)
    node.images.other = 900
    node.pods.all_sources_ready = pods_known

    async with node.collecting():
        at_once = node.images.tags()
        await node.clock.advance(300)

    assert (at_once, node.images.tags()) == (left, [])


async def test_used_pinned_and_requested_images_are_retained(node):
    running, dead, by_id, *_ = fill(node, "running", "dead", "by-id", "wanted", "by-name", "sandbox", "free", size=1)
    node.images.add("reg.test/pinned:1", pinned=True, size_bytes=1)
    node.run("runs", running)
    node.runtime.exit(node.run("ended", dead))
    node.pods.add(make_pod("pending", containers=[make_container(image="reg.test/wanted:1")]))
    write_pins(node.root, ["reg.test/by-name:1", by_id.id])
    settings = NodeSettings(node_name="node-1", root_dir=str(node.root), pod_infra_container_image="reg.test/sandbox:1")
    node.images.other = 990

    async with node.collecting(settings):
        await node.clock.advance(600)

    assert node.images.tags() == ["by-id", "by-name", "dead", "pinned", "running", "sandbox", "wanted"]


async def test_default_sandbox_image_is_retained_without_the_flag(node):
    node.images.add("registry.k8s.io/pause:3.9", size_bytes=1)
    node.images.other = 999

    async with node.collecting():
        await node.clock.advance(600)

    assert node.images.tags() == ["pause"]


async def test_insufficient_collection_is_reported(node):
    fill(node, "a", size=10)
    node.images.other = 890
    async with node.collecting():
        node.context.recorder.events.clear()
        await node.clock.advance(300)

    note = (
        "Failed to garbage collect required amount of images. "
        "Attempted to free 100 bytes, but only found 10 bytes eligible to free."
    )
    assert node.events == [("FreeDiskSpaceFailed", note), ("ImageGCFailed", note)]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 50, "5120.0 TiB")],
)
def test_size_is_in_the_largest_unit(size_bytes, text):
    assert collector._size(size_bytes) == text


async def test_insufficient_collection_names_the_usage_since_1_35(node):
    fill(node, "a", size=10)
    node.images.other = 890
    async with node.collecting(release=SelectedRelease(Release(1, 35))):
        node.context.recorder.events.clear()
        await node.clock.advance(300)

    note = (
        "Insufficient free disk space on the node's image filesystem (90% of 1000 B used). "
        "Failed to free sufficient space by deleting unused images (freed 10 bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )
    assert node.events == [("FreeDiskSpaceFailed", note), ("ImageGCFailed", note)]


async def test_only_a_repeated_failure_is_an_event(node):
    node.images.fail("list_images", RuntimeUnavailable("gone"), 3)
    async with node.collecting():
        first = node.events
        await node.clock.advance(600)
        lasting = node.events
        await node.clock.advance(300)
        node.images.fail("list_images", RuntimeUnavailable("again"))
        await node.clock.advance(300)

    assert first == []
    assert lasting == [("ImageGCFailed", "gone")] * 2
    assert node.events == lasting


async def test_disk_without_capacity_is_reported(node):
    node.images.capacity = 0
    async with node.collecting():
        pass

    assert node.events == [("InvalidDiskCapacity", "invalid capacity 0 on image filesystem")]


async def test_failed_removal_of_one_image_does_not_affect_others(node):
    fill(node, "a", "b", "c", size=300)
    async with node.collecting():
        node.images.fail("remove_image", RuntimeFailure("busy"))
        await node.clock.advance(300)
        assert len(node.images.tags()) == 2
        await node.clock.advance(300)

    assert len(node.images.tags()) == 2


async def test_damaged_records_are_replaced(node, caplog):
    (node.root / "image_gc_state.json").write_text("{")
    fill(node, "a", size=1)
    async with node.collecting(image_maximum_gc_age=Duration.parse("1h")):
        await node.clock.advance(3000)

    assert node.images.tags() == ["a"]
    assert list(json.loads((node.root / "image_gc_state.json").read_text())["images"])
    assert "Failed to read image records, starting with empty records" in caplog.text


async def test_unreadable_pins_stop_the_collection(node):
    fill(node, "a", size=1)
    (node.root / "image_pins.json").write_text("[]")
    node.images.other = 990
    async with node.collecting():
        await node.clock.advance(600)

    assert node.images.tags() == ["a"]
    assert {reason for reason, _ in node.events} == {"ImageGCFailed"}


@pytest.mark.parametrize("signal", ["imagefs.available", "imagefs.inodesFree", "nodefs.available", "nodefs.inodesFree"])
async def test_hook_reclaim_disk(node, signal):
    used, _, _ = fill(node, "used", "a", "b", size=10)
    node.run("user", used)

    (freed,) = await node.reclaim(signal)

    assert freed == Reclaimed(20, freed.items)
    assert sorted(freed.items) == ["reg.test/a:1", "reg.test/b:1"]
    assert node.images.tags() == ["used"]


async def test_images_on_a_separate_disk_are_not_removed_for_nodefs(node, tmp_path):
    node.images = Store("/proc")
    fill(node, "a")

    assert await node.reclaim("nodefs.available") == []
    assert await node.reclaim("memory.available") == []


async def test_hook_provide_image_collector(node):
    used, _ = fill(node, "used", "free", size=300)
    node.run("user", used)
    node.images.other = 200
    plugin = node.plugin()
    async with node.collecting():
        await node.clock.advance(300)
        node.images.add("reg.test/new:1", size_bytes=1)
        node.images.other = 300
        tool = plugin.provide("nodeagent_provide_image_collector", context=node.context)
        plan = await tool.collect(dry_run=True)
        everything = await tool.collect(everything=True, dry_run=True)

    assert [(one.image.repo_tags[0], one.retained_reason, one.removal_reason) for one in plan.images] == [
        ("reg.test/free:1", "", "disk usage 91 %"),
        ("reg.test/new:1", "detected less than 2m0s ago", ""),
        ("reg.test/used:1", "in use", ""),
    ]
    assert (plan.used_percent, plan.bytes_to_free, plan.freed_bytes) == (91, 101, 300)
    assert [bool(one.removal_reason) for one in everything.images] == [True, False, False]
    assert node.images.tags() == ["free", "new", "used"]


async def test_image_of_a_volume_is_retained(node):
    fill(node, "mounted", "unused")
    node.pods.add(make_pod("web", volumes=[{"name": "v", "image": {"reference": "reg.test/mounted:1"}}]))
    node.images.other = CAPACITY
    async with node.collecting():
        await node.clock.advance(600)

    assert node.images.tags() == ["mounted"]


@pytest.mark.parametrize(
    ("error", "text"), [(OSError(5, "Input/output error"), "Input/output error"), (OSError("odd"), "odd")]
)
async def test_unreadable_image_filesystem_has_the_reason(node, monkeypatch, error, text):
    def unreadable(path):
        raise error

    monkeypatch.setattr(collector, "measure", unreadable)
    async with node.collecting():
        await node.clock.advance(600)

    assert node.events[-1] == ("ImageGCFailed", f"measure the image filesystem at {node.root}: {text}")
