"""Clients that connect to the node and disconnect: exec, logs, watches, lists and metrics."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import aiohttp

from tests.soak.client import PODS, Client
from tests.soak.load import Load

TIMEOUT_SECONDS = 30.0
INPUT = b"x" * 50_000
WATCHED = (PODS, "/api/v1/events", "/api/v1/nodes", "/api/v1/namespaces/default/configmaps")
READ = ("/metrics", "/openapi/v2", f"{PODS}?limit=2", "/api/v1/events?limit=50")
READ_FROM_AGENT = ("/metrics", "/metrics/cadvisor", "/stats/summary", "/pods", "/configz")


class Clients:
    """Clients of all kinds.

    :ivar actions: number of connections by kind.
    :ivar errors: number of connections that ended with an error, by its type: pods are deleted while clients use them.
    """

    def __init__(self, client: Client, load: Load, seed: int) -> None:
        self._client, self._load = client, load
        self._random = random.Random(seed)
        self.actions: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    async def run(self, until: float, pause_seconds: float) -> None:
        """Start clients until the loop's time is *until*, with pauses of this mean; return when all have ended."""
        loop = asyncio.get_running_loop()
        kinds = {
            "exec": self._exec,
            "exec with input": self._exec_with_input,
            "exec dropped": self._drop_exec,
            "log": self._log,
            "log followed": self._follow,
            "watch": self._watch,
            "requests": self._read,
        }
        async with asyncio.TaskGroup() as running:
            while (now := loop.time()) < until:
                name = self._random.choice(list(kinds))
                self.actions[name] += 1
                running.create_task(self._guard(kinds[name]))
                await asyncio.sleep(min(until - now, self._random.expovariate(1 / pause_seconds)))

    async def _guard(self, kind: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await kind()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.errors[type(error).__name__] += 1

    async def _exec(self) -> None:
        pod = self._load.any_pod()
        if pod is not None:
            async with self._client.exec(pod, "echo", "hello") as socket:
                async for _ in socket:
                    pass

    async def _exec_with_input(self) -> None:
        pod = self._load.any_pod()
        if pod is None:
            return
        async with self._client.exec(pod, "head", "-c", str(len(INPUT)), stdin=True) as socket:
            await socket.send_bytes(b"\0" + INPUT)
            received = 0
            async for message in socket:
                received += len(message.data) - 1 if message.type is aiohttp.WSMsgType.BINARY else 0

    async def _drop_exec(self) -> None:
        """Disconnect while the command runs."""
        pod = self._load.any_pod()
        if pod is not None:
            async with self._client.exec(pod, "sleep", "20"):
                await asyncio.sleep(self._random.random() * 2)

    async def _log(self) -> None:
        pod = self._load.any_pod("log") or self._load.any_pod()
        if pod is not None:
            await self._client.text(f"{PODS}/{pod}/log?tailLines=1000")

    async def _follow(self) -> None:
        """Follow a log for some seconds, and disconnect."""
        pod = self._load.any_pod("log") or self._load.any_pod()
        if pod is not None:
            async with self._client.stream(f"{PODS}/{pod}/log?follow=true") as reader:
                await self._read_for(reader, self._random.random() * 15)

    async def _watch(self) -> None:
        path = self._random.choice(WATCHED)
        end = self._random.choice(("", "&timeoutSeconds=3"))
        async with self._client.stream(f"{path}?watch=true&allowWatchBookmarks=true{end}") as reader:
            await self._read_for(reader, self._random.random() * 20)

    async def _read(self) -> None:
        await self._client.text(self._random.choice(READ))
        await self._client.agent_text(self._random.choice(READ_FROM_AGENT))

    async def _read_for(self, reader: aiohttp.StreamReader, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while await reader.readany():
                    pass
        except TimeoutError:
            pass
