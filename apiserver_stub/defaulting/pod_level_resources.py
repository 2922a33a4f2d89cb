"""Defaults of pod-level resources (``spec.resources``), from the pod's limits and the requests of its containers."""

from __future__ import annotations

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import HUGE_PAGES, is_pod_level


def default_pod_level_resources(spec: Object) -> None:
    """Set missing limits of huge pages, then missing requests, if pod-level resources are partly set.

    A limit of huge pages is the total of the containers. A request is the total of the containers, otherwise the limit.
    """
    resources = spec.get("resources")
    if not resources:
        return
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if not requests and not limits:
        return
    for name, total in resource_lists.of_containers(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(total))
    if limits:
        resources["limits"] = limits
        for name, total in resource_lists.of_containers(spec, "requests").items():
            if is_pod_level(name) and not name.startswith(HUGE_PAGES):
                requests.setdefault(name, str(total))
        for name, limit in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests
