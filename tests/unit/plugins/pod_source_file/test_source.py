"""The file source publishes whole sets: at once, after each change, and at each fileCheckFrequency."""

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
    """Runs a source and keeps what it publishes."""

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
    answers = load_plugin(pod_source_file).provide_all("nodeagent_provide_pod_sources", context=context)
    ((source,),) = [answer.value for answer in answers]
    return source


def test_no_path_no_source(tmp_path):
    manager = load_plugin(pod_source_file)
    (answer,) = manager.provide_all("nodeagent_provide_pod_sources", context=make_context(tmp_path))
    assert answer.value == ()


@pytest.mark.row("config.staticPodPath")
async def test_publishes_the_pods_of_the_directory(tmp_path, clock):
    folder = tmp_path / "manifests"
    folder.mkdir()
    write(folder / "web.yaml", "web")

    async with Published(source_of(tmp_path, clock, folder)) as published:
        await clock.advance(0)

        assert [[pod.full_name for pod in pods] for pods in published.sets] == [["default/web-node-1"]]


async def test_an_empty_directory_counts_as_a_set(tmp_path, clock):
    (tmp_path / "manifests").mkdir()
    async with Published(source_of(tmp_path, clock, tmp_path / "manifests")) as published:
        await clock.advance(0)
        assert published.sets == [[]]


@pytest.mark.row("config.fileCheckFrequency")
async def test_a_change_that_no_watch_sees_is_found_at_the_next_check(tmp_path, clock):
    folder, elsewhere = tmp_path / "manifests", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write(elsewhere / "web.yaml", "web", 1)
    (folder / "web.yaml").symlink_to(elsewhere / "web.yaml")

    async with Published(source_of(tmp_path, clock, folder, seconds=40)) as published:
        await clock.advance(1)
        write(elsewhere / "web.yaml", "web", 2)
        await clock.advance(38)
        assert published.images == ["a:1"]
        await clock.advance(2)
        assert published.images == ["a:2"]


async def test_a_watched_change_is_published_long_before_the_next_check(tmp_path, clock):
    folder = tmp_path / "manifests"
    folder.mkdir()
    async with Published(source_of(tmp_path, clock, folder)) as published:
        await clock.advance(0)
        write(folder / "web.yaml.tmp~", "web")
        (folder / "web.yaml.tmp~").rename(folder / "web.yaml")
        await eventually(lambda: clock.next_due is not None and clock.next_due < 1)
        await clock.advance(0.1)
        assert published.images == ["a:1"]

        (folder / "web.yaml").unlink()
        await eventually(lambda: clock.next_due is not None and clock.next_due < 1)
        await clock.advance(0.1)
        assert published.sets[-1] == []


async def test_nothing_is_published_while_nothing_changes(tmp_path, clock):
    folder = tmp_path / "manifests"
    folder.mkdir()
    write(folder / "web.yaml", "web")
    async with Published(source_of(tmp_path, clock, folder)) as published:
        await clock.advance(300)
        assert len(published.sets) == 1


async def test_a_directory_that_comes_later_is_found(tmp_path, clock):
    folder = tmp_path / "later"
    async with Published(source_of(tmp_path, clock, folder)) as published:
        await clock.advance(1)
        assert published.sets == [[]]
        folder.mkdir()
        write(folder / "web.yaml", "web")
        await clock.advance(21)
        assert published.images == ["a:1"]


async def test_the_first_set_waits_for_a_file_that_is_being_written(tmp_path, clock):
    folder = tmp_path / "manifests"
    folder.mkdir()
    async with Published(source_of(tmp_path, clock, folder)) as published:
        with open(folder / "web.yaml", "w") as file:
            file.write(POD.format("web", 1))
            file.flush()
            await clock.advance(1)
            assert published.sets == []
        await clock.advance(1)
        assert published.images == ["a:1"]
