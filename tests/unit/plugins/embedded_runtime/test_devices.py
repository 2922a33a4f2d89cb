"""Tests for the device nodes of containers."""

import os
import stat

import msgspec
import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import devices
from nodeagent_plugins.embedded_runtime.devices import DeviceNode, DeviceSetup, add_devices
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.id_mappings import IdMappings

HOST = Host(frozenset(), remapped=False, cgroup_version=2, oom_score_adj=0)
NULL = {"allow": True, "type": "c", "major": 1, "minor": 3}


def spec():
    return {"linux": {"resources": {}}, "mounts": [{"destination": "/dev/x"}, {"destination": "/data"}]}


def config(*paths, privileged=False):
    return cri.ContainerConfig(
        devices=[cri.Device(host_path=host, container_path=at, permissions=access) for host, at, access in paths],
        linux=cri.LinuxContainerConfig(security_context=cri.LinuxContainerSecurityContext(privileged=privileged)),
    )


def test_devices_of_the_configuration_are_created_and_allowed():
    made = spec()
    add_devices(made, config(("/dev/null", "/dev/x", "r"), ("/dev/zero", "/dev/z", "")), DeviceSetup(HOST))

    nodes = [(node["path"], node["type"], node["major"], node["minor"]) for node in made["linux"]["devices"]]
    assert nodes == [("/dev/x", "c", 1, 3), ("/dev/z", "c", 1, 5)]
    assert made["linux"]["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {**NULL, "access": "r"},
        {**NULL, "minor": 5, "access": "rwm"},
    ]
    assert len(made["mounts"]) == 2


def test_host_without_cgroups_has_no_device_rules():
    made = spec()
    add_devices(made, config(("/dev/null", "/dev/x", "")), DeviceSetup(msgspec.structs.replace(HOST, cgroup_version=0)))

    assert made["linux"]["resources"] == {}
    assert len(made["linux"]["devices"]) == 1


def test_devices_are_bind_mounted_if_root_is_mapped():
    made = spec()
    remapped = DeviceSetup(msgspec.structs.replace(HOST, remapped=True))
    add_devices(made, config(("/dev/null", "/dev/x", ""), privileged=True), remapped)

    assert "devices" not in made["linux"]
    bind = {"destination": "/dev/x", "type": "bind", "source": "/dev/null", "options": ["bind", "rw"]}
    assert made["mounts"] == [{"destination": "/data"}, bind]
    assert made["linux"]["resources"]["devices"][0] == {"allow": True, "access": "rwm"}


def test_privileged_container_has_the_devices_of_the_host(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_all_devices", lambda path: [path / "null"])
    for privileged, expected in [(True, ["/dev/null"]), (False, [])]:
        made = spec()
        add_devices(made, config(privileged=privileged), DeviceSetup(HOST))
        assert [node["path"] for node in made["linux"].get("devices", ())] == expected
        assert made["linux"]["resources"]["devices"][0]["allow"] is privileged


def test_later_node_replaces_the_one_at_its_path():
    made, setup = spec(), DeviceSetup(HOST)
    setup.add(made, DeviceNode("/dev/a", "/dev/null", "c", 1, 3, 0o666))
    setup.add(made, DeviceNode("/dev/a", "/dev/zero", "b", 1, 5, 0o600, access=""))
    setup.add(made, DeviceNode("/dev/fifo", "", "p", 0, 0, 0o600))

    assert made["linux"]["devices"] == [
        {"path": "/dev/a", "type": "b", "fileMode": 0o600, "uid": 0, "gid": 0, "major": 1, "minor": 5},
        {"path": "/dev/fifo", "type": "p", "fileMode": 0o600, "uid": 0, "gid": 0},
    ]
    assert made["linux"]["resources"]["devices"] == [{**NULL, "access": "rwm"}]


def test_path_that_is_not_a_device_is_rejected(tmp_path):
    (tmp_path / "file").touch()
    for path, text in [(tmp_path / "file", "not a device"), (tmp_path / "none", "No such file or directory")]:
        with pytest.raises(InvalidArgument, match=f"device {path}: {text}"):
            add_devices(spec(), config((str(path), "/dev/x", "")), DeviceSetup(HOST))


def test_directory_is_searched_for_devices(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "pts").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "below" / "fifo")

    made = spec()
    add_devices(made, config((str(tmp_path), "/dev/d", "")), DeviceSetup(HOST))

    assert "devices" not in made["linux"]
    found = devices._all_devices(devices.Path("/dev"))
    assert devices.Path("/dev/null") in found
    assert {path.name for path in found}.isdisjoint({"ptmx", "console", "fd", "stdin"})
    assert not any(path.is_relative_to("/dev/pts") for path in found)


def test_device_of_a_user_namespace_is_created_with_its_owner(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(devices.os, "mknod", lambda path, mode, numbers: (path.touch(), made.append((mode, numbers))))
    monkeypatch.setattr(devices.os, "chown", lambda path, *owner: made.append(owner))
    mapping = cri.IDMapping(host_id=65536, container_id=0, length=65536)
    setup = DeviceSetup(HOST, IdMappings((mapping,), (mapping,)), tmp_path)
    changed = spec()

    for _ in range(2):
        setup.add(changed, DeviceNode("/dev/x", "/dev/null", "c", 1, 3, 0o640, uid=5, gid=6))

    assert made == [(stat.S_IFCHR | 0o640, os.makedev(1, 3)), (65541, 65542)] * 2
    assert changed["mounts"][-1]["source"] == str(tmp_path / "devices" / "1")
    assert stat.S_IMODE((tmp_path / "devices" / "1").stat().st_mode) == 0o640
