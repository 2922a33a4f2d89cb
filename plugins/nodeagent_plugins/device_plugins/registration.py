"""Registration server: the socket ``kubelet.sock`` on which device plugins register."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Counter
from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.base.rpc_server import CallRejected, serve_until_cancelled
from nodeagent.errors import DeviceError
from nodeagent.model.extended_resources import is_extended_resource
from nodeagent_plugins.device_plugins.endpoints import VERSION, Endpoints

SOCKET = "kubelet.sock"
_SELINUX_LABEL = b"system_u:object_r:container_file_t:s0"
_SERVICE = api.DESCRIPTOR.services_by_name["Registration"]

REGISTRATIONS = Counter(
    "device_plugin_registration_total",
    "Cumulative number of device plugin registrations. Broken down by resource name.",
    ("resource_name",),
)
_log = logging.getLogger(__name__)


class RegistrationServer:
    """Serves registrations; device plugins notice its restart by the creation of the socket, or the removal of theirs.

    :param directory: directory of the socket and of those of the device plugins.
    """

    name = "device plugin registration"
    health_check = "device-plugin"
    failure = (
        "device registration error: device plugin registration gRPC server failed and no device plugins can register"
    )

    def __init__(self, directory: Path, endpoints: Endpoints, clock: Clock) -> None:
        self._directory, self._endpoints, self._clock = directory, endpoints, clock

    async def run(self) -> None:
        """Serve until cancelled; serve again if the socket is removed.

        :raises OSError: the directory or the socket cannot be created.
        """
        socket = self._directory / SOCKET
        await asyncio.to_thread(prepare, self._directory)
        await serve_until_cancelled(socket, {_SERVICE: {"Register": self._register}}, self._clock)

    async def _register(self, request: Any) -> Any:
        resource, version, endpoint = request.resource_name, request.version, request.endpoint
        _log.info("Got registration request from device plugin with resource", extra={"resourceName": resource[:253]})
        try:
            if version != VERSION:
                raise DeviceError(
                    f'requested API version "{version[:63]}" is not supported by kubelet. '
                    f'Supported version is ["{VERSION}"]'
                )
            if not is_extended_resource(resource):
                raise DeviceError(f'the ResourceName "{resource[:253]}" is invalid')
            REGISTRATIONS.inc(resource)
            if not endpoint or endpoint in (".", "..", SOCKET) or "/" in endpoint or "\0" in endpoint:
                raise DeviceError(f"invalid endpoint {endpoint[:253]!r}: must be the name of a socket in the directory")
            await self._endpoints.connect(resource, str(self._directory / endpoint))
        except DeviceError as error:
            _log.error("Failed to register device plugin", extra={"resourceName": resource[:253], "err": str(error)})
            raise CallRejected(str(error)) from error
        return api.Empty()


def prepare(directory: Path) -> None:
    """Create the directory, and remove the sockets in it: plugins register again when theirs is removed. Blocking.

    Other files are not removed, since plugins store their state in the directory.

    :raises OSError: the directory cannot be created, or a socket cannot be removed.
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    if Path("/sys/fs/selinux/enforce").exists():
        try:
            os.setxattr(directory, "security.selinux", _SELINUX_LABEL)
        except OSError as error:
            _log.warning("Failed to set SELinux label of directory", extra={"path": str(directory), "err": str(error)})
    for entry in directory.iterdir():
        if stat.S_ISSOCK(entry.lstat().st_mode):
            entry.unlink(missing_ok=True)
