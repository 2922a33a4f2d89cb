"""Handlers of the streaming and command requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web

from nodeagent.base.spdy_streams import UpgradeFailed
from nodeagent.base.stream_translation import Streams
from nodeagent.base.tunnel import is_upgrade
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import find_pod
from nodeagent.contracts.runtime import ContainerState
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.model.pod import Pod
from nodeagent_plugins.routes_exec.port_tunnel import tunnel_ports
from nodeagent_plugins.routes_exec.streams import read_ports, read_streams
from nodeagent_plugins.routes_exec.translation import translate
from nodeagent_plugins.routes_exec.tunnel import error_response, is_websocket, join
from nodeagent_plugins.routes_exec.websockets import GATE, REQUESTS, requests_stream_close, tunneled_protocols

RETRY_AFTER_SECONDS = 10
T = TypeVar("T")


class Handlers:
    """Request handlers."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._ends_websockets = context.gates.enabled(GATE)
        self._idle_seconds = context.config.streaming_connection_idle_timeout.seconds

    async def exec(self, request: web.Request) -> web.StreamResponse:
        streams = _checked(lambda: read_streams(request.query))
        container_id = await self._container(request)
        command = request.query.getall("command", [])
        if not command:
            raise web.HTTPBadRequest(text="you must specify a command\n")
        _need_upgrade(request)
        return await self._run(
            "exec",
            request,
            streams,
            self._context.runtime.exec_url(
                container_id,
                command,
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                tty=streams.tty,
            ),
        )

    async def attach(self, request: web.Request) -> web.StreamResponse:
        streams = _checked(lambda: read_streams(request.query))
        container_id = await self._container(request)
        _need_upgrade(request)
        return await self._run(
            "attach",
            request,
            streams,
            self._context.runtime.attach_url(
                container_id, stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr, tty=streams.tty
            ),
        )

    async def port_forward(self, request: web.Request) -> web.StreamResponse:
        protocols = tunneled_protocols(request) if self._ends_websockets else ()
        ports = _checked(lambda: read_ports(request.query, websocket=is_websocket(request) and not protocols))
        pod = self._pod(request)
        sandbox_id = await self._sandbox(pod)
        _need_upgrade(request)
        url = await _checked_url(self._context.runtime.port_forward_url(sandbox_id, ports))
        if not protocols:
            return await join(request, url, self._context.clock, self._idle_seconds)
        REQUESTS.inc("portforward")
        try:
            return await tunnel_ports(request, url, protocols, self._context.clock, self._idle_seconds)
        except UpgradeFailed as error:
            raise error_response(error.status, str(error)) from error

    async def run(self, request: web.Request) -> web.StreamResponse:
        """Run a command without streams and respond with its output; the status is 500 unless the exit code is 0."""
        command = request.query.get("cmd", "").split()
        if not command:
            raise web.HTTPBadRequest(text="you must specify a command\n")
        container_id = await self._container(request)
        try:
            result = await self._context.runtime.exec_sync(container_id, command, self._idle_seconds)
        except TimeoutError as error:
            raise web.HTTPGatewayTimeout(text=f"{error}\n") from error
        except RuntimeFailure as error:
            raise _as_response(error) from error
        output = result.stdout + result.stderr
        status = 500 if result.exit_code else 200
        return web.Response(status=status, body=output, headers={"Content-Type": "text/plain;charset=UTF-8"})

    # --- lookups ----------------------------------------------------------------------------------------------

    def _pod(self, request: web.Request) -> Pod:
        info = request.match_info
        pod = find_pod(self._context.pods, info["namespace"], info["pod"], info.get("uid", ""))
        if pod is None:
            raise web.HTTPNotFound(text="pod does not exist\n")
        return pod

    async def _container(self, request: web.Request) -> str:
        """Return the ID of the running container in the path."""
        pod, name = self._pod(request), request.match_info["container"]
        if name not in (container.name for _, container in pod.containers()):
            raise web.HTTPNotFound(text=f'container not found ("{name}")\n')
        observed = self._context.pods.observed(pod.uid)
        newest = observed.newest(name) if observed is not None else None
        if newest is not None and newest.state is ContainerState.RUNNING:
            return newest.id
        try:
            found = await self._context.runtime.list_containers(pod.uid)
        except RuntimeFailure as error:
            raise _as_response(error) from error
        running = [c for c in found if c.name == name and c.state is ContainerState.RUNNING]
        if not running:
            raise web.HTTPNotFound(text=f'container "{name}" in pod "{pod.name}" is not running\n')
        return max(running, key=lambda container: container.attempt).id

    async def _sandbox(self, pod: Pod) -> str:
        observed = self._context.pods.observed(pod.uid)
        if observed is not None and observed.sandboxes and observed.sandboxes[0].ready:
            return observed.sandboxes[0].id
        try:
            found = await self._context.runtime.list_sandboxes(pod.uid)
        except RuntimeFailure as error:
            raise _as_response(error) from error
        ready = [sandbox for sandbox in found if sandbox.ready]
        if not ready:
            raise web.HTTPNotFound(text=f'pod "{pod.name}" is not running\n')
        return max(ready, key=lambda sandbox: sandbox.attempt).id

    async def _run(
        self, subresource: str, request: web.Request, streams: Streams, pending_url: Awaitable[str]
    ) -> web.StreamResponse:
        """Request the runtime's streaming endpoint and connect the client to it."""
        url = await _checked_url(pending_url)
        if not (self._ends_websockets and requests_stream_close(request)):
            return await join(request, url, self._context.clock, self._idle_seconds)
        REQUESTS.inc(subresource)
        return await translate(request, url, streams, self._context.clock, self._idle_seconds)


async def _checked_url(pending_url: Awaitable[str]) -> str:
    try:
        return await pending_url
    except RuntimeFailure as error:
        raise _as_response(error) from error


def _need_upgrade(request: web.Request) -> None:
    if not is_upgrade(request):
        raise web.HTTPInternalServerError(text="Upgrade request required\n")


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


def _as_response(error: RuntimeFailure) -> web.HTTPException:
    if isinstance(error, NotFound):
        return web.HTTPNotFound(text=f"{error}\n")
    if error.reason == "ResourceExhausted":
        return web.HTTPTooManyRequests(text=f"{error}\n", headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
    return web.HTTPInternalServerError(text=f"{error}\n")
