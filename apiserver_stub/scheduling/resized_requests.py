"""Requests of pods that are being resized: a node may still reserve the previous ones."""

from __future__ import annotations

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.resource_lists import Amounts


def with_reserved_requests(spec: Object, status: Object) -> Object:
    """Return *spec* with the requests that the node reserves for the pod and its containers.

    They are the highest of those in the spec, those granted, and those in effect; a resize that the node can never
    grant is ignored.
    """
    infeasible = any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )
    reported = {
        each.get("name"): each
        for kind in ("containerStatuses", "initContainerStatuses")
        for each in status.get(kind) or ()
        if each.get("resources") is not None
    }
    changes: Object = {}
    for kind in ("containers", "initContainers"):
        containers = spec.get(kind) or []
        if any(container.get("name") in reported for container in containers):
            changes[kind] = [
                _reserved(container, reported.get(container.get("name")), infeasible=infeasible)
                if kind == "containers" or container.get("restartPolicy") == "Always"
                else container
                for container in containers
            ]
    if spec.get("resources") and status.get("resources"):
        changes["resources"] = _reserved(spec, status, infeasible=infeasible)["resources"]
    return {**spec, **changes}


def _reserved(owner: Object, status: Object | None, *, infeasible: bool) -> Object:
    """Return a container, or the spec of a pod, with the requests that are reserved for it."""
    if status is None:
        return owner
    total: Amounts = {} if infeasible else resource_lists.read(dig(owner, ("resources", "requests")))
    for requests in (dig(status, ("resources", "requests")), status.get("allocatedResources")):
        resource_lists.raise_to(total, resource_lists.read(requests))
    return {**owner, "resources": {**(owner.get("resources") or {}), "requests": resource_lists.write(total)}}
