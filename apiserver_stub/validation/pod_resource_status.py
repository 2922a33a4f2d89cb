"""Validation of the status of resources that are allocated to pods: claims for extended resources, and health."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from nodeagent.base.names import label_problems, subdomain_problems
from nodeagent.base.release import Release

_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_MESSAGE_LIMIT_BYTES, _NEWER_WORDING = 2048, Release(1, 36)
_NO_REQUEST = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)
_NO_CONTAINER = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
_NO_CLAIM = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)
_CLAIM = "claim:"


def validate_extended_claim(status: Object, spec: Object, field: str) -> list[Cause]:
    """Return the errors in the claim for the extended resources of a pod."""
    mappings = status.get("requestMappings") or []
    kinds = ("initContainers", "containers")
    containers = {item.get("name"): item for kind in kinds for item in spec.get(kind) or ()}
    causes = [] if mappings else [required(f"{field}.requestMappings", "at least one request mapping is required")]
    seen = set()
    for index, mapping in enumerate(mappings):
        path = f"{field}.requestMappings[{index}]"
        keys = {name: mapping.get(name) or "" for name in ("containerName", "resourceName", "requestName")}
        container = containers.get(keys["containerName"])
        if container is None:
            causes.append(invalid_value(f"{path}.containerName", keys["containerName"], _NO_CONTAINER))
        elif keys["resourceName"] not in ((container.get("resources") or {}).get("requests") or {}):
            causes.append(invalid_value(f"{path}.resourceName", keys["resourceName"], _NO_REQUEST))
        request = keys["requestName"]
        causes += invalid_each(f"{field}.requestName", request, label_problems(request))
        key = tuple(keys.values())
        if key in seen:
            causes += [duplicate(f"{path}.{name}", value) for name, value in keys.items()]
        seen.add(key)
    if not (claim := status.get("resourceClaimName")):
        return [*causes, required(f"{field}.resourceClaimName")]
    return causes + invalid_each(f"{field}.resourceClaimName", claim, subdomain_problems(claim))


def validate_resource_health(status: Object, spec: Object) -> list[Cause]:
    """Return the errors in the health of allocated resources of all containers."""
    causes = []
    for kind in ("containers", "initContainers"):
        containers = {item.get("name"): item for item in spec.get(kind) or ()}
        field = f"{kind.removesuffix('s')}Statuses"
        for index, item in enumerate(status.get(field) or ()):
            for position, resource in enumerate(item.get("allocatedResourcesStatus") or ()):
                path = f"status.{field}[{index}].allocatedResourcesStatus[{position}]"
                causes += _validate_resource(resource, containers.get(item.get("name")), path)
    for index, item in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if item.get("allocatedResourcesStatus"):
            path = f"status.ephemeralContainerStatuses[{index}].allocatedResourcesStatus"
            causes.append(forbidden_value(path, "must not be specified in container status"))
    return causes


def _validate_resource(status: Object, container: Object | None, field: str) -> list[Cause]:
    causes, name = [], status.get("name") or ""
    if container is not None:
        resources = container.get("resources") or {}
        if name.startswith(_CLAIM):
            claims = resources.get("claims") or ()
            known = {
                f"{_CLAIM}{claim.get('name') or ''}" + (f"/{request}" if (request := claim.get("request")) else "")
                for claim in claims
            }
            detail = _NO_CLAIM
        else:
            known, detail = set(resources.get("requests") or ()), "must match one of the container's resource requests"
        if name not in known:
            causes.append(invalid_value(f"{field}.name", name, detail))
    seen = set()
    for index, resource in enumerate(status.get("resources") or ()):
        path, key = f"{field}.resources[{index}]", resource.get("resourceID") or ""
        if (health := resource.get("health") or "") not in _HEALTH:
            causes.append(not_supported(f"{path}.health", health, _HEALTH))
        if (message := resource.get("message")) is not None:
            if not message:
                causes.append(required(f"{path}.message", "must be non-empty if specified"))
            elif len(message.encode()) > _MESSAGE_LIMIT_BYTES:
                causes.append(too_long(f"{path}.message", _MESSAGE_LIMIT_BYTES, _NEWER_WORDING))
        if key in seen:
            causes.append(duplicate(f"{path}.resourceID", key))
        seen.add(key)
    return causes
