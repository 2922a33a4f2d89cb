"""Tests for service account tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nodeagent.contracts.api import SERVICE_ACCOUNTS
from nodeagent.errors import ApiError, ApiNotFound, ApiUnavailable
from nodeagent.testing import FakeApi, FakeClock, make_pod

from .conftest import MakeReader


@pytest.fixture(autouse=True)
def accounts(api: FakeApi) -> None:
    for name in ("default", "robot"):
        api.put(SERVICE_ACCOUNTS, {"metadata": {"name": name}})


async def test_token_is_bound_to_the_pod(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader = make_reader()

    token = await reader.service_account_token(
        make_pod(service_account_name="robot"), audience="vault", expiration_seconds=700
    )

    (request,) = api.made("create")
    assert (request.namespace, request.name, request.subresource) == ("default", "robot", "token")
    assert request.body["apiVersion"] == "authentication.k8s.io/v1"
    assert request.body["kind"] == "TokenRequest"
    assert request.body["spec"] == {
        "audiences": ["vault"],
        "expirationSeconds": 700,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "uid-web"},
    }
    assert token.expires_at == clock.wall() + timedelta(seconds=700)
    assert token.token not in repr(token)


async def test_tokens_are_separate_per_pod_and_audience(make_reader: MakeReader, api: FakeApi) -> None:
    reader, pod = make_reader(), make_pod()

    tokens = [
        await reader.service_account_token(pod),
        await reader.service_account_token(pod),
        await reader.service_account_token(pod, audience="x"),
        await reader.service_account_token(pod, expiration_seconds=700),
        await reader.service_account_token(make_pod("other")),
    ]

    assert tokens[0] == tokens[1]
    assert len({token.token for token in tokens}) == 4
    assert "audiences" not in api.made("create")[0].body["spec"]


@pytest.mark.parametrize(("seconds", "refresh"), [(1000, 800), (10 * 86400, 86400)])
async def test_token_is_refreshed_at_80_percent_or_a_day_minus_jitter(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, seconds: int, refresh: int
) -> None:
    reader, pod = make_reader(), make_pod()
    first = await reader.service_account_token(pod, expiration_seconds=seconds)

    await clock.advance(refresh - 11)
    before = await reader.service_account_token(pod, expiration_seconds=seconds)
    await clock.advance(11)
    after = await reader.service_account_token(pod, expiration_seconds=seconds)

    assert before == first
    assert after != first


async def test_shortened_token_is_cached_for_its_lifetime(
    make_reader: MakeReader, api: FakeApi, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = api.create

    async def at_most_1000_seconds(resource: Any, body: Any, *args: Any, **more: Any) -> dict[str, Any]:
        return await create(resource, {**body, "spec": {**body["spec"], "expirationSeconds": 1000}}, *args, **more)

    monkeypatch.setattr(api, "create", at_most_1000_seconds)
    reader, pod = make_reader(), make_pod()
    first = await reader.service_account_token(pod, expiration_seconds=86400)

    await clock.advance(700)
    before = await reader.service_account_token(pod, expiration_seconds=86400)
    await clock.advance(101)
    after = await reader.service_account_token(pod, expiration_seconds=86400)

    assert before == first
    assert after != first


async def test_failed_refresh_keeps_a_valid_token(make_reader: MakeReader, api: FakeApi, clock: FakeClock) -> None:
    reader, pod = make_reader(), make_pod()
    first = await reader.service_account_token(pod, expiration_seconds=1000)
    api.outage = True

    await clock.advance(999)
    kept = await reader.service_account_token(pod, expiration_seconds=1000)
    await clock.advance(1)

    assert kept == first
    with pytest.raises(ApiUnavailable):
        await reader.service_account_token(pod, expiration_seconds=1000)


async def test_tokens_of_a_removed_pod_are_dropped(make_reader: MakeReader, api: FakeApi) -> None:
    reader, pod = make_reader(), make_pod()
    reader.register_pod(pod)
    first = await reader.service_account_token(pod)

    reader.unregister_pod(pod.uid)

    assert await reader.service_account_token(pod) != first


async def test_missing_service_account_is_an_error(make_reader: MakeReader) -> None:
    with pytest.raises(ApiNotFound, match="nobody"):
        await make_reader().service_account_token(make_pod(service_account_name="nobody"))


async def test_response_without_token_is_an_error(
    make_reader: MakeReader, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_token", lambda *_: {"status": {"expirationTimestamp": "soon", "token": "hunter2"}})

    with pytest.raises(ApiError, match="the response has no token") as raised:
        await make_reader().service_account_token(make_pod())

    assert "hunter2" not in str(raised.value)
