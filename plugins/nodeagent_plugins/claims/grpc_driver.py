"""DRA drivers that register with a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from nodeagent.base.plugin_rpc import RpcError, connect, methods_of
from nodeagent.base.pluginproto import dra_v1_pb2, dra_v1beta1_pb2
from nodeagent.contracts.claims import ClaimReference, PreparedDevice, PrepareResult, PublishHealth
from nodeagent.errors import ClaimError
from nodeagent_plugins.claims.metrics import CALLS

TIMEOUT_SECONDS = 45.0
"""Time limit of one call."""
V1, V1BETA1, HEALTH = "v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"
"""Services as drivers list them when they register."""
_PROTOCOLS: Mapping[str, Any] = {V1: dra_v1_pb2, V1BETA1: dra_v1beta1_pb2}
_MAX_ITEMS = 4096


class GrpcDriver:
    """Implements :class:`~nodeagent.contracts.claims.ClaimDriver` with the calls of one registered driver.

    :param service: the service to call, a key of the supported protocols.
    """

    def __init__(self, name: str, endpoint: str, service: str) -> None:
        self.name, self.endpoint, self.service = name, endpoint, service
        self._messages = _PROTOCOLS[service]
        self._methods = methods_of(self._messages.DESCRIPTOR.services_by_name["DRAPlugin"])

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareResult]:
        response = await self._call("NodePrepareResources", claims)
        return {uid: _result(result) for uid, result in response.claims.items()}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        response = await self._call("NodeUnprepareResources", claims)
        return {uid: result.error for uid, result in response.claims.items()}

    async def watch_health(self, publish: PublishHealth) -> None:
        """Return, since the health has a separate service."""

    async def _call(self, method: str, claims: Sequence[ClaimReference]) -> Any:
        messages = self._messages
        references = [messages.Claim(namespace=each.namespace, uid=each.uid, name=each.name) for each in claims]
        request = getattr(messages, f"{method}Request")(claims=references)
        started, code = monotonic(), "OK"
        try:
            async with connect(self.endpoint, TIMEOUT_SECONDS) as connection:
                return await connection.call(self._methods[method], request)
        except RpcError as error:
            code = error.code
            raise ClaimError(f"{method}: {error}") from error
        finally:
            CALLS.observe(monotonic() - started, self.name, self._methods[method].path, code)


def _result(message: Any) -> PrepareResult:
    if message.error:
        return PrepareResult(error=str(message.error))
    if len(message.devices) > _MAX_ITEMS:
        return PrepareResult(error=f"the response has more than {_MAX_ITEMS} devices")
    devices = tuple(
        PreparedDevice(
            device.pool_name,
            device.device_name,
            tuple(device.request_names),
            tuple(device.cdi_device_ids),
            device.share_id if "share_id" in device.DESCRIPTOR.fields_by_name and device.HasField("share_id") else None,
        )
        for device in message.devices
    )
    return PrepareResult(devices)
