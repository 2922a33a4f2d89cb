"""Tests for the checks of the tokens that node agents request."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.node_restriction.tokens import TokenChecks
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object
from tests.unit.apiserver_stub.authz.conftest import Memory

BOUND = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


async def problem(
    reference: Any = BOUND,
    audiences: list[str] | None = None,
    volumes: list[Object] | None = None,
    *,
    node: str = "n",
    restricts: bool = True,
    permitted: bool = False,
    objects: dict[str, Object] | None = None,
) -> str:
    """Return the error of a token request for a pod with *volumes*, empty if it is allowed."""
    store: Any = Memory()
    spec = {"nodeName": node, "volumes": volumes}
    store.put("core/pods", {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec})
    for collection, obj in (objects or {}).items():
        store.put(collection, obj)
    requested: list[RequestInfo] = []

    async def authorize(user: User, info: RequestInfo) -> tuple[bool, str]:
        requested.append(info)
        return permitted, ""

    checks = TokenChecks(Lister(store), authorize, Identity(), restricts_audiences=restricts)
    spec = {"boundObjectRef": reference, "audiences": audiences}
    try:
        await checks.check(make_call({"metadata": {"name": "robot"}, "spec": spec}, user="system:node:n"), "n")
    except ApiError as error:
        return f"{error.code} {error.message}"
    for info in requested:
        assert (info.verb, info.namespace, info.name) == ("request-serviceaccounts-token-audience", "default", "robot")
    return ""


@pytest.mark.parametrize("restricts", [True, False])
async def test_token_must_be_bound_to_a_pod_of_the_node(*, restricts: bool) -> None:
    unbound, no_uid = "node requested token not bound to a pod", "node requested token with a pod binding without a uid"
    for reference, node, expected in (
        (None, "n", unbound),
        ({}, "n", unbound),
        ({**BOUND, "kind": "Secret"}, "n", unbound),
        ({**BOUND, "apiVersion": "v2"}, "n", unbound),
        ({**BOUND, "name": ""}, "n", unbound),
        ({**BOUND, "uid": ""}, "n", no_uid),
        ({**BOUND, "name": "q"}, "n", 'pod "q" not found'),
        ({**BOUND, "uid": "v"}, "n", "the UID in the bound object reference (v) does not match the UID in record"),
        (BOUND, "m", "node requested token bound to a pod scheduled on a different node"),
        (BOUND, "n", ""),
    ):
        volumes = [{"projected": {"sources": [{"serviceAccountToken": {}}]}}]
        found = await problem(reference, None, volumes, node=node, restricts=restricts)
        assert (expected in found) if expected else not found, (reference, node, found)


async def test_audience_must_be_in_a_volume_of_the_pod_or_be_permitted() -> None:
    def projected(audience: str | None) -> Object:
        return {
            "name": "t",
            "projected": {"sources": [{"secret": {}}, {"serviceAccountToken": {"audience": audience}}]},
        }

    for title, audiences, volumes, permitted, expected in (
        ("several", ["a", "b"], [projected("a")], True, "node may only request 0 or 1 audiences"),
        ("projected", ["a"], [projected("a")], False, ""),
        ("default", None, [projected(None)], False, ""),
        ("another", ["a"], [projected("b")], False, 'audience "a" not found in pod spec volume'),
        ("default is not projected", [], [projected("b")], False, 'audience "" not found in pod spec volume'),
        ("another, but permitted", ["a"], [projected("b")], True, ""),
        ("no volumes", ["a"], None, False, "system:node:n is not authorized to request tokens for this audience"),
    ):
        found = await problem(BOUND, audiences, volumes, permitted=permitted)
        assert (expected in found) if expected else not found, (title, found)
    assert not await problem(BOUND, ["a", "b"], None, restricts=False)


async def test_audiences_of_the_csi_drivers_of_volumes_are_allowed() -> None:
    def driver(name: str, *audiences: str | None) -> Object:
        requests = [{"audience": audience} for audience in audiences]
        return {"metadata": {"name": name}, "spec": {"tokenRequests": requests}}

    def claim(name: str, volume: str = "v") -> Object:
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": volume}}

    drivers, claims, stored = "storage.k8s.io/csidrivers", "core/persistentvolumeclaims", "core/persistentvolumes"
    inline = {"name": "i", "csi": {"driver": "d"}}
    by_claim = {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}
    ephemeral = {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}}
    volume = {"metadata": {"name": "v"}, "spec": {"csi": {"driver": "d"}}}
    migrated = {"metadata": {"name": "v"}, "spec": {"awsElasticBlockStore": {}}}
    prefix = 'error validating audience "a": '
    for title, found, objects, expected in (
        ("inline", [inline], {drivers: driver("d", "a")}, ""),
        ("another audience", [inline], {drivers: driver("d", "b")}, 'audience "a" not found'),
        ("missing driver", [inline], {}, f'{prefix}csidriver.storage.k8s.io "d" not found'),
        ("missing driver twice", [inline, inline], {}, f'{prefix}csidriver.storage.k8s.io "d" not found'),
        ("claim", [by_claim], {drivers: driver("d", "a"), claims: claim("c"), stored: volume}, ""),
        ("missing claim", [by_claim], {drivers: driver("d", "a")}, f'{prefix}persistentvolumeclaim "c" not found'),
        ("missing volume", [by_claim], {claims: claim("c")}, f'{prefix}persistentvolume "v" not found'),
        ("several problems", [inline, by_claim], {}, f'{prefix}[csidriver.storage.k8s.io "d" not found, persist'),
        ("ephemeral", [ephemeral], {drivers: driver("d", "a"), claims: claim("p-e"), stored: volume}, ""),
        ("migrated", [by_claim], {drivers: driver("ebs.csi.aws.com", "a"), claims: claim("c"), stored: migrated}, ""),
        ("no driver", [{"name": "x", "emptyDir": {}}], {}, 'audience "a" not found'),
        ("no audiences", [inline], {drivers: {"metadata": {"name": "d"}, "spec": {}}}, 'audience "a" not found'),
    ):
        text = await problem(BOUND, ["a"], found, objects=objects)
        assert (expected in text) if expected else not text, (title, text)
