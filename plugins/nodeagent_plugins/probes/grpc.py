"""gRPC probes: the gRPC health checking protocol."""

from __future__ import annotations

import asyncio

from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind
from nodeagent_plugins.probes.tcp import USER_AGENT

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


async def probe_grpc(
    host: str, port: int, service: str, timeout_seconds: float, *, user_agent: str = USER_AGENT
) -> Outcome:
    """Request the health of *service*; only SERVING is a success."""
    # Imported on use: the libraries need memory, and few nodes have gRPC probes.
    import grpc.aio
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    loop = asyncio.get_running_loop()
    options = [*_OPTIONS, ("grpc.primary_user_agent", user_agent)]
    until = loop.time() + timeout_seconds
    async with grpc.aio.insecure_channel(where, options=options) as channel:
        try:
            async with asyncio.timeout_at(until):
                await channel.channel_ready()
        except TimeoutError:
            return Outcome(
                OutcomeKind.FAILURE,
                f'timeout: failed to connect service "{where}" within {timeout_seconds:g}s: context deadline exceeded',
            )
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            remaining_seconds = max(until - loop.time(), 0.001)
            response = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=remaining_seconds)
        except grpc.aio.AioRpcError as error:
            return Outcome(OutcomeKind.FAILURE, _failure(error.code().name, error.details() or "", timeout_seconds))
    statuses = health_pb2.HealthCheckResponse.ServingStatus
    if response.status == statuses.SERVING:
        return Outcome(OutcomeKind.SUCCESS, "service healthy")
    known = response.status in statuses.values()
    shown = statuses.Name(response.status) if known else str(response.status)
    return Outcome(OutcomeKind.FAILURE, f'service unhealthy (responded with "{shown}")')


def _failure(code: str, details: str, timeout_seconds: float) -> str:
    if code == "UNIMPLEMENTED":
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"timeout: health rpc did not complete within {timeout_seconds:g}s"
    return f"error: health rpc probe failed: {code}: {details}"
