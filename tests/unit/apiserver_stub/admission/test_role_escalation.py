"""Tests for the prevention of privilege escalation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.role_escalation import RoleEscalation
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.authz import Chain
from apiserver_stub.authz.rbac import Rbac, RbacNames
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import ALICE, Memory, rule, to, user_subject

RBAC = RbacNames.of(Identity())

KINDS = {
    "roles": "Role",
    "clusterroles": "ClusterRole",
    "rolebindings": "RoleBinding",
    "clusterrolebindings": "ClusterRoleBinding",
}
NOT_HELD = (
    'user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:'
)


@pytest.fixture
def store() -> Any:
    return Memory()


@pytest.fixture(autouse=True)
def rights(store: Any) -> None:
    """Authorizer: Alice reads pods in all namespaces and config maps in one."""
    store.role("reader", rule("get,list", "pods"))
    store.bind("reader", "ClusterRole/reader", user_subject("alice"))
    store.role("local", rule("get", "configmaps"), namespace="a")
    store.bind("local", "Role/local", user_subject("alice"), namespace="a")


async def rejection(
    store: Any, plural: str, new: Object, *, namespace: str = "", user: User = ALICE, old: Object | None = None
) -> str | None:
    """Return the reason why *user* is not authorized to write *new*, else ``None``."""
    info = to("update" if old else "create", plural, namespace, "x" if old else "", group=RBAC.group)
    roles = Rbac(store, Identity())
    call: Any = SimpleNamespace(
        request=SimpleNamespace(user=user, info=info),
        resource=SimpleNamespace(group=RBAC.group, plural=plural, kind=KINDS[plural]),
        obj={"metadata": {"name": "x"}, **new},
        old=old,
        name="x",
    )
    try:
        await RoleEscalation(roles, Chain([roles])).validate(call)
    except ApiError as error:
        return error.message
    return None


def give(verb: str, resource: str, *, names: str = "") -> tuple[Object, Object]:
    return rule(verb, resource, group=RBAC.group, names=names), user_subject("alice")


def grant(store: Any, verb: str, resource: str, *, names: str = "", namespace: str = "") -> None:
    """Authorize alice for *verb* on roles."""
    allowed, subject = give(verb, resource, names=names)
    store.role("grant", allowed, namespace=namespace)
    store.bind("grant", f"{'Role' if namespace else 'ClusterRole'}/grant", subject, namespace=namespace)


async def test_role_may_have_permissions_of_its_author(store: Any) -> None:
    assert await rejection(store, "clusterroles", {"rules": [rule("get", "pods", names="p")]}) is None
    assert await rejection(store, "roles", {"rules": [rule("get", "configmaps")]}, namespace="a") is None


async def test_missing_permissions_of_the_author_are_listed(store: Any) -> None:
    new = {"rules": [rule("get,watch", "pods,secrets"), rule("get", paths="/metrics")]}

    assert await rejection(store, "clusterroles", new) == (
        f'clusterroles.rbac.authorization.k8s.io "x" is forbidden: {NOT_HELD}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )
    assert await rejection(store, "roles", {"rules": [rule("get", "configmaps")]}, namespace="b") is not None


async def test_missing_roles_are_reported(store: Any) -> None:
    store.bind("broken", "ClusterRole/gone", user_subject("alice"))

    message = await rejection(store, "clusterroles", {"rules": [rule("get", "secrets")]}) or ""

    assert message.endswith('; resolution errors: [clusterroles.rbac.authorization.k8s.io "gone" not found]')


async def test_escalate_permits_any_role(store: Any) -> None:
    grant(store, "escalate", "roles", namespace="a")
    new = {"rules": [rule("*", "*", group="*")]}

    assert await rejection(store, "roles", new, namespace="a") is None
    assert await rejection(store, "roles", new, namespace="b") is not None
    assert await rejection(store, "clusterroles", new) is not None
    assert await rejection(store, "clusterroles", new, user=User("root", groups=("system:masters",))) is None


async def test_aggregation_rule_requires_all_permissions(store: Any) -> None:
    gathering = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    message = (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: must have cluster-admin privileges to use the '
        "aggregationRule"
    )
    old = {"metadata": {"name": "x"}, **gathering}

    assert await rejection(store, "clusterroles", gathering) == message
    assert await rejection(store, "clusterroles", {"rules": []}, old=old) == message
    store.role("all", rule("*", "*", group="*"), rule("*", paths="*"))
    store.bind("all", "ClusterRole/all", user_subject("alice"))
    assert await rejection(store, "clusterroles", gathering) is None


def binding(kind: str, name: str) -> Object:
    return {"roleRef": {"apiGroup": RBAC.group, "kind": kind, "name": name}, "subjects": [user_subject("bob")]}


async def test_binding_may_grant_permissions_of_its_author(store: Any) -> None:
    assert await rejection(store, "clusterrolebindings", binding("ClusterRole", "reader")) is None
    assert await rejection(store, "rolebindings", binding("ClusterRole", "reader"), namespace="b") is None
    assert await rejection(store, "rolebindings", binding("Role", "local"), namespace="a") is None


async def test_binding_of_more_permissions_requires_bind(store: Any) -> None:
    store.role("big", rule("*", "secrets"))
    new = binding("ClusterRole", "big")
    lacking = f'{NOT_HELD}\n{{APIGroups:[""], Resources:["secrets"], Verbs:["*"]}}'
    for plural, namespace in (("clusterrolebindings", ""), ("rolebindings", "a")):
        message = await rejection(store, plural, new, namespace=namespace)
        assert message == f'{plural}.rbac.authorization.k8s.io "x" is forbidden: {lacking}'

    grant(store, "bind", "clusterroles", names="big", namespace="a")

    assert await rejection(store, "rolebindings", new, namespace="a") is None
    assert await rejection(store, "clusterrolebindings", new) is not None
    store.role("bigger", rule("*", "*"))
    assert await rejection(store, "rolebindings", binding("ClusterRole", "bigger"), namespace="a") is not None


async def test_binding_of_a_missing_role_requires_bind(store: Any) -> None:
    new = binding("Role", "later")
    message = 'roles.rbac.authorization.k8s.io "later" not found'
    assert await rejection(store, "rolebindings", new, namespace="a") == message

    grant(store, "bind", "roles", namespace="a")

    assert await rejection(store, "rolebindings", new, namespace="a") is None


async def test_finalizer_removal_is_not_an_escalation(store: Any) -> None:
    old = {"metadata": {"name": "x", "finalizers": ["f"], "resourceVersion": "1"}, "rules": [rule("*", "*")]}

    assert await rejection(store, "clusterroles", {"rules": old["rules"]}, old=old) is None
    relabelled = {"metadata": {"name": "x", "labels": {"a": "b"}}, "rules": old["rules"]}
    assert await rejection(store, "clusterroles", relabelled, old=old) is not None


def test_only_roles_and_bindings_are_checked(store: Any) -> None:
    roles = Rbac(store, Identity())

    assert RoleEscalation(roles, Chain([roles])).resources == {f"{plural}.{RBAC.group}" for plural in KINDS}
    assert RequestInfo("create", "", RBAC.group, "v1", "roles").is_resource
