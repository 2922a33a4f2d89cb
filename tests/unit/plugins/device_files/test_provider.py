"""Tests for device files as extended resources."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.devices import DeviceRequest
from nodeagent.contracts.runtime import Device
from nodeagent.errors import ConfigError, DeviceError
from nodeagent.testing import FakeClock, load_plugin, make_context, make_pod
from nodeagent.testing.clock import eventually
from nodeagent.testing.contracts import DeviceProviderContract
from nodeagent_plugins import device_files
from nodeagent_plugins.device_files.provider import DeviceFiles

SERIAL = "example.com/serial"


@pytest.fixture
def host(tmp_path):
    """Host with links to a device, because creating a device needs privileges."""
    (tmp_path / "dev").mkdir()
    for name in ("ttyUSB0", "ttyUSB1"):
        (tmp_path / "dev" / name).symlink_to("/dev/null")
    (tmp_path / "dev/ttyUSB2").write_text("a regular file")
    return tmp_path


async def first_list(provider):
    lists = []
    task = asyncio.create_task(provider.watch(lists.append))
    await eventually(lambda: lists)
    task.cancel()
    await asyncio.wait([task])
    return lists[0]


async def test_device_files_that_match_are_offered(host):
    provider = DeviceFiles(SERIAL, ["/dev/ttyUSB*", "/dev/absent"], FakeClock(), root=host)

    assert [device.id for device in await first_list(provider)] == ["/dev/ttyUSB0", "/dev/ttyUSB1"]


async def test_removed_and_added_files_change_the_list(host):
    clock, lists = FakeClock(), []
    provider = DeviceFiles(SERIAL, ["/dev/ttyUSB*"], clock, root=host)
    task = asyncio.create_task(provider.watch(lists.append))
    await eventually(lambda: lists)
    (host / "dev/ttyUSB0").unlink()
    (host / "dev/ttyUSB9").symlink_to("/dev/null")
    await clock.advance(5)
    await eventually(lambda: len(lists) == 2)
    task.cancel()
    await asyncio.wait([task])

    assert [device.id for device in lists[1]] == ["/dev/ttyUSB1", "/dev/ttyUSB9"]


async def test_shared_file_is_in_the_container_once(host):
    provider = DeviceFiles(SERIAL, ["/dev/ttyUSB0"], FakeClock(), permissions="r", shares=3, root=host)
    ids = [device.id for device in await first_list(provider)]
    response = await provider.allocate(DeviceRequest(make_pod(), "main", SERIAL, ids[:2]))

    assert ids == ["/dev/ttyUSB0::0", "/dev/ttyUSB0::1", "/dev/ttyUSB0::2"]
    assert response.devices == [Device("/dev/ttyUSB0", "/dev/ttyUSB0", "r")]


async def test_unplugged_device_is_not_allocated(host):
    provider = DeviceFiles(SERIAL, ["/dev/ttyUSB*"], FakeClock(), root=host)
    (host / "dev/ttyUSB0").unlink()

    with pytest.raises(DeviceError, match=r"device file /dev/ttyUSB0 of example.com/serial does not exist"):
        await provider.allocate(DeviceRequest(make_pod(), "main", SERIAL, ["/dev/ttyUSB0"]))


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([{"resource": "serial", "paths": ["/dev/a"]}], "resources[0].resource: 'serial' must be an extended resource"),
        (
            [{"resource": SERIAL, "paths": ["/dev/a"]}, {"resource": SERIAL, "paths": ["/dev/b"]}],
            "resources[1].resource: 'example.com/serial' must be unique",
        ),
    ],
)
def test_invalid_resources_are_rejected(tmp_path, resources, problem):
    context = make_context(tmp_path, plugin_settings={"device_files": {"resources": resources}})

    with pytest.raises(ConfigError) as raised:
        load_plugin(device_files).provide_all("nodeagent_provide_device_providers", context=context)
    assert problem in str(raised.value)


def test_without_settings_no_devices_are_offered(tmp_path):
    (result,) = load_plugin(device_files).provide_all(
        "nodeagent_provide_device_providers", context=make_context(tmp_path)
    )
    assert result.value == ()


class TestDeviceFiles(DeviceProviderContract):
    @pytest.fixture
    async def provider(self, host):
        return DeviceFiles(SERIAL, ["/dev/ttyUSB*"], FakeClock(), root=host)
