"""Tests for the permissions for allocations and for the status of devices in resource claims."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.claim_status_permission import ClaimStatusPermission
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

GROUP = "resource.k8s.io"
CLAIMS = Resource(GROUP, "v1", "ResourceClaim", "resourceclaims")
ACCOUNT = "system:serviceaccount:drivers:gpu"
JANE = User("jane")


def allocated(node: str = "n1", **status: Any) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"allocation": {"devices": {"results": []}, "nodeSelector": selector}, **status}


def device(state: str, driver: str = "gpu.example.com") -> dict[str, Any]:
    return {"driver": driver, "pool": "p", "device": "d", "conditions": [{"type": state}]}


async def checked(
    new: dict[str, Any], old: dict[str, Any], *allowed: str, user: User = JANE, devices: bool = True
) -> tuple[list[str], list[str]]:
    """Return the checked permissions, and the fields of the errors."""
    checks: list[str] = []

    async def decide(user: User, info: RequestInfo) -> tuple[bool, str]:
        location = "/".join(filter(None, (info.namespace, info.name)))
        checks.append(f"{info.verb} {info.subresource} {location}".strip())
        return checks[-1] in allowed, ""

    plugin = ClaimStatusPermission(decide, Identity(), checks_devices=devices)
    metadata = {"name": "c", "namespace": "default"}
    old, new = ({"metadata": metadata, "status": status} for status in (old, new))
    call = make_call(new, old, resource=CLAIMS, verb="update", user=user)
    try:
        await plugin.validate(call)
    except ApiError as error:
        return checks, [cause["field"] for cause in (error.details or {})["causes"]]
    return checks, []


@pytest.mark.parametrize(
    ("new", "old"),
    [(allocated(), {}), ({}, allocated()), (allocated(reservedFor=[{"uid": "u"}]), allocated())],
)
async def test_allocation_and_reservation_need_the_permission_to_bind(new: Any, old: Any) -> None:
    assert await checked(new, old) == (["update binding"], ["status.allocation"])
    assert await checked(new, old, "update binding") == (["update binding"], [])


async def test_unchanged_status_needs_no_permission() -> None:
    status = allocated(devices=[device("Ready")])

    assert await checked(status, status) == ([], [])


async def test_status_of_devices_needs_a_permission_for_each_driver() -> None:
    new = allocated(devices=[device("Ready"), device("Ready", "nic.example.com")])
    first, second = (f"arbitrary-node:update driver default/{name}" for name in ("gpu.example.com", "nic.example.com"))

    assert await checked(new, allocated(), second) == ([first, second], ["status.devices"])
    assert await checked(new, allocated(devices=new["devices"][1:]), first) == ([first], [])
    assert await checked(new, allocated(), devices=False) == ([], [])


@pytest.mark.parametrize(("node", "verbs"), [("n1", ["associated-node", "arbitrary-node"]), ("n2", ["arbitrary-node"])])
async def test_driver_on_the_node_of_the_claim_has_a_separate_verb(node: str, verbs: list[str]) -> None:
    user = User(ACCOUNT, extra={"authentication.kubernetes.io/node-name": (node,)})

    checks, errors = await checked(allocated(devices=[device("Ready")]), allocated(), user=user)

    assert checks == [f"{verb}:update driver default/gpu.example.com" for verb in verbs]
    assert errors == ["status.devices"]


NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("terms", "is_one_node"),
    [
        ([{"matchFields": [NAME]}], True),
        ([{"matchFields": [NAME]}] * 2, False),
        ([{"matchFields": [NAME, NAME]}], False),
        ([{"matchFields": [NAME], "matchExpressions": [{"key": "a", "operator": "Exists"}]}], False),
        ([{"matchFields": []}], False),
        ([{"matchFields": [{**NAME, "key": "metadata.uid"}]}], False),
        ([{"matchFields": [{**NAME, "operator": "NotIn"}]}], False),
        ([{"matchFields": [{**NAME, "values": ["n1", "n2"]}]}], False),
        ([], False),
        (None, False),
    ],
)
async def test_claim_is_on_a_node_if_its_selector_allows_only_this(terms: Any, *, is_one_node: bool) -> None:
    user = User(ACCOUNT, extra={"authentication.kubernetes.io/node-name": ("n1",)})
    new = allocated(devices=[device("Ready")])
    new["allocation"]["nodeSelector"]["nodeSelectorTerms"] = terms

    checks, _ = await checked(new, {"allocation": new["allocation"]}, user=user)

    assert ("associated-node" in checks[0]) is is_one_node


async def test_only_service_accounts_are_drivers_on_a_node() -> None:
    extra = {"authentication.kubernetes.io/node-name": ("n1",)}
    new = allocated(devices=[device("Ready")])

    for user in (User("jane", extra=extra), User(ACCOUNT), User(ACCOUNT, extra={next(iter(extra)): ("n1", "n2")})):
        checks, _ = await checked(new, allocated(), user=user)
        assert checks == ["arbitrary-node:update driver default/gpu.example.com"]
