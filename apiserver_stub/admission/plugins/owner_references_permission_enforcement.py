"""OwnerReferencesPermissionEnforcement admission plugin: require permissions for changes of owner references."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.cel.authorization import Decide
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    """Require permissions for changes of owner references (spec: admission.OwnerReferencesPermissionEnforcement).

    Setting owners requires the permission to delete the object; blocking the deletion of an owner requires the
    permission to update its finalizers.
    """

    name = "OwnerReferencesPermissionEnforcement"
    order = 2300
    enabled_by_default = False

    def __init__(self, authorize: Decide, registry: Registry) -> None:
        self._authorize, self._registry = authorize, registry

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.authorize, context.registry)

    def concerns(self, resource: Resource, operation: str, subresource: str) -> bool:
        return operation in self.operations and (resource.group, resource.plural, subresource) != ("", "pods", "status")

    async def validate(self, call: AdmissionRequest) -> None:
        new, old = _owners(call.obj), _owners(call.old or {})
        if new == old:
            return
        user, info, resource = call.request.user, call.request.info, call.resource
        if call.operation != "CREATE":
            attributes = RequestInfo(
                "delete", "", resource.group, resource.version, resource.plural, call.subresource, info.namespace,
                call.name,
            )  # fmt: skip
            allowed, reason = await self._authorize(user, attributes)
            if not allowed:
                raise call.forbidden(f"cannot set an ownerRef on a resource you can't delete: {reason}, <nil>")
        blocked_before = {item.get("uid") for item in old if item.get("blockOwnerDeletion")}
        blocking = [item for item in new if item.get("blockOwnerDeletion") and item.get("uid") not in blocked_before]
        if not blocking:
            return
        if (await self._authorize(user, RequestInfo("update", "", "*", "*", "*", "finalizers", "", "*")))[0]:
            return
        for item in blocking:
            await self._check_owner(call, item)

    async def _check_owner(self, call: AdmissionRequest, reference: Object) -> None:
        api_version, kind = str(reference.get("apiVersion") or ""), str(reference.get("kind") or "")
        group, _, version = api_version.rpartition("/")
        owner = next(
            (item for item in self._registry if (item.group, item.version, item.kind) == (group, version, kind)),
            None,
        )
        if owner is None:
            text = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion "
            text += f'{api_version} Kind {kind}: no matches for kind "{kind}" in version "{api_version}"'
            raise call.forbidden(text)
        namespace = call.namespace if owner.namespaced else ""
        attributes = RequestInfo(
            "update",
            "",
            owner.group,
            owner.version,
            owner.plural,
            "finalizers",
            namespace,
            str(reference["name"]),
        )
        allowed, reason = await self._authorize(call.request.user, attributes)
        if not allowed:
            text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
            raise call.forbidden(f"{text}: {reason}, <nil>")


def _owners(obj: Object) -> list[Object]:
    owners: list[Object] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return owners
