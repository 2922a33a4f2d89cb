"""Tests for the OwnerReferencesPermissionEnforcement admission plugin."""

from __future__ import annotations

from typing import Any

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.owner_references_permission_enforcement import (
    OwnerReferencesPermissionEnforcement,
)
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object

REGISTRY = build_registry(parse([]))
DELETE, EVERYWHERE = ("delete", "pods", ""), ("update", "*", "finalizers")
SET, NODE = ("update", "replicasets", "finalizers"), ("update", "nodes", "finalizers")


def owner(name: str = "o", *, blocks: bool = False, kind: str = "ReplicaSet", version: str = "apps/v1") -> Object:
    found: Object = {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}"}
    return {**found, "blockOwnerDeletion": True} if blocks else found


def pod(*owners: Object) -> Object:
    return {"metadata": {"name": "p", "namespace": "default", "ownerReferences": list(owners)}, "spec": {}}


async def test_owners_require_permissions() -> None:
    cannot_delete = "cannot set an ownerRef on a resource you can't delete: no, <nil>"
    cannot_block = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    missing = 'no matches for kind "Unknown" in version "v1"'
    blocking, unknown = owner(blocks=True), owner(blocks=True, kind="Unknown", version="v1")
    node = owner(blocks=True, kind="Node", version="v1")
    for title, new, old, permitted, expected in (
        ("new object", pod(owner()), None, [], ""),
        ("unchanged", pod(blocking), pod(blocking), [], ""),
        ("added", pod(owner()), pod(), [], cannot_delete),
        ("added and permitted", pod(owner()), pod(), [DELETE], ""),
        ("blocking", pod(blocking), None, [], cannot_block),
        ("blocking and permitted", pod(blocking), None, [SET], ""),
        ("blocking and permitted for all", pod(blocking), None, [EVERYWHERE], ""),
        ("blocking and removed", pod(), pod(blocking), [DELETE], ""),
        ("blocking before", pod(blocking, owner("b")), pod(blocking), [DELETE], ""),
        ("another blocks", pod(blocking, owner("b", blocks=True)), pod(blocking), [DELETE], cannot_block),
        ("unknown kind", pod(unknown), None, [], missing),
        ("node", pod(node), None, [NODE], ""),
        ("another kind is permitted", pod(node), None, [SET], cannot_block),
    ):
        requested: list[RequestInfo] = []

        async def authorize(
            user: User, info: RequestInfo, granted: Any = permitted, seen: Any = requested
        ) -> tuple[bool, str]:
            seen.append(info)
            return (info.verb, info.resource, info.subresource) in granted, "no"

        call = make_call(new, old, operation="UPDATE" if old else "CREATE")
        found = ""
        try:
            await AdmissionChain([OwnerReferencesPermissionEnforcement(authorize, REGISTRY)]).check(call)
        except ApiError as error:
            found = error.message
        assert (expected in found) if expected else not found, (title, found)
        for info in requested:
            expected_namespace = "" if info.resource in ("nodes", "*") else "default"
            assert info.namespace == expected_namespace, (title, info)


def test_status_of_pods_is_exempt() -> None:
    plugin: Any = OwnerReferencesPermissionEnforcement
    pods, maps = REGISTRY.find("", "v1", "pods"), REGISTRY.find("", "v1", "configmaps")
    found = plugin(None, REGISTRY)
    assert not found.concerns(pods, "UPDATE", "status")
    assert found.concerns(pods, "UPDATE", "")
    assert found.concerns(maps, "CREATE", "")
    assert not found.concerns(maps, "CONNECT", "")
