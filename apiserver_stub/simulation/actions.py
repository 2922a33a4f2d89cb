"""Execution of steps: requests of clients in their own tasks, and faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from apiserver_stub.simulation.admission_requests import AdmissionRequests
from apiserver_stub.simulation.autoscaling import AutoscalingRequests
from apiserver_stub.simulation.client import MERGE, Lost
from apiserver_stub.simulation.cluster import Cluster
from apiserver_stub.simulation.cluster_faults import ClusterFaults
from apiserver_stub.simulation.conversion import ConversionRequests
from apiserver_stub.simulation.kubelet import FAILING_IMAGE, Kubelet
from apiserver_stub.simulation.reflector import Reflector
from apiserver_stub.simulation.requests import Requests
from apiserver_stub.simulation.steps import FAULTS
from apiserver_stub.simulation.workload_requests import WorkloadRequests, pod_spec
from nodeagent.base.simulation.steps import Step

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AFTERWARDS_SECONDS = 300.0
"""Time for which a fault has effects after its end, such as functions in threads of a slow disk."""
_QUOTA = {"count/configmaps": "6", "pods": "3", "services": "2"}


class Actions:
    """Executes steps."""

    def __init__(
        self,
        cluster: Cluster,
        requests: Requests,
        more: Sequence[AdmissionRequests | AutoscalingRequests | ConversionRequests | ClusterFaults],
        reflectors: Sequence[Reflector],
        nodes: Sequence[Kubelet],
    ) -> None:
        self._cluster, self._requests, self._reflectors, self._nodes = cluster, requests, reflectors, nodes
        self._more = more
        self.executed: Counter[str] = Counter()
        self._workloads = WorkloadRequests(requests)
        self._tasks: dict[asyncio.Task[None], None] = {}

    def execute(self, step: Step) -> None:
        """Start one step."""
        self.executed[step.kind] += 1
        if step.kind in FAULTS or step.kind == "stop":
            self._cluster.disturb(step.arguments.get("seconds", 0.0) + _AFTERWARDS_SECONDS)
        self._cluster.trace.add("step", str(step)[14:])
        owner = next(each for each in (self, self._workloads, *self._more, self._requests) if hasattr(each, step.kind))
        function: Callable[..., Coroutine[Any, Any, None] | None] = getattr(owner, step.kind)
        started = function(**step.arguments)
        if started is not None:
            task = asyncio.get_running_loop().create_task(_ignore_loss(started))
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def errors(self) -> list[BaseException]:
        """Return the errors of the simulation's own tasks."""
        return [error for task in self._tasks if task.done() and (error := task.exception())]

    def calm(self) -> None:
        """End all faults."""
        cluster, network, loop = self._cluster, self._cluster.network, self._cluster.loop
        network.latency.factor, network.loss, loop.thread_factor = 1.0, 0.0, 1.0
        cluster.set_full(full=False)
        cluster.store.crash_in(None)
        loop.crash_at = None
        for each in self._more:
            each.calm()
        for reflector in self._reflectors:
            reflector.resume()
        for node in self._nodes:
            node.stopped = False

    # --- clients ----------------------------------------------------------------------------------------------

    async def create_namespace(self, namespace: str, quota: bool) -> None:
        """Create a namespace, with a quota or without."""
        response = await self._requests.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        if quota and response.code == 201:
            body = {"metadata": {"name": "quota"}, "spec": {"hard": _QUOTA}}
            await self._requests.send("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)

    async def delete_namespace(self, namespace: str, quota: bool) -> None:
        """Delete a namespace; its config maps lose their finalizers when others remove them."""
        await self._requests.send("DELETE", f"/api/v1/namespaces/{namespace}")

    async def apply_deployment(self, namespace: str, name: str, count: int) -> None:
        """Create a deployment, or scale it."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        body: dict[str, Any] = {
            "metadata": {"name": name},
            "spec": {
                "replicas": count,
                "selector": {"matchLabels": {"work": name}},
                "template": {"metadata": {"labels": {"work": name}}, "spec": pod_spec("Always")},
            },
        }
        if (await self._requests.send("POST", path, body)).code == 409:
            await self._requests.send("PATCH", f"{path}/{name}", {"spec": {"replicas": count}}, MERGE)

    async def delete_deployment(self, namespace: str, name: str, count: int) -> None:
        """Delete a deployment."""
        await self._requests.send("DELETE", f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")

    async def roll_deployment(self, namespace: str, name: str, count: int) -> None:
        """Change the image of a deployment."""
        spec = {"containers": [{"name": "main", "image": f"example/image:{count}"}]}
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        await self._requests.send("PATCH", path, {"spec": {"template": {"spec": spec}}}, MERGE)

    async def apply_set(self, namespace: str, kind: str, count: int, version: int) -> None:
        """Create a stateful set or daemon set, or change its image and scale it."""
        path = f"/apis/apps/v1/namespaces/{namespace}/{kind}"
        pod = pod_spec("Always")
        pod["containers"][0]["image"] = f"example/image:{version}"
        template = {"metadata": {"labels": {"set": kind}}, "spec": pod}
        spec: dict[str, Any] = {"selector": {"matchLabels": {"set": kind}}, "template": template}
        if kind == "statefulsets":
            spec |= {"replicas": count, "serviceName": "headless"}
        if (await self._requests.send("POST", path, {"metadata": {"name": "set"}, "spec": spec})).code == 409:
            for field in ("selector", "serviceName"):
                spec.pop(field, None)
            await self._requests.send("PATCH", f"{path}/set", {"spec": spec}, MERGE)

    async def delete_set(self, namespace: str, kind: str, count: int, version: int) -> None:
        """Delete a stateful set or daemon set."""
        await self._requests.send("DELETE", f"/apis/apps/v1/namespaces/{namespace}/{kind}/set")

    async def evict_pod(self, which: int) -> None:
        """Evict one of the pods."""
        pods = sorted(self._requests.keys("core/pods"))
        if pods:
            namespace, _, name = pods[which % len(pods)].partition("/")
            body = {"metadata": {"name": name, "namespace": namespace}}
            await self._requests.send("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    async def create_budget(self, namespace: str, name: str, count: int) -> None:
        """Create a disruption budget for the pods of a deployment."""
        spec = {"minAvailable": count, "selector": {"matchLabels": {"work": name}}}
        path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        await self._requests.send("POST", path, {"metadata": {"name": name}, "spec": spec})

    async def create_custom_kind(self) -> None:
        """Create a custom resource definition."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        spec = {"group": "simulated.test", "scope": "Namespaced", "names": names, "versions": [version]}
        await self._requests.send("POST", _DEFINITIONS, {"metadata": {"name": "widgets.simulated.test"}, "spec": spec})

    async def delete_custom_kind(self) -> None:
        """Delete the custom resource definition, with its objects."""
        await self._requests.send("DELETE", f"{_DEFINITIONS}/widgets.simulated.test")

    async def create_widget(self, namespace: str, number: int) -> None:
        """Create an object of the custom kind."""
        body = {"apiVersion": "simulated.test/v1", "kind": "Widget", "metadata": {"name": f"widget-{number}"}}
        await self._requests.send("POST", f"/apis/simulated.test/v1/namespaces/{namespace}/widgets", body)

    async def delete_widget(self, namespace: str, number: int) -> None:
        """Delete an object of the custom kind."""
        path = f"/apis/simulated.test/v1/namespaces/{namespace}/widgets/widget-{number}"
        await self._requests.send("DELETE", path)

    async def create_job(self, namespace: str, name: str, count: int, fails: bool = False) -> None:
        """Create a job whose pods succeed or fail, after the deletion of the one with its name."""
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        template = pod_spec("Never", image=FAILING_IMAGE if fails else "example/image:1")
        body = {
            "metadata": {"name": f"job-{name}"},
            "spec": {"completions": count, "parallelism": 2, "backoffLimit": 2, "template": {"spec": template}},
        }
        if (await self._requests.send("POST", path, body)).code == 409:
            await self._requests.send("DELETE", f"{path}/job-{name}?propagationPolicy=Background")

    async def create_service(self, namespace: str, name: str, type: str, work: int) -> None:
        """Create a service that selects the pods of a deployment."""
        spec = {"type": type, "ports": [{"port": 80}], "selector": {"work": f"work-{work}"}}
        body = {"metadata": {"name": name}, "spec": spec}
        await self._requests.send("POST", f"/api/v1/namespaces/{namespace}/services", body)

    async def delete_service(self, namespace: str, name: str, type: str, work: int) -> None:
        """Delete a service."""
        await self._requests.send("DELETE", f"/api/v1/namespaces/{namespace}/services/{name}")

    async def flood(self, count: int, writes: bool) -> None:
        """Send many requests at the same time."""
        if writes:
            sent = [
                self._requests.patch_map("default", f"map-{number % 5}", number, versioned=False)
                for number in range(count)
            ]
        else:
            sent = [self._requests.list_maps("", 0, 0.0) for _ in range(count)]
        await asyncio.gather(*map(_ignore_loss, sent))

    # --- faults -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop one of the servers as with SIGTERM; it is started again."""
        self._cluster.stop()

    def crash(self, after: int) -> None:
        """Kill the server after a number of its callbacks."""
        self._cluster.loop.on_crash, self._cluster.loop.crash_at = self._cluster.crash, after + 1

    def lose_power(self, after: int) -> None:
        """Lose the power after a number of callbacks of the server."""
        self._cluster.loop.on_crash, self._cluster.loop.crash_at = self._lose_power, after + 1

    def crash_in_write(self, after: int, tears: bool) -> None:
        """Kill the server, or lose the power, while it writes to its store."""
        self._cluster.loop.on_crash = self._lose_power if tears else self._cluster.crash
        self._cluster.store.crash_in(after, tears=tears)

    def _lose_power(self) -> None:
        self._cluster.crash(power=True)

    def fill_disk(self, seconds: float) -> None:
        """Fill the disk for some time."""
        self._cluster.set_full(full=True)
        self._later(seconds, lambda: self._cluster.set_full(full=False))

    def slow_disk(self, factor: float, seconds: float) -> None:
        """Slow down the functions in threads for some time."""
        self._cluster.loop.thread_factor = factor
        self._later(seconds, lambda: setattr(self._cluster.loop, "thread_factor", 1.0))

    def jump_clock(self, seconds: float) -> None:
        """Set the clock of the server."""
        self._cluster.clock.offset_seconds += seconds

    def cut_connection(self, which: int) -> None:
        """Close one of the connections."""
        self._cluster.network.cut(which)

    def lose_segments(self, probability: float, seconds: float) -> None:
        """Close connections at random for some time."""
        self._cluster.network.loss = probability
        self._later(seconds, lambda: setattr(self._cluster.network, "loss", 0.0))

    def slow_network(self, factor: float, seconds: float) -> None:
        """Slow down the network for some time."""
        self._cluster.network.latency.factor = factor
        self._later(seconds, lambda: setattr(self._cluster.network.latency, "factor", 1.0))

    def stop_node(self, which: int, seconds: float) -> None:
        """Stop a node for some time."""
        node = self._nodes[which % len(self._nodes)]
        node.stopped = True
        self._later(seconds, lambda: setattr(node, "stopped", False))

    def pause_watch(self, seconds: float) -> None:
        """Stop reading from all watches for some time."""
        for reflector in self._reflectors:
            reflector.pause()
            self._later(seconds, reflector.resume)

    def _later(self, seconds: float, function: Callable[[], object]) -> None:
        self._cluster.loop.call_later(seconds, function)


async def _ignore_loss(request: Coroutine[Any, Any, None]) -> None:
    """Execute requests whose results are verified if they arrive."""
    with contextlib.suppress(Lost):
        await request
