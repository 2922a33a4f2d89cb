"""Harness for tests of workload controllers: the bundled controllers over a store in memory, and hollow pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient
from apiserver_stub.controllers.internal_requests import create_object
from apiserver_stub.controllers.manager import ControllerManager, bundled_controllers, served
from apiserver_stub.feature_gates import build_gates
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, rest, running

PODS, SETS, DEPLOYMENTS = "core/pods", "apps/replicasets", "apps/deployments"
Object = dict[str, Any]


class Cluster:
    """A store with running controllers."""

    def __init__(self, store: MeteredStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock
        self._context = context(store)

    async def create(self, plural: str, obj: Object, group: str = "", version: str = "v1") -> Object:
        """Create *obj* in the namespace ``default`` as a client, and wait until the controllers rest."""
        resource = REGISTRY.find(group, version, plural)
        assert resource is not None
        if resource.namespaced:
            obj = {**obj, "metadata": {"namespace": "default", **obj["metadata"]}}
        record = await create_object(self._context, resource, obj, Identity(), "test")
        await self.rest()
        created: Object = objects.decode(record.data)
        return created

    async def change(self, collection: str, key: str, **changes: Any) -> None:
        """Change fields of the spec as a client, and wait until the controllers rest."""
        obj = self.store.read(collection, key)
        obj["spec"] |= changes
        obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1
        self.store.put(collection, obj)
        await self.rest()

    async def set_status(self, collection: str, key: str, **status: Any) -> None:
        """Change fields of the status as another component, and wait until the controllers rest."""
        obj = self.store.read(collection, key)
        obj["status"] = {**(obj.get("status") or {}), **status}
        self.store.put(collection, obj)
        await self.rest()

    async def run_pods(self, prefix: str = "", *, ready: bool = True) -> None:
        """Report every pod of *prefix* that has not terminated as running."""
        for pod in self.pods(prefix):
            if pod["status"]["phase"] == "Pending":
                condition = {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "lastTransitionTime": objects.format_time(self.clock.wall()),
                }
                pod["status"] |= {"phase": "Running", "conditions": [condition]}
                self.store.put(PODS, pod)
        await self.rest()

    async def finish(self, name: str, phase: str = "Succeeded", **status: Any) -> None:
        """Report the pod *name* as terminated."""
        await self.set_status(PODS, f"default/{name}", phase=phase, **status)

    async def delete(self, collection: str, key: str) -> None:
        """Remove an object, and wait until the controllers rest."""
        self.store.remove(collection, key)
        await self.rest()

    async def rest(self) -> None:
        """Wait until the controllers have no work that is due now."""
        await rest(self.store)

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and wait until the controllers rest."""
        await self.clock.advance(seconds)
        await self.rest()

    def read(self, collection: str, key: str) -> Any:
        return self.store.read(collection, key)

    def list(self, collection: str, prefix: str = "") -> list[Object]:
        """Return the objects whose names start with *prefix*, by name."""
        found = [objects.decode(record.data) for record in self.store.collection(collection).select()]
        return [item for item in found if item["metadata"]["name"].startswith(prefix)]

    def pods(self, prefix: str = "") -> list[Object]:
        return self.list(PODS, prefix)

    def notes(self) -> list[str]:
        """Return the messages of all events."""
        return [event["note"] for event in self.list("core/events")]


@asynccontextmanager
async def cluster(
    store: MeteredStore,
    clock: FakeClock,
    *names: str,
    metrics: MetricsClient | None = None,
    release: Release = OLDEST,
    **gates: bool,
) -> AsyncIterator[Cluster]:
    """Run the controllers *names*, by default all, with feature *gates*."""
    chosen = [item for item in served(bundled_controllers(), REGISTRY, Identity()) if not names or item.name in names]
    manager = ControllerManager(
        chosen, context(store), REGISTRY, Identity(), build_gates(gates, release), clock, 3600, metrics=metrics
    )
    async with running(store, manager.run()):
        yield Cluster(store, clock)


def deployment(name: str = "web", replicas: int = 3, image: str = "example.com/web:1", **spec: Any) -> Object:
    """Return a Deployment."""
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, **workload(name, image), **spec}}


def workload(name: str, image: str = "example.com/web:1") -> Object:
    """Return selector and template of a workload."""
    return {"selector": {"matchLabels": {"app": name}}, "template": template(name, image)}


def template(name: str, image: str = "example.com/web:1", **spec: Any) -> Object:
    """Return a pod template with defaults, as it is stored."""
    container = {
        "name": "c",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    values = {
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
    return {"metadata": {"creationTimestamp": None, "labels": {"app": name}}, "spec": {**values, **spec}}
