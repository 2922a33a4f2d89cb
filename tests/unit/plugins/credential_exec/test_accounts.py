"""Tests for service account tokens in the requests to providers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from nodeagent.base.aio.command import CommandResult
from nodeagent.contracts.api import SERVICE_ACCOUNTS
from nodeagent.contracts.configuration import ServiceAccountTokenAttributes
from nodeagent.contracts.runtime import CredentialOwner, OwnerKind
from nodeagent.errors import ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, FakeClock, make_pod
from nodeagent_plugins.credential_exec.provider import ExecProvider
from tests.unit.plugins.credential_exec.conftest import Executables, login, make_response

MakeProvider = Callable[..., ExecProvider]
ROLE, REGION = "example.com/role", "example.com/region"
IMAGE = "reg.io/app"


def attributes(cache_type: str = "ServiceAccount", **fields: Any) -> ServiceAccountTokenAttributes:
    fields = {
        "require_service_account": True,
        "required_service_account_annotation_keys": (ROLE,),
        "optional_service_account_annotation_keys": (REGION,),
        **fields,
    }
    return ServiceAccountTokenAttributes(service_account_token_audience="registry", cache_type=cache_type, **fields)


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    api = FakeApi(clock)
    put_account(api)
    return api


def put_account(api: FakeApi, **annotations: str) -> str:
    """Create or replace the service account and return its UID."""
    metadata = {"name": "robot", "annotations": {ROLE: "puller", "other": "x", **annotations}}
    stored: str = api.put(SERVICE_ACCOUNTS, {"metadata": metadata})["metadata"]["uid"]
    return stored


def created_uid(api: FakeApi) -> str:
    account = api.find(SERVICE_ACCOUNTS, "robot")
    assert account is not None
    uid: str = account["metadata"]["uid"]
    return uid


def pod(name: str = "web") -> Pod:
    return make_pod(name, service_account_name="robot")


def requests(executables: Executables) -> list[dict[str, Any]]:
    return [request for _, request in executables.runs]


async def test_request_has_token_and_configured_annotations(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    provider = make_provider(make_response({"reg.io": login("bob")}), api=api, token_attributes=attributes())

    found = await provider.lookup(IMAGE, pod())

    (request,) = requests(executables)
    token = request["serviceAccountToken"]
    assert request["serviceAccountAnnotations"] == {ROLE: "puller"}
    assert found.auth["reg.io"].username == "bob"
    assert found.auth["reg.io"].owner == CredentialOwner(
        OwnerKind.SERVICE_ACCOUNT, "default", "robot", created_uid(api)
    )
    assert token
    assert token not in found.request
    (created,) = api.made("create")
    assert (created.namespace, created.name, created.subresource) == ("default", "robot", "token")
    assert created.body["metadata"]["uid"] == created_uid(api)
    assert created.body["spec"] == {
        "audiences": ["registry"],
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "uid-web"},
    }


async def test_optional_annotation_is_sent_if_present(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    put_account(api, **{REGION: "north"})

    await make_provider(api=api, token_attributes=attributes()).lookup(IMAGE, pod())

    assert requests(executables)[0]["serviceAccountAnnotations"] == {ROLE: "puller", REGION: "north"}


async def test_missing_required_annotation_skips_the_provider(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    api.put(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}})

    found = await make_provider(api=api, token_attributes=attributes()).lookup(IMAGE, pod())

    assert (found.skipped, found.failure) == (f"the service account has no annotation {ROLE}", "")
    assert executables.runs == []
    assert not api.made("create")


@pytest.mark.parametrize(
    ("user", "reason"), [(make_pod(), "the pod has no service account"), (None, "there is no pod")]
)
async def test_required_service_account_is_missing(
    make_provider: MakeProvider, executables: Executables, api: FakeApi, user: Pod | None, reason: str
) -> None:
    found = await make_provider(api=api, token_attributes=attributes()).lookup(IMAGE, user)

    assert (found.skipped, found.patterns) == (reason, ())
    assert executables.runs == []


async def test_pod_without_account_uses_a_request_without_token(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    optional = attributes(require_service_account=False, required_service_account_annotation_keys=())

    await make_provider(api=api, token_attributes=optional).lookup(IMAGE, make_pod())

    assert requests(executables)[0].keys() == {"kind", "apiVersion", "image"}


@pytest.mark.parametrize(("cache_type", "runs"), [("ServiceAccount", 1), ("Token", 2)])
async def test_response_is_cached_by_account_or_token(
    make_provider: MakeProvider, executables: Executables, api: FakeApi, cache_type: str, runs: int
) -> None:
    provider = make_provider(make_response({}), api=api, token_attributes=attributes(cache_type))

    for name in ("one", "two", "one", "two"):
        await provider.lookup(IMAGE, pod(name))

    assert len(executables.runs) == runs
    assert len(api.made("create")) == 2


async def test_new_account_or_annotation_runs_the_provider_again(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    provider = make_provider(make_response({}), api=api, token_attributes=attributes())
    await provider.lookup(IMAGE, pod())
    put_account(api, **{ROLE: "reader"})
    await provider.lookup(IMAGE, pod())
    api.remove(SERVICE_ACCOUNTS, "robot")
    put_account(api, **{ROLE: "reader"})
    await provider.lookup(IMAGE, pod())

    assert [request["serviceAccountAnnotations"][ROLE] for request in requests(executables)] == [
        "puller",
        "reader",
        "reader",
    ]


async def test_concurrent_pods_of_an_account_share_a_process(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    provider = make_provider(make_response({}), api=api, token_attributes=attributes())

    await asyncio.gather(provider.lookup(IMAGE, pod("one")), provider.lookup(IMAGE, pod("two")))

    assert len(executables.runs) == 1


async def test_token_is_renewed_after_most_of_its_lifetime(
    make_provider: MakeProvider, executables: Executables, api: FakeApi, clock: FakeClock
) -> None:
    provider = make_provider(make_response({}), api=api, hold="0s", token_attributes=attributes())
    await provider.lookup(IMAGE, pod())
    await clock.advance(2800)
    await provider.lookup(IMAGE, pod())
    assert len(api.made("create")) == 1
    await clock.advance(100)
    await provider.lookup(IMAGE, pod())

    assert len(api.made("create")) == 2


@pytest.mark.parametrize(("cache_type", "failed"), [("ServiceAccount", True), ("Token", False)])
async def test_token_as_password_requires_the_token_cache_type(
    make_provider: MakeProvider, executables: Executables, api: FakeApi, cache_type: str, failed: bool
) -> None:
    provider = make_provider(api=api, token_attributes=attributes(cache_type))
    await provider.lookup("other.io/app", pod())
    token = requests(executables)[0]["serviceAccountToken"]
    executables.responses["keys"] = make_response({"reg.io": login("bob", token)})

    found = await provider.lookup(IMAGE, pod())

    assert bool(found.failure) == failed
    assert bool(found.auth) != failed
    assert token not in repr(found)


async def test_token_in_error_output_is_masked(
    make_provider: MakeProvider, executables: Executables, api: FakeApi
) -> None:
    provider = make_provider(make_response({}), api=api, hold="0s", token_attributes=attributes())
    await provider.lookup(IMAGE, pod())
    token = requests(executables)[0]["serviceAccountToken"]
    executables.responses["keys"] = CommandResult(1, b"", f"got {token}".encode())

    found = await provider.lookup(IMAGE, pod())

    assert found.detail == "got ***"


@pytest.mark.parametrize("verb", ["get", "create"])
async def test_unavailable_account_or_token_is_a_failure(
    make_provider: MakeProvider, executables: Executables, api: FakeApi, verb: str
) -> None:
    api.fail(verb, ApiUnavailable("refused"))
    found = await make_provider(api=api, token_attributes=attributes()).lookup(IMAGE, pod())

    assert found.failure.startswith("failed to get service account")
    assert executables.runs == []


async def test_standalone_node_cannot_serve_pods_with_an_account(make_provider: MakeProvider) -> None:
    found = await make_provider(token_attributes=attributes()).lookup(IMAGE, pod())

    assert found.failure == "failed to get service account: there is no API server"
