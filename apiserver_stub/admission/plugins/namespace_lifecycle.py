"""NamespaceLifecycle admission plugin: protect missing, terminating and system namespaces."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.status import not_found
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.storage import Store
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from nodeagent.base.identity import Identity

_NAMESPACES = "core/namespaces"


class NamespaceLifecycle(AdmissionPlugin):
    """Reject new objects in missing or terminating namespaces, and deletions of system namespaces.

    spec: admission.NamespaceLifecycle
    """

    name = "NamespaceLifecycle"
    order = 300
    enabled_by_default = True
    operations = ("CREATE", "DELETE")

    def __init__(self, store: Store, identity: Identity) -> None:
        self._store = store
        self._protected = frozenset(["default", identity.system_namespace, "kube-public"])
        self._access_reviews = (identity.group("authorization"), "localsubjectaccessreviews")
        """Exempt resource: an error would disclose to any author of a review whether the namespace exists."""

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.store, context.identity)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        if operation == "CREATE":
            return resource.namespaced and (resource.group, resource.plural) != self._access_reviews
        return operation == "DELETE" and (resource.group, resource.plural) == ("", "namespaces")

    async def admit(self, call: AdmissionRequest) -> None:
        if call.operation == "DELETE":
            if call.name in self._protected:
                raise call.forbidden("this namespace may not be deleted")
            return
        namespace = call.namespace
        record = self._store.collection(_NAMESPACES).get(namespace)
        if record is None:
            raise not_found("", "namespaces", namespace)
        if b'"deletionTimestamp":' not in record.data:
            return
        if "deletionTimestamp" in objects.decode(record.data)["metadata"]:
            error = call.forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated"
            )
            message = f"namespace {namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            error.details = {**(error.details or {}), "causes": [cause]}
            raise error
