"""Loop that configures ``hairpinMode`` in the runtime, which outlives the agent."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import grpc
import grpc.aio

from nodeagent.base.aio import Backoff, Clock
from nodeagent_plugins.embedded_runtime.hairpin import PROMISCUOUS_BRIDGE, SET_CALL
from nodeagent_plugins.embedded_runtime.supervisor import find_server

_log = logging.getLogger(__name__)
CALL_SECONDS = 30.0
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class HairpinLoop:
    """Configures each runtime that serves *endpoint*; an external runtime has its own network configuration."""

    name = "hairpin mode"

    def __init__(self, endpoint: str, mode: str, clock: Clock) -> None:
        self._endpoint, self._mode, self._clock = endpoint, mode, clock

    async def run(self) -> None:
        """Run until cancelled.

        :raises grpc.RpcError: an embedded runtime failed to set the mode.
        """
        backoff = Backoff(0.5, 30.0)
        socket = Path(self._endpoint.removeprefix("unix://"))
        while True:
            server = await asyncio.to_thread(find_server, socket)
            try:
                await set_hairpin_mode(self._endpoint, self._mode)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    break
                if error.code() not in _AWAY:
                    raise
                server = None
            if server is None:
                await self._clock.sleep(backoff.next())
                continue
            backoff.reset()
            await server.ended()
        if self._mode != PROMISCUOUS_BRIDGE:
            _log.warning(
                "Ignoring hairpinMode, which the network plugins of the container runtime configure",
                extra={"hairpinMode": self._mode, "endpoint": self._endpoint},
            )
        await asyncio.Event().wait()


async def set_hairpin_mode(endpoint: str, mode: str) -> None:
    """Set the mode in the embedded runtime at *endpoint*, also for running pods.

    :raises grpc.RpcError: the runtime is unreachable, of another kind (UNIMPLEMENTED), or failed.
    """
    options = [("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0)]
    async with grpc.aio.insecure_channel(endpoint, options=options) as channel:
        call = channel.unary_unary(SET_CALL, bytes, bytes)
        await call(mode.encode(), timeout=CALL_SECONDS)
