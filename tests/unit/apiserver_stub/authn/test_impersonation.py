"""Tests for impersonation: each part of the identity is authorized separately."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authn.impersonation import NoUserNamed, impersonate, is_requested


async def send(*headers: tuple[str, str]) -> tuple[User | None, list[tuple[str, ...]]]:
    requested: list[RequestInfo] = []

    async def authorize(info: RequestInfo) -> None:
        requested.append(info)

    user = await impersonate(CIMultiDict([("Accept", "*/*"), *headers]), authorize, "authentication.k8s.io")
    assert all(info.verb == "impersonate" and info.version == "v1" for info in requested)
    return user, [(info.group, info.resource, info.subresource, info.namespace, info.name) for info in requested]


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


@pytest.mark.parametrize("name", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"])
async def test_other_parts_without_a_user_are_rejected(name: str) -> None:
    with pytest.raises(NoUserNamed):
        await send((name, "x"))


async def test_request_without_headers_does_not_impersonate() -> None:
    assert not is_requested(CIMultiDict([("Accept", "*/*"), ("Impersonator", "x")]))
    assert is_requested(CIMultiDict([("impersonate-uid", "x")]))
    assert await send() == (None, [])
