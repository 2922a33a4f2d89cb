"""Autoscaling: requests of users, metrics of the simulated node, and the invariants of the number of replicas."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from apiserver_stub.simulation.collections import AUTOSCALERS, DEPLOYMENTS, PODS
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.requests import Requests
from apiserver_stub.simulation.services import Call, Reply, http_response
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.workload_requests import pod_spec
from nodeagent.base.simulation.clock import SimulatedClock

NAME = "scaled"
METRICS = ("healthy", "hang", "refuse", "slow", "garbage", "empty")
_KEY = f"default/{NAME}"
_TARGET_MILLI = 100
_TOLERANCE = 0.1
_SLOW_SECONDS = 40.0
_SETTLED_SECONDS = 400.0
"""Time after which an evaluation by the controller includes a change of the autoscaler or of the metrics."""
_WINDOW_SECONDS, _SEEN_SECONDS = 300.0, 60.0
"""Stabilization window, and the time within which the controller evaluates a load."""


class Autoscaling:
    """The deployment, its load in thousandths of a CPU, and the statistics that the node reports.

    :param now: returns the time in seconds.
    :param calm: returns ``None`` during and after faults.
    """

    def __init__(
        self,
        seed: object,
        history: StoreHistory,
        violations: Violations,
        clock: SimulatedClock,
        now: Callable[[], float],
        calm: Callable[[], object],
    ) -> None:
        self._history, self._violations, self._clock, self._now, self._calm = history, violations, clock, now, calm
        self._chance = random.Random(f"{seed}/metrics")
        self._loads: list[tuple[float, int]] = [(0.0, _TARGET_MILLI)]
        """The loads and the times from which they apply."""
        self._behavior, self._since = METRICS[0], 0.0
        self._changed_at = 0.0
        """Time of the last change of the autoscaler."""

    def set_load(self, load: int) -> None:
        """Set the load, which the ready pods share."""
        self._loads.append((self._now(), load))

    def forget(self) -> None:
        """Drop the loads of the past."""
        del self._loads[:-1]

    def set_metrics(self, behavior: str) -> None:
        """Set how the node responds to requests for statistics."""
        if behavior != self._behavior:
            self._behavior, self._since = behavior, self._now()

    # --- the node's agent -------------------------------------------------------------------------------------

    def accepts(self) -> bool | None:
        return self._behavior != "refuse"

    def respond(self, call: Call) -> Reply:
        """Return the statistics of the pods."""
        if self._behavior == "hang":
            return Reply()
        if self._behavior == "refuse":
            return Reply(closes=True)
        if self._behavior == "garbage":
            texts = [b"{", [], {"pods": 7}, {"pods": [7]}, {"pods": [{}]}, self._statistics({"usageNanoCores": "many"})]
            return Reply(http_response(self._chance.choice(texts)))
        if self._behavior == "empty":
            return Reply(http_response(self._chance.choice(({}, {"pods": []}, self._statistics({})))))
        seconds = self._chance.random() * _SLOW_SECONDS if self._behavior == "slow" else 0.0
        return Reply(http_response(self._statistics(None)), seconds)

    def _statistics(self, usage: Mapping[str, Any] | None) -> dict[str, Any]:
        time = self._clock.true_time().strftime("%Y-%m-%dT%H:%M:%SZ")
        pods = [each.object() for each in self._history.current.get(PODS, {}).values()]
        running = [
            each["metadata"]["uid"]
            for each in pods
            if (each["metadata"].get("labels") or {}).get("work") == NAME
            and each.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in each["metadata"]
        ]
        used = {"usageNanoCores": self._loads[-1][1] * 10**6 // max(1, len(running))} if usage is None else usage
        containers = [{"name": "main", "cpu": {"time": time, **used}}]
        return {"pods": [{"podRef": {"uid": uid}, "containers": containers} for uid in running]}

    # --- invariants -------------------------------------------------------------------------------------------

    def observe(self, collection: str, entry: Entry) -> None:
        """Verify one change of the number of replicas."""
        if collection == AUTOSCALERS and entry.key == _KEY:
            before = entry.previous()
            if before is None or before["spec"] != entry.object()["spec"] or entry.type == "DELETED":
                self._changed_at = self._now()
        if collection != DEPLOYMENTS or entry.key != _KEY or entry.type != "MODIFIED":
            return
        before, after = (entry.previous() or {})["spec"]["replicas"], entry.object()["spec"]["replicas"]
        autoscaler = self._history.current.get(AUTOSCALERS, {}).get(_KEY)
        if before == after or autoscaler is None or self._now() < self._changed_at + _SETTLED_SECONDS:
            return
        self._violations.checked += 1
        spec = autoscaler.object()["spec"]
        if not spec["minReplicas"] <= after <= spec["maxReplicas"]:
            limits = f"{spec['minReplicas']} to {spec['maxReplicas']}"
            self._violations.report(f"autoscaler {_KEY} has set {after} replicas, limits are {limits}")
        settled = self._behavior == METRICS[0] and self._now() > self._since + _SETTLED_SECONDS
        if after < before and settled and self._calm() is not None:
            highest = min(before, spec["maxReplicas"], self._highest())
            if after < highest:
                self._violations.report(f"autoscaler {_KEY} has set {after} replicas, but needed {highest} recently")

    def _highest(self) -> int:
        """Return the largest number of replicas that a load in the stabilization window required."""
        ends = [*(at for at, _ in self._loads[1:]), self._now()]
        start = self._now() - _WINDOW_SECONDS
        return max(
            (
                _required(load)
                for (at, load), end in zip(self._loads, ends, strict=True)
                if end - max(at, start) >= _SEEN_SECONDS
            ),
            default=0,
        )

    def deviation(self) -> str:
        """Return the deviation from the converged state, or an empty string."""
        autoscaler = self._history.current.get(AUTOSCALERS, {}).get(_KEY)
        deployment = self._history.current.get(DEPLOYMENTS, {}).get(_KEY)
        if autoscaler is None or deployment is None:
            return ""
        spec, load = autoscaler.object()["spec"], self._loads[-1][1]
        count = deployment.object()["spec"]["replicas"]
        expected = min(max(_required(load), spec["minReplicas"]), spec["maxReplicas"])
        limited = spec["minReplicas"] <= count <= spec["maxReplicas"]
        tolerated = limited and abs(load / (_TARGET_MILLI * max(1, count)) - 1) <= _TOLERANCE
        return "" if count == expected or tolerated else f"autoscaler {_KEY} has {count} replicas, expected {expected}"


class AutoscalingRequests:
    """Steps with the autoscaler."""

    def __init__(self, requests: Requests, autoscaling: Autoscaling) -> None:
        self._requests, self._autoscaling = requests, autoscaling

    async def apply_autoscaler(self, minimum: int, maximum: int) -> None:
        """Create the deployment and its autoscaler, or change the limits."""
        labels = {"work": NAME}
        deployment: dict[str, Any] = {
            "metadata": {"name": NAME},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod_spec("Always")},
            },
        }
        await self._requests.send("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)
        target = {"type": "AverageValue", "averageValue": f"{_TARGET_MILLI}m"}
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        }
        path, body = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", {"metadata": {"name": NAME}}
        if (await self._requests.send("POST", path, {**body, "spec": spec})).code == 409:
            await self._requests.send("PUT", f"{path}/{NAME}", {**body, "spec": spec})

    async def delete_autoscaler(self) -> None:
        """Delete the autoscaler; the deployment keeps its replicas."""
        await self._requests.send("DELETE", f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/{NAME}")

    def set_load(self, load: int) -> None:
        """Change the load of the deployment."""
        self._autoscaling.set_load(load)

    def set_metrics(self, behavior: str) -> None:
        """Change how the node responds to requests for statistics."""
        self._autoscaling.set_metrics(behavior)

    def calm(self) -> None:
        """Make the node report the load."""
        self._autoscaling.set_metrics(METRICS[0])


def _required(load: int) -> int:
    return math.ceil(load / _TARGET_MILLI)
