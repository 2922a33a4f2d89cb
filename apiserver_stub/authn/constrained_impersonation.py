"""Permissions to impersonate users for some requests only (spec: gate.ConstrainedImpersonation). No I/O.

In contrast to the permission to impersonate, they do not grant all permissions of the impersonated user: the request
itself must be permitted with the verb ``impersonate-on:MODE:VERB``, and the identity with ``impersonate:MODE``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authn.impersonation import ImpersonatedIdentity
from apiserver_stub.authn.service_account import split_account

_NODE, _ACCOUNT = "system:node:", "system:serviceaccount:"
_NODES, _SUPERUSERS = "system:nodes", "system:masters"


def constrained_permissions(
    identity: ImpersonatedIdentity, user: User, info: RequestInfo, group: str
) -> Iterator[list[RequestInfo]]:
    """Yield the permissions that *user* needs to impersonate *identity* for the request *info*, for each mode.

    :param group: the API group of user attributes in permissions.
    """
    if identity.name.startswith(_NODE):
        if identity.has_only_name:
            yield from _node_permissions(identity.name.removeprefix(_NODE), user, info, group)
    elif identity.name.startswith(_ACCOUNT):
        account = split_account(identity.name)
        if account is not None and identity.has_only_name:
            who = RequestInfo("", "", group, "v1", "serviceaccounts", "", account[0], account[1])
            yield _permissions("serviceaccount", info, [who])
    elif _SUPERUSERS not in identity.groups:  # Its members are authorized without any check.
        who = RequestInfo("", "", group, "v1", "users", name=identity.name)
        yield _permissions("user-info", info, [who, *identity.attributes(group)])


def completed(identity: ImpersonatedIdentity) -> User:
    """Return the impersonated user, with the groups that its name implies."""
    user = identity.user()
    if not identity.name.startswith(_NODE):
        return user
    return replace(user, groups=(_NODES, *user.groups))


def _node_permissions(node: str, user: User, info: RequestInfo, group: str) -> Iterator[list[RequestInfo]]:
    """Yield the permissions for the node of the pod of *user*, a service account, and for any node."""
    if user.extra.get(f"{group}/node-name") == (node,) and split_account(user.name) is not None:
        yield _permissions("associated-node", info, [RequestInfo("", "", group, "v1", "nodes", name="*")])
    yield _permissions("arbitrary-node", info, [RequestInfo("", "", group, "v1", "nodes", name=node)])


def _permissions(mode: str, info: RequestInfo, identity: list[RequestInfo]) -> list[RequestInfo]:
    action = replace(info, verb=f"impersonate-on:{mode}:{info.verb}")
    return [action, *(replace(item, verb=f"impersonate:{mode}") for item in identity)]
