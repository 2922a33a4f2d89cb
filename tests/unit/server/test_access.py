"""Tests for authentication and authorization of requests to the secure port."""

from types import SimpleNamespace

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.base.gobase64 import encode_url
from nodeagent.contracts.server import ANONYMOUS, AuthorizationFailed, Route, Unauthenticated, User
from nodeagent.server.access import TOKEN_PROTOCOL, Access, Denied, required_access

GROUP = "system:authenticated"


class Tokens:
    """Authenticator with users by token."""

    def __init__(self, **users):
        self.users = users

    async def authenticate(self, credentials):
        if credentials.certificate is not None:
            return User(credentials.certificate["name"])
        if credentials.token is None:
            return None
        try:
            return self.users[credentials.token.reveal()]
        except KeyError:
            raise Unauthenticated("unknown token") from None


class Anonymous:
    async def authenticate(self, credentials):
        return User(ANONYMOUS)


class Rules:
    """Authorizer with permitted pairs of verb and subresource."""

    def __init__(self, *permitted, fails=False):
        self.permitted, self.fails, self.requested = permitted, fails, []

    async def allows(self, attributes):
        if self.fails:
            raise AuthorizationFailed("away")
        self.requested.append((attributes.user.name, attributes.verb, attributes.subresource, attributes.node))
        return (attributes.verb, attributes.subresource) in self.permitted


async def trusted(context):
    return context == "current"


def access(*authenticators, rules=None, **more):
    everything = Rules(("get", "proxy"), ("create", "proxy"))
    return Access("node-1", authenticators or (Tokens(good=User("jane")),), rules or everything, trusted, **more)


def get(method="GET", *, tls=None, **headers):
    transport = SimpleNamespace(get_extra_info=lambda name, default=None: tls if name == "ssl_object" else default)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request(method, "/pods", names, transport=transport)


async def user_of(request, *authenticators, **more):
    return await access(*authenticators, **more).check(request, None)


async def denied(request, *authenticators, route=None, **more):
    with pytest.raises(Denied) as caught:
        await access(*authenticators, **more).check(request, route)
    return caught.value.status, caught.value.text


async def test_bearer_token_is_read_from_the_header_or_a_subprotocol():
    protocol = f"{TOKEN_PROTOCOL}{encode_url(b'good')}"
    for headers in (
        {"Authorization": "Bearer good"},
        {"Authorization": "bearer  good "},
        {"Sec_WebSocket_Protocol": f"v4.channel.k8s.io, {protocol}"},
        {"Authorization": "Basic good", "Sec_WebSocket_Protocol": protocol},
        {"Authorization": "Bearer", "Sec_WebSocket_Protocol": protocol},
    ):
        assert await user_of(get(**headers)) == User("jane", (GROUP,)), headers
    for headers in (
        {},
        {"Authorization": "Basic good"},
        {"Authorization": "good"},
        {"Authorization": "Bearer bad"},
        {"Authorization": "Bearer "},
        {"Sec_WebSocket_Protocol": "good"},
        {"Sec_WebSocket_Protocol": f"{TOKEN_PROTOCOL}good!"},
    ):
        assert await denied(get(**headers)) == (401, "Unauthorized"), headers


async def test_only_authenticated_users_get_the_group_and_only_once():
    known = Tokens(a=User("a", ("x",)), b=User("b", (GROUP, "x")))
    assert (await user_of(get(Authorization="Bearer a"), known)).groups == ("x", GROUP)
    assert (await user_of(get(Authorization="Bearer b"), known)).groups == (GROUP, "x")
    assert (await user_of(get(), known, Anonymous())).groups == ()
    # An invalid credential is not followed by an anonymous request.
    assert await denied(get(Authorization="Bearer c"), known, Anonymous()) == (401, "Unauthorized")


async def test_client_certificate_counts_only_if_it_was_verified_and_is_trusted():
    def tls(context="current", *, reused=False, certificate=None):
        found = certificate if certificate is not None else {"name": "cert"}
        return SimpleNamespace(session_reused=reused, context=context, getpeercert=lambda: found)

    assert (await user_of(get(tls=tls()))).name == "cert"
    assert (await user_of(get(tls=tls("old", certificate={}), Authorization="Bearer good"))).name == "jane"
    assert (await user_of(get(tls=tls(reused=True), Authorization="Bearer good"))).name == "jane"
    assert await denied(get(tls=tls(reused=True))) == (401, "Unauthorized")
    assert await denied(get(tls=tls("old"), Authorization="Bearer good")) == (401, "Unauthorized")


async def test_one_of_the_subresources_has_to_be_authorized():
    route = Route("GET", "/logs/", None, subresources=("log", "proxy"), fine_grained=("pods", "proxy"))
    for permitted, fine_grained, requested in [
        (("get", "log"), False, ["log"]),
        (("get", "proxy"), False, ["log", "proxy"]),
        (("get", "pods"), True, ["pods"]),
        (("get", "proxy"), True, ["pods", "proxy"]),
    ]:
        rules = Rules(permitted)
        user = await access(rules=rules, fine_grained=fine_grained).check(get(Authorization="Bearer good"), route)
        assert user.name == "jane"
        assert rules.requested == [("jane", "get", name, "node-1") for name in requested], permitted


async def test_denied_request_names_the_missing_access():
    route = Route("POST", "/run", None, subresources=("log", "proxy"), fine_grained=("pods", "proxy"))
    request = get("POST", Authorization="Bearer good")
    text = "user=jane, verb=create, resource=nodes, "
    for fine_grained, part in [(False, "subresource=log"), (True, "subresource(s)=[pods proxy]")]:
        more = {"route": route, "fine_grained": fine_grained}
        assert await denied(request, rules=Rules(), **more) == (403, f"Forbidden ({text}{part})")
        failed = await denied(request, rules=Rules(fails=True), **more)
        assert failed == (500, f"Authorization error ({text}{part})")


def test_verb_follows_the_method_unless_the_route_has_one():
    plain, other = Route("GET", "/a", None), Route("GET", "/a", None, verb="create", subresources=("x",))
    for method, verb in [("GET", "get"), ("POST", "create"), ("PUT", "update"), ("PATCH", "patch"), ("HEAD", "")]:
        assert required_access(method, plain) == (verb, ("proxy",))
        assert required_access(method, None, fine_grained=True) == (verb, ("proxy",))
        assert required_access(method, other, fine_grained=True) == ("create", ("x",))
