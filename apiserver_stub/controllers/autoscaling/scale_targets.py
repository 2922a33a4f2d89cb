"""Scaled objects of autoscalers, read and changed through the subresource ``scale`` as by clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.internal_requests import internal_request
from apiserver_stub.subresources.scale import Scales
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.identity import Identity


class NoScaleTarget(Exception):
    """The scaled object does not exist, or has no scale."""


class ScaleTarget(Struct, frozen=True):
    """A scaled object."""

    resource: Resource
    scale: Object


class ScaleTargets:
    """Reader and writer of scales.

    :param controller: name of the controller, which requests are attributed to.
    """

    def __init__(self, context: VerbContext, registry: Registry, identity: Identity, controller: str) -> None:
        self._registry, self._identity, self._controller = registry, identity, controller
        self._scales = Scales(context)

    async def read(self, namespace: str, reference: Object) -> ScaleTarget:
        """Return the object that *reference* refers to.

        :raises NoScaleTarget: it does not exist or has no scale.
        """
        version, kind = reference.get("apiVersion") or "v1", reference.get("kind") or ""
        group, _, number = version.rpartition("/")
        resource = self._registry.find_kind(group, number, kind)
        if resource is None:
            text = f'no matches for kind "{kind}" in version "{version}"'
            raise NoScaleTarget(f"unable to determine resource for scale target reference: {text}")
        if resource.scale is None:
            raise NoScaleTarget(f"the server could not find the requested resource ({resource.plural}/scale)")
        try:
            scale = await self._handle("get", "GET", resource, namespace, reference.get("name") or "")
        except ApiError as error:
            raise NoScaleTarget(error.message) from error
        return ScaleTarget(resource, scale)

    async def resize(self, target: ScaleTarget, replicas: int) -> None:
        """Set the number of replicas of *target*.

        :raises ApiError: the object has changed, or the change is rejected.
        """
        scale, metadata = target.scale, target.scale["metadata"]
        body = {**scale, "spec": {"replicas": replicas}}
        await self._handle("update", "PUT", target.resource, metadata.get("namespace", ""), metadata["name"], body)

    async def _handle(
        self, verb: str, method: str, resource: Resource, namespace: str, name: str, body: Object | None = None
    ) -> Object:
        request = internal_request(
            verb,
            method,
            resource,
            self._identity,
            self._controller,
            namespace=namespace if resource.namespaced else "",
            name=name,
            subresource="scale",
            body=body,
        )
        try:
            reply = await self._scales.handle(request, resource)
        finally:
            for function in request.afterwards:
                function()
        return reply.obj or {}
