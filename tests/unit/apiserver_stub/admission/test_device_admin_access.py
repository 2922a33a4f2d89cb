"""Tests for the label that admin access to devices requires."""

from __future__ import annotations

from typing import Any

from apiserver_stub.admission.device_admin_access import DeviceAdminAccess
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object
from tests.unit.apiserver_stub.authz.conftest import Memory

CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")


def claim(*, admin: bool = True, allocated: bool = False, template: bool = False) -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": admin}}
    spec: Object = {"devices": {"requests": [{"name": "q", "exactly": {}}, request]}}
    results = [{"adminAccess": admin}] if allocated else []
    return {
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"spec": spec} if template else spec,
        "status": {"allocation": {"devices": {"results": results}}},
    }


async def test_admin_access_requires_the_label_of_the_namespace() -> None:
    field, in_template = "spec.devices.requests[1].adminAccess", "spec.spec.devices.requests[1].adminAccess"
    result = "status.allocation.devices.results[0].adminAccess"
    for title, label, new, old, subresource, expected in (
        ("created", None, claim(), None, "", field),
        ("template", None, claim(template=True), None, "", in_template),
        ("labeled", "true", claim(), None, "", ""),
        ("another value", "yes", claim(), None, "", field),
        ("no admin access", None, claim(admin=False), None, "", ""),
        ("updated", None, claim(), claim(), "", ""),
        ("allocated", None, claim(allocated=True), claim(), "status", result),
        ("allocated and labeled", "true", claim(allocated=True), claim(), "status", ""),
        ("allocated before", None, claim(allocated=True), claim(allocated=True), "status", ""),
        ("not allocated", None, claim(), claim(), "status", ""),
    ):
        store: Any = Memory()
        labels = {"resource.kubernetes.io/admin-access": label} if label else {}
        store.put("core/namespaces", {"metadata": {"name": "default", "labels": labels}})
        operation = "CREATE" if old is None else "UPDATE"
        call = make_call(new, old, resource=CLAIMS, operation=operation, subresource=subresource)
        found = ""
        try:
            await DeviceAdminAccess(Lister(store), Identity()).validate(call)
        except ApiError as error:
            found = error.message
        assert (f"{expected}: Forbidden: admin access" in found) if expected else not found, (title, found)
