"""Block volumes of a container as devices. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.contracts.runtime import Device
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ContainerError
from nodeagent.model.pod import Container

_CONFIG_ERROR = "CreateContainerConfigError"


def volume_devices(container: Container, volumes: Mapping[str, MountedVolume]) -> list[Device]:
    """Match the container's ``volumeDevices`` with the pod's volumes.

    :raises ContainerError: a volume is missing, or is not a block volume.
    """
    devices = []
    for device in container.volume_devices or ():
        volume = volumes.get(device.name)
        if volume is None or not volume.device_path:
            text = f"cannot find volume {device.name!r} to pass into container {container.name!r}"
            raise ContainerError(text, reason=_CONFIG_ERROR)
        devices.append(Device(device.device_path, volume.device_path, "r" if volume.readonly else "mrw"))
    return devices
