"""Tests for service account tokens: issuers, keys, audiences, lifetimes and bound objects."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub import feature_gates
from apiserver_stub.authn import jwt
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.keys import SigningKey
from apiserver_stub.authn.legacy_account import ISSUER, LegacyTokens
from apiserver_stub.authn.service_account import EXTENDED_SECONDS, ServiceAccountTokens
from apiserver_stub.authn.token_keys import FileKeys
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authn.conftest import Objects

API = ["https://api", "old"]
GATES = (
    "ServiceAccountTokenJTI",
    "ServiceAccountTokenNodeBinding",
    "ServiceAccountTokenNodeBindingValidation",
    "ServiceAccountTokenPodNodeInfo",
)


class Clock:
    def __init__(self) -> None:
        self.time = float(int(time.time()))

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.load_or_create(tmp_path / "key")


@pytest.fixture
def account(store: Objects) -> dict[str, Any]:
    store.put("core/nodes", {"metadata": {"name": "n1", "uid": "u-n1"}})
    return store.put("core/serviceaccounts", {"metadata": {"namespace": "ns", "name": "sa", "uid": "u-sa"}})


def pod(store: Objects, **metadata: Any) -> dict[str, Any]:
    about = {"namespace": "ns", "name": "web", "uid": "u-web", **metadata}
    return store.put("core/pods", {"metadata": about, "spec": {"nodeName": "n1"}})


def make(store: Objects, key: SigningKey, clock: Clock, *on: str, **options: Any) -> ServiceAccountTokens:
    switched = feature_gates.build_gates(dict.fromkeys(on, True))
    return ServiceAccountTokens(
        store,
        FileKeys(key, options.pop("trusted", [key.public])),
        options.pop("issuers", API),
        Identity(),
        gates=switched,
        now=clock,
        **options,
    )  # type: ignore[arg-type]


async def rejection(tokens: ServiceAccountTokens, token: str, audiences: list[str] = API) -> str:
    with pytest.raises(Rejected) as error:
        await tokens.authenticate(token, audiences)
    return str(error.value)


async def test_token_authenticates_the_account_with_its_pod(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    tokens = make(store, key, clock)
    issued = await tokens.issue(account, API, 3600, ("Pod", pod(store)))

    known = await tokens.authenticate(issued.token, ["https://api"])

    assert known is not None
    assert known.audiences == ("https://api",)
    user = known.user
    assert (user.name, user.uid) == ("system:serviceaccount:ns:sa", "u-sa")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
    assert user.extra == {
        "authentication.kubernetes.io/pod-name": ("web",),
        "authentication.kubernetes.io/pod-uid": ("u-web",),
    }
    claims = jwt.parse(issued.token).claims
    assert set(claims) == {"aud", "exp", "iat", "iss", "kubernetes.io", "nbf", "sub"}
    assert set(claims["kubernetes.io"]) == {"namespace", "pod", "serviceaccount"}


@pytest.mark.row("opt.service-account-issuer")
async def test_first_issuer_issues_and_all_are_accepted(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    before = make(store, key, clock, issuers=["old"])
    now = make(store, key, clock)
    old = (await before.issue(account, ["old"], 3600, None)).token

    assert jwt.parse((await now.issue(account, API, 3600, None)).token).claims["iss"] == "https://api"
    assert await now.authenticate(old, API)
    assert await make(store, key, clock, issuers=["other"]).authenticate(old, API) is None


@pytest.mark.row("opt.service-account-key-file")
async def test_token_must_be_signed_by_a_configured_key(
    store: Objects, key: SigningKey, clock: Clock, account: Any, tmp_path: Path
) -> None:
    other = SigningKey.load_or_create(tmp_path / "other")
    token = (await make(store, other, clock).issue(account, API, 3600, None)).token

    assert await rejection(make(store, key, clock), token) == "failed to verify signature"
    assert await make(store, key, clock, trusted=[key.public, other.public]).authenticate(token, API)


@pytest.mark.row("opt.api-audiences")
async def test_token_must_have_an_accepted_audience(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    tokens = make(store, key, clock, api_audiences=["a", "b"])
    token = (await tokens.issue(account, ["b", "vault"], 3600, None)).token

    assert tokens.api_audiences == ("a", "b")
    known = await tokens.authenticate(token, ["a", "b"])
    assert known is not None
    assert known.audiences == ("b",)
    text = 'token audiences ["b" "vault"] is invalid for the target audiences ["a"]'
    assert await rejection(tokens, token, ["a"]) == text


async def test_validity_is_checked_with_one_minute_of_leeway(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    tokens = make(store, key, clock)
    token = (await tokens.issue(account, API, 600, None)).token

    for seconds, expected in ((659, ""), (2, "service account token has expired"), (-730, "not valid yet")):
        clock.time += seconds
        if expected:
            assert expected in await rejection(tokens, token)
        else:
            assert await tokens.authenticate(token, API)


async def test_bound_object_must_exist(store: Objects, key: SigningKey, clock: Clock, account: Any) -> None:
    tokens = make(store, key, clock)
    token = (await tokens.issue(account, API, 3600, ("Pod", pod(store)))).token
    gone = "service account token has been invalidated"

    pod(store, uid="u-new")
    assert await rejection(tokens, token) == "pod UID (u-new) does not match service account pod ref claim (u-web)"
    pod(store, deletionTimestamp="2020-01-01T00:00:00Z")
    assert await rejection(tokens, token) == gone
    store.remove("core/pods", "ns/web")
    assert await rejection(tokens, token) == gone
    pod(store)
    assert await tokens.authenticate(token, API)
    store.put("core/serviceaccounts", {"metadata": {"namespace": "ns", "name": "sa", "uid": "u-new"}})
    assert "service account UID (u-new)" in await rejection(tokens, token)
    store.remove("core/serviceaccounts", "ns/sa")
    assert await rejection(tokens, token) == 'serviceaccounts "sa" not found'


@pytest.mark.row("opt.service-account-max-token-expiration")
async def test_maximum_shortens_the_requested_lifetime_with_a_warning(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    issued = await make(store, key, clock, max_seconds=3600).issue(account, API, 7200, None)

    assert issued.warnings == ("requested expiration of 7200 seconds shortened to 3600 seconds",)
    assert (issued.seconds, issued.expires_at) == (3600, clock.time + 3600)
    assert jwt.parse(issued.token).claims["exp"] == clock.time + 3600


@pytest.mark.row("opt.service-account-extend-token-expiration")
async def test_only_pod_tokens_are_extended(store: Objects, key: SigningKey, clock: Clock, account: Any) -> None:
    async def validity(seconds: int, *, extend: bool = True, audiences: list[str] = API, bound: bool = True) -> float:
        tokens = make(store, key, clock, extend=extend)
        issued = await tokens.issue(account, audiences, seconds, ("Pod", pod(store)) if bound else None)
        claims = jwt.parse(issued.token).claims
        assert issued.expires_at == clock.time + seconds
        assert claims["kubernetes.io"].get("warnafter", 0) in (0, clock.time + seconds)
        return float(claims["exp"] - clock.time)

    assert await validity(3607) == EXTENDED_SECONDS
    assert await validity(3607, extend=False) == 3607
    assert await validity(3600) == 3600
    assert await validity(3607, audiences=["vault"]) == 3607
    assert await validity(3607, bound=False) == 3607


async def test_use_of_a_stale_token_is_recorded(store: Objects, key: SigningKey, clock: Clock, account: Any) -> None:
    tokens = make(store, key, clock)
    token = (await tokens.issue(account, API, 3607, ("Pod", pod(store)))).token

    clock.time += 3607
    in_time = await tokens.authenticate(token, API)
    clock.time += 5
    late = await tokens.authenticate(token, API)

    assert in_time is not None and late is not None
    assert in_time.annotations == {}
    text = "subject: system:serviceaccount:ns:sa, seconds after warning threshold: 5"
    assert late.annotations == {"authentication.k8s.io/stale-token": text}
    assert (tokens.valid_tokens, tokens.stale_tokens) == (1, 1)


@pytest.mark.row("gate.ServiceAccountTokenJTI", "gate.ServiceAccountTokenPodNodeInfo")
async def test_gates_add_user_extras(store: Objects, key: SigningKey, clock: Clock, account: Any) -> None:
    tokens = make(store, key, clock, *GATES)
    token = (await tokens.issue(account, API, 3600, ("Pod", pod(store)))).token
    known = await tokens.authenticate(token, API)
    plain = await make(store, key, clock).authenticate(token, API)

    assert known is not None
    extra = {name.rpartition("/")[2]: value[0] for name, value in known.user.extra.items()}
    token_id = jwt.parse(token).claims["jti"]
    assert (extra["node-name"], extra["node-uid"], extra["credential-id"]) == ("n1", "u-n1", f"JTI={token_id}")
    assert plain is not None
    assert {name.rpartition("/")[2] for name in plain.user.extra} == {"pod-name", "pod-uid"}


@pytest.mark.row("gate.ServiceAccountTokenNodeBindingValidation")
async def test_node_bound_token_requires_the_node(store: Objects, key: SigningKey, clock: Clock, account: Any) -> None:
    tokens = make(store, key, clock, *GATES)
    token = (await tokens.issue(account, API, 3600, ("Node", store.read("core/nodes", "n1")))).token

    assert await tokens.authenticate(token, API)
    assert "feature gate is disabled" in await rejection(make(store, key, clock), token)
    store.remove("core/nodes", "n1")
    assert await rejection(tokens, token) == "service account token has been invalidated"


# Legacy tokens of secrets.


def legacy(store: Objects, key: SigningKey, clock: Clock, *, lookup: bool = True, clean: bool = True) -> LegacyTokens:
    switched = feature_gates.build_gates({"LegacyServiceAccountTokenCleanUp": clean})
    return LegacyTokens(
        store, FileKeys(key, [key.public]), lookup=lookup, gates=switched, now=clock, identity=Identity()
    )  # type: ignore[arg-type]


def in_secret(store: Objects, key: SigningKey, **labels: str) -> str:
    prefix = "kubernetes.io/serviceaccount/"
    token = jwt.sign(
        key,
        {
            "iss": ISSUER,
            "sub": "system:serviceaccount:ns:sa",
            f"{prefix}namespace": "ns",
            f"{prefix}secret.name": "s",
            f"{prefix}service-account.name": "sa",
            f"{prefix}service-account.uid": "u-sa",
        },
    )
    metadata = {"namespace": "ns", "name": "s", "uid": "u-s", "labels": labels}
    store.put("core/secrets", {"metadata": metadata, "data": {"token": base64.b64encode(token.encode()).decode()}})
    return token


@pytest.mark.row("opt.service-account-lookup")
async def test_legacy_token_lookup_requires_the_secret(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    token = in_secret(store, key)
    user = await legacy(store, key, clock).user_of(token)
    assert user is not None
    assert (user.name, user.uid) == ("system:serviceaccount:ns:sa", "u-sa")

    store.put("core/secrets", {"metadata": {"namespace": "ns", "name": "s", "uid": "u-s"}, "data": {}})
    with pytest.raises(Rejected, match="does not match server's copy"):
        await legacy(store, key, clock).user_of(token)
    store.remove("core/secrets", "ns/s")
    with pytest.raises(Rejected, match="has been invalidated"):
        await legacy(store, key, clock).user_of(token)

    assert await legacy(store, key, clock, lookup=False).user_of(token) == user


async def test_last_use_of_a_legacy_token_is_recorded(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    token = in_secret(store, key)
    clock.time = 1_700_000_000

    await legacy(store, key, clock).user_of(token)

    label = "kubernetes.io/legacy-token-last-used"
    assert store.read("core/secrets", "ns/s")["metadata"]["labels"] == {label: "2023-11-14"}


@pytest.mark.row("gate.LegacyServiceAccountTokenCleanUp")
async def test_legacy_token_marked_invalid_is_rejected(
    store: Objects, key: SigningKey, clock: Clock, account: Any
) -> None:
    token = in_secret(store, key, **{"kubernetes.io/legacy-token-invalid-since": "2024-01-01"})

    with pytest.raises(Rejected, match="marked invalid"):
        await legacy(store, key, clock).user_of(token)
    assert await legacy(store, key, clock, clean=False).user_of(token)
