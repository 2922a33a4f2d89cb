"""Tests for the authenticators and authorizers of the agent's server."""

import asyncio

import msgspec
import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.secret import Secret
from nodeagent.contracts.server import (
    AuthorizationAttributes,
    AuthorizationFailed,
    RequestCredentials,
    ServerConfigError,
    Unauthenticated,
    User,
)
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi, make_config, make_context
from nodeagent_plugins import authn_webhook, authn_x509, authz_webhook


class Reviews(FakeApi):
    """API whose reviews have the statuses in :attr:`statuses`; the last one is repeated."""

    def __init__(self, *statuses):
        super().__init__()
        self.statuses = list(statuses)

    async def create(self, resource, obj, namespace="", *, subresource="", name="", decode=True):
        created = await super().create(resource, obj, namespace, name=f"review-{len(self.requests)}")
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return {**created, "status": status}


@pytest.fixture
def context(tmp_path, clock):
    return make_context(tmp_path, clock=clock, api=FakeApi())


def with_subject(*subject):
    return RequestCredentials({"subject": tuple(((key, value),) for key, value in subject)})


async def test_user_of_a_certificate_is_its_last_common_name():
    authenticate = authn_x509.X509Authenticator().authenticate

    assert await authenticate(RequestCredentials(None, Secret("t"))) is None
    names = ("organizationName", "a"), ("commonName", "x"), ("organizationName", "b"), ("commonName", "jane")
    assert await authenticate(with_subject(*names)) == User("jane", ("a", "b"))
    for subject in ((), (("commonName", ""),), (("organizationName", "a"),)):
        with pytest.raises(Unauthenticated, match="without CommonName"):
            await authenticate(with_subject(*subject))


def test_authenticators_follow_the_configuration(context):
    def provided(**settings):
        authentication = context.config.authentication
        changed = {
            name: msgspec.structs.replace(getattr(authentication, name), **values) for name, values in settings.items()
        }
        context.config = make_config(authentication=msgspec.structs.replace(authentication, **changed))
        plugins = (authn_webhook, authn_x509)
        return [type(each).__name__ for p in plugins for each in p.nodeagent_provide_authenticators(context)]

    assert provided(webhook={"enabled": False}) == []
    assert provided(x509={"client_ca_file": "/ca"}) == ["X509Authenticator"]
    assert provided(webhook={"enabled": True}) == ["WebhookAuthenticator", "X509Authenticator"]
    context.new_api = None
    with pytest.raises(ServerConfigError, match=r"authentication\.webhook requires an API server"):
        provided(webhook={"enabled": True})


async def test_token_is_authenticated_by_the_review(context):
    user = {"username": "jane", "uid": "u", "groups": ["a"], "extra": {"k": ["v"], "none": None}}
    for status, expected in [
        ({"authenticated": True, "user": user}, User("jane", ("a",), "u", {"k": ("v",), "none": ()})),
        ({"authenticated": True, "user": {"username": "jane"}}, User("jane")),
        ({"authenticated": False, "user": user}, None),
        ({"user": user}, None),
        ({"authenticated": "true", "user": user}, None),
        ({"authenticated": True, "user": {"username": ""}}, None),
        ({"authenticated": True}, None),
        (None, None),
    ]:
        authenticate = authn_webhook.WebhookAuthenticator(context, Reviews(status)).authenticate
        assert await authenticate(RequestCredentials()) is None
        if expected is not None:
            assert await authenticate(RequestCredentials(None, Secret("t"))) == expected, status
        else:
            with pytest.raises(Unauthenticated, match="invalid bearer token"):
                await authenticate(RequestCredentials(None, Secret("t")))


async def test_reviews_of_tokens_are_cached_and_their_errors_reported(context, clock):
    api = Reviews({"authenticated": True, "user": {"username": "jane"}})
    authenticate = authn_webhook.WebhookAuthenticator(context, api).authenticate
    seconds = context.config.authentication.webhook.cache_ttl.seconds
    for token in ("a", "a", "b"):
        await authenticate(RequestCredentials(None, Secret(token)))
    assert [request.body["spec"] for request in api.requests] == [{"token": "a"}, {"token": "b"}]
    await clock.advance(seconds)
    await authenticate(RequestCredentials(None, Secret("a")))
    assert len(api.requests) == 3
    api.fail("create", ApiError("forbidden", code=403))
    with pytest.raises(Unauthenticated, match="failed to verify the bearer token: forbidden"):
        await authenticate(RequestCredentials(None, Secret("c")))


def attributes(**fields):
    user = User("jane", ("a",), **fields)
    return AuthorizationAttributes(user, "get", "log", "node-1")


async def test_access_is_allowed_by_the_review(context):
    for status, allowed in [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": "true"}, False),
        ({}, False),
        (None, False),
    ]:
        authorizer = authz_webhook.WebhookAuthorizer(context, Reviews(status))
        assert await authorizer.allows(attributes()) is allowed, status


async def test_review_contains_the_user_and_the_attributes(context):
    api = Reviews({"allowed": True})
    authorizer = authz_webhook.WebhookAuthorizer(context, api)
    resource = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "log", "name": "node-1"}
    plain = {"user": "jane", "groups": ["a"], "resourceAttributes": resource}

    await authorizer.allows(attributes())
    await authorizer.allows(attributes(uid="u", extra={"k": ("v",)}))
    await authorizer.allows(attributes(uid="u", extra={"k": ("w",)}))
    await authorizer.allows(attributes(uid="u", extra={"k": ("v",)}))

    assert [request.body["spec"] for request in api.requests] == [
        plain,
        {**plain, "uid": "u", "extra": {"k": ["v"]}},
        {**plain, "uid": "u", "extra": {"k": ["w"]}},
    ]


async def test_decisions_are_cached_for_their_own_times(context, clock):
    authorization = context.config.authorization
    webhook = msgspec.structs.replace(
        authorization.webhook, cache_authorized_ttl=Duration.parse("10s"), cache_unauthorized_ttl=Duration.parse("5s")
    )
    context.config = make_config(authorization=msgspec.structs.replace(authorization, webhook=webhook))
    for allowed, seconds in ((True, 10), (False, 5)):
        api = Reviews({"allowed": allowed})
        authorizer = authz_webhook.WebhookAuthorizer(context, api)
        await authorizer.allows(attributes())
        await clock.advance(seconds - 1)
        await authorizer.allows(attributes())
        assert len(api.requests) == 1, allowed
        await clock.advance(1)
        await authorizer.allows(attributes())
        assert len(api.requests) == 2, allowed


async def test_transient_errors_of_reviews_are_retried(context, clock):
    for error, tries in [
        (ApiUnavailable("away"), 2),
        (ApiError("busy", code=429), 2),
        (ApiError("internal", code=500), 2),
        (ApiError("forbidden", code=403), 1),
        (ApiError("odd", code=499), 1),
    ]:
        api = Reviews({"allowed": True})
        api.fail("create", error)
        allowing = asyncio.create_task(authz_webhook.WebhookAuthorizer(context, api).allows(attributes()))
        await clock.advance(5)
        assert len(api.requests) == tries, error
        if tries == 2:
            assert await allowing
        else:
            with pytest.raises(AuthorizationFailed, match=f"subject access review for jane: {error}"):
                await allowing
    api = Reviews({"allowed": True})
    api.fail("create", ApiUnavailable("away"), times=None)
    allowing = asyncio.create_task(authz_webhook.WebhookAuthorizer(context, api).allows(attributes()))
    await clock.advance(60)
    with pytest.raises(AuthorizationFailed):
        await allowing
    assert len(api.requests) == 5


async def test_authorizer_follows_the_mode(context):
    def provided(mode):
        authorization = msgspec.structs.replace(context.config.authorization, mode=mode)
        context.config = make_config(authorization=authorization)
        return authz_webhook.nodeagent_provide_authorizer(context)

    assert await provided("AlwaysAllow").allows(attributes())
    assert isinstance(provided("Webhook"), authz_webhook.WebhookAuthorizer)
    context.new_api = None
    assert isinstance(provided("AlwaysAllow"), authz_webhook.AlwaysAllow)
    with pytest.raises(ServerConfigError, match="Webhook requires an API server"):
        provided("Webhook")
