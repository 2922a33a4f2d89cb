"""``/checkpoint``: checkpoint of a running container, written to disk by the runtime.

spec: gate.ContainerCheckpoint
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.pods import find_pod
from nodeagent.contracts.runtime import CheckpointingRuntime, ContainerState
from nodeagent.contracts.server import Exposure, Route
from nodeagent.errors import RuntimeFailure

if TYPE_CHECKING:
    from aiohttp import web

MAX_SECONDS = 3600
_NO_SUPPORT = "the container runtime does not support checkpoints, which require CheckpointContainer and CRIU\n"


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    if not context.gates.enabled("ContainerCheckpoint"):
        return ()

    async def handle(request: web.Request) -> web.Response:
        return await checkpoint(context, request)

    path = "/checkpoint/{namespace}/{pod}/{container}"
    subresources = ("proxy", "checkpoint")
    return (Route("POST", path, handle, Exposure.DEBUG_HIDDEN, subresources=subresources, streams=True),)


async def checkpoint(context: AgentContext, request: web.Request) -> web.Response:
    """Respond with the path of the checkpoint; a timeout of 0 selects the runtime's default."""
    from aiohttp import web

    info = request.match_info
    pod = find_pod(context.pods, info["namespace"], info["pod"])
    if pod is None:
        return web.Response(status=404, text="pod does not exist\n")
    name = info["container"]
    if name not in (container.name for _, container in pod.containers()):
        return web.Response(status=404, text=f"container {name} does not exist\n")
    try:
        seconds = int(request.query.getall("timeout", ["0"])[-1])
    except ValueError:
        return web.Response(status=404, text="cannot parse value of timeout parameter\n")
    if not 0 <= seconds <= MAX_SECONDS:
        return web.Response(status=404, text=f"timeout must be between 0 and {MAX_SECONDS} seconds\n")
    observed = context.pods.observed(pod.uid)
    newest = observed.newest(name) if observed is not None else None
    if newest is None or newest.state is not ContainerState.RUNNING:
        return web.Response(status=404, text=f"container {name} is not running\n")
    runtime = context.runtime
    if not isinstance(runtime, CheckpointingRuntime):
        return web.Response(status=500, text=_NO_SUPPORT)
    directory = context.root_dir / "checkpoints"
    timestamp = context.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
    file = directory / f"checkpoint-{pod.name}_{pod.namespace}-{name}-{timestamp}.tar"
    try:
        await asyncio.to_thread(_prepare, directory)
        await runtime.checkpoint_container(newest.id, str(file), seconds)
    except NotImplementedError:
        return web.Response(status=500, text=_NO_SUPPORT)
    except (OSError, RuntimeFailure) as error:
        await asyncio.to_thread(file.unlink, missing_ok=True)
        return web.Response(status=500, text=f"checkpointing of {pod.full_name}/{name} failed ({error})\n")
    return web.json_response({"items": [str(file)]})


def _prepare(directory: Path) -> None:
    """Create the directory for root only, because a checkpoint contains the memory of a container."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
