"""PodResizeValidator admission plugin: reject resizes that the pod's node can never grant."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity

_ZERO = Quantity()


class PodResizeValidator(AdmissionPlugin):
    """Reject resizes above the allocatable resources of the node, and on nodes that do not run Linux."""

    name = "PodResizeValidator"
    order = 3180
    enabled_by_default = True
    resources = ("pods/resize",)
    operations = ("UPDATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister, self._os_label = lister, identity.label("os")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        name = spec.get("nodeName")
        if not name or spec == (call.old or {}).get("spec"):
            return
        node = self._lister.find("core/nodes", name)
        if node is None:
            raise call.forbidden(f'node "{name}" not found')
        system = (dig(node, ("metadata", "labels")) or {}).get(self._os_label, "linux")
        if system != "linux":
            text = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
            raise _with_cause(call.forbidden(text), "UnsupportedPlatform")
        if lacking := _lacking(spec, resource_lists.read(dig(node, ("status", "allocatable")))):
            text = f"node didn't have enough allocatable resources: {lacking}"
            raise _with_cause(call.forbidden(text), "NodeCapacity")


def _lacking(spec: Object, allocatable: resource_lists.Amounts) -> str:
    """Return the resources of which a pod requests more than *allocatable*; empty if there are none."""
    requested = resource_lists.of_pod(spec, "requests")
    resource_lists.add(requested, resource_lists.read(spec.get("overhead")))
    cpu, memory = (requested.get(name, _ZERO) for name in ("cpu", "memory"))
    most_cpu, most_memory = (allocatable.get(name, _ZERO) for name in ("cpu", "memory"))
    texts = []
    if cpu > most_cpu:
        texts.append(f"cpu, requested: {cpu.milli_value()}, allocatable: {most_cpu.milli_value()}")
    if memory > most_memory:
        texts.append(f"memory, requested: {memory.value()}, allocatable: {most_memory.value()}")
    return "; ".join(texts)


def _with_cause(error: ApiError, reason: str) -> ApiError:
    details = dict(error.details or {})
    error.details = {**details, "causes": [*(details.get("causes") or ()), {"reason": reason}]}
    return error
