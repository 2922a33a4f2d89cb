"""Directories of ``local-path`` volumes, requested from the agents of the nodes."""

from __future__ import annotations

import json
from typing import Protocol

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity

_OK, _NOT_FOUND, _SERVER_ERROR = 200, 404, 500


class NodeUnavailable(ApiError):
    """The agent of a node does not respond now."""

    def __init__(self, message: str) -> None:
        super().__init__(503, "ServiceUnavailable", message)


class Agents(Protocol):
    """Agents of the nodes, as called by this module."""

    def node(self, name: str, kind: str = "nodes") -> Object: ...

    async def call(self, node_name: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]: ...


class LocalDirectories:
    """Directories on the nodes, by name of their volume."""

    def __init__(self, agents: Agents, identity: Identity) -> None:
        self._agents, self._hostname = agents, identity.label("hostname")

    def hostname(self, node: str) -> str:
        """Return the host name label of *node*.

        :raises ApiError: the node does not exist.
        """
        labels = self._agents.node(node)["metadata"].get("labels") or {}
        return str(labels.get(self._hostname) or node)

    async def create(self, node: str, name: str, capacity: int) -> str:
        """Create a directory, or change its quota if it exists; return its path on the node.

        :param capacity: the size in bytes.
        :raises NodeUnavailable: the node does not respond.
        :raises ApiError: the node rejects the request.
        """
        body = json.dumps({"capacity": capacity}).encode()
        reply = await self._call(node, "POST", name, body)
        try:
            path = json.loads(reply)["path"]
        except (ValueError, KeyError, TypeError):
            path = None
        if not isinstance(path, str) or not path.startswith("/"):
            raise ApiError(502, "", f"node {node} returned no path for volume {name}")
        return path

    async def delete(self, node: str, name: str) -> None:
        """Delete a directory and its content.

        :raises NodeUnavailable: the node does not respond.
        :raises ApiError: the node does not exist (404), or rejects the request.
        """
        await self._call(node, "DELETE", name)

    async def _call(self, node: str, method: str, name: str, body: bytes = b"") -> bytes:
        self._agents.node(node)  # Raises a 404 for the node, as opposed to a 404 of its agent.
        try:
            status, reply = await self._agents.call(node, method, f"/localVolumes/{name}", body)
        except ApiError as error:
            raise NodeUnavailable(f"node {node}: {error.message}") from error
        text = reply.decode(errors="replace").strip()
        if status == _OK:
            return reply
        if status == _NOT_FOUND:
            raise ApiError(501, "", f"node {node} does not provide local volumes")
        message = f"node {node}: {text or f'HTTP status {status}'}"
        raise NodeUnavailable(message) if status >= _SERVER_ERROR else ApiError(status, "", message)
