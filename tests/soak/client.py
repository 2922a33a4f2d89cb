"""Client of the API server and the agent: requests, streams and WebSockets that may be dropped at any time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any

import aiohttp

from tests.soak.node import SoakNode

PODS = "/api/v1/namespaces/default/pods"
REQUEST_SECONDS = 60.0
POLL_SECONDS = 0.5
EXEC_PROTOCOL = "v4.channel.k8s.io"
"""Runtimes such as containerd 1.6 reject WebSockets with a later version."""


class NotReached(Exception):
    """An object did not reach the expected state in time."""


class Client:
    """Client with the credentials of the administrator; the context closes its connections."""

    def __init__(self, node: SoakNode) -> None:
        api = node.api
        context = ssl.create_default_context(cafile=api.facts["caFile"])
        self._agent = f"https://127.0.0.1:{node.agent.port}"
        self._session = aiohttp.ClientSession(
            api.facts["url"],
            headers={"Authorization": f"Bearer {api.facts['token']}"},
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=REQUEST_SECONDS),
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Return the decoded response; an error is a Status with a ``code``."""
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, path, data=data, headers={"Content-Type": content_type}) as response:
            return await response.json(content_type=None)

    async def text(self, path: str) -> str:
        """Return the body of the response, also of an error."""
        async with self._session.get(path) as response:
            return await response.text(errors="replace")

    async def agent_text(self, path: str) -> str:
        """Return the body of a response of the agent; its certificate is self-signed."""
        async with self._session.get(f"{self._agent}{path}", ssl=False) as response:
            return await response.text(errors="replace")

    @contextlib.asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a response to read from; the end of the block drops the connection with the remaining data."""
        response = await self._session.get(path)
        try:
            yield response.content
        finally:
            response.close()

    @contextlib.asynccontextmanager
    async def exec(
        self, pod: str, *command: str, stdin: bool = False
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Run a command in a pod; the end of the block closes the WebSocket."""
        query = [("command", word) for word in command]
        query += [("stdout", "true"), ("stderr", "true"), *([("stdin", "true")] if stdin else [])]
        async with self._session.ws_connect(
            f"{PODS}/{pod}/exec", params=query, protocols=[EXEC_PROTOCOL], max_msg_size=1 << 24
        ) as socket:
            yield socket

    async def pod(self, name: str) -> Any:
        """Return a pod, or ``None``."""
        found = await self.request("GET", f"{PODS}/{name}")
        return found if found["kind"] == "Pod" else None

    async def create_pod(self, pod: Mapping[str, Any]) -> None:
        """Create a pod.

        :raises NotReached: the API server has rejected it.
        """
        created = await self.request("POST", PODS, pod)
        if created["kind"] != "Pod":
            raise NotReached(f"pod {pod['metadata']['name']} was rejected: {created.get('message')}")

    async def delete_pod(self, name: str, grace_seconds: int) -> None:
        await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": grace_seconds})

    async def until(self, name: str, condition: Callable[[Any], bool], state: str, seconds: float) -> Any:
        """Wait until *condition* is true for the pod or ``None``, and return it.

        :raises NotReached: the time is over.
        """
        limit = time.monotonic() + seconds
        while True:
            pod = await self.pod(name)
            if condition(pod):
                return pod
            if time.monotonic() > limit:
                status = json.dumps((pod or {}).get("status"))
                raise NotReached(f"pod {name} is not {state} within {seconds:g} s: {status}")
            await asyncio.sleep(POLL_SECONDS)
