"""NamespaceExists admission plugin: reject writes in missing namespaces."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.apimachinery.status import not_found
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.storage import Store
from apiserver_stub.verbs.admission import AdmissionRequest, Operation

_NAMESPACES = "core/namespaces"


class NamespaceExists(AdmissionPlugin):
    """Reject writes in missing namespaces (spec: admission.NamespaceExists)."""

    name = "NamespaceExists"
    order = 400
    enabled_by_default = False
    operations = ("CREATE", "UPDATE", "DELETE")

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.store)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return resource.namespaced and operation in self.operations

    async def validate(self, call: AdmissionRequest) -> None:
        if self._store.collection(_NAMESPACES).get(call.namespace) is None:
            raise not_found("", "namespaces", call.namespace)
