"""What every kind of volume does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.contracts.volumes import VolumeKind
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing.pods import make_pod


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


def _exists(path: Path | str) -> bool:
    return os.path.lexists(path)
