"""``/containerLogs``: output of a container (spec: config.enableDebuggingHandlers)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from aiohttp import web

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import find_pod
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent.contracts.server import SENT_BYTES
from nodeagent.model.pod import Pod
from nodeagent_plugins.routes_logs.beneath import open_beneath
from nodeagent_plugins.routes_logs.container_run import NoLog, choose_run
from nodeagent_plugins.routes_logs.follow import read_file
from nodeagent_plugins.routes_logs.lines import LineReader
from nodeagent_plugins.routes_logs.options import LogOptions, UndecodableQuery, read_options
from nodeagent_plugins.routes_logs.rotated import RotatedLogs
from nodeagent_plugins.routes_logs.watch import Watches

_DEPTH = 3
"""Log path below the root: ``<pod>/<container>/<attempt>.log``. Links are not followed, because a pod may have the
directory mounted and create links in it."""


class ContainerLogs:
    """Serves the log of one run of a container."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._watches = Watches()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        options = self._options(request)
        pod, run = self._run(request, options)
        path = Path(run.log_path)
        if not run.log_path or len(path.parts) <= _DEPTH:
            raise web.HTTPInternalServerError(text="the runtime does not write a log file for this container\n")
        root, relative = path.parents[_DEPTH - 1], "/".join(path.parts[-_DEPTH:])
        response = web.StreamResponse(headers={"Content-Type": "text/plain", "X-Content-Type-Options": "nosniff"})
        pieces = read_file(
            lambda: open_beneath(root, relative, links=False),
            str(path.parent),
            self._watches,
            self._context.clock,
            tail_lines=options.tail_lines,
            more_expected=(lambda: self._runs(pod.uid, run.id)) if options.follow else None,
            rotated=RotatedLogs(
                lambda name: open_beneath(root, f"{relative.rpartition('/')[0]}/{name}", links=False), path.name
            ),
        )
        try:
            await self._send(request, response, pieces, options)
        except FileNotFoundError as error:
            raise web.HTTPInternalServerError(text=f"failed to open log file {run.log_path}: not there\n") from error
        except OSError as error:
            if response.prepared:
                raise
            text = f"failed to open log file {run.log_path}: {error.strerror}\n"
            raise web.HTTPInternalServerError(text=text) from error
        finally:
            await pieces.aclose()
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        pieces: AsyncGenerator[bytes, None],
        options: LogOptions,
    ) -> None:
        reader = LineReader(timestamps=options.timestamps, since=options.since, stream=options.stream)
        left = options.limit_bytes
        counted = SENT_BYTES.get()
        limit = self._context.config.streaming_connection_idle_timeout.seconds or None
        async for piece in pieces:
            if not response.prepared:
                await response.prepare(request)
            text = reader.feed(piece)
            if left is not None:
                text = text[: left - counted.count]
            if text:
                counted.count += len(text)
                async with asyncio.timeout(limit):  # Disconnects a client that does not read.
                    await response.write(text)
            if left is not None and counted.count >= left:
                break
        if not response.prepared:
            await response.prepare(request)
        await response.write_eof()

    def _options(self, request: web.Request) -> LogOptions:
        try:
            return read_options(request.query, self._context.clock.wall())
        except UndecodableQuery as error:
            raise web.HTTPBadRequest(text='{"message": "Unable to decode query."}') from error
        except ValueError as error:
            raise web.HTTPUnprocessableEntity(text=f'{{"message": "Invalid request: {error}."}}') from error

    def _run(self, request: web.Request, options: LogOptions) -> tuple[Pod, RuntimeContainerStatus]:
        info = request.match_info
        pod = find_pod(self._context.pods, info["namespace"], info["pod"])
        if pod is None:
            raise web.HTTPNotFound(text=f'pod "{info["pod"]}" does not exist\n')
        name = info["container"]
        if name not in (container.name for _, container in pod.containers()):
            raise web.HTTPNotFound(text=f'container "{name}" not found in pod "{pod.name}"\n')
        pods = self._context.pods
        try:
            return pod, choose_run(pod, name, pods.status(pod.uid), pods.observed(pod.uid), previous=options.previous)
        except NoLog as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error

    def _runs(self, pod_uid: str, container_id: str) -> bool:
        """Return whether the container may still write."""
        observed = self._context.pods.observed(pod_uid)
        if observed is None:
            return False
        return any(
            container.id == container_id and container.state in (ContainerState.CREATED, ContainerState.RUNNING)
            for container in observed.containers
        )
