"""The default authorizer allows what harms nobody."""

from __future__ import annotations

import pytest

from apiserver_stub.authz import Chain
from apiserver_stub.authz.builtin import Builtin
from apiserver_stub.request import ANONYMOUS, RequestInfo, User

GROUP = "authorization.k8s.io"
CERTIFICATES = "certificates.k8s.io"
JOINING = User("system:bootstrap:abcdef", groups=("system:bootstrappers", "system:authenticated"))
KNOWN = User("u", groups=("system:authenticated",))


@pytest.mark.parametrize(
    ("user", "info", "allowed"),
    [
        (User("a", groups=("system:masters",)), RequestInfo("delete", "", "", "v1", "nodes"), True),
        (User("n", groups=("system:nodes",)), RequestInfo("patch", "", "", "v1", "nodes"), True),
        (KNOWN, RequestInfo("get", "/openapi/v3/api/v1"), True),
        (KNOWN, RequestInfo("get", "/metrics"), False),
        (KNOWN, RequestInfo("get", "/apish"), False),
        (KNOWN, RequestInfo("list", "", "", "v1", "nodes"), False),
        (KNOWN, RequestInfo("create", "", GROUP, "v1", "selfsubjectaccessreviews"), True),
        (KNOWN, RequestInfo("create", "", GROUP, "v1", "subjectaccessreviews"), False),
        (ANONYMOUS, RequestInfo("create", "", GROUP, "v1", "selfsubjectaccessreviews"), False),
        (User("s", groups=("system:serviceaccounts",)), RequestInfo("get", "/openid/v1/jwks"), True),
        (JOINING, RequestInfo("create", "", CERTIFICATES, "v1", "certificatesigningrequests"), True),
        (JOINING, RequestInfo("create", "", CERTIFICATES, "v1", "certificatesigningrequests", "nodeclient"), True),
        (JOINING, RequestInfo("update", "", CERTIFICATES, "v1", "certificatesigningrequests", "approval"), False),
        (ANONYMOUS, RequestInfo("get", "/healthz"), True),
        (ANONYMOUS, RequestInfo("post", "/healthz"), False),
        (ANONYMOUS, RequestInfo("get", "/readyz/etcd"), False),
        (ANONYMOUS, RequestInfo("get", "/api"), False),
    ],
)
async def test_what_the_default_allows(user: User, info: RequestInfo, allowed: bool) -> None:
    assert (await Chain([Builtin()]).authorize(user, info)).allowed is allowed


def test_its_rules_can_be_listed() -> None:
    rules = Builtin().rules(KNOWN, "default")

    assert [item["resources"][0] for item in rules.resources] == ["selfsubjectreviews", "selfsubjectaccessreviews"]
    assert "/apis/*" in rules.paths[0]["nonResourceURLs"]
    assert not rules.incomplete
