"""Tests for volumes with the content of objects."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.errors import ApiUnavailable, VolumeError
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeObjects, make_container, make_pod
from nodeagent_plugins.volumes.content import ConfigMap, Projected
from nodeagent_plugins.volumes.manager import Manager

from .conftest import FakeMounter, new_manager, pod_with, tree


def encoded(**values: str) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


async def path_of(manager: Manager, pod: Pod, name: str = "v") -> Path:
    return Path((await manager.prepare(pod))[name].host_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_config_map_is_written_as_files(manager: Manager, objects: FakeObjects, mounter: FakeMounter) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a.conf": "x=1"}, "binaryData": encoded(raw="bytes")}

    volume = (await manager.prepare(pod_with({"name": "v", "configMap": {"name": "cm"}})))["v"]

    assert volume.readonly
    assert tree(Path(volume.host_path)) == {"a.conf": "x=1", "raw": "bytes"}
    assert mode(Path(volume.host_path, "a.conf")) == 0o644
    assert mounter.mounts == {}


async def test_secret_is_stored_in_memory(manager: Manager, objects: FakeObjects, mounter: FakeMounter) -> None:
    objects.secrets["default", "s"] = {"data": encoded(password="hunter2")}

    path = await path_of(manager, pod_with({"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}}))

    assert tree(path) == {"password": "hunter2"}
    assert mode(path / "password") == 0o400
    assert mounter.mounts[path][0] == "tmpfs"


async def test_mounts_in_a_volume_are_unmounted_before_it_is_removed(
    manager: Manager, objects: FakeObjects, mounter: FakeMounter
) -> None:
    objects.secrets["default", "s"] = {"data": encoded(password="hunter2")}
    pod = pod_with({"name": "v", "secret": {"secretName": "s"}})
    path = await path_of(manager, pod)
    mounter.mounts[path / "inside"] = ("tmpfs", "")

    await manager.release(pod.uid)

    assert mounter.mounts == {}
    assert not path.exists()


async def test_secret_is_stored_on_disk_without_the_permission_to_mount(
    manager: Manager, objects: FakeObjects, mounter: FakeMounter
) -> None:
    objects.secrets["default", "s"] = {"data": encoded(password="hunter2")}
    pod = pod_with({"name": "v", "secret": {"secretName": "s"}})
    mounter.fails = OSError(28, "No space left on device")
    with pytest.raises(VolumeError, match="v: No space left"):
        await manager.prepare(pod)

    mounter.fails = PermissionError(1, "Operation not permitted")

    assert tree(await path_of(manager, pod)) == {"password": "hunter2"}


@pytest.mark.parametrize(("kind", "expected"), [("secret", 0o1777), ("configMap", 0o777)])
async def test_directory_of_content_has_the_mode_of_its_medium(
    manager: Manager, objects: FakeObjects, kind: str, expected: int
) -> None:
    objects.config_maps["default", "some"] = objects.secrets["default", "some"] = {"data": {}}
    source = {"secret": {"secretName": "some"}, "configMap": {"name": "some"}}[kind]

    path = Path((await manager.prepare(pod_with({"name": "v", kind: source})))["v"].host_path)

    assert mode(path) == expected


async def test_restarted_agent_leaves_set_group_id_bit_of_content(
    manager: Manager, objects: FakeObjects, context: AgentContext, mounter: FakeMounter
) -> None:
    objects.config_maps["default", "some"] = {"data": {"a": "1"}}
    volume = {"name": "v", "configMap": {"name": "some"}}
    pod = pod_with(volume, security_context={"fsGroup": os.getgid()})
    path = Path((await manager.prepare(pod))["v"].host_path)

    await new_manager(context, mounter).prepare(pod)

    assert mode(path) == 0o2777


async def test_items_select_keys_paths_and_modes(manager: Manager, objects: FakeObjects) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "1", "b": "2", "c": "3"}}
    items = [{"key": "a", "path": "deep/er/one", "mode": 0o600}, {"key": "b", "path": "two"}]

    path = await path_of(manager, pod_with({"name": "v", "configMap": {"name": "cm", "items": items}}))

    assert tree(path) == {"deep/er/one": "1", "two": "2"}
    assert mode(path / "deep/er/one") == 0o600
    assert mode(path / "two") == 0o644


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "none", "optional": True}},
        {"secret": {"secretName": "none", "optional": True}},
        {"configMap": {"name": "cm", "items": [{"key": "gone", "path": "x"}], "optional": True}},
        {"projected": {"sources": [{"secret": {"name": "none", "optional": True}}]}},
    ],
)
async def test_missing_optional_source_is_accepted(
    manager: Manager, objects: FakeObjects, volume: dict[str, Any]
) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "1"}}

    assert tree(await path_of(manager, pod_with({"name": "v", **volume}))) == {}


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"configMap": {"name": "cm", "items": [{"key": "z", "path": "x"}]}}, "references non-existent config key: z"),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "x"}]}},
            "references non-existent secret key: z",
        ),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "../x"}]}}, "must not contain '..'"),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "/etc/x"}]}}, "must be relative"),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "..x/y"}]}}, "must not start with '..'"),
        ({"secret": {"secretName": "bad"}}, 'secret "bad" has a value that is not base64'),
        ({"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "status.podIP"}}]}}, "unsupported fieldP"),
        ({"downwardAPI": {"items": [{"path": "x"}]}}, "has no field reference"),
    ],
)
async def test_invalid_source_is_reported(
    manager: Manager, objects: FakeObjects, volume: dict[str, Any], problem: str
) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "1"}}
    objects.secrets["default", "bad"] = {"data": {"k": "hunter2!"}}
    objects.secrets["default", "s"] = {"data": {}}

    with pytest.raises(VolumeError, match=problem) as raised:
        await manager.prepare(pod_with({"name": "v", **volume}))

    assert "hunter2" not in str(raised.value)


async def test_unreachable_server_keeps_the_pod_waiting(manager: Manager, objects: FakeObjects) -> None:
    objects.fail("config_map", ApiUnavailable("no answer"))

    with pytest.raises(VolumeError, match='failed to read configmap "cm": no answer'):
        await manager.prepare(pod_with({"name": "v", "configMap": {"name": "cm"}}))


async def test_changed_content_is_swapped_atomically(manager: Manager, objects: FakeObjects) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "old", "gone": "x"}}
    pod = pod_with({"name": "v", "configMap": {"name": "cm"}})
    path = await path_of(manager, pod)
    before = (path / "..data").readlink()
    with (path / "a").open() as reader:
        objects.config_maps["default", "cm"] = {"data": {"a": "new", "fresh": "y"}}
        await manager.prepare(pod)
        seen_by_reader = reader.read()

    assert seen_by_reader == "old"
    assert tree(path) == {"a": "new", "fresh": "y"}
    after = (path / "..data").readlink()
    assert after != before
    assert sorted(p.name for p in path.iterdir()) == sorted([after.name, "..data", "a", "fresh"])


async def test_unchanged_content_is_not_written_again(
    manager: Manager, objects: FakeObjects, context: AgentContext, mounter: FakeMounter
) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "1"}}
    pod = pod_with({"name": "v", "configMap": {"name": "cm"}}, security_context={"fsGroup": os.getgid()})
    path = await path_of(manager, pod)
    before = (path / "..data").readlink()

    await manager.prepare(pod)
    await new_manager(context, mounter).prepare(pod)

    assert (path / "..data").readlink() == before


async def test_fs_group_gets_read_permission(manager: Manager, objects: FakeObjects) -> None:
    objects.secrets["default", "s"] = {"data": encoded(key="k")}
    volume = {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}}

    path = await path_of(manager, pod_with(volume, security_context={"fsGroup": os.getgid()}))

    assert (path / "key").stat().st_gid == os.getgid()
    assert mode(path / "key") == 0o440


async def test_downward_api_files_describe_the_pod(manager: Manager, node: dict[str, Any]) -> None:
    node["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi"}}
    fields = {
        "name": "metadata.name",
        "space": "metadata.namespace",
        "uid": "metadata.uid",
        "labels": "metadata.labels",
        "one": "metadata.labels['app']",
        "none": "metadata.annotations['x']",
    }
    amounts = {
        "cpu": ("limits.cpu", "1m"),
        "asked": ("requests.memory", "1Mi"),
        "memory": ("limits.memory", "0"),
        "disk": ("requests.ephemeral-storage", "1"),
    }
    items: list[dict[str, Any]] = [{"path": p, "fieldRef": {"fieldPath": f}} for p, f in fields.items()]
    items += [
        {"path": path, "resourceFieldRef": {"containerName": "main", "resource": resource, "divisor": divisor}}
        for path, (resource, divisor) in amounts.items()
    ]
    container = make_container(
        resources={"limits": {"cpu": "250m"}, "requests": {"memory": "1500Ki"}},
        volume_mounts=[{"name": "v", "mountPath": "/v"}],
    )
    pod = make_pod(
        labels={"b": 'say "hi"\n', "app": "web"},
        containers=[container],
        volumes=[{"name": "v", "downwardAPI": {"items": items}}],
    )

    path = await path_of(manager, pod)

    assert tree(path) == {
        "name": "web",
        "space": "default",
        "uid": "uid-web",
        "labels": 'app="web"\nb="say \\"hi\\"\\n"',
        "one": "web",
        "none": "",
        "cpu": "250",
        "asked": "2",
        "memory": str(8 << 30),
        "disk": "0",
    }


async def test_labels_are_refreshed(manager: Manager) -> None:
    volume = {
        "name": "v",
        "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
    }
    path = await path_of(manager, pod_with(volume, labels={"a": "1"}))

    await manager.prepare(pod_with(volume, labels={"a": "2"}))

    assert tree(path) == {"labels": 'a="2"'}


async def test_projected_volume_merges_its_sources(
    manager: Manager, objects: FakeObjects, mounter: FakeMounter
) -> None:
    objects.config_maps["default", "ca"] = {"data": {"ca.crt": "CA"}}
    objects.secrets["default", "s"] = {"data": encoded(key="k")}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"serviceAccountToken": {"path": "vault/token", "audience": "vault"}},
        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        {"secret": {"name": "s"}},
    ]

    path = await path_of(manager, pod_with({"name": "v", "projected": {"sources": sources, "defaultMode": 0o640}}))

    assert tree(path) == {
        "token": "token-1-api",
        "vault/token": "token-2-vault",
        "ca.crt": "CA",
        "namespace": "default",
        "key": "k",
    }
    assert objects.tokens == [("uid-web", "", 3607), ("uid-web", "vault", 3600)]
    assert mode(path / "token") == mode(path / "key") == 0o640
    assert mounter.mounts[path][0] == "tmpfs"


@pytest.mark.parametrize(
    ("security", "expected"),
    [({}, 0o644), ({"runAsUser": os.getuid()}, 0o600), ({"fsGroup": os.getgid()}, 0o640)],
)
async def test_token_is_private_to_a_known_user_or_group(
    manager: Manager, security: dict[str, Any], expected: int
) -> None:
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}

    path = await path_of(manager, pod_with(volume, security_context=security))

    assert mode(path / "token") == expected
    assert (path / "token").stat().st_uid == os.getuid()


@pytest.mark.parametrize("attacked", ["..data", "password"])
async def test_links_that_replace_content_change_nothing_outside(
    manager: Manager, objects: FakeObjects, tmp_path: Path, attacked: str
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "password").write_text("of the host")
    objects.secrets["default", "s"] = {"data": encoded(password="one")}
    pod = pod_with({"name": "v", "secret": {"secretName": "s"}})
    path = await path_of(manager, pod)
    (path / attacked).unlink()
    (path / attacked).symlink_to(victim if attacked == "..data" else victim / "password")

    objects.secrets["default", "s"] = {"data": encoded(other="two")}
    await manager.prepare(pod)
    assert tree(path) == {"other": "two"}
    await manager.release(pod.uid)

    assert not path.exists()
    assert [(entry.name, entry.read_text()) for entry in victim.iterdir()] == [("password", "of the host")]


async def test_unchanged_sources_are_not_collected_again(
    manager: Manager, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.config_maps["default", "cm"] = {"data": {"a": "1"}}
    objects.secrets["default", "s"] = {"data": encoded(password="hunter2")}
    namespace = {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}
    sources = [{"configMap": {"name": "cm"}}, {"secret": {"name": "s"}}, {"downwardAPI": namespace}]
    pod = pod_with({"name": "v", "projected": {"sources": sources}}, {"name": "c", "configMap": {"name": "cm"}})
    first = await manager.prepare(pod)
    for kind in (Projected, ConfigMap):
        monkeypatch.setattr(kind, "collect", None)
    objects.config_maps["default", "cm"] = {"data": {"a": "1"}}

    assert await manager.prepare(pod) == first


async def test_changed_labels_are_written(manager: Manager) -> None:
    labels = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    pod = pod_with({"name": "v", "downwardAPI": labels}, labels={"app": "a"})
    await manager.prepare(pod)

    path = await path_of(manager, pod_with({"name": "v", "downwardAPI": labels}, labels={"app": "b"}))

    assert tree(path) == {"labels": 'app="b"'}
