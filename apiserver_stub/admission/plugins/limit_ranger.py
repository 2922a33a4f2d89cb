"""LimitRanger admission plugin: apply the defaults of limit ranges and enforce their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.aggregate import aggregate
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity

_KINDS = {"containers": "container", "initContainers": "init container"}


class LimitRanger(AdmissionPlugin):
    """Apply the defaults of limit ranges and enforce their bounds (spec: admission.LimitRanger)."""

    name = "LimitRanger"
    order = 700
    enabled_by_default = True
    resources = ("pods", "pods/resize", "persistentvolumeclaims")

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister = lister
        self._annotation = identity.label("limit-ranger")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        if call.resource.plural == "pods" and call.operation == "CREATE":
            for limits in self._limits(call):
                _fill(call.obj, limits, self._annotation)

    async def validate(self, call: AdmissionRequest) -> None:
        if call.resource.plural == "pods" and call.operation == "UPDATE" and call.subresource != "resize":
            return
        check = _check_pod if call.resource.plural == "pods" else _check_claim
        for limits in self._limits(call):
            if problems := list(check(call.obj.get("spec") or {}, limits)):
                raise call.forbidden(aggregate(problems))

    def _limits(self, call: AdmissionRequest) -> list[list[Object]]:
        """Return the limits of each limit range in the namespace."""
        return [
            (found.get("spec") or {}).get("limits") or []
            for found in self._lister.every("core/limitranges", call.namespace)
        ]


def _fill(pod: Object, limits: list[Object], annotation: str) -> None:
    """Set default requests and limits of containers without them, and record the changes in *annotation*."""
    default_requests: dict[str, str] = {}
    default_limits: dict[str, str] = {}
    for item in limits:
        if item.get("type") == "Container":
            default_requests |= item.get("defaultRequest") or {}
            default_limits |= item.get("default") or {}
    notes = []
    for kind, word in _KINDS.items():
        for container in pod["spec"].get(kind) or ():
            for member, defaults in (("requests", default_requests), ("limits", default_limits)):
                resources = container["resources"] = container.get("resources") or {}
                given = resources.get(member) or {}
                missing = sorted(defaults.keys() - given.keys())
                if missing:
                    resources[member] = {**given, **{name: defaults[name] for name in missing}}
                    notes.append(f"{', '.join(missing)} {member[:-1]} for {word} {container.get('name', '')}")
    if notes:
        metadata = pod["metadata"]
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), annotation: text}


def _check_pod(spec: Object, limits: list[Object]) -> Iterator[str]:
    for item in limits:
        kind = item.get("type") or ""
        if kind == "Container":
            for member in ("containers", "initContainers"):
                for container in spec.get(member) or ():
                    yield from _check(
                        kind,
                        item,
                        resource_lists.of_container(container, "requests"),
                        resource_lists.of_container(container, "limits"),
                    )
        elif kind == "Pod":
            yield from _check(
                kind, item, resource_lists.of_pod(spec, "requests"), resource_lists.of_pod(spec, "limits")
            )


def _check(kind: str, item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in resource_lists.read(item.get("min")).items():
        yield from _too_little(kind, name, bound, requests, limits)
    for name, bound in resource_lists.read(item.get("max")).items():
        request, limit = requests.get(name), limits.get(name)
        start = f"maximum {name} usage per {kind} is {bound}"
        if limit is None:
            yield f"{start}.  No limit is specified"
        elif limit > bound:
            yield f"{start}, but limit is {limit}"
        elif request is not None and request > bound:
            yield f"{start}, but request is {request}"
    for name, bound in resource_lists.read(item.get("maxLimitRequestRatio")).items():
        request, limit = requests.get(name), limits.get(name)
        start = f"{name} max limit to request ratio per {kind} is {bound}"
        if not request:
            yield f"{start}, but no request is specified or request is 0"
        elif not limit:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limit.nanos * 10**9 > bound.nanos * request.nanos:
            yield f"{start}, but provided ratio is {limit.nanos / request.nanos:f}"


def _too_little(
    kind: str, name: str, bound: Quantity, requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]
) -> Iterator[str]:
    request, limit = requests.get(name), limits.get(name)
    start = f"minimum {name} usage per {kind} is {bound}"
    if request is None:
        yield f"{start}.  No request is specified"
    elif request < bound:
        yield f"{start}, but request is {request}"
    elif limit is not None and limit < bound:
        yield f"{start}, but limit is {limit}"


def _check_claim(spec: Object, limits: list[Object]) -> Iterator[str]:
    requests = resource_lists.read((spec.get("resources") or {}).get("requests"))
    for item in limits:
        kind = item.get("type")
        if kind != "PersistentVolumeClaim":
            continue
        for name, bound in resource_lists.read(item.get("min")).items():
            yield from _too_little(kind, name, bound, requests, {})
        for name, bound in resource_lists.read(item.get("max")).items():
            request = requests.get(name)
            start = f"maximum {name} usage per {kind} is {bound}"
            if request is None:
                yield f"{start}.  No request is specified"
            elif request > bound:
                yield f"{start}, but request is {request}"
