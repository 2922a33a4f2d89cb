"""Simulated node agent: reports a ready node, runs the pods that are bound to it and ends those that are deleted."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime
from typing import Any

from apiserver_stub.simulation.client import MERGE, Client, Lost
from nodeagent.base.simulation.clock import SimulatedClock

_PERIOD_SECONDS = 5.0
_HEARTBEATS = 3
"""Number of passes per heartbeat."""
_JOB_SECONDS = 20.0
_SLOW_SECONDS = 150.0
FAILING_IMAGE, SLOW_IMAGE = "example/failing:1", "example/slow:1"


class Kubelet:
    """A node.

    :param number: of the node; part of its name and of the addresses of its pods.
    """

    def __init__(self, client: Client, clock: SimulatedClock, number: int) -> None:
        self._client, self._clock, self._number = client, clock, number
        self._name = f"node-{number}"
        self._addresses = 0
        self._started: dict[str, float] = {}
        self.stopped = False
        """The node does nothing, as if it had lost its network."""

    async def run(self) -> None:
        """Run until the task is cancelled."""
        passes = 0
        while True:
            with contextlib.suppress(Lost):
                if not self.stopped:
                    await self._pass(passes)
            passes += 1
            await asyncio.sleep(_PERIOD_SECONDS)

    async def _pass(self, number: int) -> None:
        if number % _HEARTBEATS == 0:
            await self._heartbeat()
        await self._sync_pods()

    async def _heartbeat(self) -> None:
        now = _text(self._clock.true_time())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        status: dict[str, Any] = {
            "conditions": [{**ready, "lastTransitionTime": now}],
            "addresses": [{"type": "InternalIP", "address": f"192.0.2.{100 + self._number}"}],
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        }
        path = f"/api/v1/nodes/{self._name}"
        response = await self._client.request("PATCH", path + "/status", {"status": status}, MERGE)
        if response.code == 404:
            node = {"metadata": {"name": self._name}, "status": status}
            await self._client.request("POST", "/api/v1/nodes", node)

    async def _sync_pods(self) -> None:
        response = await self._client.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={self._name}")
        if response.code != 200:
            return
        for pod in response.content["items"]:
            await self._sync_pod(pod)

    async def _sync_pod(self, pod: dict[str, Any]) -> None:
        metadata, phase = pod["metadata"], pod.get("status", {}).get("phase", "Pending")
        path, uid = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", metadata["uid"]
        if "deletionTimestamp" in metadata:
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self._client.request("DELETE", path, body)
            self._started.pop(uid, None)
        elif phase == "Pending":
            self._addresses += 1
            address = f"10.{self._number}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
            await self._report(path, uid, "Running", "True", {"podIP": address, "podIPs": [{"ip": address}]})
            self._started[uid] = self._clock.now()
        elif phase == "Running" and pod["spec"].get("restartPolicy") == "Never":
            image = pod["spec"]["containers"][0]["image"]
            lasts = _SLOW_SECONDS if image == SLOW_IMAGE else _JOB_SECONDS
            if self._clock.now() - self._started.get(uid, 0.0) > lasts:
                phase = "Failed" if image == FAILING_IMAGE else "Succeeded"
                await self._report(path, uid, phase, "False", {})
        elif phase == "Running" and not _is_ready(pod):  # The node was unreachable.
            await self._report(path, uid, "Running", "True", {})

    async def _report(self, path: str, uid: str, phase: str, ready: str, more: dict[str, Any]) -> None:
        now = _text(self._clock.true_time())
        types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        values = ("True", "True", ready, ready)
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": now}
            for kind, value in zip(types, values, strict=True)
        ]
        status = {"phase": phase, "conditions": conditions, "startTime": now, **more}
        await self._client.request("PATCH", path + "/status", {"metadata": {"uid": uid}, "status": status}, MERGE)


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
