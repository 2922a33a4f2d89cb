"""Tests for the file source."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import pytest

from nodeagent.base.duration import Duration
from nodeagent.testing import eventually, load_plugin, make_config, make_context
from nodeagent_plugins import pod_source_file

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec: {{containers: [{{name: c, image: 'a:{}'}}]}}\n"


class Published:
    """Runs a source and stores the published sets."""

    def __init__(self, source):
        self.sets = []
        self.source = source

    async def __aenter__(self):
        self._task = asyncio.create_task(self.source.run(lambda pods: self.sets.append(list(pods))))
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def images(self):
        return [pod.spec.containers[0].image for pod in self.sets[-1]]


def write(path, name, tag=1):
    path.write_text(POD.format(name, tag))
    os.utime(path, (time.time() - 10 + tag,) * 2)


def source_of(tmp_path, clock, path, seconds=20):
    config = make_config(static_pod_path=str(path), file_check_frequency=Duration.of(seconds=seconds))
    context = make_context(tmp_path, config=config, clock=clock)
    results = load_plugin(pod_source_file).provide_all("nodeagent_provide_pod_sources", context=context)
    ((source,),) = [result.value for result in results]
    return source


def test_no_source_without_a_path(tmp_path):
    manager = load_plugin(pod_source_file)
    (result,) = manager.provide_all("nodeagent_provide_pod_sources", context=make_context(tmp_path))
    assert result.value == ()


@pytest.mark.row("config.staticPodPath")
async def test_pods_of_the_directory_are_published(tmp_path, clock):
    directory = tmp_path / "manifests"
    directory.mkdir()
    write(directory / "web.yaml", "web")

    async with Published(source_of(tmp_path, clock, directory)) as published:
        await clock.advance(0)

        assert [[pod.full_name for pod in pods] for pods in published.sets] == [["default/web-node-1"]]


async def test_empty_directory_is_published(tmp_path, clock):
    (tmp_path / "manifests").mkdir()
    async with Published(source_of(tmp_path, clock, tmp_path / "manifests")) as published:
        await clock.advance(0)
        assert published.sets == [[]]


async def test_pod_of_a_recreated_file_is_removed_first(tmp_path, clock):
    directory = tmp_path / "manifests"
    directory.mkdir()
    write(directory / "web.yaml", "web")
    write(directory / "db.yaml", "db")

    async with Published(source_of(tmp_path, clock, directory)) as published:
        await clock.advance(0)
        (directory / "web.yaml").unlink()
        write(directory / "web.yaml", "web")
        await eventually(lambda: clock.next_due is not None and clock.next_due < 1)
        await clock.advance(0.1)

    assert [[pod.name for pod in pods] for pods in published.sets[1:]] == [["db-node-1"], ["db-node-1", "web-node-1"]]


@pytest.mark.row("config.fileCheckFrequency")
async def test_change_without_notification_is_detected_by_the_next_check(tmp_path, clock):
    directory, elsewhere = tmp_path / "manifests", tmp_path / "elsewhere"
    directory.mkdir()
    elsewhere.mkdir()
    write(elsewhere / "web.yaml", "web", 1)
    (directory / "web.yaml").symlink_to(elsewhere / "web.yaml")

    async with Published(source_of(tmp_path, clock, directory, seconds=40)) as published:
        await clock.advance(1)
        write(elsewhere / "web.yaml", "web", 2)
        await clock.advance(38)
        assert published.images == ["a:1"]
        await clock.advance(2)
        assert published.images == ["a:2"]


async def test_watched_change_is_published_before_the_next_check(tmp_path, clock):
    directory = tmp_path / "manifests"
    directory.mkdir()
    async with Published(source_of(tmp_path, clock, directory)) as published:
        await clock.advance(0)
        write(directory / "web.yaml.tmp~", "web")
        (directory / "web.yaml.tmp~").rename(directory / "web.yaml")
        await eventually(lambda: clock.next_due is not None and clock.next_due < 1)
        await clock.advance(0.1)
        assert published.images == ["a:1"]

        (directory / "web.yaml").unlink()
        await eventually(lambda: clock.next_due is not None and clock.next_due < 1)
        await clock.advance(0.1)
        assert published.sets[-1] == []


async def test_nothing_is_published_without_a_change(tmp_path, clock):
    directory = tmp_path / "manifests"
    directory.mkdir()
    write(directory / "web.yaml", "web")
    async with Published(source_of(tmp_path, clock, directory)) as published:
        await clock.advance(300)
        assert len(published.sets) == 1


async def test_directory_created_later_is_detected(tmp_path, clock):
    directory = tmp_path / "later"
    async with Published(source_of(tmp_path, clock, directory)) as published:
        await clock.advance(1)
        assert published.sets == [[]]
        directory.mkdir()
        write(directory / "web.yaml", "web")
        await clock.advance(21)
        assert published.images == ["a:1"]


async def test_first_set_waits_for_a_file_that_is_being_written(tmp_path, clock):
    directory = tmp_path / "manifests"
    directory.mkdir()
    async with Published(source_of(tmp_path, clock, directory)) as published:
        with open(directory / "web.yaml", "w") as file:
            file.write(POD.format("web", 1))
            file.flush()
            await clock.advance(1)
            assert published.sets == []
        await clock.advance(1)
        assert published.images == ["a:1"]
