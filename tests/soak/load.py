"""Load on the pods of a node: they are created, reach their state, are changed, crash and are deleted."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from tests.soak.client import PODS, Client, NotReached
from tests.soak.node import SoakNode
from tests.soak.pods import KINDS, SETTINGS, Kind, restarts, running, specification

STATE_SECONDS = 120.0
"""Bound for a state, also on a busy host and with a back-off of ten seconds."""
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
OBJECTS = "/api/v1/namespaces/default"


class Load:
    """Pods with their changes.

    :ivar actions: number of executed actions by name.
    :ivar violations: states that were not reached, and crashes of a component.
    """

    def __init__(self, node: SoakNode, client: Client, seed: int) -> None:
        self._node, self._client = node, client
        self._random = random.Random(seed)
        self._number = 0
        self._running: dict[str, Kind] = {}
        self.actions: Counter[str] = Counter()
        self.violations: list[str] = []

    def violate(self, text: str) -> None:
        """Record a violation, and print it."""
        self.violations.append(text)
        print(f"violation at {datetime.now(UTC):%H:%M:%S}: {text}", file=sys.stderr, flush=True)

    async def prepare(self) -> None:
        """Create the objects that the pods use."""
        metadata = {"name": SETTINGS}
        await self._client.request("POST", f"{OBJECTS}/configmaps", {"metadata": metadata, "data": {"value": "0"}})
        secret = {"metadata": metadata, "stringData": {"password": "secret"}}
        await self._client.request("POST", f"{OBJECTS}/secrets", secret)

    def any_pod(self, *kinds: str) -> str | None:
        """Return a pod whose container runs, of one of the *kinds* if there are any."""
        names = [name for name, kind in self._running.items() if not kinds or kind.name in kinds]
        return self._random.choice(names) if names else None

    async def run(self, until: float, pause_seconds: float) -> None:
        """Start pods until the loop's time is *until*, with pauses of this mean; return when all are deleted."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as lives:
            while (now := loop.time()) < until:
                lives.create_task(self._live(self._random.choice(KINDS), min(until - now, 30.0)))
                if self._random.random() < 0.1:
                    lives.create_task(self._change_settings())
                await asyncio.sleep(min(until - now, self._random.expovariate(1 / pause_seconds)))

    async def fill_disk(self) -> None:
        """Fill the agent's disk until pods are evicted, and empty it."""
        name = self._name("victim")
        kind = KINDS[0]
        await self._client.create_pod(specification(kind, name, self._node.images, self._random))
        try:
            await self._client.until(name, running, "Running", STATE_SECONDS)
            await asyncio.to_thread(self._node.fill_disk)
            self.actions["disk filled"] += 1
            await self._client.until(name, _evicted, "evicted", STATE_SECONDS)
        except NotReached as error:
            self.violate(str(error))
        finally:
            await asyncio.to_thread(self._node.empty_disk)
        await self._delete(name)
        await self._until_node_has_space()

    async def _live(self, kind: Kind, seconds: float) -> None:
        name = self._name(kind.name)
        try:
            await self._client.create_pod(specification(kind, name, self._node.images, self._random))
            self.actions[f"pod {kind.name} created"] += 1
            if self._random.random() < 0.1:  # Deleted at any time of its start.
                await asyncio.sleep(self._random.random() * 2)
                self.actions["pod deleted while it starts"] += 1
            else:
                await self._client.until(name, kind.reached, kind.state, STATE_SECONDS)
                if kind.lasts:
                    await self._use(name, kind, seconds)
        except NotReached as error:
            self.violate(str(error))
        await self._delete(name)

    async def _use(self, name: str, kind: Kind, seconds: float) -> None:
        self._running[name] = kind
        try:
            await asyncio.sleep(self._random.random() * seconds)
            change = self._random.choice((None, self._label, self._change_image, self._crash))
            if change is not None:
                await change(name)
                await asyncio.sleep(self._random.random() * seconds / 4)
        finally:
            del self._running[name]

    async def _label(self, name: str) -> None:
        labels = {"labels": {"changed": str(self._random.randrange(100))}}
        await self._client.request("PATCH", f"{PODS}/{name}", {"metadata": labels}, MERGE)
        self.actions["pod labeled"] += 1

    async def _change_image(self, name: str) -> None:
        pod = await self._client.pod(name)
        container = pod["spec"]["containers"][0]
        image = self._random.choice([each for each in self._node.images if each != container["image"]])
        body = {"spec": {"containers": [{"name": container["name"], "image": image}]}}
        await self._client.request("PATCH", f"{PODS}/{name}", body, STRATEGIC)
        self.actions["image of a pod changed"] += 1
        before = restarts(pod)
        await self._client.until(name, lambda pod: restarts(pod) > before, "restarted", STATE_SECONDS)

    async def _crash(self, name: str) -> None:
        pod = await self._client.pod(name)
        statuses = pod["status"].get("containerStatuses") or ({"containerID": "//"},)
        container, before = statuses[0]["containerID"].partition("//")[2], restarts(pod)
        command = ("tasks", "kill", "--signal", "SIGKILL", container)
        await asyncio.to_thread(self._node.runtime.ctr, *command)
        self.actions["container killed"] += 1
        await self._client.until(name, lambda pod: restarts(pod) > before, "restarted", STATE_SECONDS)

    async def _change_settings(self) -> None:
        data = {"data": {"value": str(self._random.randrange(1000))}}
        await self._client.request("PATCH", f"{OBJECTS}/configmaps/{SETTINGS}", data, MERGE)
        self.actions["ConfigMap changed"] += 1

    async def _delete(self, name: str) -> None:
        await self._client.delete_pod(name, self._random.choice((0, 1, 1, 5)))
        try:
            await self._client.until(name, lambda pod: pod is None, "deleted", STATE_SECONDS)
        except NotReached as error:
            self.violate(str(error))

    async def _until_node_has_space(self) -> None:
        for _ in range(int(STATE_SECONDS)):
            node = await self._client.request("GET", f"/api/v1/nodes/{self._node.agent.node}")
            pressure = next(each for each in node["status"]["conditions"] if each["type"] == "DiskPressure")
            if pressure["status"] == "False":
                return
            await asyncio.sleep(1)
        self.violate("the node has disk pressure, although its disk has space")

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"


def _evicted(pod: Any) -> bool:
    return bool(pod and pod["status"].get("reason") == "Evicted")
