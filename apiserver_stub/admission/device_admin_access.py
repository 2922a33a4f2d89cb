"""DeviceAdminAccess: require a label of the namespace for admin access to devices.

Upstream enforces it in the validation of the kinds; it is always enabled.
"""

from __future__ import annotations

from apiserver_stub.admission.listers import Lister, labels_of
from apiserver_stub.admission.plugin import AdmissionPlugin
from apiserver_stub.apimachinery.device_versions import structured
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import forbidden_value, invalid, qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class DeviceAdminAccess(AdmissionPlugin):
    """Reject claims and templates with admin access in other namespaces."""

    name = "DeviceAdminAccess"
    operations = ("CREATE", "UPDATE")

    def __init__(self, lister: Lister, identity: Identity) -> None:
        group = identity.group("resource")
        claims = qualified("resourceclaims", group)
        self.resources = (claims, f"{claims}/status", qualified("resourceclaimtemplates", group))
        self._lister, self._label = lister, identity.label("admin-access", "resource")

    async def validate(self, call: AdmissionRequest) -> None:
        obj, old = structured(call.obj), structured(call.old or {})
        if call.subresource:
            field = _in_results(obj)
            if _in_results(old):
                return  # The allocation is immutable.
        else:
            field = _in_requests(obj) if call.operation == "CREATE" else ""
        if not field or labels_of(self._lister.namespace(call.namespace)).get(self._label) == "true":
            return
        detail = f"admin access to devices requires the `{self._label}: true` label on the containing namespace"
        resource = call.resource
        raise invalid(resource.group, resource.kind, call.target, [forbidden_value(field, detail)])


def _in_requests(obj: Object) -> str:
    """Return the field of the first request with admin access, empty without one."""
    path = "spec.spec" if obj.get("kind") == "ResourceClaimTemplate" else "spec"
    for index, request in enumerate(dig(obj, (*path.split("."), "devices", "requests")) or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return f"{path}.devices.requests[{index}].adminAccess"
    return ""


def _in_results(obj: Object) -> str:
    for index, result in enumerate(dig(obj, ("status", "allocation", "devices", "results")) or ()):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""
