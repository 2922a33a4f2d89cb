"""The default authorizer allows what harms nobody, and authorizers are asked in order."""

from __future__ import annotations

import pytest

from apiserver_stub.authz import AlwaysAllow, AlwaysDeny, Chain
from apiserver_stub.authz.builtin import Builtin
from apiserver_stub.request import ANONYMOUS, RequestInfo, User


@pytest.mark.parametrize(
    ("user", "info", "allowed"),
    [
        (User("a", groups=("system:masters",)), RequestInfo("delete", "", "", "v1", "nodes"), True),
        (User("n", groups=("system:nodes",)), RequestInfo("patch", "", "", "v1", "nodes"), True),
        (User("u", groups=("system:authenticated",)), RequestInfo("get", "/openapi/v3/api/v1"), True),
        (User("u", groups=("system:authenticated",)), RequestInfo("get", "/metrics"), False),
        (User("u", groups=("system:authenticated",)), RequestInfo("list", "", "", "v1", "nodes"), False),
        (ANONYMOUS, RequestInfo("get", "/healthz"), True),
        (ANONYMOUS, RequestInfo("post", "/healthz"), False),
        (ANONYMOUS, RequestInfo("get", "/readyz/etcd"), False),
        (ANONYMOUS, RequestInfo("get", "/api"), False),
    ],
)
def test_what_the_default_allows(user: User, info: RequestInfo, allowed: bool) -> None:
    assert Chain([Builtin()]).authorize(user, info)[0] is allowed


def test_authorizers_are_asked_in_order() -> None:
    info = RequestInfo("list", "", "", "v1", "nodes")

    assert Chain([AlwaysDeny(), AlwaysAllow()]).authorize(ANONYMOUS, info) == (True, "")
    assert Chain([AlwaysDeny()]).authorize(ANONYMOUS, info) == (False, "Everything is forbidden.")
