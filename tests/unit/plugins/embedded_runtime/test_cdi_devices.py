"""Tests for CDI devices in OCI configurations."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.cdi.spec import ContainerEdits, DeviceNode, Hook, IntelRdt, Mount
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.cdi_devices import CdiDevices
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.oci_spec import ContainerEnvironment, Spec, make_spec
from nodeagent_plugins.embedded_runtime.users import User

HOST = Host(frozenset(NAMES), remapped=False, cgroup_version=1, oom_score_adj=-1000)
PLAIN = ContainerEnvironment(HOST, User(1000, 1001, (7,)))


def spec_with(edits: ContainerEdits, around: ContainerEnvironment = PLAIN, **config: Any) -> Spec:
    return make_spec(cri.ContainerConfig(**{"command": ["run"], **config}), replace(around, edits=edits))


def write(directory: Path, **edits: Any) -> None:
    device = {"name": "x", "containerEdits": edits}
    text = json.dumps({"cdiVersion": "1.1.0", "kind": "example.com/gpu", "devices": [device]})
    (directory / "gpu.json").write_text(text)


def request(*names: str) -> cri.ContainerConfig:
    return cri.ContainerConfig(CDI_devices=[cri.CDIDevice(name=name) for name in names])


def test_environment_and_groups_are_merged() -> None:
    envs = [cri.KeyValue(key="A", value="pod"), cri.KeyValue(key="B", value="pod")]

    process = spec_with(ContainerEdits(env=("A=device",), additional_gids=(0, 9, 7)), envs=envs)["process"]

    assert {"A=device", "B=pod"} <= set(process["env"])
    assert "A=pod" not in process["env"]
    assert process["user"]["additionalGids"] == [7, 9]


def test_device_has_the_numbers_of_the_host_and_the_user_of_the_process() -> None:
    spec = spec_with(ContainerEdits(device_nodes=(DeviceNode("/dev/x", "/dev/null"),)))

    mode = Path("/dev/null").stat().st_mode & 0o7777
    node = {"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": mode, "uid": 1000, "gid": 1001}
    assert spec["linux"]["devices"] == [node]
    rule = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"}
    assert spec["linux"]["resources"]["devices"][-1] == rule


def test_fully_specified_device_needs_none_on_the_host() -> None:
    node = DeviceNode("/dev/x", type="b", major=8, minor=1, file_mode=0o640, permissions="r", uid=0, gid=6)

    spec = spec_with(ContainerEdits(device_nodes=(node,)))

    (device,) = spec["linux"]["devices"]
    assert (device["type"], device["major"], device["fileMode"], device["gid"]) == ("b", 8, 0o640, 6)
    assert spec["linux"]["resources"]["devices"][-1]["access"] == "r"


@pytest.mark.parametrize(
    ("node", "numbers"),
    [
        (DeviceNode("/dev/null", major=9, minor=8), (9, 8)),
        (DeviceNode("/dev/null", type="c"), (1, 3)),
    ],
)
def test_specified_numbers_take_precedence_over_those_of_the_host(node: DeviceNode, numbers: tuple[int, int]) -> None:
    (device,) = spec_with(ContainerEdits(device_nodes=(node,)))["linux"]["devices"]

    assert (device["major"], device["minor"]) == numbers


def test_specified_mode_takes_precedence_over_that_of_the_host() -> None:
    node = DeviceNode("/dev/null", file_mode=0o640)

    (device,) = spec_with(ContainerEdits(device_nodes=(node,)))["linux"]["devices"]

    assert device["fileMode"] == 0o640


def test_device_replaces_that_of_the_container_at_its_path() -> None:
    devices = [cri.Device(container_path="/dev/x", host_path="/dev/zero")]

    spec = spec_with(ContainerEdits(device_nodes=(DeviceNode("/dev/x", "/dev/null"),)), devices=devices)

    assert [(device["path"], device["minor"]) for device in spec["linux"]["devices"]] == [("/dev/x", 3)]


def test_fifo_and_device_without_permissions_have_no_cgroup_rule(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    nodes = (DeviceNode("/run/fifo", str(tmp_path / "fifo")), DeviceNode("/dev/x", "/dev/null", permissions="none"))

    spec = spec_with(ContainerEdits(device_nodes=nodes))

    assert [device["type"] for device in spec["linux"]["devices"]] == ["p", "c"]
    assert spec["linux"]["resources"]["devices"] == [{"allow": False, "access": "rwm"}]


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (DeviceNode("/dev/none"), "CDI device node /dev/none: No such file"),
        (DeviceNode("/etc/passwd"), "CDI device node /etc/passwd: not a device"),
        (DeviceNode("/dev/null", type="b"), "CDI device node /dev/null: not a block device"),
    ],
)
def test_device_that_the_host_does_not_have_is_rejected(node: DeviceNode, message: str) -> None:
    with pytest.raises(FailedPrecondition, match=message):
        spec_with(ContainerEdits(device_nodes=(node,)))


def test_mounts_replace_earlier_ones_and_follow_their_parents(tmp_path: Path) -> None:
    mounts = (
        Mount(str(tmp_path), "/a/b/c", options=("ro", "bind")),
        Mount(str(tmp_path), "/a", options=("rbind",)),
        Mount("tmpfs", "/scratch", "tmpfs", ("size=1m",)),
    )
    own = [cri.Mount(container_path="/a/b", host_path="/etc"), cri.Mount(container_path="/a", host_path="/etc")]

    made = spec_with(ContainerEdits(mounts=mounts), mounts=own)["mounts"]

    named = [mount for mount in made if mount["destination"].startswith(("/a", "/scratch"))]
    assert [mount["destination"] for mount in named] == ["/a", "/scratch", "/a/b", "/a/b/c"]
    assert (named[0]["source"], named[1]["type"], named[3]["options"]) == (str(tmp_path), "tmpfs", ["ro", "bind"])


def test_owners_of_bind_mounts_are_mapped(tmp_path: Path) -> None:
    around = replace(PLAIN, map_owners=lambda path: f"/mapped{path}")

    made = spec_with(ContainerEdits(mounts=(Mount(str(tmp_path), "/a"),)), around)["mounts"]

    (mount,) = [mount for mount in made if mount["destination"] == "/a"]
    assert mount == {"destination": "/a", "type": "bind", "source": f"/mapped{tmp_path}", "options": ["rbind"]}


def test_hooks_and_cache_allocation_are_part_of_the_configuration() -> None:
    hooks = (Hook("poststop", "/a", ("a",), ("B=1",), 5), Hook("poststop", "/b"))

    spec = spec_with(ContainerEdits(hooks=hooks, intel_rdt=IntelRdt("gold", mem_bw_schema="MB:0=50")))

    assert spec["hooks"]["poststop"] == [
        {"path": "/a", "args": ["a"], "env": ["B=1"], "timeout": 5},
        {"path": "/b", "args": [], "env": []},
    ]
    assert spec["linux"]["intelRdt"] == {"closID": "gold", "memBwSchema": "MB:0=50"}


@pytest.mark.parametrize(
    ("runner", "edits", "message"),
    [
        ("own", {"hooks": [{"hookName": "poststop", "path": "/a"}]}, "hooks and intelRdt require crun or runc"),
        ("crun", {"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}, "netDevices are not supported"),
        ("crun", {"intelRdt": {"schemata": ["MB:0=50"]}}, "schemata and enableMonitoring of intelRdt are not"),
    ],
)
def test_edit_that_would_be_ignored_is_rejected(
    tmp_path: Path, runner: str, edits: dict[str, Any], message: str
) -> None:
    write(tmp_path, **edits)

    with pytest.raises(FailedPrecondition, match=f"CDI device injection failed: example.com/gpu=x: {message}"):
        CdiDevices(runner, [str(tmp_path)]).edits(request("example.com/gpu=x"))


def test_requested_names_are_validated_and_resolved(tmp_path: Path) -> None:
    write(tmp_path, env=["A=1"])
    devices = CdiDevices("own", [str(tmp_path)])

    assert devices.edits(request()) is None
    assert devices.edits(request("example.com/gpu=x")) == ContainerEdits(env=("A=1",))
    with pytest.raises(InvalidArgument, match='CDI device "gpu": must have the form'):
        devices.edits(request("gpu"))
    with pytest.raises(FailedPrecondition, match=r"unresolvable CDI devices example\.com/gpu=y"):
        devices.edits(request("example.com/gpu=y"))
