"""Contract tests for volume kinds and volume managers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.volumes import VolumeKind, VolumeManager
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing.pods import make_container, make_pod


class VolumeKindContract:
    """Contract of :class:`VolumeKind`. Override the fixtures ``kind`` and ``volume``."""

    @pytest.fixture
    def kind(self) -> VolumeKind:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def volume(self) -> Volume:
        """A volume of this kind with the name ``data``, which can be set up."""
        raise NotImplementedError

    @pytest.fixture
    def other(self) -> Volume:
        """A volume of another kind."""
        return Volume(name="other")

    @pytest.fixture
    def pod(self, volume: Volume) -> Pod:
        """A pod with the volume."""
        return make_pod(volumes=[volume])

    @pytest.fixture
    def directory(self, kind: VolumeKind, tmp_path: Path) -> Path:
        """The directory of the volume; its parent exists."""
        parent = tmp_path / "pods" / "uid-web" / "volumes" / kind.name
        parent.mkdir(parents=True)
        return parent / "data"

    def test_name_is_a_valid_directory_name(self, kind: VolumeKind) -> None:
        assert kind.name and "/" not in kind.name

    def test_only_its_own_kind_is_supported(self, kind: VolumeKind, volume: Volume, other: Volume) -> None:
        assert kind.supports(volume)
        assert not kind.supports(other)

    async def test_setup_is_idempotent(self, kind: VolumeKind, pod: Pod, volume: Volume, directory: Path) -> None:
        first = await kind.setup(pod, volume, directory)
        assert (first.name, _exists(first.host_path)) == (volume.name, True)
        assert await kind.setup(pod, volume, directory) == first
        await kind.teardown(pod.uid, directory)

    async def test_teardown_removes_the_directory_and_is_idempotent(
        self, kind: VolumeKind, pod: Pod, volume: Volume, directory: Path
    ) -> None:
        await kind.setup(pod, volume, directory)
        for _ in range(2):
            await kind.teardown(pod.uid, directory)
        assert not _exists(directory)

    async def test_teardown_without_setup_does_not_raise(self, kind: VolumeKind, pod: Pod, directory: Path) -> None:
        await kind.teardown(pod.uid, directory)


class VolumeManagerContract:
    """Contract of :class:`VolumeManager`. Override the fixture ``volumes``, which must support ``pod``."""

    @pytest.fixture
    async def volumes(self) -> AsyncIterator[VolumeManager]:
        """The implementation to test, without volumes."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose container mounts the volume ``data``."""
        mount = {"name": "data", "mountPath": "/data"}
        container = make_container(volume_mounts=[mount])
        return make_pod("contract", containers=[container], volumes=[{"name": "data", "emptyDir": {}}])

    async def test_prepare_returns_volumes_by_name_and_is_idempotent(self, volumes: VolumeManager, pod: Pod) -> None:
        first = await volumes.prepare(pod)
        assert {name: mounted.name for name, mounted in first.items()} == {"data": "data"}
        assert first["data"].host_path
        assert await volumes.prepare(pod) == first
        await volumes.release(pod.uid)

    async def test_pod_is_listed_until_its_volumes_are_released(self, volumes: VolumeManager, pod: Pod) -> None:
        assert list(volumes.pods_with_volumes()) == []
        await volumes.prepare(pod)
        assert list(volumes.pods_with_volumes()) == [pod.uid]
        for _ in range(2):
            await volumes.release(pod.uid)
        assert list(volumes.pods_with_volumes()) == []

    async def test_releasing_an_unknown_pod_does_not_raise(self, volumes: VolumeManager) -> None:
        await volumes.release("unknown")

    async def test_pod_without_volumes_gets_none(self, volumes: VolumeManager) -> None:
        pod = make_pod("plain")
        assert dict(await volumes.prepare(pod)) == {}
        await volumes.release(pod.uid)


def _exists(path: Path | str) -> bool:
    return os.path.lexists(path)
