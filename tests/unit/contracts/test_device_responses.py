"""Tests for the contents that devices add to containers: their validation and their merge."""

import pytest

from nodeagent.contracts import device_responses
from nodeagent.contracts.device_responses import DeviceResponse, merge_responses, validate_response
from nodeagent.contracts.runtime_config import Device, Mount
from nodeagent.errors import DeviceError


def test_valid_contents_are_accepted():
    for response in [
        DeviceResponse(),
        DeviceResponse(envs={"A": "", "B": "x=y"}),
        DeviceResponse(mounts=[Mount("/a", "/b"), Mount("/a", "/b"), Mount("/c", "/b")]),
        DeviceResponse(devices=[Device("/dev/a", "/dev/b", ""), Device("/dev/c", "/dev/b", "rwm")]),
        DeviceResponse(cdi_devices=["vendor.example/gpu=0", "v/c=a"]),
    ]:
        validate_response(response)


def test_invalid_contents_are_rejected_with_the_reason():
    for response, text in [
        (DeviceResponse(envs={"": "x"}), "invalid environment variable ''"),
        (DeviceResponse(envs={"A=B": "x"}), "invalid environment variable 'A=B'"),
        (DeviceResponse(envs={"A": "x\0"}), "invalid environment variable 'A'"),
        (DeviceResponse(mounts=[Mount("a", "/b")]), "invalid path 'a' of a mount: must be absolute"),
        (DeviceResponse(mounts=[Mount("/a", "b\0")]), "of a mount: must be absolute"),
        (DeviceResponse(devices=[Device("/dev/a", "dev/b", "r")]), "invalid path 'dev/b' of a device"),
        (DeviceResponse(devices=[Device("/dev/a", "/dev/b", "rx")]), "invalid permissions 'rx' of device"),
        (DeviceResponse(cdi_devices=["vendor.example/gpu"]), "invalid CDI device name"),
    ]:
        with pytest.raises(DeviceError) as caught:
            validate_response(response)
        assert text in str(caught.value), response


def test_two_items_at_one_path_conflict():
    for kind, response in [
        ("mounts", DeviceResponse(mounts=[Mount("/a", "/b"), Mount("/a", "/c")])),
        ("devices", DeviceResponse(devices=[Device("/a", "/dev/b", "r"), Device("/a", "/dev/b", "w")])),
    ]:
        with pytest.raises(DeviceError, match=f"conflicting {kind} at container path '/a'"):
            validate_response(response)


def test_number_of_items_is_limited(monkeypatch):
    monkeypatch.setattr(device_responses, "_MAX_ITEMS", 2)

    validate_response(DeviceResponse(envs={"A": "", "B": ""}, cdi_devices=["v/c=a", "v/c=b"]))
    with pytest.raises(DeviceError, match="more than 2 items of one kind"):
        validate_response(DeviceResponse(envs={"A": "", "B": "", "C": ""}))


def test_first_source_takes_precedence_and_conflicts_are_reported():
    one = DeviceResponse(envs={"A": "1", "B": "1"}, annotations={"x": "1"}, cdi_devices=["v/c=a"])
    two = DeviceResponse(envs={"A": "2", "B": "1", "C": "2"}, annotations={"x": "1"}, cdi_devices=["v/c=a", "v/c=b"])

    merged = merge_responses([("one", one), ("two", two)])

    assert merged.response.envs == {"A": "1", "B": "1", "C": "2"}
    assert merged.response.cdi_devices == ("v/c=a", "v/c=b")
    assert merged.conflicts == ["environment variable A of two is ignored, since one sets it differently"]
