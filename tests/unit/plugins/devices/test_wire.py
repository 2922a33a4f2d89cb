"""Tests for stored allocate responses."""

from __future__ import annotations

import pytest

from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.runtime import Device, Mount
from nodeagent.errors import DeviceError
from nodeagent_plugins.devices.wire import decode_response, encode_response


def test_response_is_decoded_as_it_was_encoded():
    response = DeviceResponse(
        {"A": "1"}, (Mount("/in", "/out", readonly=True),), (Device("/dev/a", "/dev/b", "r"),), {"k": "v"}, ("x/y=z",)
    )
    assert decode_response(encode_response(response)) == response


def test_device_without_permissions_has_all_of_them():
    devices = [api.DeviceSpec(container_path="/dev/a", host_path="/dev/b")]
    content = api.ContainerAllocateResponse(devices=devices).SerializeToString()

    assert decode_response(content).devices == (Device("/dev/a", "/dev/b", "rwm"),)


def test_damaged_response_is_an_error():
    with pytest.raises(DeviceError, match="invalid allocate response"):
        decode_response(b"\xff")
