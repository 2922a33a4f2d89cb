"""Tests for impersonation: each part of the identity is authorized separately."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authn.constrained_impersonation import completed, constrained_permissions
from apiserver_stub.authn.impersonation import ImpersonatedIdentity, NoUserNamed, is_requested, read_identity

GROUP = "authentication.k8s.io"


async def send(*headers: tuple[str, str]) -> tuple[User | None, list[tuple[str, ...]]]:
    identity = read_identity(CIMultiDict([("Accept", "*/*"), *headers]), GROUP)
    if identity is None:
        return None, []
    requested = list(identity.permissions(GROUP))
    assert all(info.verb == "impersonate" and info.version == "v1" for info in requested)
    return identity.user(), [
        (info.group, info.resource, info.subresource, info.namespace, info.name) for info in requested
    ]


async def test_each_part_is_authorized_separately() -> None:
    user, requested = await send(
        ("impersonate-user", "alice"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-Acme.io%2fTeam", "a"),
        ("Impersonate-Uid", "u1"),
    )

    assert user == User("alice", "u1", ("dev", "ops", "system:authenticated"), {"acme.io/team": ("a",)})
    assert requested == [
        ("", "users", "", "", "alice"),
        ("", "groups", "", "", "dev"),
        ("", "groups", "", "", "ops"),
        ("authentication.k8s.io", "userextras", "acme.io/team", "", "a"),
        ("authentication.k8s.io", "uids", "", "", "u1"),
    ]


async def test_service_account_has_default_groups_unless_set() -> None:
    name = ("Impersonate-User", "system:serviceaccount:ns:sa")
    user, requested = await send(name)

    assert user is not None
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert requested == [("", "serviceaccounts", "", "ns", "sa")]
    user, _ = await send(name, ("Impersonate-Group", "dev"))
    assert user is not None
    assert user.groups == ("dev", "system:authenticated")


async def test_impersonated_anonymous_user_is_unauthenticated() -> None:
    user, _ = await send(("Impersonate-User", "system:anonymous"))

    assert user == User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("name", "groups", "result"),
    [
        ("alice", ["dev"], ("dev", "system:authenticated")),
        ("alice", ["system:authenticated", "dev"], ("system:authenticated", "dev")),
        ("alice", ["system:unauthenticated"], ("system:unauthenticated",)),
        ("system:anonymous", ["dev"], ("dev", "system:unauthenticated")),
        ("system:anonymous", ["system:unauthenticated"], ("system:unauthenticated",)),
    ],
)
async def test_impersonated_user_is_in_one_of_the_groups_of_every_user(
    name: str, groups: list[str], result: tuple[str, ...]
) -> None:
    user, _ = await send(("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups))

    assert user is not None
    assert user.groups == result


@pytest.mark.parametrize("name", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"])
async def test_other_parts_without_a_user_are_rejected(name: str) -> None:
    with pytest.raises(NoUserNamed):
        await send((name, "x"))


async def test_request_without_headers_does_not_impersonate() -> None:
    assert not is_requested(CIMultiDict([("Accept", "*/*"), ("Impersonator", "x")]))
    assert is_requested(CIMultiDict([("impersonate-uid", "x")]))
    assert await send() == (None, [])


# Constrained impersonation.

PODS = RequestInfo("list", "/api/v1/pods", "", "v1", "pods")
Permission = tuple[str, str, str, str]


JANE = User("jane")


def modes(identity: ImpersonatedIdentity, user: User = JANE) -> list[list[Permission]]:
    """Return verb, resource, namespace and name of the permissions of each mode."""
    found = list(constrained_permissions(identity, user, PODS, GROUP))
    assert all(info.group == GROUP for permissions in found for info in permissions[1:])
    return [[(info.verb, info.resource, info.namespace, info.name) for info in permissions] for permissions in found]


def test_user_is_impersonated_for_one_verb() -> None:
    identity = ImpersonatedIdentity("alice", "u1", ("dev",), {"scope": ("a",)})

    assert modes(identity) == [
        [
            ("impersonate-on:user-info:list", "pods", "", ""),
            ("impersonate:user-info", "users", "", "alice"),
            ("impersonate:user-info", "groups", "", "dev"),
            ("impersonate:user-info", "userextras", "", "a"),
            ("impersonate:user-info", "uids", "", "u1"),
        ]
    ]


def test_service_account_and_node_have_separate_modes() -> None:
    account, node = ImpersonatedIdentity("system:serviceaccount:ns:sa"), ImpersonatedIdentity("system:node:n")
    arbitrary = [
        ("impersonate-on:arbitrary-node:list", "pods", "", ""),
        ("impersonate:arbitrary-node", "nodes", "", "n"),
    ]
    pod = User("system:serviceaccount:ns:agent", extra={f"{GROUP}/node-name": ("n",)})
    associated = [
        ("impersonate-on:associated-node:list", "pods", "", ""),
        ("impersonate:associated-node", "nodes", "", "*"),
    ]

    assert modes(account) == [
        [
            ("impersonate-on:serviceaccount:list", "pods", "", ""),
            ("impersonate:serviceaccount", "serviceaccounts", "ns", "sa"),
        ]
    ]
    assert modes(node) == [arbitrary]
    assert modes(node, pod) == [associated, arbitrary]
    assert modes(ImpersonatedIdentity("system:node:other"), pod)[0][0][0].startswith("impersonate-on:arbitrary-node")
    assert completed(node).groups == ("system:nodes", "system:authenticated")
    assert completed(account) == account.user()


@pytest.mark.parametrize("name", ["system:serviceaccount:ns:sa", "system:node:n", "alice"])
def test_superusers_and_groups_of_accounts_cannot_be_impersonated(name: str) -> None:
    assert modes(ImpersonatedIdentity(name, groups=("system:masters",))) == []
