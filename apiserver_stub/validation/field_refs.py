"""Validation of references to fields of the pod and to resources of its containers (downward API)."""

from __future__ import annotations

from collections.abc import Collection

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.quantities import amount
from nodeagent.base.names import qualified_name_problems

HOST_IPS = "status.hostIPs"
VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    HOST_IPS,
    "status.podIP",
    "status.podIPs",
)
"""Fields that environment variables can refer to."""
FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
"""Fields that files of volumes can refer to."""

_MAPS = ("metadata.annotations", "metadata.labels")
_KNOWN = frozenset((*VARIABLE_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"))
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_CPU_RULE = "only divisor's values 1m and 1 are supported with the cpu resource"
_BYTES_RULE = f"only divisor's values {', '.join(_BYTE_UNITS)} are supported with the"


def validate_field_ref(ref: Object, field: str, fields: Collection[str], options: PodOptions) -> list[Cause]:
    """Return the errors in a reference to a field of the pod, one of *fields*."""
    path = ref.get("fieldPath") or ""
    causes = _validate_path(ref.get("apiVersion") or "", path, field, fields)
    if path == HOST_IPS and not options.allow_host_ips:
        causes.append(forbidden_value(field, "may not be set when feature gate 'PodHostIPs' is not enabled"))
    return causes


def validate_resource_ref(ref: Object, field: str, *, needs_container: bool) -> list[Cause]:
    """Return the errors in a reference to a resource of a container."""
    resource = ref.get("resource") or ""
    causes = []
    if needs_container and not ref.get("containerName"):
        causes.append(required(f"{field}.containerName"))
    elif not resource:
        causes.append(required(f"{field}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        causes.append(not_supported(f"{field}.resource", resource, _RESOURCES))
    return causes + _validate_divisor(resource, str(ref.get("divisor") or "0"), f"{field}.divisor")


def _validate_path(version: str, path: str, field: str, fields: Collection[str]) -> list[Cause]:
    if not version:
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    if version == "v1" and path in fields:
        return []
    name, key = _split_subscript(path)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif key is not None and name not in _MAPS:
        problem = f"field label does not support subscript: {path}"
    elif key is None and path not in _KNOWN and path != "spec.host":
        problem = f"field label not supported: {path}"
    if problem:
        return [invalid_value(f"{field}.fieldPath", path, f"error converting fieldPath: {problem}")]
    if key is not None:
        name = key.lower() if name == "metadata.annotations" else key
        return invalid_each(field, name, qualified_name_problems(name))
    if path == "spec.host":  # Name of spec.nodeName for old clients.
        path = "spec.nodeName"
    return [] if path in fields else [not_supported(f"{field}.fieldPath", path, sorted(fields))]


def _split_subscript(path: str) -> tuple[str, str | None]:
    """Return the path and the key of ``path['key']``; the key is ``None`` without one."""
    name, bracket, key = path.removesuffix("']").partition("['")
    return (name, key) if path.endswith("']") and bracket and name else (path, None)


def _validate_divisor(resource: str, text: str, field: str) -> list[Cause]:
    if not amount(text):
        return []
    if resource in ("limits.cpu", "requests.cpu"):
        return [] if text in ("1m", "1") else [invalid_value(field, resource, _CPU_RULE)]
    kind = ""
    if resource in ("limits.memory", "requests.memory"):
        kind = "memory"
    elif resource in ("limits.ephemeral-storage", "requests.ephemeral-storage"):
        kind = "local ephemeral storage"
    elif resource.startswith(_HUGE_PAGES):
        kind = "hugepages"
    if kind and text not in _BYTE_UNITS:
        return [invalid_value(field, resource, f"{_BYTES_RULE} {kind} resource")]
    return []
