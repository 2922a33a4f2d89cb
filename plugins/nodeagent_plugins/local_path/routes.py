"""Routes ``/localVolumes/{name}``: create, resize and delete local volumes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from aiohttp import web

from nodeagent.contracts.server import Route
from nodeagent_plugins.local_path.directories import Conflict, InvalidRequest, LocalVolumes

if TYPE_CHECKING:
    from nodeagent.contracts.context import ServerContext

_PATH = "/localVolumes/{name}"
_MAX_BYTES = 2**63 - 1


def routes(context: ServerContext) -> Sequence[Route]:
    """Return the routes of the node's local volumes."""
    handler = _Handler(LocalVolumes(context.root_dir / "local-volumes"))
    return [Route("POST", _PATH, handler.create), Route("DELETE", _PATH, handler.delete)]


class _Handler:
    """Serves the routes; requests for one volume are processed one at a time."""

    def __init__(self, volumes: LocalVolumes) -> None:
        self._volumes = volumes
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, request: web.Request) -> web.Response:
        """Create a volume with the requested capacity, or change the capacity of an existing one."""
        name = request.match_info["name"]
        try:
            capacity = _capacity(await request.read())
            async with self._locks.setdefault(name, asyncio.Lock()):
                volume = await asyncio.to_thread(self._volumes.create, name, capacity)
        except (InvalidRequest, Conflict, OSError) as error:
            return _failure(error)
        return web.json_response({"path": str(volume.path), "quota": volume.project != 0})

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a volume with its content; a volume that does not exist is deleted already."""
        name = request.match_info["name"]
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                await asyncio.to_thread(self._volumes.delete, name)
        except (InvalidRequest, Conflict, OSError) as error:
            return _failure(error)
        return web.json_response({})


def _capacity(body: bytes) -> int:
    try:
        capacity = json.loads(body)["capacity"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidRequest("the body must be a JSON object with the field capacity") from None
    if not isinstance(capacity, int) or isinstance(capacity, bool) or not 0 < capacity <= _MAX_BYTES:
        raise InvalidRequest("capacity must be a positive number of bytes")
    return capacity


def _failure(error: Exception) -> web.Response:
    status = 400 if isinstance(error, InvalidRequest) else 409 if isinstance(error, Conflict) else 500
    return web.Response(status=status, text=f"{error}\n")
