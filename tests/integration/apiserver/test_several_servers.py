"""Tests for three servers of one etcd cluster: kills under load, and state that all of them share."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from .conftest import Server
from .etcd import Etcd, running_etcd

SERVERS, WRITERS, KILLS, ACKNOWLEDGED_PER_KILL = 3, 6, 4, 60
LEASE = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
CORE = "/api/v1/namespaces/default"
SECRETS, TURNS = f"{CORE}/secrets", 3
MAPS, PODS, DEPLOYMENTS = f"{CORE}/configmaps", f"{CORE}/pods", "/apis/apps/v1/namespaces/default/deployments"
LEADER = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/nodeagent-controllers"
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example.com/web:1"}]},
        },
    },
}
LOST = (aiohttp.ClientError, TimeoutError)
SECONDS = 60.0


class Connection:
    """Administrator's client of a server process, which may be killed and started again."""

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server, self._session = server, session
        self.alive = True

    async def __call__(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        """Return the code and the decoded response.

        :raises aiohttp.ClientError: the server was killed.
        """
        headers = {"Content-Type": media}
        async with self._request(method, path, headers, data=None if body is None else json.dumps(body)) as response:
            return response.status, json.loads(await response.read())

    async def ok(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        code, found = await self(method, path, body, media)
        assert code < 300, found
        return found

    async def watch(self, path: str) -> AsyncIterator[Any]:
        async with self._request("GET", path, {}) as response:
            async for line in response.content:
                if not line.endswith(b"\n"):
                    return  # The server was killed while it wrote the event.
                yield json.loads(line)

    def _request(self, method: str, path: str, headers: dict[str, str], **more: Any) -> Any:
        ready = self.server.ready
        tls = ssl.create_default_context(cafile=ready["caFile"])
        headers["Authorization"] = f"Bearer {ready['token']}"
        return self._session.request(method, ready["url"] + path, ssl=tls, headers=headers, **more)

    async def kill(self) -> None:
        self.alive = False
        await asyncio.to_thread(self.server.stop, signal.SIGKILL)

    async def restart(self) -> None:
        await asyncio.to_thread(self.server.start)
        self.alive = True


class Servers(list[Connection]):
    """The servers of a cluster."""

    def any(self) -> Connection:
        """Return a random one that is not killed."""
        return random.choice([item for item in self if item.alive])


class Writers:
    """Concurrent writers: each increments the number in its own objects, at a random server."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.acknowledged: dict[str, tuple[int, int]] = {}
        """Last acknowledged number and revision by object; number 0 is a deletion."""
        self.revisions: dict[int, tuple[str, int]] = {}
        """All acknowledged writes."""
        self.attempted: dict[str, int] = {}
        """Last number whose write was attempted."""
        self.stopping = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._write(f"w{number}"))

    async def more(self, count: int) -> None:
        """Wait for *count* further acknowledged writes."""
        before = len(self.revisions)
        async with asyncio.timeout(SECONDS):
            while len(self.revisions) < before + count:
                await asyncio.sleep(0.02)

    async def _write(self, writer: str) -> None:
        for number in itertools.count(1):
            if self.stopping:
                return
            name = f"{writer}-{number % 3}"
            deletes = number % 7 == 0
            self.attempted[name] = number
            try:
                await self._change(name, 0 if deletes else number)
            except LOST:
                await asyncio.sleep(0.02)

    async def _change(self, name: str, number: int) -> None:
        """Write *number*, or delete the object; conflicts and missing objects follow an unacknowledged write."""
        server = self._servers.any()
        body = {"metadata": {"name": name}, "data": {"number": str(number)}}
        if number:
            code, found = await server("POST", MAPS, body)
            if code == 409:
                code, found = await server("PUT", f"{MAPS}/{name}", body)
        else:
            code, found = await server("DELETE", f"{MAPS}/{name}")
        assert code in (200, 201, 404), found
        if code == 404:
            return
        if number:
            revision = int(found["metadata"]["resourceVersion"])
            self.revisions[revision] = name, number
            self.acknowledged[name] = number, revision
        else:
            self.acknowledged[name] = 0, 0


class Watcher:
    """Watch that continues at another server, from its last revision, when its server is killed."""

    def __init__(self, servers: Servers, first: Connection, revision: str) -> None:
        self._servers, self._server, self.revision = servers, first, revision
        self.seen: list[tuple[int, str, str, int]] = []
        """Revision, type, name and number of each event."""
        self.moves = 0

    async def run(self) -> None:
        while True:
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}"
            with contextlib.suppress(*LOST):
                async for event in self._server.watch(MAPS + query):
                    self._see(event)
            self.moves += 1
            self._server = self._servers.any()

    def _see(self, event: Any) -> None:
        assert event["type"] != "ERROR", event
        metadata = event["object"]["metadata"]
        self.revision = metadata["resourceVersion"]
        if event["type"] != "BOOKMARK":
            number = int((event["object"].get("data") or {}).get("number", 0))
            self.seen.append((int(self.revision), event["type"], metadata["name"], number))


@asynccontextmanager
async def running_servers(
    etcd: Etcd, directory: Path, prefix: str, count: int = SERVERS, lease: Sequence[str] = LEASE
) -> AsyncIterator[Servers]:
    servers = Servers()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)))
        for number in range(count):
            options = [f"--store-servers={etcd.url}", f"--store-prefix={prefix}", *lease]
            server = await asyncio.to_thread(
                Server, directory / str(number), *options, f"--bind-address=127.0.0.{number + 1}"
            )
            servers.append(Connection(server, session))
            stack.push_async_callback(_stop, servers[-1])
        yield servers


async def _stop(server: Connection) -> None:
    if server.alive:
        assert await asyncio.to_thread(server.server.stop) == 0


@pytest_asyncio.fixture
async def etcd(tmp_path: Path) -> AsyncIterator[Etcd]:
    async with running_etcd(tmp_path / "etcd") as found:
        yield found


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            while not await condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(what) from None


async def test_random_kills_lose_no_write_and_no_event(etcd: Etcd, tmp_path: Path) -> None:
    async with running_servers(etcd, tmp_path, "/kills") as servers:
        await servers[0].ok("POST", DEPLOYMENTS, DEPLOYMENT)
        start = (await servers[0].ok("GET", MAPS))["metadata"]["resourceVersion"]
        writers, watchers = Writers(servers), [Watcher(servers, server, start) for server in servers]
        # All three are killed at least once, so the leader is among them.
        victims = [*random.sample(servers, SERVERS), *random.choices(servers, k=KILLS - SERVERS)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(item.run()) for item in watchers]
            writing = group.create_task(writers.run())
            for replicas, victim in enumerate(victims, 2):
                await writers.more(ACKNOWLEDGED_PER_KILL)
                await victim.kill()
                await _scale(servers.any(), replicas)
                await writers.more(ACKNOWLEDGED_PER_KILL)
                await victim.restart()
            writers.stopping = True
            await writing
            last = await servers[0].ok("POST", MAPS, {"metadata": {"name": "last"}})
            end = int(last["metadata"]["resourceVersion"])

            async def all_seen() -> bool:
                return all(int(item.revision) >= end for item in watchers)

            await until(all_seen, "every watch sees the last write")
            for task in tasks:
                task.cancel()

        for server in servers:
            stored = {item["metadata"]["name"]: item for item in (await server.ok("GET", MAPS))["items"]}
            for name, (number, revision) in writers.acknowledged.items():
                found = int(stored[name]["data"]["number"]) if name in stored else 0
                # The write after the last acknowledged one may have been stored before its server was killed.
                assert found == number or writers.attempted[name] > number, (name, number, found, revision)
        seen = watchers[0].seen
        revisions = [revision for revision, *_ in seen]
        assert revisions == sorted(set(revisions))
        assert all(item.seen == seen for item in watchers)
        events = {revision: (name, number) for revision, _, name, number in seen}
        assert {revision: events.get(revision) for revision in writers.revisions} == writers.revisions
        assert sum(item.moves for item in watchers) >= KILLS - 1
        lease = await servers[0].ok("GET", LEADER)
        assert lease["spec"]["leaseTransitions"] >= 1


async def _scale(server: Connection, replicas: int) -> None:
    """Scale the Deployment, and wait until the controllers have created exactly that many pods."""
    patch = {"spec": {"replicas": replicas}}
    await server.ok("PATCH", f"{DEPLOYMENTS}/web", patch, "application/merge-patch+json")

    async def created() -> bool:
        found = await server.ok("GET", f"{PODS}?labelSelector=app%3Dweb")
        assert len(found["items"]) <= replicas
        observed = (await server.ok("GET", f"{DEPLOYMENTS}/web"))["status"]
        return len(found["items"]) == replicas == observed.get("replicas")

    await until(created, f"the Deployment has {replicas} pods")


async def test_concurrent_requests_to_different_servers_never_exceed_a_quota(etcd: Etcd, tmp_path: Path) -> None:
    async with running_servers(etcd, tmp_path, "/quota") as servers:
        created = {"metadata": {"name": "limit"}, "spec": {"hard": {"count/secrets": "20"}}}
        await servers[0].ok("POST", f"{CORE}/resourcequotas", created)

        async def limited() -> bool:
            found = [await server.ok("GET", f"{CORE}/resourcequotas/limit") for server in servers]
            return all(item.get("status", {}).get("used") for item in found)

        await until(limited, "every server knows the quota")

        async def create(number: int) -> int:
            code, found = await servers.any()("POST", SECRETS, {"metadata": {"name": f"s{number}"}})
            assert code == 201 or "exceeded quota: limit" in found["message"], found
            return int(code)

        for turn in range(TURNS):
            codes = await asyncio.gather(*(create(turn * 100 + number) for number in range(60)))
            stored = [item["metadata"]["name"] for item in (await servers.any().ok("GET", SECRETS))["items"]]
            assert (codes.count(201), len(stored)) == (20, 20)
            # Usage that a request has freed is available in every server as soon as it was acknowledged.
            await asyncio.gather(*(servers.any().ok("DELETE", f"{SECRETS}/{name}") for name in stored))

        async def released() -> bool:
            status = (await servers.any().ok("GET", f"{CORE}/resourcequotas/limit"))["status"]
            return bool(status["used"] == {"count/secrets": "0"})

        await until(released, "the usage is zero")


async def test_killed_leader_continues_its_lease_when_it_is_started_again(etcd: Etcd, tmp_path: Path) -> None:
    hour = ("--leader-elect-lease-duration=3600s",)
    async with running_servers(etcd, tmp_path, "/restart", 1, hour) as (server,):
        await server.ok("POST", DEPLOYMENTS, DEPLOYMENT)
        await _scale(server, 2)
        before = (await server.ok("GET", LEADER))["spec"]
        await server.kill()
        await server.restart()
        await _scale(server, 3)
        after = (await server.ok("GET", LEADER))["spec"]
    assert (before["holderIdentity"], before["leaseTransitions"]) == (
        after["holderIdentity"],
        after["leaseTransitions"],
    )
