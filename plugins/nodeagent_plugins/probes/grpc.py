"""The gRPC health check, with its two messages written and read by hand."""

from __future__ import annotations

import asyncio

from nodeagent.base.apiproto.framing import field
from nodeagent_plugins.probes.outcome import Outcome, Verdict
from nodeagent_plugins.probes.tcp import USER_AGENT

METHOD = "/grpc.health.v1.Health/Check"
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING = 1
_OPTIONS = (
    ("grpc.primary_user_agent", USER_AGENT),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


async def probe_grpc(host: str, port: int, service: str, timeout_seconds: float) -> Outcome:
    """Ask the health service about *service*; only SERVING is success."""
    # Deferred: only nodes with such probes pay for the library.
    import grpc.aio

    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_seconds
    async with grpc.aio.insecure_channel(where, options=_OPTIONS) as channel:
        try:
            async with asyncio.timeout_at(until):
                await channel.channel_ready()
        except TimeoutError:
            return Outcome(
                Verdict.FAILURE,
                f'timeout: failed to connect service "{where}" within {timeout_seconds:g}s: context deadline exceeded',
            )
        check = channel.unary_unary(METHOD, request_serializer=bytes, response_deserializer=bytes)
        try:
            answer = await check(health_request(service), timeout=max(until - loop.time(), 0.001))
        except grpc.aio.AioRpcError as error:
            return Outcome(Verdict.FAILURE, _failure(error.code().name, error.details() or "", timeout_seconds))
    status = health_status(answer)
    if status == _SERVING:
        return Outcome(Verdict.SUCCESS, "service healthy")
    shown = _STATUSES[status] if status < len(_STATUSES) else str(status)
    return Outcome(Verdict.FAILURE, f'service unhealthy (responded with "{shown}")')


def health_request(service: str) -> bytes:
    """Return the message ``{service = 1}``."""
    name = service.encode()
    return field(1, name) if name else b""


def health_status(message: bytes) -> int:
    """Return field 1 of the answer, an enumeration; absent is 0."""
    if len(message) >= 2 and message[0] == 0x08:
        return message[1]
    return 0


def _failure(code: str, details: str, timeout_seconds: float) -> str:
    if code == "UNIMPLEMENTED":
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"timeout: health rpc did not complete within {timeout_seconds:g}s"
    return f"error: health rpc probe failed: {code}: {details}"
