"""Responses of device plugins in the protobuf form of the device plugin API. No I/O."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.runtime import Device, Mount
from nodeagent.errors import DeviceError

_DEFAULT_PERMISSIONS = "rwm"


def encode_response(response: DeviceResponse) -> bytes:
    """Return *response* as a ``ContainerAllocateResponse``."""
    message = api.ContainerAllocateResponse(
        envs=response.envs,
        mounts=[
            api.Mount(container_path=each.container_path, host_path=each.host_path, read_only=each.readonly)
            for each in response.mounts
        ],
        devices=[
            api.DeviceSpec(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in response.devices
        ],
        annotations=response.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in response.cdi_devices],
    )
    return message.SerializeToString(deterministic=True)


def decode_response(content: bytes) -> DeviceResponse:
    """Return the response in *content*.

    :raises DeviceError: it is not a ``ContainerAllocateResponse``.
    """
    try:
        message = api.ContainerAllocateResponse.FromString(content)
    except DecodeError as error:
        raise DeviceError(f"invalid allocate response: {error}") from error
    return DeviceResponse(
        dict(message.envs),
        tuple(Mount(each.container_path, each.host_path, readonly=each.read_only) for each in message.mounts),
        tuple(
            Device(each.container_path, each.host_path, each.permissions or _DEFAULT_PERMISSIONS)
            for each in message.devices
        ),
        dict(message.annotations),
        tuple(each.name for each in message.cdi_devices),
    )
