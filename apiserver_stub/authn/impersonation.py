"""User impersonation by ``Impersonate-*`` headers, each of which is authorized separately."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

from msgspec import field

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authn.request_header import values_of
from apiserver_stub.authn.service_account import account_user, split_account
from apiserver_stub.authn.tokens import EVERYONE
from nodeagent.base.structs import Struct

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


class ImpersonatedIdentity(Struct, frozen=True):
    """Identity in impersonation headers."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def has_only_name(self) -> bool:
        """``True`` if the headers have no other attributes."""
        return not (self.uid or self.groups or self.extra)

    def permissions(self, group: str) -> Iterator[RequestInfo]:
        """Yield the permissions to impersonate this identity for all requests.

        :param group: the API group of user attributes in permissions.
        """
        account = split_account(self.name)
        if account is not None:
            yield RequestInfo("impersonate", "", "", "v1", "serviceaccounts", "", account[0], account[1])
        else:
            yield RequestInfo("impersonate", "", "", "v1", "users", name=self.name)
        for info in self.attributes(group):
            yield replace(info, verb="impersonate", group="" if info.resource == "groups" else group)

    def attributes(self, group: str) -> Iterator[RequestInfo]:
        """Yield the attributes besides the name as resources of the API group *group*, without a verb."""
        for name in self.groups:
            yield RequestInfo("", "", group, "v1", "groups", name=name)
        for key, values in self.extra.items():
            for value in values:
                yield RequestInfo("", "", group, "v1", "userextras", key, name=value)
        if self.uid:
            yield RequestInfo("", "", group, "v1", "uids", name=self.uid)

    def user(self) -> User:
        """Return the impersonated user, with the groups that every such user has."""
        account, groups = split_account(self.name), self.groups
        if account is not None and not groups:
            groups = account_user(*account, "").groups
        if self.name == ANONYMOUS.name:
            groups = groups if _UNAUTHENTICATED in groups else (*groups, _UNAUTHENTICATED)
        elif EVERYONE not in groups and _UNAUTHENTICATED not in groups:
            groups = (*groups, EVERYONE)
        return User(self.name, self.uid, groups, self.extra)


def read_identity(headers: Mapping[str, str], group: str) -> ImpersonatedIdentity | None:
    """Return the identity that *headers* impersonate, ``None`` without impersonation.

    :param group: the API group of user attributes.
    :raises NoUserNamed: the headers contain no user.
    """
    name, uid = headers.get("Impersonate-User", ""), headers.get("Impersonate-Uid", "")
    groups = tuple(values_of(headers, "Impersonate-Group"))
    extra = _extra_of(headers)
    if name:
        return ImpersonatedIdentity(name, uid, groups, extra)
    if groups or uid or extra:
        raise NoUserNamed(_listed(uid, groups, extra, group))
    return None


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
