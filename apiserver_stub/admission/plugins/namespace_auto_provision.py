"""NamespaceAutoProvision admission plugin: create the missing namespace of a new object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.storage import Store
from apiserver_stub.verbs.admission import AdmissionRequest, Operation

_NAMESPACES = "core/namespaces"


class NamespaceAutoProvision(AdmissionPlugin):
    """Create the missing namespace of a new object (spec: admission.NamespaceAutoProvision)."""

    name = "NamespaceAutoProvision"
    order = 200
    enabled_by_default = False
    operations = ("CREATE",)

    def __init__(self, store: Store, provide: Callable[[str], Awaitable[None]]) -> None:
        """Create the plugin; *provide* creates the namespace with the passed name."""
        self._store, self._provide = store, provide

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.store, context.provide_namespace)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return resource.namespaced and operation == "CREATE" and not subresource

    async def admit(self, call: AdmissionRequest) -> None:
        if not call.dry_run and self._store.collection(_NAMESPACES).get(call.namespace) is None:
            await self._provide(call.namespace)
