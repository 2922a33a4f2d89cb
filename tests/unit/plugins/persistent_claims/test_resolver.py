"""Tests for the resolver of claims, with a fake API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nodeagent.contracts.api import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from nodeagent.contracts.persistent_volumes import VolumeMode, VolumeSpec
from nodeagent.errors import ApiUnavailable, TransientVolumeError, VolumeError
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, make_container, make_pod
from nodeagent.testing.contracts import ClaimResolverContract
from nodeagent_plugins.persistent_claims.resolver import Resolver

DELETED = datetime(2024, 1, 2, tzinfo=UTC).isoformat().replace("+00:00", "Z")


def claim(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {"name": "data", "namespace": "default", "uid": "uid-claim"},
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }
    for section, fields in changes.items():
        made[section] |= fields
    return made


def volume(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pv-1"},
        "spec": {"hostPath": {"path": "/data"}, "claimRef": {"name": "data", "uid": "uid-claim"}, **spec},
    }


def claim_pod(source: dict[str, Any] | None = None, **use: Any) -> Pod:
    """Return a pod with the volume ``data``, whose container uses it as in *use*, by default as a mount."""
    use = use or {"volume_mounts": [{"name": "data", "mountPath": "/data"}]}
    source = source or {"persistentVolumeClaim": {"claimName": "data"}}
    return make_pod(containers=[make_container(**use)], volumes=[{"name": "data", **source}])


async def resolve(api: FakeApi | None, pod: Pod | None = None) -> VolumeSpec:
    pod = pod or claim_pod()
    assert pod.spec.volumes
    return await Resolver(api).resolve(pod, pod.spec.volumes[0])


async def failure(api: FakeApi | None, pod: Pod | None = None) -> str:
    with pytest.raises(VolumeError) as raised:
        await resolve(api, pod)
    return str(raised.value)


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.put(PERSISTENT_VOLUME_CLAIMS, claim())
    api.put(PERSISTENT_VOLUMES, volume())
    return api


class TestResolver(ClaimResolverContract):
    @pytest.fixture
    def resolver(self, api: FakeApi) -> Resolver:
        return Resolver(api)

    @pytest.fixture
    def pod(self) -> Pod:
        sources = {"data": "data", "absent": "none"}
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": of}} for name, of in sources.items()]
        return make_pod(volumes=volumes)


async def test_claim_resolves_with_read_only_of_the_pod(api: FakeApi) -> None:
    spec = await resolve(api, claim_pod({"persistentVolumeClaim": {"claimName": "data", "readOnly": True}}))

    assert spec.claim is not None and spec.claim.metadata.uid == "uid-claim"
    assert (spec.name, spec.read_only, spec.mode) == ("pv-1", True, VolumeMode.FILESYSTEM)


async def test_volume_of_an_unchanged_claim_is_not_read_again(api: FakeApi) -> None:
    pod = claim_pod()
    assert pod.spec.volumes
    resolver, data = Resolver(api), pod.spec.volumes[0]
    first = await resolver.resolve(pod, data)
    api.put(PERSISTENT_VOLUMES, volume(capacity={"storage": "2Gi"}))

    same = await resolver.resolve(pod, data, first)
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(status={"conditions": [{"type": "FileSystemResizePending"}]}))
    changed = await resolver.resolve(pod, data, same)

    assert same.persistent_volume is first.persistent_volume
    assert changed.persistent_volume is not None
    assert changed.persistent_volume.spec.capacity == {"storage": "2Gi"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metadata": {"deletionTimestamp": DELETED}}, "PVC is being deleted"),
        ({"status": {"phase": "Pending"}}, "PVC is not bound"),
        ({"spec": {"volumeName": ""}}, "PVC has empty pvc.Spec.VolumeName"),
        ({"spec": {"volumeName": "no"}}, "failed to fetch PV no from API server: .*no.*not found"),
    ],
)
async def test_unusable_claim_is_rejected(api: FakeApi, changes: dict[str, Any], text: str) -> None:
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(**changes))

    with pytest.raises(VolumeError, match=f"^error processing PVC default/data: {text}$"):
        await resolve(api)


async def test_volume_without_claim_reference_is_rejected(api: FakeApi) -> None:
    api.put(PERSISTENT_VOLUMES, volume(claimRef=None))

    assert await failure(api) == (
        "error processing PVC default/data: found PV object pv-1 but it has a nil pv.Spec.ClaimRef indicating it is "
        "not yet bound to the claim"
    )


async def test_volume_of_an_earlier_claim_is_rejected(api: FakeApi) -> None:
    api.put(PERSISTENT_VOLUMES, volume(claimRef={"name": "data", "uid": "uid-old"}))

    assert await failure(api) == (
        "error processing PVC default/data: found PV object pv-1 but its pv.Spec.ClaimRef.UID uid-old does not point "
        "to claim.UID uid-claim"
    )


async def test_deleted_claim_is_accepted_while_protected(api: FakeApi) -> None:
    finalizers = ["kubernetes.io/pvc-protection"]
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(metadata={"deletionTimestamp": DELETED, "finalizers": finalizers}))

    assert (await resolve(api)).name == "pv-1"


async def test_unreadable_claim_is_transient(api: FakeApi) -> None:
    api.fail("get", ApiUnavailable("connection refused"))

    with pytest.raises(TransientVolumeError, match="failed to fetch PVC from API server: connection refused"):
        await resolve(api)


@pytest.mark.parametrize("owner", [None, "uid-other"])
async def test_ephemeral_claim_of_another_owner_is_rejected(api: FakeApi, owner: str | None) -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": True}] if owner else []
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(metadata={"name": "web-data", "ownerReferences": owners}))

    assert await failure(api, claim_pod({"ephemeral": {}})) == (
        "PVC default/web-data was not created for pod default/web (pod is not owner)"
    )


async def test_ephemeral_claim_of_the_pod_resolves(api: FakeApi) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": True}
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(metadata={"name": "web-data", "ownerReferences": [owner]}))

    assert (await resolve(api, claim_pod({"ephemeral": {}}))).name == "pv-1"


async def test_block_volume_in_mounts_is_rejected(api: FakeApi) -> None:
    api.put(PERSISTENT_VOLUMES, volume(volumeMode="Block"))

    assert await failure(api) == "volume data has volumeMode Block, but is specified in volumeMounts"


async def test_file_system_in_devices_is_rejected(api: FakeApi) -> None:
    pod = claim_pod(volume_devices=[{"name": "data", "devicePath": "/dev/data"}])

    assert await failure(api, pod) == "volume data has volumeMode Filesystem, but is specified in volumeDevices"
    api.put(PERSISTENT_VOLUMES, volume(volumeMode="Block"))
    assert (await resolve(api, pod)).mode is VolumeMode.BLOCK


async def test_static_pod_cannot_use_claims(api: FakeApi) -> None:
    static = make_pod(annotations={"kubernetes.io/config.source": "file"}, volumes=claim_pod().spec.volumes)

    for pod, client in ((static, api), (claim_pod(), None)):
        assert "static pods cannot use PersistentVolumeClaims" in await failure(client, pod)
    assert not api.requests


async def test_inline_volume_keeps_its_name_and_read_only() -> None:
    spec = await resolve(None, claim_pod({"nfs": {"server": "s", "path": "/", "readOnly": True}}))

    assert (spec.name, spec.persistent_volume, spec.read_only) == ("data", None, True)


async def test_inline_cloud_volume_becomes_a_volume_of_its_driver() -> None:
    spec = await resolve(None, claim_pod({"azureDisk": {"diskName": "d", "diskURI": "/subs/a/d"}}))

    assert spec.name == "~subs~a~d" and spec.persistent_volume is not None
    assert spec.persistent_volume.metadata.name == "/subs/a/d"


@pytest.mark.parametrize(
    ("source", "migrated"),
    [({"hostPath": {"path": "/data"}}, False), ({"hostPath": None, "cinder": {"volumeID": "c"}}, True)],
)
async def test_volume_of_a_migrated_source_is_marked(api: FakeApi, source: dict[str, Any], migrated: bool) -> None:
    api.put(PERSISTENT_VOLUMES, volume(**source))

    assert (await resolve(api)).migrated is migrated


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    "field", ["csi", "iscsi", "fc", "awsElasticBlockStore", "cinder", "portworxVolume", "flexVolume"]
)
async def test_inline_volume_is_read_only_on_request(field: str, read_only: bool) -> None:
    source = {"driver": "d/d", "volumeID": "vol-1", "readOnly": read_only}

    assert (await resolve(None, claim_pod({field: source}))).read_only is read_only


async def test_owner_that_is_not_the_controller_is_rejected(api: FakeApi) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web"}
    api.put(PERSISTENT_VOLUME_CLAIMS, claim(metadata={"name": "web-data", "ownerReferences": [owner]}))

    assert "pod is not owner" in await failure(api, claim_pod({"ephemeral": {}}))


async def test_other_volumes_of_the_pod_may_have_another_mode(api: FakeApi) -> None:
    api.put(PERSISTENT_VOLUMES, volume(volumeMode="Block"))
    mounts = [{"name": "cache", "mountPath": "/cache"}]
    pod = claim_pod(volume_mounts=mounts, volume_devices=[{"name": "data", "devicePath": "/dev/data"}])

    assert (await resolve(api, pod)).mode is VolumeMode.BLOCK
