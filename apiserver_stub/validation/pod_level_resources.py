"""Validation of pod-level resources (``spec.resources``)."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery import resource_lists
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.resource_lists import HUGE_PAGES, is_pod_level
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.quantities import validate_resource_name
from apiserver_stub.validation.requirements import validate_requirements

_SUPPORTED = ("cpu", "hugepages-", "memory")


def validate_pod_level_resources(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the resources at *field* of the pod spec *spec*."""
    resources = spec["resources"]
    if dig(spec, ("os", "name")) == "windows":
        return [forbidden_value(field, "may not be set for a windows pod")]
    causes = []
    if resources.get("claims") is not None:
        detail = "claims may not be set for Resources at pod-level"
        causes.append(forbidden_value(f"{field}.claims", detail))
    causes += validate_requirements(resources, (), field, options, validate_name=_validate_name)
    return [*causes, *_exceeding(spec, field)]


def _validate_name(name: str, field: str, _label_domain: str) -> list[Cause]:
    causes = validate_resource_name(name, field)
    return causes or ([] if is_pod_level(name) else [not_supported(field, name, _SUPPORTED)])


def _exceeding(spec: Object, field: str) -> Iterator[Cause]:
    """Yield the errors in requests and limits that are less than those of the containers."""
    requests, limits = (resource_lists.read(spec["resources"].get(member)) for member in ("requests", "limits"))
    for name, total in resource_lists.of_containers(spec, "requests").items():
        if name in requests and total > requests[name]:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            yield invalid_value(f"{field}.requests[{name}]", str(requests[name]), detail)
    for name, total in resource_lists.of_containers(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in limits and total > limits[name]:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            yield invalid_value(f"{field}.limits[{name}]", str(limits[name]), detail)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in resource_lists.of_container(container, "limits").items():
            if name in limits and limit > limits[name]:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid_value(f"{field}.containers[{index}][{name}].limits", str(limit), detail)
