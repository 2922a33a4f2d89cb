"""Validation of API services."""

from __future__ import annotations

import base64

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, not_supported, required
from apiserver_stub.validation.conditions import STATUSES
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import service_name_problems, subdomain_problems

GROUP_LIMIT, VERSION_LIMIT = 20_000, 1_000
_PRIORITIES = (("groupPriorityMinimum", GROUP_LIMIT), ("versionPriority", VERSION_LIMIT))


def api_service_name_problems(name: str, spec: Object) -> list[str]:
    """Return the reasons why *name* is not that of the group version in *spec*."""
    if problems := path_problems(name):
        return problems
    expected = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    return [] if name == expected else [f'must be `spec.version+"."+spec.group`: "{expected}"']


def validate_api_service(spec: Object) -> list[Cause]:
    """Return the errors in the specification of an API service."""
    causes, group, version = [], spec.get("group") or "", spec.get("version") or ""
    if not group and version != "v1":
        causes.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        causes += invalid_each("spec.group", group, subdomain_problems(group))
    causes += invalid_each("spec.version", version, service_name_problems(version))
    for name, limit in _PRIORITIES:
        if not 0 < (value := spec.get(name) or 0) <= limit:
            causes.append(invalid_value(f"spec.{name}", value, f"must be positive and less than {limit}"))
    if (service := spec.get("service")) is None:
        return causes + _validate_local(spec)
    causes += [required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
    if not 0 < (port := service.get("port") or 0) <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value("spec.service.port", port, detail))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return causes


def validate_api_service_status(status: Object) -> list[Cause]:
    """Return the errors in the status of an API service."""
    return [
        not_supported(f"status.conditions[{index}].status", condition.get("status") or "", STATUSES)
        for index, condition in enumerate(status.get("conditions") or ())
        if condition.get("status") not in STATUSES
    ]


def _validate_local(spec: Object) -> list[Cause]:
    causes = []
    if bundle := spec.get("caBundle"):
        size = f"{len(base64.b64decode(bundle))} bytes"
        causes.append(invalid_value("spec.caBundle", size, "local APIServices may not have a caBundle"))
    if spec.get("insecureSkipTLSVerify"):
        detail = "local APIServices may not have insecureSkipTLSVerify"
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, detail))
    return causes
