"""Tests for the RBAC authorizer and its incrementally updated index."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz import rbac
from apiserver_stub.authz.rbac import NoSuchRole, Rbac, RbacNames
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import ALICE, group_subject, rule, to, user_subject

RBAC = RbacNames.of(Identity())


@pytest.mark.row("opt.authorization-mode")
async def test_cluster_role_bindings_apply_to_all_namespaces(store: Any) -> None:
    store.role("reader", rule("get", "pods"), rule("get", paths="/metrics"))
    store.role("writer", rule("create", "pods"), namespace="a")
    store.bind("everywhere", "ClusterRole/reader", user_subject("alice"))
    store.bind("here", "Role/writer", group_subject("dev"), namespace="a")
    store.bind("there", "ClusterRole/reader", user_subject("bob"), namespace="b")
    authorizer, bob = Rbac(store, Identity()), User("bob")

    async def may(user: User, info: RequestInfo) -> bool:
        return (await authorizer.authorize(user, info)).allowed

    assert await may(ALICE, to("get", "pods"))
    assert await may(ALICE, to("get", "pods", "b"))
    assert await may(ALICE, RequestInfo("get", "/metrics"))
    assert await may(ALICE, to("create", "pods", "a"))
    assert not await may(ALICE, to("create", "pods", "b"))
    assert not await may(ALICE, to("create", "pods"))
    assert await may(bob, to("get", "pods", "b"))
    assert not await may(bob, to("get", "pods"))
    assert not await may(bob, RequestInfo("get", "/metrics"))


async def test_reason_contains_binding_role_and_subject(store: Any) -> None:
    store.role("r", rule("get", "pods"))
    store.role("r", rule("list", "pods"), namespace="a")
    store.bind("b", "ClusterRole/r", user_subject("carol"), group_subject("dev"))
    store.bind("n", "Role/r", {"kind": "ServiceAccount", "name": "sa"}, namespace="a")
    authorizer, account = Rbac(store, Identity()), User("system:serviceaccount:a:sa")

    assert (await authorizer.authorize(ALICE, to("get", "pods"))).reason == (
        'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"'
    )
    assert (await authorizer.authorize(account, to("list", "pods", "a"))).reason == (
        'RBAC: allowed by RoleBinding "n/a" of Role "r" to ServiceAccount "sa/a"'
    )


async def test_missing_role_is_reported_in_the_reason(store: Any) -> None:
    store.bind("b", "ClusterRole/gone", user_subject("alice"))
    store.bind("c", "Role/lost", user_subject("alice"), namespace="a")
    authorizer = Rbac(store, Identity())

    cluster, local = [await authorizer.authorize(ALICE, to("get", "pods", namespace)) for namespace in ("", "a")]

    assert cluster.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    assert local.reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )


async def test_names_are_distinguished_after_one_was_allowed(store: Any) -> None:
    store.role("r", rule("get", "secrets", names="mine"))
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    authorizer = Rbac(store, Identity())

    requested = [to("get", "secrets", "a", name) for name in ("mine", "x", "")]
    allowed = [(await authorizer.authorize(ALICE, info)).allowed for info in requested]

    assert allowed == [True, False, False]


async def test_names_of_several_rules_are_allowed(store: Any) -> None:
    store.role("r", rule("get", "secrets", names="a"), rule("get", "secrets", names="b"))
    store.role("all", rule("get", "secrets"), namespace="n")
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    store.bind("c", "Role/all", user_subject("alice"), namespace="n")
    authorizer = Rbac(store, Identity())

    requested = [to("get", "secrets", *where) for where in (("m", "a"), ("m", "b"), ("m", "c"), ("n", "c"))]
    allowed = [(await authorizer.authorize(ALICE, info)).allowed for info in requested]

    assert allowed == [True, True, False, True]


async def test_changed_permissions_apply_to_the_next_request(store: Any) -> None:
    authorizer, info = Rbac(store, Identity()), to("get", "pods")

    async def may() -> bool:
        return (await authorizer.authorize(ALICE, info)).allowed

    assert not await may()
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    store.role("r", rule("get", "pods"))
    assert await may()
    store.role("r", rule("list", "pods"))
    assert not await may()
    store.role("r", rule("get", "pods"))
    store.bind("b", "ClusterRole/r", user_subject("bob"))
    assert not await may()
    store.bind("b", "ClusterRole/r", group_subject("dev"))
    assert await may()
    store.remove(RBAC.cluster_bindings, "b")
    assert not await may()


async def test_changes_are_read_once(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store.role("r", rule("get", "pods"))
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    authorizer = Rbac(store, Identity())
    await authorizer.authorize(ALICE, to("get", "pods"))
    read: list[str] = []
    index = authorizer._index
    put = index.put

    def note(collection: str, key: str, obj: Object) -> None:
        read.append(key)
        put(collection, key, obj)

    monkeypatch.setattr(index, "put", note)

    store.put("core/pods", {"metadata": {"name": "p"}})
    store.role("other", rule("get", "nodes"))
    for _ in range(3):
        await authorizer.authorize(ALICE, to("get", "pods"))

    assert read == ["other"]


async def test_too_many_missed_changes_rebuild_the_index(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apiserver_stub.storage.collection.HISTORY_CHANGES", 2)
    store.role("r", rule("get", "pods"))
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    authorizer = Rbac(store, Identity())
    assert (await authorizer.authorize(ALICE, to("get", "pods"))).allowed

    store.remove(RBAC.cluster_bindings, "b")
    for name in ("c", "d", "e"):
        store.bind(name, "ClusterRole/r", user_subject("bob"))

    assert not (await authorizer.authorize(ALICE, to("get", "pods"))).allowed
    assert (await authorizer.authorize(User("bob"), to("get", "pods"))).allowed


async def test_index_is_updated_between_requests(store: Any) -> None:
    authorizer = Rbac(store, Identity())
    keeping = asyncio.ensure_future(authorizer.follower.keep_current())
    await asyncio.sleep(0)
    store.role("r", rule("get", "pods"))
    for _ in range(6):
        await asyncio.sleep(0)

    assert authorizer._index.rules_of_role("ClusterRole", "r", "")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_cached_decisions_are_limited(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "_MAX_CACHED_USERS", 3)
    monkeypatch.setattr(rbac, "_MAX_CACHED_RESULTS", 3)
    store.role("r", rule("get", "*"))
    store.bind("b", "ClusterRole/r", group_subject("dev"))
    authorizer = Rbac(store, Identity())

    for number in range(9):
        user = User(f"u{number}", groups=("dev",))
        for other in range(9):
            assert (await authorizer.authorize(user, to("get", f"r{other}"))).allowed

    assert len(authorizer._index._rights) == 3
    assert all(len(rights._results) <= 3 for rights in authorizer._index._rights.values())


async def test_decisions_about_long_texts_are_not_cached(store: Any) -> None:
    store.role("r", rule("get", "*"))
    store.bind("b", "ClusterRole/r", group_subject("dev"))
    authorizer, groups = Rbac(store, Identity()), ("dev",)

    for user in (User("a", groups=groups), User("a" * 10_000, groups=groups), User("a", groups=("b" * 10_000, "dev"))):
        for resource in ("pods", "x" * 10_000):
            assert (await authorizer.authorize(user, to("get", resource))).allowed

    assert list(authorizer._index._rights) == [("a", groups)]
    assert [attributes[2] for attributes in authorizer._index._rights["a", groups]._results] == ["pods"]


def test_rules_are_listed_for_a_namespace(store: Any) -> None:
    store.role("r", rule("get", "pods", names="a"), rule("get", paths="/x"))
    store.role("n", rule("list", "pods"), namespace="a")
    store.bind("b", "ClusterRole/r", user_subject("alice"))
    store.bind("n", "Role/n", user_subject("alice"), namespace="a")
    store.bind("m", "Role/gone", user_subject("alice"), namespace="a")

    rules = Rbac(store, Identity()).rules(ALICE, "a")

    assert rules.resources == [rule("get", "pods", names="a"), rule("list", "pods")]
    assert rules.paths == [rule("get", paths="/x")]
    assert rules.errors == ['role.rbac.authorization.k8s.io "gone" not found']
    assert Rbac(store, Identity()).rules(ALICE, "b").resources == [rule("get", "pods", names="a")]


def test_namespaced_role_is_resolved_in_its_namespace(store: Any) -> None:
    store.role("r", rule("get", "pods"), namespace="a")

    assert Rbac(store, Identity()).rules_of_role("Role", "r", "a")
    with pytest.raises(NoSuchRole, match=r'^role\.rbac\.authorization\.k8s\.io "r" not found'):
        Rbac(store, Identity()).rules_of_role("Role", "r", "b")
