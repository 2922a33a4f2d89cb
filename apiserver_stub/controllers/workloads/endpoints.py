"""Endpoint controllers: publish the pods of Services as Endpoints and as EndpointSlices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from apiserver_stub.apimachinery.objects import Object, key_of, next_generation
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import NodeView, OwnerView, PodView, ServiceView, View
from apiserver_stub.controllers.workloads import service_endpoints as compute
from apiserver_stub.controllers.workloads.endpoint_hints import EndpointHints
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import controller_ref
from apiserver_stub.controllers.workloads.pod_writer import is_terminating
from apiserver_stub.controllers.workloads.service_endpoints import Port
from nodeagent.base.identity import Identity
from nodeagent.base.selectors import LabelSelector, Requirement

_STEP = 200
_SERVICES, _PODS, _NODES, _ENDPOINTS = "core/services", "core/pods", "core/nodes", "core/endpoints"


class _ServiceController(OwnerController):
    """Controller of objects with the pods of Services."""

    kind = "Service"
    owners = ("", "v1", "services")
    dependents = (_PODS,)

    def selector_of(self, spec: Mapping[str, Any]) -> LabelSelector | None:
        labels = spec.get("selector") or {}
        if not labels:
            return None
        return LabelSelector(tuple(Requirement(key, "in", frozenset([value])) for key, value in labels.items()))

    def _owner_changed(self, before: View | None, after: View | None) -> None:
        if not isinstance(after, ServiceView):
            super()._owner_changed(before, after)
            if before is not None:
                self.queue.add(before.key)
            return
        selectors = self._selectors.setdefault(after.metadata.namespace, {})
        selectors[after.key] = self.selector_of(after.spec) or LabelSelector()
        self.queue.add(after.key)

    def _dependent_changed(self, before: View | None, after: View | None) -> None:
        for view in (before, after):
            if view is None:
                continue
            for key, selector in self._selectors.get(view.metadata.namespace, {}).items():
                if selector and selector.matches(view.metadata.labels):
                    self.queue.add(key)

    async def _pods_of(self, service: Object) -> list[Object] | None:
        """Return the pods of *service* that have an address, ``None`` if another client manages its endpoints."""
        spec, namespace = service["spec"], service["metadata"]["namespace"]
        selector = self.selector_of(spec)
        if selector is None or spec.get("type") == "ExternalName":
            return None
        collection, resource = self.context.verbs.store.collection(_PODS), self._pods
        found = []
        for number, record in enumerate(collection.select(f"{namespace}/")):
            view = self.context.index.get(_PODS, record.key)
            if isinstance(view, PodView) and view.status.pod_ip and selector.matches(view.metadata.labels):
                found.append(resource.read(record))
            if number % _STEP == _STEP - 1:
                await asyncio.sleep(0)
        return found

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.writer.resource("", "v1", "pods")


class Endpoints(_ServiceController):
    """Endpoints of Services with a selector."""

    name, alias = "endpoint-controller", "endpoint"
    resources = ("endpoints", "services", "pods")
    views: ClassVar[Mapping[str, type[View]]] = {_SERVICES: ServiceView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = self.writer.resource("", "v1", "endpoints")
        self._headless_label = context.identity.label("headless", "service")

    async def deleted(self, key: str) -> None:
        record = self.context.verbs.store.collection(_ENDPOINTS).get(key)
        if record is not None:
            await self.writer.delete(self._endpoints, self._endpoints.read(record)["metadata"])

    async def sync(self, owner: Object) -> None:
        pods = await self._pods_of(owner)
        if pods is None:
            return
        metadata = owner["metadata"]
        desired = compute.subsets(owner, pods)
        labels = dict(metadata.get("labels") or {})
        if owner["spec"].get("clusterIP") == "None":
            labels[self._headless_label] = ""
        record = self.context.verbs.store.collection(_ENDPOINTS).get(key_of(metadata["namespace"], metadata["name"]))
        if record is None:
            new: Object = {"metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}}
            if desired:
                new["subsets"] = desired
            await self._create(owner, new)
            return

        def edit(obj: Object) -> None:
            if desired:
                obj["subsets"] = desired
            else:
                obj.pop("subsets", None)
            if labels:
                obj["metadata"]["labels"] = labels
            else:
                obj["metadata"].pop("labels", None)

        await self.writer.change(self._endpoints, self._endpoints.read(record), edit)

    async def _create(self, owner: Object, new: Object) -> None:
        try:
            await self.writer.create(self._endpoints, new)
        except ApiError as error:
            if is_terminating(error):
                return
            name = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
            text = f"Failed to create endpoint for service {name}: {error.message}"
            self.events.record(owner, "Warning", "FailedToCreateEndpoint", "", text)
            raise


class EndpointSlices(_ServiceController):
    """EndpointSlices of Services with a selector, one set per IP family and ports."""

    name, alias = "endpointslice-controller", "endpointslice"
    resources = ("services", "pods")
    views: ClassVar[Mapping[str, type[View]]] = {_SERVICES: ServiceView, _PODS: PodView, _NODES: NodeView}

    @classmethod
    def resources_of(cls, identity: Identity) -> Sequence[str]:
        return (*cls.resources, f"endpointslices.{identity.group('discovery')}")

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        return {**cls.views, _slices(identity): OwnerView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        identity = context.identity
        self._slices = self.writer.resource(identity.group("discovery"), "v1", "endpointslices")
        self._service_label = identity.label("service-name")
        self._manager_label = identity.label("managed-by", "endpointslice")
        self._manager = f"endpointslice-controller.{identity.api_domain}"
        self._zone_label = identity.label("zone", "topology")
        self._headless_label = identity.label("headless", "service")
        self._hints = EndpointHints(context, self.events, self.queue.add)

    async def deleted(self, key: str) -> None:
        self._hints.drop(key)

    async def sync(self, owner: Object) -> None:
        pods = await self._pods_of(owner)
        if pods is None or "deletionTimestamp" in owner["metadata"]:
            return
        zones = {
            node.metadata.name: (node.metadata.labels or {}).get(self._zone_label, "")
            for node in self.context.index.all(_NODES)
        }
        existing = self._existing(owner)
        try:
            for ip_family in owner["spec"].get("ipFamilies") or ("IPv4",):
                groups = compute.slice_endpoints(owner, pods, ip_family, zones)
                self._hints.assign(owner, ip_family, groups.values())
                await self._reconcile(owner, ip_family, groups, existing)
            for item in existing:
                await self.writer.delete(self._slices, item["metadata"])
        except ApiError as error:
            if is_terminating(error):
                return
            name = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
            text = f"Error updating Endpoint Slices for Service {name}: {error.message}"
            self.events.record(owner, "Warning", "FailedToUpdateEndpointSlices", "", text)
            raise

    def _existing(self, owner: Object) -> list[Object]:
        """Return the slices of *owner* that this controller manages."""
        found, collection = [], self.context.verbs.store.collection(self._slices.storage)
        for view in self.context.index.owned(self._slices.storage, owner["metadata"]["uid"]):
            is_managed = (view.metadata.labels or {}).get(self._manager_label) == self._manager
            if is_managed and (record := collection.get(view.key)) is not None:
                found.append(self._slices.read(record))
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    async def _reconcile(
        self, owner: Object, ip_family: str, groups: Mapping[tuple[Port, ...], Sequence[Object]], existing: list[Object]
    ) -> None:
        """Change and create the slices of one IP family; those in use are removed from *existing*."""
        if not groups:
            placeholder = [item for item in existing if item.get("addressType") == ip_family][:1]
            groups = {(): []}
            if placeholder and not placeholder[0].get("endpoints") and not placeholder[0].get("ports"):
                existing.remove(placeholder[0])
                return
        for ports, endpoints in groups.items():
            rendered = [port.render(always_named=True) for port in ports]
            matching = [
                item
                for item in existing
                if item.get("addressType") == ip_family and (item.get("ports") or []) == rendered
            ]
            kept, added = compute.distribute(matching, endpoints)
            for item, content in kept:
                if not content and (len(kept) > 1 or endpoints):
                    continue  # Deleted with the slices that are not in use.
                existing.remove(item)
                await self._change(owner, item, content)
            if not kept and not added:
                added = [[]]
            for content in added:
                await self.writer.create(self._slices, self._new(owner, ip_family, rendered, content))

    async def _change(self, owner: Object, item: Object, endpoints: list[Object]) -> None:
        labels = self._labels(owner)

        def edit(obj: Object) -> None:
            if (obj.get("endpoints") or []) != endpoints:
                obj["endpoints"] = endpoints or None
                obj["metadata"]["generation"] = next_generation(obj["metadata"])
            if (obj["metadata"].get("labels") or {}) != labels:
                obj["metadata"]["labels"] = labels

        await self.writer.change(self._slices, item, edit)

    def _labels(self, owner: Object) -> dict[str, str]:
        metadata = owner["metadata"]
        labels = {**(metadata.get("labels") or {})}
        if owner["spec"].get("clusterIP") == "None":
            labels[self._headless_label] = ""
        return labels | {self._service_label: metadata["name"], self._manager_label: self._manager}

    def _new(self, owner: Object, ip_family: str, ports: list[Object], endpoints: list[Object]) -> Object:
        metadata = owner["metadata"]
        return {
            "metadata": {
                "generateName": f"{metadata['name']}-",
                "namespace": metadata["namespace"],
                "labels": self._labels(owner),
                "ownerReferences": [controller_ref(owner)],
            },
            "addressType": ip_family,
            "endpoints": endpoints,
            "ports": ports,
        }


def _slices(identity: Identity) -> str:
    return f"{identity.group('discovery')}/endpointslices"
