"""What every kind of volume does, and what everything that prepares the volumes of pods does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.volumes import VolumeKind, VolumeManager
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing.pods import make_container, make_pod


class VolumeKindContract:
    """Fixtures to provide: ``kind`` and ``volume``, one that it supports and that can be prepared."""

    @pytest.fixture
    def kind(self) -> VolumeKind:
        """The implementation."""
        raise NotImplementedError

    @pytest.fixture
    def volume(self) -> Volume:
        """A volume of this kind, called ``data``."""
        raise NotImplementedError

    @pytest.fixture
    def other(self) -> Volume:
        """A volume of another kind."""
        return Volume(name="other")

    @pytest.fixture
    def pod(self, volume: Volume) -> Pod:
        """The pod that has the volume."""
        return make_pod(volumes=[volume])

    @pytest.fixture
    def directory(self, kind: VolumeKind, tmp_path: Path) -> Path:
        """Where the volume's data belongs; its parent exists."""
        parent = tmp_path / "pods" / "uid-web" / "volumes" / kind.name
        parent.mkdir(parents=True)
        return parent / "data"

    def test_has_a_name_that_makes_a_directory(self, kind: VolumeKind) -> None:
        assert kind.name and "/" not in kind.name

    def test_supports_its_own_kind_alone(self, kind: VolumeKind, volume: Volume, other: Volume) -> None:
        assert kind.supports(volume)
        assert not kind.supports(other)

    async def test_can_be_prepared_again(self, kind: VolumeKind, pod: Pod, volume: Volume, directory: Path) -> None:
        first = await kind.setup(pod, volume, directory)
        assert (first.name, _exists(first.host_path)) == (volume.name, True)
        assert await kind.setup(pod, volume, directory) == first
        await kind.teardown(pod.uid, directory)

    async def test_leaves_nothing_and_can_be_undone_again(
        self, kind: VolumeKind, pod: Pod, volume: Volume, directory: Path
    ) -> None:
        await kind.setup(pod, volume, directory)
        for _ in range(2):
            await kind.teardown(pod.uid, directory)
        assert not _exists(directory)

    async def test_undoing_what_never_was_is_fine(self, kind: VolumeKind, pod: Pod, directory: Path) -> None:
        await kind.teardown(pod.uid, directory)


class VolumeManagerContract:
    """Fixture to provide: ``volumes``, which can prepare the ``pod``."""

    @pytest.fixture
    async def volumes(self) -> AsyncIterator[VolumeManager]:
        """The implementation; no pod has volumes yet."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose container mounts the volume ``data``."""
        mount = {"name": "data", "mountPath": "/data"}
        container = make_container(volume_mounts=[mount])
        return make_pod("contract", containers=[container], volumes=[{"name": "data", "emptyDir": {}}])

    async def test_volumes_are_told_by_name_and_stay_the_same(self, volumes: VolumeManager, pod: Pod) -> None:
        first = await volumes.prepare(pod)
        assert {name: mounted.name for name, mounted in first.items()} == {"data": "data"}
        assert first["data"].host_path
        assert await volumes.prepare(pod) == first
        await volumes.release(pod.uid)

    async def test_a_pod_has_volumes_until_they_are_released(self, volumes: VolumeManager, pod: Pod) -> None:
        assert list(volumes.pods_with_volumes()) == []
        await volumes.prepare(pod)
        assert list(volumes.pods_with_volumes()) == [pod.uid]
        for _ in range(2):
            await volumes.release(pod.uid)
        assert list(volumes.pods_with_volumes()) == []

    async def test_releasing_what_never_was_is_fine(self, volumes: VolumeManager) -> None:
        await volumes.release("never-was")

    async def test_a_pod_without_volumes_needs_none(self, volumes: VolumeManager) -> None:
        pod = make_pod("plain")
        assert dict(await volumes.prepare(pod)) == {}
        await volumes.release(pod.uid)


def _exists(path: Path | str) -> bool:
    return os.path.lexists(path)
