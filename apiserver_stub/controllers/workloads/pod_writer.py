"""Creation and deletion of the pods of a controller, with events about their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.views import View
from apiserver_stub.controllers.workloads.owners import controller_ref, seen

if TYPE_CHECKING:
    from apiserver_stub.controllers.event_recorder import EventRecorder
    from apiserver_stub.controllers.object_writer import ObjectWriter

MAX_PODS = 500
"""Pods that one pass of a controller creates or deletes for one owner."""
_AT_ONCE = 32
_TERMINATING = "NamespaceTerminating"


class PodWriter:
    """Writer of the pods of the owners of one controller."""

    def __init__(self, writer: ObjectWriter, events: EventRecorder) -> None:
        self._writer, self._events = writer, events
        self.resource = writer.resource("", "v1", "pods")

    async def create(self, owner: Object, pod: Object) -> Object:
        """Create *pod*, which is owned by *owner*.

        :raises ApiError: the pod is rejected.
        """
        try:
            created = await self._writer.create(self.resource, pod)
        except ApiError as error:
            if not is_terminating(error):
                self._events.record(owner, "Warning", "FailedCreate", "", f"Error creating: {error.message}")
            raise
        self._events.record(owner, "Normal", "SuccessfulCreate", "", f"Created pod: {created['metadata']['name']}")
        return created

    async def create_each(self, owner: Object, pods: Sequence[Object]) -> int:
        """Create *pods*, first one and then twice as many at a time, until one is rejected.

        :returns: the number of created pods.
        :raises ApiError: a pod is rejected; all pods of its batch were tried.
        """
        created, batch = 0, 1
        while created < len(pods):
            due = pods[created : created + batch]
            results = await asyncio.gather(*(self.create(owner, pod) for pod in due), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            created += len(due)
            batch = min(2 * batch, _AT_ONCE)
        return created

    async def delete(self, owner: Object, pod: View) -> bool:
        """Delete *pod*; return ``False`` if it was deleted already.

        :raises ApiError: it cannot be deleted.
        """
        name = pod.metadata.name
        try:
            deleted = await self._writer.delete(self.resource, seen(pod)["metadata"])
        except ApiError as error:
            self._events.record(owner, "Warning", "FailedDelete", "", f"Error deleting: {error.message}")
            raise
        if deleted:
            self._events.record(owner, "Normal", "SuccessfulDelete", "", f"Deleted pod: {name}")
        return deleted


def pod_of(owner: Object, template: Object, *, name: str = "") -> Object:
    """Return a new pod of *template* that *owner* manages; without *name* the server generates one."""
    template = objects.clone(template)
    metadata, source = {}, template.get("metadata") or {}
    for field in ("labels", "annotations", "finalizers"):
        if source.get(field):
            metadata[field] = source[field]
    metadata |= {"name": name} if name else {"generateName": prefix_of(owner["metadata"]["name"])}
    metadata |= {"namespace": owner["metadata"]["namespace"], "ownerReferences": [controller_ref(owner)]}
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def prefix_of(name: str) -> str:
    """Return the prefix of the generated names of the pods of an owner called *name*."""
    return f"{name}-"


def is_terminating(error: ApiError) -> bool:
    """Return whether *error* is due to a namespace that is being deleted, in which no object can be created."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == _TERMINATING for cause in causes)
