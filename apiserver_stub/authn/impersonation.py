"""User impersonation by ``Impersonate-*`` headers, each of which is authorized separately."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from urllib.parse import unquote

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authn.request_header import values_of
from apiserver_stub.authn.service_account import account_user, split_account
from apiserver_stub.authn.tokens import EVERYONE

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_UNAUTHENTICATED = "system:unauthenticated"


class NoUserNamed(Exception):
    """Impersonation headers have groups, a UID or extra fields, but no user; the text lists them."""


def is_requested(headers: Mapping[str, str]) -> bool:
    """Return whether any header requests impersonation."""
    for name in headers:  # noqa: SIM110 - on every request, where any() costs twice as much
        if name[:1] in "iI" and name[:12].lower() == _PREFIX:
            return True
    return False


async def impersonate(
    headers: Mapping[str, str], authorize: Callable[[RequestInfo], Awaitable[None]], group: str
) -> User | None:
    """Return the user that *headers* impersonate, ``None`` without impersonation.

    :param authorize: raises an error if the request's user is not authorized.
    :param group: the API group of user attributes in permissions.
    :raises NoUserNamed: the headers contain no user.
    """
    name, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    groups = tuple(values_of(headers, "Impersonate-Group"))
    extra = _extra_of(headers)
    if not name:
        if groups or uid or extra:
            raise NoUserNamed(_listed(uid, groups, extra, group))
        return None
    for info in _permissions(name, uid, groups, extra, group):
        await authorize(info)
    account = split_account(name)
    if account is not None and not groups:
        groups = account_user(*account, "").groups
    if name == ANONYMOUS.name:
        groups = groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
    elif EVERYONE not in groups and _UNAUTHENTICATED not in groups:
        groups = (*groups, EVERYONE)
    return User(name, uid, groups, extra)


def _permissions(
    name: str, uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]], group: str
) -> Iterator[RequestInfo]:
    """Yield the permissions that the request's user needs."""
    account = split_account(name)
    if account is not None:
        yield RequestInfo("impersonate", "", "", "v1", "serviceaccounts", "", account[0], account[1])
    else:
        yield RequestInfo("impersonate", "", "", "v1", "users", name=name)
    for group_name in groups:
        yield RequestInfo("impersonate", "", "", "v1", "groups", name=group_name)
    for key, values in extra.items():
        for value in values:
            yield RequestInfo("impersonate", "", group, "v1", "userextras", key, name=value)
    if uid:
        yield RequestInfo("impersonate", "", group, "v1", "uids", name=uid)


def _listed(uid: str, groups: tuple[str, ...], extra: Mapping[str, tuple[str, ...]], group: str) -> str:
    """Return the impersonation as object references: kind, namespace, name, uid, version, revision, field."""
    version = f"{group}/v1"
    references = [f"{{Group  {name}    }}" for name in groups]
    references += [f"{{UserExtra  {value}  {version}  {key}}}" for key, values in extra.items() for value in values]
    references += [f"{{UID  {uid}  {version}  }}"] if uid else []
    return f"[{' '.join(references)}]"


def _extra_of(headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        lowered = header.lower()
        if lowered.startswith(_EXTRA):
            key = unquote(lowered.removeprefix(_EXTRA))
            result[key] = (*result.get(key, ()), value)
    return result
