"""Tests for the format and validation of CDI specs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodeagent.base.cdi.spec import VERSIONS, CdiError, DeviceNode, Hook, IntelRdt, Mount, NetDevice, parse_spec

NODE = {"path": "/dev/gpu0"}


def text(*devices: dict[str, Any], **fields: Any) -> bytes:
    """Return a spec with one device, unless *devices* are passed."""
    device = {"name": "gpu0", "containerEdits": {"env": ["A=1"]}}
    base = {"cdiVersion": "1.1.0", "kind": "example.com/gpu", "devices": devices or [device]}
    return json.dumps(base | fields).encode()


def edited(version: str = "1.1.0", **edits: Any) -> bytes:
    """Return a spec whose device has these edits."""
    return text({"name": "gpu0", "containerEdits": edits}, cdiVersion=version)


def test_all_fields_are_read() -> None:
    node = {"hostPath": "/dev/real", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "permissions": "rw"}
    spec = parse_spec(
        edited(
            env=["A=1=2"],
            deviceNodes=[NODE | node | {"uid": 5, "gid": 6}],
            netDevices=[{"hostInterfaceName": "eth9", "name": "net0"}],
            mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind", "options": ["ro", "bind"]}],
            hooks=[{"hookName": "createContainer", "path": "/h", "args": ["h"], "env": ["B=2"], "timeout": 3}],
            intelRdt={"closID": "c", "l3CacheSchema": "l", "memBwSchema": "m", "schemata": ["s"]},
            additionalGids=[7],
        )
    )

    edits = spec.devices[0].container_edits
    assert edits.device_nodes == (DeviceNode("/dev/gpu0", "/dev/real", "c", 1, 3, 438, "rw", 5, 6),)
    assert edits.net_devices == (NetDevice("eth9", "net0"),)
    assert edits.mounts == (Mount("/a", "/b", "bind", ("ro", "bind")),)
    assert edits.hooks == (Hook("createContainer", "/h", ("h",), ("B=2",), 3),)
    assert edits.intel_rdt == IntelRdt("c", "l", "m", ("s",))
    assert (edits.env, edits.additional_gids) == (("A=1=2",), (7,))


def test_yaml_with_null_fields_is_read() -> None:
    spec = parse_spec(
        b"cdiVersion: 0.6.0\nkind: example.com/gpu\ncontainerEdits:\n"
        b'devices:\n- name: "0"\n  containerEdits: {env: [A=1], mounts: null}\n'
    )

    assert [device.name for device in spec.devices] == ["0"]


@pytest.mark.parametrize("version", [*VERSIONS, "v1.0.0"])
def test_every_released_version_is_accepted(version: str) -> None:
    assert parse_spec(text(cdiVersion=version)).cdi_version == version


@pytest.mark.parametrize(
    ("required", "edits"),
    [
        ("0.4.0", {"mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]}),
        ("0.5.0", {"deviceNodes": [NODE | {"hostPath": "/dev/x"}]}),
        ("0.7.0", {"additionalGids": [5]}),
        ("0.7.0", {"intelRdt": {"closID": "x"}}),
        ("1.1.0", {"intelRdt": {"enableMonitoring": True}}),
        ("1.1.0", {"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}),
    ],
)
def test_feature_requires_its_version(required: str, edits: dict[str, Any]) -> None:
    before = VERSIONS[VERSIONS.index(required) - 1]

    assert parse_spec(edited(required, **edits))
    with pytest.raises(CdiError, match=f'cdiVersion: "{before}": must be at least {required} for '):
        parse_spec(edited(before, **edits))


@pytest.mark.parametrize(
    ("fields", "required"),
    [
        ({"devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}]}, "0.5.0"),
        ({"kind": "example.com/gpu.large"}, "0.6.0"),
        ({"annotations": {"a": "b"}}, "0.6.0"),
    ],
)
def test_name_or_annotation_requires_its_version(fields: dict[str, Any], required: str) -> None:
    with pytest.raises(CdiError, match=f"must be at least {required} for"):
        parse_spec(text(cdiVersion="0.4.0", **fields))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line"),
        (b"[]", "Expected `object`"),
        (text(cdiVersion="2.0.0"), 'cdiVersion: "2.0.0": must be one of 0.1.0'),
        (text(kind="gpu"), 'kind: "gpu": must have the form vendor/class'),
        (text(kind="1example.com/gpu"), "vendor must consist of letters"),
        (text(kind="example.com/a/b"), "class must consist of letters"),
        (text(kind=f"example.com/{'a' * 64}"), "class must have at most 63 characters"),
        (text(devices=[]), "devices: must have at least one device"),
        (text(more=1), "unknown field `more`"),
        (text({"name": "-a", "containerEdits": {"env": ["A=1"]}}), r'devices\[0\].name: "-a": must consist of letters'),
        (text(*[{"name": "a", "containerEdits": {"env": ["A=1"]}}] * 2), r'devices\[1\].name: duplicate value: "a"'),
        (text({"name": "a"}), r"devices\[0\].containerEdits: must not be empty"),
        (edited(env=["=x"]), r"devices\[0\].containerEdits.env\[0\]: \"=x\": must have the form NAME=VALUE"),
        (edited(deviceNodes=[{"path": ""}]), "path: must not be empty"),
        (edited(deviceNodes=[NODE | {"type": "x"}]), 'type: "x": must be one of b, c, u, p'),
        (edited(deviceNodes=[NODE | {"permissions": "rx"}]), 'permissions: "rx": must consist of the letters r, w and'),
        (edited(deviceNodes=[NODE | {"uid": -1}]), "uid: -1: must be between 0 and 4294967295"),
        (edited(mounts=[{"hostPath": "", "containerPath": "/b"}]), "hostPath: must not be empty"),
        (edited(hooks=[{"hookName": "later", "path": "/h"}]), 'hookName: "later": must be one of prestart'),
        (edited(hooks=[{"hookName": "prestart", "path": "h"}]), 'path: "h": must be an absolute path'),
        (edited(hooks=[{"hookName": "prestart", "path": "/h", "timeout": 0}]), "timeout: 0: must be greater than 0"),
        (edited(intelRdt={"closID": "a/b"}), 'closID: "a/b": must be a file name or /'),
        (edited(additionalGids=[2**32]), r"additionalGids\[0\]: 4294967296: must be between"),
        (edited(netDevices=[{"hostInterfaceName": "a", "name": n} for n in "xy"]), r"\[1\].hostInterfaceName: dup"),
    ],
)
def test_invalid_spec_is_rejected_with_the_field(content: bytes, message: str) -> None:
    with pytest.raises(CdiError, match=message):
        parse_spec(content)


@pytest.mark.parametrize(
    ("edits", "valid"),
    [
        ({"intelRdt": {"closID": "c" * 4095}}, True),
        ({"intelRdt": {"closID": "/"}}, True),
        ({"hooks": [{"hookName": "poststop", "path": "/h", "timeout": 1}]}, True),
        ({"hooks": [{"hookName": "poststop", "path": "/h", "timeout": 0}]}, False),
        ({"env": ["A="]}, True),
        ({"env": ["=1"]}, False),
        ({"env": ["A=\0"]}, False),
        ({"additionalGids": [1, 2**32 - 1]}, True),
        ({"additionalGids": [2**32]}, False),
        ({"deviceNodes": [NODE | {"major": 0, "minor": 0, "uid": 0, "gid": 0, "fileMode": 0}]}, True),
        ({"deviceNodes": [NODE | {"major": -1}]}, False),
    ],
)
def test_bounds_of_edits_are_valid(edits: dict[str, Any], valid: bool) -> None:
    content = edited(**edits)
    if valid:
        assert parse_spec(content).devices[0].name == "gpu0"
    else:
        with pytest.raises(CdiError):
            parse_spec(content)
