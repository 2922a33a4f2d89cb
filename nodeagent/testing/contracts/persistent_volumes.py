"""Contract tests for claim resolvers and kinds of volumes with PersistentVolumes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.contracts.persistent_volumes import (
    ClaimResolver,
    MountRequest,
    PersistentVolumeKind,
    VolumeMode,
    VolumeSpec,
)
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing.pods import make_pod


class ClaimResolverContract:
    """Contract of :class:`ClaimResolver`. Override the fixtures ``resolver`` and ``pod``."""

    @pytest.fixture
    def resolver(self) -> ClaimResolver:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose volume ``data`` has a bound claim, and whose volume ``absent`` has one that does not exist."""
        raise NotImplementedError

    async def test_bound_claim_resolves_to_its_volume(self, resolver: ClaimResolver, pod: Pod) -> None:
        spec = await resolver.resolve(pod, _volume(pod, "data"))
        assert spec.volume.name == "data" and spec.persistent_volume is not None
        assert spec.name == spec.persistent_volume.metadata.name

    async def test_absent_claim_is_a_volume_error(self, resolver: ClaimResolver, pod: Pod) -> None:
        with pytest.raises(VolumeError):
            await resolver.resolve(pod, _volume(pod, "absent"))


class PersistentVolumeKindContract:
    """Contract of :class:`PersistentVolumeKind`. Override the fixtures ``kind`` and ``spec``."""

    @pytest.fixture
    def kind(self) -> PersistentVolumeKind:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def spec(self) -> VolumeSpec:
        """A volume of this kind, which can be mounted."""
        raise NotImplementedError

    @pytest.fixture
    def request_(self, kind: PersistentVolumeKind, spec: VolumeSpec, tmp_path: Path) -> MountRequest:
        """The first mount of the volume; the parent of its directory exists."""
        directory = tmp_path / "pods" / "uid-web" / "volumes" / kind.name / spec.name
        directory.parent.mkdir(parents=True)
        return MountRequest(make_pod(volumes=[spec.volume]), spec, directory)

    def test_name_is_a_valid_directory_name(self, kind: PersistentVolumeKind) -> None:
        assert kind.name and "/" not in kind.name

    def test_only_its_own_kind_is_supported(self, kind: PersistentVolumeKind, spec: VolumeSpec) -> None:
        assert kind.supports(spec)
        assert not kind.supports(VolumeSpec("other", Volume(name="other")))

    async def test_mount_and_unmount_are_idempotent(self, kind: PersistentVolumeKind, request_: MountRequest) -> None:
        first = await kind.mount(request_)
        assert first.host_path and await kind.mount(request_) == first
        pod_uid, directory = request_.pod.uid, request_.directory
        if _exists(directory):
            volume = kind.reconstruct(pod_uid, directory, VolumeMode.FILESYSTEM)
            for _ in range(2):
                await kind.unmount(volume)
        assert not _exists(directory)


def _volume(pod: Pod, name: str) -> Volume:
    return next(volume for volume in pod.spec.volumes or () if volume.name == name)


def _exists(path: Path) -> bool:
    return os.path.lexists(path)
