"""Tests for FlexVolume: driver discovery, calls and outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.aio.command import Command, CommandResult, Limits
from nodeagent.contracts.api import SECRETS
from nodeagent.contracts.context import AgentContext
from nodeagent.errors import VolumeError
from nodeagent.model.pod import FlexSecretReference, FlexVolume, Pod
from nodeagent.testing import FakeApi, FakeClock, FakeObjects, FakeRecorder, make_config, make_context
from nodeagent.testing.persistent_volumes import FakeClaims
from nodeagent_plugins.volumes.flex.drivers import Drivers
from nodeagent_plugins.volumes.flex.kind import FlexVolumes
from nodeagent_plugins.volumes.manager import Manager
from tests.unit.plugins.volumes.conftest import FakeMounter, pod_with

SUCCESS, NOT_SUPPORTED = {"status": "Success"}, {"status": "Not supported"}
PLAIN = {"status": "Success", "capabilities": {"attach": False}}


class FakeDriver:
    """Returns prepared outputs and mounts on request."""

    def __init__(self, mounter: FakeMounter) -> None:
        self.mounter = mounter
        self.outputs: dict[str, Any] = {"init": PLAIN}
        self.calls: list[list[str]] = []
        self.output: CommandResult | BaseException | None = None

    async def run(self, executable: Command, request: bytes, limits: Limits) -> CommandResult:
        command, *arguments = executable.arguments
        self.calls.append([command, *arguments])
        if isinstance(self.output, BaseException):
            raise self.output
        if self.output is not None:
            return self.output
        output = self.outputs.get(command, SUCCESS)
        if output.get("status") == "Success":
            if command in ("mount", "mountdevice"):
                self.mounter.mounts[Path(arguments[0])] = ("acme", "")
            if command in ("unmount", "unmountdevice"):
                self.mounter.unmount(Path(arguments[0]))
        return CommandResult(0, json.dumps(output).encode())

    def commands(self) -> list[str]:
        return [call[0] for call in self.calls]

    def options(self, command: str) -> dict[str, str]:
        """Return the options of the last such call."""
        call = next(call for call in reversed(self.calls) if call[0] == command)
        found: dict[str, str] = json.loads(next(part for part in call[1:] if part.startswith("{")))
        return found


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Return the directory of drivers, which contains ``acme/disk``."""
    directory = tmp_path / "exec"
    install(directory, "acme~disk", "disk")
    return directory


def install(plugins: Path, directory: str, name: str, content: str = "x") -> Path:
    file = plugins / directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(0o755)
    return file


@pytest.fixture
def driver(mounter: FakeMounter) -> FakeDriver:
    return FakeDriver(mounter)


@pytest.fixture
def flex(context: AgentContext, mounter: FakeMounter, plugins: Path, driver: FakeDriver) -> Manager:
    return new_manager(context, mounter, plugins, driver)


def new_manager(context: AgentContext, mounter: FakeMounter, plugins: Path, driver: FakeDriver) -> Manager:
    """Return a manager as created after a restart of the agent."""
    return Manager(context, [FlexVolumes(context, mounter, Drivers(plugins, driver.run))], mounter)


def flex_pod(name: str = "web", volume: str = "data", driver: str = "acme/disk", **source: Any) -> Pod:
    return pod_with({"name": volume, "flexVolume": {"driver": driver, **source}}, name=name)


def volume_dir(context: AgentContext, pod: Pod, volume: str = "data") -> Path:
    return context.pod_dir(pod.uid) / "volumes" / "acme~disk" / volume


async def test_volume_is_mounted_once_and_unmounted_on_teardown(context, flex, driver, mounter):
    pod = flex_pod()

    mounted = (await flex.prepare(pod))["data"]
    assert await flex.prepare(pod) == {"data": mounted}
    assert driver.commands() == ["init", "mount"]
    assert (mounted.host_path, mounted.readonly) == (str(volume_dir(context, pod)), False)

    for _ in range(2):
        await flex.release(pod.uid)
    assert driver.calls[2:] == [["unmount", str(volume_dir(context, pod))]]
    assert not volume_dir(context, pod).exists() and not mounter.mounts
    assert not (context.pod_dir(pod.uid) / "plugins").exists()


async def test_driver_receives_pod_and_volume(flex, driver, objects: FakeObjects):
    objects.secrets["default", "key"] = {"type": "acme/disk", "data": {"token": "AHMzY3JldA=="}}
    pod = flex_pod(fsType="ext4", readOnly=True, secretRef={"name": "key"}, options={"lun": "<7>"})

    mounted = (await flex.prepare(pod))["data"]

    assert mounted.readonly and not mounted.selinux_relabel
    assert driver.options("mount") == {
        "lun": "<7>",
        "kubernetes.io/fsType": "ext4",
        "kubernetes.io/readwrite": "ro",
        "kubernetes.io/pvOrVolumeName": "data",
        "kubernetes.io/pod.name": "web",
        "kubernetes.io/pod.namespace": "default",
        "kubernetes.io/pod.uid": pod.uid,
        "kubernetes.io/serviceAccount.name": pod.spec.service_account_name,
        "kubernetes.io/secret/token": "AHMzY3JldA==",
    }


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (None, 'secret "key" not found'),
        ({"type": "Opaque", "data": {"token": "AA=="}}, 'secret "key" has the wrong type: must be acme/disk'),
        ({"type": "acme/disk", "data": {"token": "?"}}, 'secret "key" has a value that is not base64'),
    ],
)
async def test_driver_is_not_called_without_its_secret(flex, driver, objects, secret, shown):
    if secret is not None:
        objects.secrets["default", "key"] = secret

    with pytest.raises(VolumeError, match=shown):
        await flex.prepare(flex_pod(secretRef={"name": "key"}))
    assert "mount" not in driver.commands()


@pytest.mark.parametrize(
    ("capabilities", "given"), [({"attach": False}, True), ({"attach": False, "fsGroup": False}, False)]
)
async def test_group_owns_the_files_unless_the_driver_handles_it(
    context, flex, driver, monkeypatch, capabilities, given
):
    groups = []
    monkeypatch.setattr(
        "nodeagent.contracts.volume_ownership.apply_fs_group", lambda path, group, **_: groups.append((path, group))
    )
    driver.outputs["init"] = SUCCESS | {"capabilities": capabilities}
    volume = {"name": "data", "flexVolume": {"driver": "acme/disk"}}
    pod = pod_with(volume, security_context={"fsGroup": 2000})

    await flex.prepare(pod)

    assert driver.options("mount")["kubernetes.io/mounterArgs.FsGroup"] == "2000"
    assert groups == ([(volume_dir(context, pod), 2000)] if given else [])


async def test_driver_error_is_recorded_as_event_and_retried(context, flex, driver, recorder):
    pod = flex_pod()
    driver.outputs["mount"] = {"status": "Failure", "message": "no such\nlun"}

    with pytest.raises(VolumeError):
        await flex.prepare(pod)
    assert [(event.reason, event.note) for event in recorder.events] == [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "data" : mount command failed, status: Failure, reason: no such lun',
        )
    ]
    assert not volume_dir(context, pod).exists()

    del driver.outputs["mount"]
    assert list(await flex.prepare(pod)) == ["data"]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (TimeoutError(), "init of driver acme/disk timed out after"),
        (OSError(8, "Exec format error"), "failed to run driver acme/disk: Exec format error"),
        (CommandResult(-9, None), "init of driver acme/disk wrote more than"),
        (CommandResult(1, b"oops"), r"wrote no JSON output \(exit code 1\)"),
        (CommandResult(0, b"[" * 100_000), "wrote no JSON output"),
        (CommandResult(1, b'{"status":"Success"}'), "exited with code 1"),
        (CommandResult(1, b"", b'{"status": "Failure", "message": "on stderr"}'), "reason: on stderr"),
    ],
)
async def test_invalid_driver_output_is_reported(flex, driver, output, shown):
    driver.output = output

    with pytest.raises(VolumeError, match=shown):
        await flex.prepare(flex_pod())


async def test_output_keys_are_case_insensitive(flex, driver):
    driver.output = CommandResult(
        0, b'{"Status": "Success", "Capabilities": {"Attach": false, "SELinuxRelabel": false}}'
    )

    assert not (await flex.prepare(flex_pod()))["data"].selinux_relabel


async def test_driver_can_be_added_changed_and_removed_at_any_time(flex, driver, plugins):
    executable = plugins / "acme~disk" / "disk"
    executable.unlink()
    with pytest.raises(VolumeError, match="no volume driver 'acme/disk'"):
        await flex.prepare(flex_pod("a"))

    install(plugins, "acme~disk", "disk")
    await flex.prepare(flex_pod("b"))
    install(plugins, "acme~disk", "disk", content="another version")
    await flex.prepare(flex_pod("c"))
    assert driver.commands() == ["init", "mount", "init", "mount"]

    executable.unlink()
    assert list(await flex.prepare(flex_pod("b"))) == ["data"]  # what is mounted stays
    with pytest.raises(VolumeError):
        await flex.prepare(flex_pod("d"))


async def test_driver_without_vendor(context, flex, plugins):
    install(plugins, "plain", "plain")
    pod = flex_pod(driver="plain")

    mounted = (await flex.prepare(pod))["data"]

    assert mounted.host_path == str(context.pod_dir(pod.uid) / "volumes" / "plain" / "data")


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "a/b/c", "/disk", "acme~disk", ".hidden", "a/.b", "a\n"])
async def test_driver_name_cannot_leave_the_directory(flex, driver, name):
    with pytest.raises(VolumeError, match="invalid volume driver name"):
        await flex.prepare(flex_pod(driver=name))
    assert not driver.calls


async def test_driver_link_cannot_leave_the_directory(flex, driver, plugins, tmp_path):
    outside = install(tmp_path / "outside", "d", "disk")
    (plugins / "acme~disk" / "disk").unlink()
    (plugins / "acme~disk" / "disk").symlink_to(outside)
    (plugins / "acme~other").symlink_to(outside.parent)
    with pytest.raises(VolumeError, match="a link to a file outside of"):
        await flex.prepare(flex_pod())
    with pytest.raises(VolumeError):
        await flex.prepare(flex_pod(driver="acme/other"))
    assert not driver.calls


async def test_file_that_is_not_executable_is_not_run(flex, driver, plugins):
    (plugins / "acme~disk" / "disk").chmod(0o644)

    with pytest.raises(VolumeError, match="is not executable"):
        await flex.prepare(flex_pod())


async def test_restarted_agent_keeps_and_unmounts_volumes(context, flex, driver, mounter, plugins):
    pod = flex_pod()
    await flex.prepare(pod)

    later = new_manager(context, mounter, plugins, driver)
    assert list(await later.prepare(pod)) == ["data"]
    assert driver.commands().count("mount") == 1

    latest = new_manager(context, mounter, plugins, driver)
    await latest.release(pod.uid)
    assert driver.commands()[-1] == "unmount"
    assert latest.pods_with_volumes() == []


async def test_teardown_waits_for_a_missing_driver(context, flex, driver, mounter, plugins):
    pod = flex_pod()
    await flex.prepare(pod)
    (plugins / "acme~disk" / "disk").unlink()
    later = new_manager(context, mounter, plugins, driver)

    with pytest.raises(VolumeError, match="no volume driver"):
        await later.release(pod.uid)
    assert volume_dir(context, pod) in mounter.mounts

    install(plugins, "acme~disk", "disk")
    await later.release(pod.uid)
    assert not mounter.mounts


async def test_failed_unmount_is_reported_and_retried(context, flex, driver, mounter):
    pod = flex_pod()
    await flex.prepare(pod)
    driver.outputs["unmount"] = {"status": "Failure", "message": "busy"}

    with pytest.raises(VolumeError, match="reason: busy"):
        await flex.release(pod.uid)
    assert volume_dir(context, pod) in mounter.mounts

    del driver.outputs["unmount"]
    await flex.release(pod.uid)
    assert not mounter.mounts


async def test_agent_unmounts_if_the_driver_does_not_support_it(flex, driver, mounter):
    pod = flex_pod()
    await flex.prepare(pod)
    driver.outputs["unmount"] = NOT_SUPPORTED

    await flex.release(pod.uid)

    assert not mounter.mounts


async def test_driver_without_attached_device_may_support_mount_only(flex, driver):
    driver.outputs = dict.fromkeys(("getvolumename", "waitforattach", "mountdevice"), NOT_SUPPORTED)
    pod = flex_pod()

    await flex.prepare(pod)
    await flex.release(pod.uid)
    await flex.prepare(pod)

    assert driver.commands() == [
        *["init", "getvolumename", "waitforattach", "mountdevice", "mount"],
        *["unmount", "mount"],  # An unsupported call is requested once.
    ]


async def test_attached_device_is_mounted_once_for_all_pods(context, flex, driver, mounter, node):
    driver.outputs |= {"init": SUCCESS, "mount": NOT_SUPPORTED, "unmount": NOT_SUPPORTED}
    driver.outputs["getvolumename"] = SUCCESS | {"volumeName": "lun/7"}
    driver.outputs["waitforattach"] = SUCCESS | {"device": "/dev/sdb1"}
    node["status"] = {"volumesAttached": [{"name": "acme/disk/lun/7", "devicePath": "/dev/sdb"}]}
    first, second = flex_pod("a"), flex_pod("b")

    for pod in (first, second):
        await flex.prepare(pod)
        path = mounter.mounts[volume_dir(context, pod)][1]
    assert [call[:2] for call in driver.calls if call[0] == "waitforattach"] == [["waitforattach", "/dev/sdb"]]
    assert [call[:3] for call in driver.calls if call[0] == "mountdevice"] == [["mountdevice", path, "/dev/sdb1"]]
    assert Path(path).is_relative_to(context.root_dir / "plugins" / "kubernetes.io" / "flexvolume" / "acme" / "disk")

    await flex.release(first.uid)
    assert "unmountdevice" not in driver.commands()
    await flex.release(second.uid)
    assert driver.calls[-1] == ["unmountdevice", path]
    assert not mounter.mounts and not Path(path).exists()
    assert not {"attach", "detach"} & set(driver.commands())


async def test_agent_attaches_and_detaches_without_a_controller(
    tmp_path, clock, objects, recorder: FakeRecorder, mounter, plugins, driver
):
    config = make_config(enable_controller_attach_detach=False)
    context = make_context(tmp_path, config=config, clock=clock, objects=objects, recorder=recorder)
    flex = new_manager(context, mounter, plugins, driver)
    driver.outputs |= {"init": SUCCESS, "attach": SUCCESS | {"device": "/dev/sdc"}, "waitforattach": NOT_SUPPORTED}
    pod = flex_pod()

    await flex.prepare(pod)
    later = new_manager(context, mounter, plugins, driver)
    await later.release(pod.uid)

    assert driver.commands() == [
        *["init", "getvolumename", "attach", "waitforattach", "mountdevice", "mount"],
        *["init", "unmount", "unmountdevice", "detach"],
    ]
    assert driver.calls[2][2] == context.node_name
    assert driver.calls[4][2] == "/dev/sdc"
    assert driver.calls[-1] == ["detach", "data", context.node_name]


async def test_device_is_detached_after_a_failed_mount(context, flex, driver, mounter):
    driver.outputs |= {"init": SUCCESS, "mount": {"status": "Failure"}}
    pod = flex_pod()
    with pytest.raises(VolumeError):
        await flex.prepare(pod)
    assert mounter.mounts

    await flex.release(pod.uid)

    assert driver.commands()[-1] == "unmountdevice" and not mounter.mounts


async def test_persistent_volume_of_a_driver_is_released_after_a_restart(
    tmp_path: Path, plugins: Path, driver: FakeDriver, mounter: FakeMounter, clock: FakeClock
) -> None:
    api, claims = FakeApi(clock), FakeClaims()
    api.put(SECRETS, {"metadata": {"name": "key", "namespace": "storage"}, "type": "acme/disk", "data": {"k": "AA=="}})
    source = FlexVolume("acme/disk", "ext4", FlexSecretReference("key", "storage"), options={"lun": "7"})
    claims.add("data", csi=None, flex_volume=source, read_only=True, annotations={"pv.beta.kubernetes.io/gid": "42"})
    pod = pod_with({"name": "v", "persistentVolumeClaim": {"claimName": "data"}})
    context = make_context(tmp_path, clock=clock, api=api)

    def manager() -> Manager:
        return Manager(context, [FlexVolumes(context, mounter, Drivers(plugins, driver.run))], mounter, [], claims)

    mounted = (await manager().prepare(pod))["v"]
    directory = context.pod_dir(pod.uid) / "volumes/acme~disk/pv-data"
    assert (mounted.host_path, mounted.volume_name, mounted.readonly) == (str(directory), "pv-data", True)
    assert mounted.supplemental_group == 42
    options = driver.options("mount")
    assert options["kubernetes.io/pvOrVolumeName"] == "pv-data" and options["kubernetes.io/readwrite"] == "ro"
    assert (options["lun"], options["kubernetes.io/secret/k"]) == ("7", "AA==")

    await manager().release(pod.uid)
    assert driver.commands()[-1] == "unmount" and not directory.exists() and mounter.mounts == {}


@pytest.mark.parametrize("attach", [True, False])
async def test_driver_that_mounts_neither_volumes_nor_devices_is_an_error(context, flex, driver, attach):
    driver.outputs = dict.fromkeys(("getvolumename", "waitforattach", "mountdevice", "mount"), NOT_SUPPORTED)
    driver.outputs["init"] = SUCCESS if attach else PLAIN
    pod = flex_pod()

    with pytest.raises(VolumeError, match="driver acme/disk mounts neither volumes nor devices"):
        await flex.prepare(pod)
    assert volume_dir(context, pod).exists() == attach  # Until teardown has detached the device.


@pytest.mark.parametrize("standalone", [True, False])
async def test_secret_of_the_pods_namespace_is_cached(
    tmp_path: Path, plugins: Path, driver: FakeDriver, mounter: FakeMounter, objects: FakeObjects, standalone: bool
) -> None:
    objects.secrets["default", "key"] = {"type": "acme/disk", "data": {"k": "AA=="}}
    api = None if standalone else FakeApi()
    context = make_context(tmp_path, api=api, objects=objects)

    await new_manager(context, mounter, plugins, driver).prepare(flex_pod(secretRef={"name": "key"}))

    assert driver.options("mount")["kubernetes.io/secret/k"] == "AA=="
    assert api is None or api.requests == []
