"""Tests for file system volumes of CSI drivers: order of calls, requests, classes of errors, and data files."""

from __future__ import annotations

import base64
import json
import os
import stat

import pytest

from nodeagent.contracts.persistent_volumes import VolumeMode
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent.testing.pods import make_pod
from nodeagent_plugins.csi import filesystem
from nodeagent_plugins.csi.filesystem import applies_fs_group
from nodeagent_plugins.csi.names import attachment_name, inline_handle
from nodeagent_plugins.csi.sources import Source
from tests.csi_driver.service import MOUNT_GROUP, MULTI_WRITER, STAGE


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def data_of(directory):
    return json.loads((directory / "vol_data.json").read_text())


async def test_volume_is_staged_published_unpublished_and_unstaged(harness):
    request = harness.request()

    device = await harness.kind.mount_device(request)
    mounted = await harness.kind.mount(request)
    staging, target = device.path, request.directory / "mount"

    assert device.unique_name == "kubernetes.io/csi/test.csi.example^volume-1"
    assert staging.relative_to(harness.root).parts[:4] == ("plugins", "kubernetes.io", "csi", "test.csi.example")
    assert staging.name == "globalmount" and len(staging.parent.name) == 64
    assert (staging.parent / "vol_data.json").read_bytes() == (
        b'{"driverName":"test.csi.example","volumeHandle":"volume-1"}\n'
    )
    assert data_of(request.directory) == {
        "specVolID": "pv-1",
        "volumeHandle": "volume-1",
        "driverName": "test.csi.example",
        "nodeName": "node-1",
        "attachmentID": attachment_name("volume-1", "test.csi.example", "node-1"),
        "volumeLifecycleMode": "Persistent",
    }
    assert (mounted.name, mounted.host_path, mounted.readonly) == ("data", str(target), False)
    assert stat.S_IMODE(request.directory.stat().st_mode) == stat.S_IMODE(staging.stat().st_mode) == 0o750
    assert harness.call("NodePublishVolume")["staging_target_path"] == str(staging)

    await harness.kind.unmount(harness.on_disk(request))
    assert not request.directory.exists()
    await harness.kind.unmount_device(device)

    assert not staging.parent.exists()
    expected = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert harness.storage.methods() == expected


async def test_two_pods_share_one_staged_volume(harness):
    first, second = (harness.request(pod=make_pod(name=name, uid=name)) for name in ("a", "b"))
    device = await harness.kind.mount_device(first)
    for request in (first, second):
        await harness.kind.mount(request)

    await harness.kind.unmount(harness.on_disk(first))

    assert harness.storage.published("volume-1") == [str(second.directory / "mount")]
    with pytest.raises(VolumeError, match="still published"):
        await harness.kind.unmount_device(device)
    assert (device.path.parent / "vol_data.json").exists()


@pytest.mark.parametrize("code", ["CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"])
async def test_interrupted_call_is_uncertain_and_keeps_the_data_file(harness, code):
    harness.faults.set("NodeStageVolume", code=code)
    harness.faults.set("NodePublishVolume", code=code)
    request = harness.request()

    with pytest.raises(UncertainVolumeError, match="rpc error: code = "):
        await harness.kind.mount_device(request)
    with pytest.raises(UncertainVolumeError):
        await harness.kind.mount(request)

    assert list(harness.kind.devices_on_disk())
    assert data_of(request.directory)["volumeHandle"] == "volume-1"


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "UNKNOWN", "UNIMPLEMENTED", "INTERNAL", "FAILED_PRECONDITION"])
async def test_final_error_removes_the_directories(harness, code):
    harness.faults.set("NodeStageVolume", code=code, message="no such volume")
    request = harness.request()

    with pytest.raises(VolumeError) as raised:
        await harness.kind.mount_device(request)

    name = {"INVALID_ARGUMENT": "InvalidArgument", "FAILED_PRECONDITION": "FailedPrecondition"}.get(code, code.title())
    assert str(raised.value) == f"rpc error: code = {name} desc = no such volume"
    assert not isinstance(raised.value, (UncertainVolumeError, TransientVolumeError))
    assert not list((harness.root / "plugins/kubernetes.io/csi/test.csi.example").iterdir())

    harness.faults.clear()
    harness.faults.set("NodePublishVolume", code=code)
    await harness.kind.mount_device(request)
    with pytest.raises(VolumeError):
        await harness.kind.mount(request)
    assert not request.directory.exists()


async def test_final_error_keeps_a_volume_staged_by_an_earlier_process(make_harness):
    harness = await make_harness()
    device = await harness.kind.mount_device(harness.request())
    again = await make_harness()
    again.faults.set("NodeStageVolume", code="INVALID_ARGUMENT")

    with pytest.raises(VolumeError):
        await again.kind.mount_device(again.request())

    assert (device.path.parent / "vol_data.json").exists()


@pytest.mark.parametrize("fields", [{"remount": True}, {"reconstructed": True}])
async def test_failed_republish_keeps_mount_and_data_file(harness, fields):
    await harness.kind.mount_device(harness.request())
    request = harness.request()
    await harness.kind.mount(request)
    harness.faults.set("NodePublishVolume", code="INTERNAL")

    with pytest.raises(VolumeError):
        await harness.kind.mount(harness.request(**fields))

    assert (request.directory / "mount").is_dir() and data_of(request.directory)["volumeHandle"] == "volume-1"


async def test_unregistered_driver_is_transient_and_changes_nothing(make_harness):
    harness = await make_harness(registered=False)
    request = harness.request()

    with pytest.raises(TransientVolumeError) as raised:
        await harness.kind.mount_device(request)
    with pytest.raises(TransientVolumeError):
        await harness.kind.mount(request)

    assert str(raised.value) == (
        "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: "
        "driver name test.csi.example not found in the list of registered CSI drivers"
    )
    assert not (harness.root / "plugins").exists() and not request.directory.exists()


async def test_unmount_waits_for_the_driver_to_register(make_harness):
    harness = await make_harness()
    request = harness.request()
    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    harness.drivers.remove("test.csi.example")

    for undo in (harness.kind.unmount(harness.on_disk(request)), harness.kind.unmount_device(device)):
        with pytest.raises(TransientVolumeError):
            await undo
    assert (request.directory / "mount").exists() and device.path.exists()

    harness.register()
    await harness.kind.unmount(harness.on_disk(request))
    await harness.kind.unmount_device(device)
    assert not harness.storage.all_staged()


async def test_dead_socket_is_uncertain(harness):
    harness.socket.unlink()

    with pytest.raises(UncertainVolumeError, match="code = Unavailable"):
        await harness.kind.mount_device(harness.request())


async def test_hanging_call_ends_at_the_deadline(harness, monkeypatch):
    monkeypatch.setattr("nodeagent_plugins.csi.drivers.TIMEOUT_SECONDS", 0.2)
    harness.faults.set("NodeStageVolume", delay=60)

    with pytest.raises(UncertainVolumeError) as raised:
        await harness.kind.mount_device(harness.request())

    assert str(raised.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def test_driver_without_stage_capability_is_only_published(make_harness):
    harness = await make_harness(capabilities=())
    request = harness.request()

    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)

    assert "staging_target_path" not in harness.call("NodePublishVolume")
    await harness.kind.unmount(harness.on_disk(request))
    await harness.kind.unmount_device(device)
    assert harness.storage.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert not list(harness.kind.devices_on_disk())


# --- requests -----------------------------------------------------------------------------------------------------


async def test_secrets_attributes_options_and_attachment_are_sent(harness):
    harness.put_driver(attachRequired=True, fsGroupPolicy="None")
    await harness.context.clock.settle()
    harness.attach(attachmentMetadata={"devicePath": "/dev/xvdb"})
    harness.put_secret("stage", user=encoded("ada"))
    harness.put_secret("publish", token=encoded("t0p"))
    spec = harness.spec(
        node_stage_secret_ref="stage",
        node_publish_secret_ref="publish",
        fs_type="ext4",
        volume_attributes={"a": "b"},
        options=["noatime"],
        read_only=True,
    )
    await harness.kind.mount_device(harness.request(spec))
    await harness.kind.mount(harness.request(spec))

    stage, publish = harness.call("NodeStageVolume"), harness.call("NodePublishVolume")
    assert stage["secrets"] == {"user": "ada"} and publish["secrets"] == {"token": "t0p"}
    assert stage["publish_context"] == publish["publish_context"] == {"devicePath": "/dev/xvdb"}
    assert stage["volume_context"] == publish["volume_context"] == {"a": "b"}
    capability = {
        "mount": {"fs_type": "ext4", "mount_flags": ["noatime"]},
        "access_mode": {"mode": "SINGLE_NODE_WRITER"},
    }
    assert stage["volume_capability"] == publish["volume_capability"] == capability
    assert publish["readonly"] is True


@pytest.mark.parametrize(
    ("mode", "multi", "expected"),
    [
        ("ReadWriteOnce", False, "SINGLE_NODE_WRITER"),
        ("ReadWriteOnce", True, "SINGLE_NODE_MULTI_WRITER"),
        ("ReadWriteOncePod", False, "SINGLE_NODE_WRITER"),
        ("ReadWriteOncePod", True, "SINGLE_NODE_SINGLE_WRITER"),
        ("ReadOnlyMany", True, "MULTI_NODE_READER_ONLY"),
        ("ReadWriteMany", True, "MULTI_NODE_MULTI_WRITER"),
    ],
)
async def test_first_access_mode_is_sent(make_harness, mode, multi, expected):
    harness = await make_harness(capabilities=[STAGE, *([MULTI_WRITER] if multi else [])])

    await harness.kind.mount_device(harness.request(harness.spec(access=(mode, "ReadWriteMany"))))

    assert harness.call("NodeStageVolume")["volume_capability"]["access_mode"]["mode"] == expected


async def test_unreadable_objects_are_transient(harness):
    harness.put_driver(attachRequired=True, fsGroupPolicy="None")
    await harness.context.clock.settle()
    with pytest.raises(TransientVolumeError, match="publishContext"):
        await harness.kind.mount_device(harness.request())
    harness.attach()
    request = harness.request(harness.spec(node_stage_secret_ref="missing"))
    with pytest.raises(TransientVolumeError, match=r"^fetching NodeStageSecretRef default/missing failed: "):
        await harness.kind.mount_device(request)
    assert "NodeStageVolume" not in harness.storage.methods()


async def test_binary_secret_is_a_clear_error_without_its_value(harness):
    harness.put_secret("stage", key=base64.b64encode(b"\xff\xfesecret").decode())

    with pytest.raises(TransientVolumeError) as raised:
        await harness.kind.mount_device(harness.request(harness.spec(node_stage_secret_ref="stage")))

    message = 'fetching NodeStageSecretRef default/stage failed: value of "key" is not valid UTF-8'
    assert str(raised.value) == message
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


async def test_secrets_and_tokens_are_not_logged(harness, caplog):
    caplog.set_level(0)
    harness.put_secret("stage", user=encoded("ada-secret"))
    harness.faults.set("NodePublishVolume", code="INTERNAL")
    spec = harness.spec(node_stage_secret_ref="stage", node_publish_secret_ref="stage")
    await harness.kind.mount_device(harness.request(spec))
    with pytest.raises(VolumeError):
        await harness.kind.mount(harness.request(spec))

    assert "ada-secret" not in caplog.text and "ada-secret" not in str([vars(r) for r in caplog.records])


async def test_pod_information_and_tokens_do_not_leak_between_pods(harness):
    harness.put_driver(
        attachRequired=False,
        fsGroupPolicy="None",
        podInfoOnMount=True,
        tokenRequests=[{"audience": "vault", "expirationSeconds": 600}, {"audience": ""}],
    )
    await harness.context.clock.settle()
    spec = harness.spec(volume_attributes={"a": "b"})
    await harness.kind.mount_device(harness.request(spec))
    for name in ("web", "db"):
        await harness.kind.mount(harness.request(spec, make_pod(name=name, uid=name)))

    context = harness.call("NodePublishVolume")["volume_context"]
    tokens = json.loads(context.pop("csi.storage.k8s.io/serviceAccount.tokens"))
    assert context == {
        "a": "b",
        "csi.storage.k8s.io/pod.name": "db",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "db",
        "csi.storage.k8s.io/serviceAccount.name": "",
        "csi.storage.k8s.io/ephemeral": "false",
    }
    assert set(tokens) == {"vault", ""} and set(tokens["vault"]) == {"token", "expirationTimestamp"}
    assert spec.persistent_volume.spec.csi.volume_attributes == {"a": "b"}


async def test_tokens_are_sent_as_secrets_where_the_driver_requires_it(harness):
    harness.put_driver(
        attachRequired=False,
        fsGroupPolicy="None",
        tokenRequests=[{"audience": "vault"}],
        serviceAccountTokenInSecrets=True,
    )
    await harness.context.clock.settle()
    await harness.kind.mount_device(harness.request())
    await harness.kind.mount(harness.request())

    call = harness.call("NodePublishVolume")
    assert list(call["secrets"]) == ["csi.storage.k8s.io/serviceAccount.tokens"] and "volume_context" not in call


# --- inline volumes -----------------------------------------------------------------------------------------------


async def test_inline_volume_has_a_handle_per_pod_and_no_staging(harness):
    harness.put_driver(attachRequired=True, fsGroupPolicy="File", volumeLifecycleModes=["Ephemeral"])
    await harness.context.clock.settle()
    harness.put_secret("inline", key=encoded("value"))
    spec = harness.inline(
        readOnly=True, volumeAttributes={"size": "1"}, nodePublishSecretRef={"name": "inline"}, fsType="xfs"
    )
    request = harness.request(spec)

    mounted = await harness.kind.mount(request)

    call = harness.call("NodePublishVolume")
    assert call["volume_id"] == inline_handle(request.pod.uid, "data") and call["volume_id"].startswith("csi-")
    assert "staging_target_path" not in call and call["secrets"] == {"key": "value"}
    assert mounted.readonly and call["readonly"]
    assert data_of(request.directory)["volumeLifecycleMode"] == "Ephemeral"
    assert harness.kind.unique_name(spec) == "" and not await harness.kind.attachable(spec)
    await harness.kind.unmount(harness.kind.reconstruct(request.pod.uid, request.directory, VolumeMode.FILESYSTEM))
    assert not request.directory.exists()


async def test_inline_volume_needs_a_driver_that_supports_it(harness):
    with pytest.raises(TransientVolumeError) as raised:
        await harness.kind.mount(harness.request(harness.inline()))
    assert 'volume mode "Ephemeral" not supported by driver test.csi.example (only supports ["Persistent"])' in str(
        raised.value
    )


# --- fsGroup ------------------------------------------------------------------------------------------------------


async def test_fs_group_is_delegated_to_a_driver_with_the_capability(make_harness):
    harness = await make_harness(capabilities=[STAGE, MOUNT_GROUP])
    pod = make_pod(security_context={"fsGroup": 4242})
    spec = harness.spec(fs_type="ext4")
    await harness.kind.mount_device(harness.request(spec, pod))
    mounted = await harness.kind.mount(harness.request(spec, pod))

    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert harness.call(method)["volume_capability"]["mount"]["volume_mount_group"] == "4242"
    assert os.stat(mounted.host_path).st_gid != 4242


async def test_fs_group_is_applied_by_the_agent(harness):
    group = os.getgid()
    pod = make_pod(security_context={"fsGroup": group})
    spec = harness.spec(fs_type="ext4")
    await harness.kind.mount_device(harness.request(spec, pod))

    mounted = await harness.kind.mount(harness.request(spec, pod))

    status = os.stat(mounted.host_path)
    assert status.st_mode & stat.S_ISGID and status.st_mode & 0o060 == 0o060


@pytest.mark.parametrize(
    ("policy", "fields", "single_pod", "expected"),
    [
        ("None", {"fs_type": "ext4", "access_modes": ("ReadWriteOnce",)}, True, False),
        ("File", {}, False, True),
        ("File", {"read_only": True}, False, False),
        ("ReadWriteOnceWithFSType", {"fs_type": "ext4", "access_modes": ("ReadWriteMany",)}, True, False),
        ("ReadWriteOnceWithFSType", {"access_modes": ("ReadWriteOnce",)}, True, False),
        ("ReadWriteOnceWithFSType", {"fs_type": "ext4", "access_modes": ("ReadWriteOnce",)}, False, True),
        ("ReadWriteOnceWithFSType", {"fs_type": "ext4", "access_modes": ("ReadWriteOncePod",)}, False, False),
        ("ReadWriteOnceWithFSType", {"fs_type": "ext4", "access_modes": ("ReadWriteOncePod",)}, True, True),
        ("ReadWriteOnceWithFSType", {"fs_type": "ext4", "inline": True}, False, True),
    ],
)
def test_fs_group_policy(policy, fields, single_pod, expected):
    assert applies_fs_group(Source("d", "h", **fields), policy, single_pod) is expected


async def test_missing_policy_is_an_error(harness):
    harness.put_driver(attachRequired=False)
    await harness.context.clock.settle()
    with pytest.raises(TransientVolumeError, match="expected valid fsGroupPolicy, received nil value or empty string"):
        await harness.kind.mount(harness.request())


async def test_selinux_label_becomes_a_mount_option(harness):
    harness.put_driver(attachRequired=False, fsGroupPolicy="None", seLinuxMount=True)
    await harness.context.clock.settle()
    label = "system_u:object_r:container_file_t:s0:c1,c2"
    request = harness.request(selinux_label=label)

    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)

    flags = harness.call("NodePublishVolume")["volume_capability"]["mount"]["mount_flags"]
    assert flags == [f'context="{label}"'] and device.selinux_label == label
    (found,) = harness.kind.devices_on_disk()
    volume = harness.kind.reconstruct("u", request.directory, VolumeMode.FILESYSTEM)
    assert found.selinux_label == volume.selinux_label == label


@pytest.mark.parametrize(
    ("label", "supported", "relabels"), [("", True, True), ("", False, False), ("u:r:t:s0", True, False)]
)
async def test_runtime_relabels_a_volume_without_a_label(harness, monkeypatch, label, supported, relabels):
    harness.put_driver(attachRequired=False, fsGroupPolicy="None", seLinuxMount=True)
    await harness.context.clock.settle()
    monkeypatch.setattr(filesystem, "needs_relabel", lambda _target: supported)
    request = harness.request(selinux_label=label)
    await harness.kind.mount_device(request)
    assert (await harness.kind.mount(request)).selinux_relabel is relabels


# --- attacks ------------------------------------------------------------------------------------------------------


async def test_driver_that_publishes_a_symbolic_link_is_rejected(harness, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    await harness.kind.mount_device(harness.request())
    harness.faults.set("NodePublishVolume", symlink=str(outside))
    pod = make_pod(security_context={"fsGroup": os.getgid()})
    request = harness.request(harness.spec(fs_type="ext4"), pod)
    before = outside.stat()

    with pytest.raises(UncertainVolumeError, match="symbolic link, or not a directory"):
        await harness.kind.mount(request)

    assert outside.stat().st_mode == before.st_mode
    await harness.kind.unmount(harness.on_disk(request))
    assert (outside / "file").read_text() == "kept" and not request.directory.exists()


async def test_driver_that_publishes_elsewhere_is_rejected(harness, tmp_path):
    await harness.kind.mount_device(harness.request())
    harness.faults.set("NodePublishVolume", path=str(tmp_path / "elsewhere"))

    with pytest.raises(UncertainVolumeError, match="driver reported success, but"):
        await harness.kind.mount(harness.request())


@pytest.mark.parametrize("level", ["kubernetes.io", "kubernetes.io/csi", "kubernetes.io/csi/test.csi.example"])
async def test_symbolic_link_in_the_staging_path_is_not_followed(harness, tmp_path, level):
    outside = tmp_path / "outside"
    outside.mkdir()
    link = harness.root / "plugins" / level
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)

    with pytest.raises(VolumeError, match="failed to create dir"):
        await harness.kind.mount_device(harness.request())

    assert not list(outside.iterdir())


async def test_symbolic_link_as_target_directory_is_not_followed(harness, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    await harness.kind.mount_device(harness.request())
    request = harness.request()
    request.directory.symlink_to(outside)

    with pytest.raises(VolumeError, match="failed to create dir"):
        await harness.kind.mount(request)

    assert not list(outside.iterdir()) and "NodePublishVolume" not in harness.storage.methods()


async def test_oversized_response_is_uncertain(harness):
    harness.faults.set("NodeStageVolume", padding=5_000_000)

    with pytest.raises(UncertainVolumeError, match="code = ResourceExhausted"):
        await harness.kind.mount_device(harness.request())


async def test_long_error_message_is_truncated(harness):
    harness.faults.set("NodeStageVolume", code="INTERNAL", padding=6000)

    with pytest.raises(VolumeError) as raised:
        await harness.kind.mount_device(harness.request())

    assert len(str(raised.value)) < 4200


# --- damaged state ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "{", "[]", '{"driverName":"../..","volumeHandle":"v"}', '{"driverName":"d"}'])
async def test_damaged_data_file_stops_unmount_and_removes_nothing(harness, content):
    request = harness.request()
    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    for directory in (request.directory, device.path.parent):
        (directory / "vol_data.json").write_text(content)

    with pytest.raises(VolumeError, match="failed to load volume data file"):
        await harness.kind.unmount(harness.on_disk(request))
    with pytest.raises(VolumeError, match="failed to load volume data file"):
        await harness.kind.unmount_device(device)
    with pytest.raises(VolumeError):
        harness.kind.reconstruct("u", request.directory, VolumeMode.FILESYSTEM)

    assert not harness.kind.devices_on_disk()
    assert (request.directory / "mount").exists() and device.path.exists()
    assert harness.storage.methods() == ["NodeStageVolume", "NodePublishVolume"]


async def test_missing_data_file_of_a_mounted_volume_stops_unmount(harness):
    request = harness.request()
    await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    (request.directory / "vol_data.json").unlink()

    with pytest.raises(VolumeError, match="unmounter failed to load volume data file"):
        await harness.kind.unmount(harness.on_disk(request))
    assert (request.directory / "mount").exists()


async def test_empty_directory_of_an_interrupted_mount_is_removed(harness):
    request = harness.request()
    request.directory.mkdir()

    await harness.kind.unmount(harness.on_disk(request))

    assert not request.directory.exists() and not harness.storage.methods()


async def test_files_left_by_the_driver_are_kept(harness):
    request = harness.request()
    await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    harness.service.NodeUnpublishVolume = _succeed("NodeUnpublishVolumeResponse")
    (request.directory / "mount" / "file").write_text("data")

    with pytest.raises(VolumeError, match="failed to clean mount dir"):
        await harness.kind.unmount(harness.on_disk(request))

    assert (request.directory / "mount" / "file").read_text() == "data"
    assert (request.directory / "vol_data.json").exists()


def _succeed(name):
    from nodeagent.base.pluginproto import csi_pb2

    async def succeed(*_arguments):
        return getattr(csi_pb2, name)()

    return succeed


async def test_volume_staged_before_a_crash_is_found_and_unstaged(make_harness):
    harness = await make_harness()
    request = harness.request()
    await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    await harness.kind.unmount(harness.on_disk(request))  # The agent stops before it unstages.
    restarted = await make_harness()

    (device,) = restarted.kind.devices_on_disk()
    await restarted.kind.unmount_device(device)

    assert device.unique_name == "kubernetes.io/csi/test.csi.example^volume-1"
    assert not restarted.storage.all_staged() and not restarted.kind.devices_on_disk()


async def test_unmounting_needs_no_api_server(make_harness):
    harness = await make_harness()
    request = harness.request()
    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    harness.api.outage = True
    sent = len(harness.api.requests)

    volume = harness.kind.reconstruct(request.pod.uid, request.directory, VolumeMode.FILESYSTEM)
    await harness.kind.unmount(volume)
    await harness.kind.unmount_device(device)

    assert volume.unique_name == device.unique_name and volume.spec.persistent_volume.metadata.name == "pv-1"
    assert not [r for r in harness.api.requests[sent:] if r.verb != "watch" and r.verb != "list"]
