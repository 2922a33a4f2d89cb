"""Tests for the NamespaceLifecycle, NamespaceExists and NamespaceAutoProvision admission plugins."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.admission.plugins.namespace_auto_provision import NamespaceAutoProvision
from apiserver_stub.admission.plugins.namespace_exists import NamespaceExists
from apiserver_stub.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import PODS, make_call
from tests.unit.apiserver_stub.authz.conftest import Memory

NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1", "Namespace", "namespaces", namespaced=False)
REVIEWS = Resource("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
OTHER_REVIEWS = Resource("example.com", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
PRESENT, ENDING = {}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}
MISSING = 'namespaces "default" not found'


async def rejection(plugin: AdmissionPlugin, operation: str, **attributes: Any) -> str:
    obj = {"metadata": {"name": attributes.pop("name", "x")}}
    call = make_call(None if operation == "DELETE" else obj, obj, operation=operation, **attributes)
    try:
        await AdmissionChain([plugin]).check(call)
    except ApiError as error:
        return error.message
    return ""


def stored(metadata: Any) -> Any:
    """Return a store with the namespace default, unless *metadata* is ``None``."""
    store = Memory()
    if metadata is not None:
        store.put("core/namespaces", {"metadata": {"name": "default", **metadata}})
    return store


@pytest.mark.parametrize(
    ("namespace", "operation", "resource", "problem"),
    [
        (PRESENT, "CREATE", PODS, ""),
        (None, "CREATE", PODS, MISSING),
        (ENDING, "CREATE", PODS, "unable to create new content in namespace default because it is being terminated"),
        ({"labels": {"deletionTimestamp": "x"}}, "CREATE", PODS, ""),
        (ENDING, "UPDATE", PODS, ""),
        (ENDING, "DELETE", PODS, ""),
        (None, "CREATE", NODES, ""),
        (None, "CREATE", REVIEWS, ""),
        (None, "CREATE", OTHER_REVIEWS, MISSING),
    ],
)
@pytest.mark.row("admission.NamespaceLifecycle")
async def test_objects_are_created_only_in_active_namespaces(
    namespace: Any, operation: str, resource: Resource, problem: str
) -> None:
    found = await rejection(NamespaceLifecycle(stored(namespace), Identity()), operation, resource=resource)

    assert problem in found
    assert bool(found) == bool(problem)


async def test_cause_of_a_terminating_namespace_is_reported() -> None:
    call = make_call({"metadata": {"name": "p"}})

    with pytest.raises(ApiError) as error:
        await NamespaceLifecycle(stored(ENDING), Identity()).admit(call)

    message = "namespace default is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
    assert error.value.details == {"name": "p", "kind": "pods", "causes": [cause]}


@pytest.mark.parametrize(
    ("name", "resource", "is_rejected"),
    [
        ("default", NAMESPACES, True),
        ("kube-system", NAMESPACES, True),
        ("kube-public", NAMESPACES, True),
        ("kube-node-lease", NAMESPACES, False),
        ("default", POD_METRICS, False),
        ("default", NODES, False),
    ],
)
async def test_system_namespaces_are_not_deleted(name: str, resource: Resource, *, is_rejected: bool) -> None:
    plugin = NamespaceLifecycle(stored(PRESENT), Identity())

    found = await rejection(plugin, "DELETE", name=name, resource=resource)

    assert bool(found) == is_rejected
    assert ("this namespace may not be deleted" in found) == is_rejected


@pytest.mark.parametrize(
    ("namespace", "operation", "resource", "problem"),
    [
        (PRESENT, "UPDATE", PODS, ""),
        (None, "UPDATE", PODS, MISSING),
        (None, "CONNECT", PODS, ""),
        (None, "UPDATE", NODES, ""),
    ],
)
async def test_objects_are_written_only_in_existing_namespaces(
    namespace: Any, operation: str, resource: Resource, problem: str
) -> None:
    assert await rejection(NamespaceExists(stored(namespace)), operation, resource=resource) == problem


@pytest.mark.parametrize(
    ("namespace", "operation", "attributes", "created"),
    [
        (None, "CREATE", {}, ["default"]),
        (PRESENT, "CREATE", {}, []),
        (None, "CREATE", {"dry_run": True}, []),
        (None, "CREATE", {"subresource": "binding"}, []),
        (None, "CREATE", {"resource": NODES}, []),
        (None, "UPDATE", {}, []),
    ],
)
@pytest.mark.row("admission.NamespaceAutoProvision")
async def test_missing_namespace_of_a_new_object_is_created(
    namespace: Any, operation: str, attributes: Any, created: list[str]
) -> None:
    provided: list[str] = []

    async def provide(name: str) -> None:
        provided.append(name)

    assert not await rejection(NamespaceAutoProvision(stored(namespace), provide), operation, **attributes)

    assert provided == created
