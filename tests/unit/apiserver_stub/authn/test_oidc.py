"""Tests for OpenID Connect tokens: verification, claims, key rotation and the configuration file."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn import jwt
from apiserver_stub.authn.anonymous import AnonymousAccess
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.config_file import ConfigRules, load
from apiserver_stub.authn.jwt_config import IssuerRules, JwtConfig, Mapped, Rule
from apiserver_stub.authn.key_set import RETRY_SECONDS, IssuerError
from apiserver_stub.authn.keys import SigningKey
from apiserver_stub.authn.oidc import OidcTokens
from apiserver_stub.cel.config_expression import ConfigExpression
from apiserver_stub.options import parse
from apiserver_stub.server.authentication import configuration_of
from nodeagent.base.aio import TaskOwner
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.base.tls import generate_ca
from nodeagent.testing.clock import FakeClock

ISSUER = "https://id.example"
BASE = [f"--oidc-issuer-url={ISSUER}", "--oidc-client-id=cid", "--oidc-signing-algs=ES256"]
NOW = int(time.time())


class Provider:
    """OpenID provider in memory."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path
        self.documents: dict[str, Any] = {}
        self.requests: list[tuple[str, str]] = []
        self.describe(ISSUER)
        self.key = self.rotate("one")

    def describe(self, issuer: str) -> None:
        document = {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
        self.documents[f"{issuer}/.well-known/openid-configuration"] = document

    def rotate(self, name: str, issuer: str = ISSUER) -> SigningKey:
        key = SigningKey.load_or_create(self.directory / name)
        self.documents[f"{issuer}/keys"] = {"keys": [{"kty": "oct"}, key.public.jwk()]}
        return key

    def token(self, key: SigningKey | None = None, **claims: Any) -> str:
        full = {"iss": ISSUER, "aud": "cid", "sub": "u1", "exp": NOW + 600, **claims}
        return jwt.sign(key or self.key, {name: value for name, value in full.items() if value is not None})

    async def fetch(self, url: str, bearer: str = "") -> bytes:
        self.requests.append((url, bearer))
        if url not in self.documents:
            raise IssuerError(f"{url}: answered 404")
        document = self.documents[url]
        return document if isinstance(document, bytes) else msgspec.json.encode(document)


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    return Provider(tmp_path)


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    async with TaskOwner("test") as owner:
        yield owner


@pytest.fixture
def make(provider: Provider, tasks: TaskOwner, clock: FakeClock) -> Any:
    async def made(*arguments: str, config: JwtConfig | None = None) -> OidcTokens:
        expected = config or configured(*BASE, *arguments)
        tokens = OidcTokens(expected, provider, tasks, clock=clock, now=lambda: NOW)
        tokens.start()
        await clock.advance(0.1)
        return tokens

    return made


def configured(*arguments: str) -> JwtConfig:
    """Return the issuer that the options *arguments* configure."""
    (issuer,) = configuration_of(parse(arguments)).issuers
    return issuer


async def rejection(tokens: OidcTokens, token: str) -> str:
    with pytest.raises(Rejected) as error:
        await tokens.user_of(token)
    return str(error.value)


@pytest.mark.row("opt.oidc-issuer-url", "opt.oidc-client-id")
async def test_issuer_and_audience_must_match(provider: Provider, make: Any) -> None:
    tokens = await make()

    assert (await tokens.user_of(provider.token())).name == f"{ISSUER}#u1"
    assert (await tokens.user_of(provider.token(aud=["x", "cid"]))).name == f"{ISSUER}#u1"
    assert await tokens.user_of(provider.token(iss="https://other")) is None
    assert await tokens.user_of("no token") is None
    assert 'expected audience "cid" got ["zz"]' in await rejection(tokens, provider.token(aud=["zz"]))
    assert "expired" in await rejection(tokens, provider.token(exp=NOW - 1))
    assert "expired" in await rejection(tokens, provider.token(exp=None))
    assert "not valid yet" in await rejection(tokens, provider.token(nbf=NOW + 400))


@pytest.mark.row("opt.oidc-signing-algs")
async def test_algorithm_must_be_listed(provider: Provider, make: Any) -> None:
    tokens = await make("--oidc-signing-algs=RS256")
    assert await tokens.user_of(provider.token())  # the option extends its earlier values

    config = configured(*BASE[:2], "--oidc-signing-algs=ES384,RS256")
    assert "unsupported algorithm 'ES256'" in await rejection(await make(config=config), provider.token())


@pytest.mark.row("opt.oidc-username-claim", "opt.oidc-username-prefix")
@pytest.mark.parametrize(
    ("arguments", "claims", "name"),
    [
        (["--oidc-username-claim=nick"], {"nick": "eve"}, f"{ISSUER}#eve"),
        (["--oidc-username-claim=nick", "--oidc-username-prefix=idp:"], {"nick": "eve"}, "idp:eve"),
        (["--oidc-username-prefix=-"], {}, "u1"),
        (["--oidc-username-claim=email"], {"email": "e@x"}, "e@x"),
        (["--oidc-username-claim=email"], {"email": "e@x", "email_verified": True}, "e@x"),
    ],
)
async def test_username_is_read_from_a_claim(
    provider: Provider, make: Any, arguments: list[str], claims: dict[str, Any], name: str
) -> None:
    assert (await (await make(*arguments)).user_of(provider.token(**claims))).name == name


async def test_missing_username_or_unverified_email_is_rejected(provider: Provider, make: Any) -> None:
    tokens = await make("--oidc-username-claim=email")

    assert "claim not present" in await rejection(tokens, provider.token())
    for unverified in (False, "true", None):
        token = jwt.sign(
            provider.key,
            {"iss": ISSUER, "aud": "cid", "exp": NOW + 9, "email": "e@x", "email_verified": unverified},
        )
        assert await rejection(tokens, token) == "oidc: email not verified"


@pytest.mark.row("opt.oidc-groups-claim", "opt.oidc-groups-prefix")
async def test_groups_claim_is_a_string_or_list(provider: Provider, make: Any) -> None:
    tokens = await make("--oidc-groups-claim=roles", "--oidc-groups-prefix=idp:")

    assert (await tokens.user_of(provider.token(roles="dev"))).groups == ("idp:dev",)
    assert (await tokens.user_of(provider.token(roles=["dev", "ops"]))).groups == ("idp:dev", "idp:ops")
    assert (await tokens.user_of(provider.token())).groups == ()
    assert "parse groups claim" in await rejection(tokens, provider.token(roles={"a": 1}))
    assert (await (await make()).user_of(provider.token(roles="dev"))).groups == ()


@pytest.mark.row("opt.oidc-required-claim")
async def test_required_claims_must_be_equal(provider: Provider, make: Any) -> None:
    tokens = await make("--oidc-required-claim=hd=x", "--oidc-required-claim=tier=1")

    assert await tokens.user_of(provider.token(hd="x", tier="1"))
    wrong = "oidc: required claim hd value does not match. Got = z, want = x"
    assert await rejection(tokens, provider.token(hd="z", tier="1")) == wrong
    assert "hd not present" in await rejection(tokens, provider.token(tier="1"))
    assert "expected a string" in await rejection(tokens, provider.token(hd="x", tier=1))


async def test_unknown_keys_reload_the_key_set_at_a_limited_rate(
    provider: Provider, make: Any, tmp_path: Path, clock: FakeClock
) -> None:
    tokens = await make()
    assert await tokens.user_of(provider.token())
    old = provider.key
    new = provider.rotate("two")

    assert await tokens.user_of(provider.token(new))
    assert "failed to verify signature" in await rejection(tokens, provider.token(old))
    before = len(provider.requests)
    forged = provider.token(SigningKey.load_or_create(tmp_path / "forger"))
    for _ in range(100):
        assert "failed to verify signature" in await rejection(tokens, forged)
    assert len(provider.requests) - before <= 10
    await clock.advance(10)
    assert await tokens.user_of(provider.token(provider.rotate("three")))


async def test_provider_may_start_later_and_must_match_the_issuer(
    provider: Provider, make: Any, clock: FakeClock
) -> None:
    address = f"{ISSUER}/.well-known/openid-configuration"
    document = provider.documents.pop(address)
    tokens = await make()
    assert await rejection(tokens, provider.token()) == "oidc: authenticator not initialized"
    for wrong in ({**document, "issuer": "https://other"}, {**document, "jwks_uri": "http://id.example/keys"}, b"[]"):
        provider.documents[address] = wrong
        await clock.advance(RETRY_SECONDS + 1)
        assert await rejection(tokens, provider.token()) == "oidc: authenticator not initialized"

    provider.documents[address] = document
    await clock.advance(RETRY_SECONDS + 1)

    assert await tokens.user_of(provider.token())


async def test_distributed_groups_claim_is_resolved(provider: Provider, make: Any) -> None:
    tokens = await make("--oidc-groups-claim=groups")
    other = "https://groups.example"
    provider.describe(other)
    signer = provider.rotate("groups", other)
    response = provider.token(signer, iss=other, groups=["dev"])
    provider.documents[f"{other}/u1"] = response.encode()
    where = {"endpoint": f"{other}/u1", "access_token": "secret"}
    token = provider.token(_claim_names={"groups": "src"}, _claim_sources={"src": where})

    assert (await tokens.user_of(token)).groups == ("dev",)
    assert (f"{other}/u1", "secret") in provider.requests

    provider.documents[f"{other}/u1"] = provider.token(provider.key, iss=other, groups=["admin"]).encode()
    assert "failed to verify" in await rejection(tokens, token)
    del provider.documents[f"{other}/u1"]
    assert "404" in await rejection(tokens, token)


async def test_expressions_map_and_validate_claims(provider: Provider, make: Any) -> None:
    config = JwtConfig(
        issuer=ISSUER,
        audiences=("cid", "other"),
        username=Mapped(expression=ConfigExpression("claims.sub + '@x'", ("claims",))),
        groups=Mapped(expression=ConfigExpression("claims.roles.split(',')", ("claims",))),
        uid=Mapped("sub"),
        extra=(("x.io/team", ConfigExpression("claims.?team.orValue('')", ("claims",))),),
        claim_rules=(Rule(ConfigExpression("claims.hd == 'x'", ("claims",)), "wrong domain"),),
        user_rules=(Rule(ConfigExpression("!user.username.startsWith('system:')", ("user",)), "reserved"),),
        algorithms=("ES256",),
    )
    tokens = await make(config=config)

    user = await tokens.user_of(provider.token(aud="other", hd="x", roles="a,b", team="t"))
    assert user == User("u1@x", "u1", ("a", "b"), {"x.io/team": ("t",)})
    assert (await tokens.user_of(provider.token(hd="x", roles="a"))).extra == {}
    assert "failed: wrong domain" in await rejection(tokens, provider.token(hd="y", roles="a"))
    assert "failed: reserved" in await rejection(tokens, provider.token(sub="system:x", hd="x", roles="a"))
    assert "error evaluating expression" in await rejection(tokens, provider.token(hd="x"))
    assert "return a string" in await rejection(
        await make(
            config=JwtConfig(
                ISSUER, ("cid",), Mapped(expression=ConfigExpression("claims.n", ("claims",))), algorithms=("ES256",)
            )
        ),
        provider.token(n=1),
    )


# Configuration file.


def written(tmp_path: Path, entry: dict[str, Any], **more: Any) -> Path:
    document = {"apiVersion": "apiserver.config.k8s.io/v1alpha1", "kind": "AuthenticationConfiguration", **more}
    path = tmp_path / "authn.yaml"
    path.write_bytes(msgspec.json.encode({**document, "jwt": [entry]} if "jwt" not in more else document))
    return path


GOOD: dict[str, Any] = {
    "issuer": {"url": ISSUER, "audiences": ["cid"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
}


def test_configuration_file_configures_an_issuer(tmp_path: Path) -> None:
    authority = generate_ca("x").certificate.decode()
    entry = {
        "issuer": {
            "url": ISSUER,
            "audiences": ["a", "b"],
            "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": authority,
        },
        "claimValidationRules": [{"claim": "hd", "requiredValue": "x"}, {"expression": "claims.n > 1", "message": "m"}],
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "p:"},
            "groups": {"expression": "claims.g"},
            "uid": {"claim": "id"},
            "extra": [{"key": "x.io/k", "valueExpression": "claims.k"}],
        },
        "userValidationRules": [{"expression": "user.username != ''"}],
    }

    (config,) = load(written(tmp_path, entry), Identity(), ConfigRules()).issuers

    assert (config.issuer, config.audiences, config.authority) == (ISSUER, ("a", "b"), authority)
    assert config.username == Mapped("sub", "p:")
    assert config.groups.expression is not None
    assert config.uid == Mapped("id")
    assert config.required == (("hd", "x"),)
    assert [rule.message for rule in config.claim_rules] == ["m"]
    assert [key for key, _ in config.extra] == ["x.io/k"]
    assert len(config.user_rules) == 1
    assert config.algorithms == ("RS256",)


SUB = {"claim": "sub", "prefix": "p:"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"issuer": {"audiences": ["a"]}}, "jwt[0].issuer.url: Required value: URL is required"),
        (
            {"issuer": {"url": "http://x", "audiences": ["a"]}},
            'Invalid value: "http://x": URL scheme must be https',
        ),
        ({"issuer": {"url": "https://u:p@x?q#f", "audiences": ["a"]}}, "must not contain a fragment"),
        ({"issuer": {"url": ISSUER}}, "jwt[0].issuer.audiences: Required value"),
        ({"issuer": {"url": ISSUER, "audiences": ["a", "a"]}}, "audienceMatchPolicy must be MatchAny for multiple"),
        ({"issuer": {"url": ISSUER, "audiences": ["a"], "certificateAuthority": "x"}}, '"<omitted>": data does not'),
        ({"claimMappings": {}}, "claimMappings.username: Required value: claim or expression is required"),
        ({"claimMappings": {"username": {"claim": "sub"}}}, "username.prefix: Required value: prefix is required"),
        (
            {"claimMappings": {"username": {"claim": "sub", "expression": "claims.x"}}},
            "claim and expression can't both be set",
        ),
        ({"claimMappings": {"username": {"expression": "claims."}}}, "username.expression: Invalid value"),
        (
            {"claimMappings": {"username": SUB, "extra": [{"key": "team", "valueExpression": "claims.k"}]}},
            'extra[0].key: Invalid value: "team": must be a domain-prefixed path (such as "acme.io/foo")',
        ),
        (
            {"claimMappings": {"username": SUB, "extra": [{"key": "X.io/k", "valueExpression": "claims.k"}]}},
            'extra[0].key: Invalid value: "X.io": a lowercase RFC 1123 subdomain must consist of',
        ),
        (
            {"claimMappings": {"username": SUB, "extra": [{"key": "x.io/a b", "valueExpression": "claims.k"}]}},
            'extra[0].key: Invalid value: "a b": Invalid path',
        ),
        (
            {"claimMappings": {"username": SUB, "extra": [{"key": "", "valueExpression": "claims.k"}]}},
            "extra[0].key: Required value",
        ),
        ({"claimValidationRules": [{}]}, "claimValidationRules[0]: Required value: claim or expression is required"),
        ({"claimValidationRules": [{"expression": "claims.sub + 'x'"}]}, "must evaluate to bool"),
        ({"claimValidationRules": [{"claim": "a"}, {"claim": "a"}]}, '[1].claim: Duplicate value: "a"'),
        ({"userValidationRules": [{"expression": "claims.x == 1"}]}, "userValidationRules[0].expression"),
        ({"unknown": 1}, 'unknown field "jwt[0].unknown"'),
        ({"issuer": {"url": 1, "audiences": ["a"]}}, '"jwt[0].issuer.url" must be text'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_configuration_file_reports_each_error(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError) as error:
        load(written(tmp_path, GOOD | change), Identity(), ConfigRules())
    assert problem in str(error.value)


def test_configuration_file_must_have_one_issuer(tmp_path: Path) -> None:
    (found,) = load(written(tmp_path, GOOD), Identity(), ConfigRules()).issuers
    assert found.issuer == ISSUER
    for more, problem in (
        ({"jwt": []}, "at least one jwt is required"),
        ({"jwt": [GOOD, GOOD]}, "Too many: 2: must have at most 1 items"),
        ({"kind": "Config"}, "expected AuthenticationConfiguration"),
    ):
        with pytest.raises(ValueError, match=problem):
            load(written(tmp_path, GOOD, **more), Identity(), ConfigRules())
    (tmp_path / "bad").write_text("{")
    for name in ("bad", "nope"):
        with pytest.raises(ValueError, match=name):
            load(tmp_path / name, Identity(), ConfigRules())


# Later releases.


def config_of(tmp_path: Path, version: str, rules: ConfigRules, *issuers: dict[str, Any], **more: Any) -> Any:
    document = {"apiVersion": f"apiserver.config.k8s.io/{version}", "kind": "AuthenticationConfiguration", **more}
    path = tmp_path / "later.json"
    path.write_bytes(msgspec.json.encode({**document, "jwt": list(issuers)}))
    return load(path, Identity(), rules)


def issuer(**changes: str) -> dict[str, Any]:
    return {**GOOD, "issuer": {**GOOD["issuer"], **changes}}


@pytest.mark.parametrize(("version", "since"), [("v1alpha1", 29), ("v1beta1", 30), ("v1", 34)])
def test_version_of_the_file_depends_on_the_release(tmp_path: Path, version: str, since: int) -> None:
    assert config_of(tmp_path, version, ConfigRules(Release(1, since)), GOOD).issuers
    if since > 29:
        with pytest.raises(ValueError, match="expected AuthenticationConfiguration of version"):
            config_of(tmp_path, version, ConfigRules(Release(1, since - 1)), GOOD)


def test_later_releases_read_several_issuers(tmp_path: Path) -> None:
    rules = ConfigRules(Release(1, 30), issuers=IssuerRules(("ES256", "RS256"), reserved=("https://own",)))
    other = issuer(url="https://b", discoveryURL="https://c/.well-known/openid-configuration")

    first, second = config_of(tmp_path, "v1beta1", rules, GOOD, other).issuers

    assert first.algorithms == ("ES256", "RS256")
    assert second.discovery_url == "https://c/.well-known/openid-configuration"
    for wrong, problem in (
        ([GOOD, GOOD], 'jwt[1].issuer.url: Duplicate value: "https://id.example"'),
        (
            [other, {**other, "issuer": {**other["issuer"], "url": "https://x"}}],
            "jwt[1].issuer.discoveryURL: Duplicate",
        ),
        ([issuer(discoveryURL=f"{ISSUER}/")], "discoveryURL must be different from URL"),
        ([issuer(discoveryURL="http://x")], "jwt[0].issuer.discoveryURL: Invalid value"),
        ([issuer(url="https://own")], "URL must not overlap with disallowed issuers: [https://own]"),
        ([GOOD] * 65, "Too many: 65: must have at most 64 items"),
    ):
        with pytest.raises(ValueError) as error:
            config_of(tmp_path, "v1beta1", rules, *wrong)
        assert problem in str(error.value)


@pytest.mark.parametrize(
    ("egress", "selects", "problem"),
    [
        ("cluster", True, ""),
        ("etcd", True, 'Unsupported value: "etcd": supported values: "cluster", "controlplane"'),
        ("cluster", False, "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector"),
    ],
)
def test_issuer_selects_its_egress_if_the_gate_is_enabled(
    tmp_path: Path, egress: str, selects: bool, problem: str
) -> None:
    rules, entry = (
        ConfigRules(Release(1, 34), issuers=IssuerRules(selects_egress=selects)),
        issuer(egressSelectorType=egress),
    )

    if problem:
        with pytest.raises(ValueError) as error:
            config_of(tmp_path, "v1", rules, entry)
        assert problem in str(error.value)
    else:
        (found,) = config_of(tmp_path, "v1", rules, entry).issuers
        assert found.egress == egress


@pytest.mark.parametrize(
    ("anonymous", "access"),
    [
        (None, None),
        ({"enabled": False}, AnonymousAccess(enabled=False)),
        ({"enabled": True}, AnonymousAccess()),
        (
            {"enabled": True, "conditions": [{"path": "/healthz"}, {"path": "/livez"}]},
            AnonymousAccess(paths=frozenset(["/healthz", "/livez"])),
        ),
    ],
)
def test_file_configures_anonymous_access(tmp_path: Path, anonymous: Any, access: AnonymousAccess | None) -> None:
    rules = ConfigRules(Release(1, 32), permits_anonymous=True)

    assert config_of(tmp_path, "v1beta1", rules, anonymous=anonymous).anonymous == access


@pytest.mark.parametrize(
    ("rules", "anonymous", "problem"),
    [
        (ConfigRules(Release(1, 31)), {"enabled": True}, "AnonymousAuthConfigurableEndpoints feature gate is disabled"),
        (ConfigRules(Release(1, 30)), {"enabled": True}, 'unknown field "anonymous"'),
        (
            ConfigRules(Release(1, 32), permits_anonymous=True),
            {"conditions": [{"path": "/healthz"}]},
            "enabled should be set to true when conditions are defined",
        ),
        (ConfigRules(Release(1, 32), permits_anonymous=True), {"enabled": "yes"}, "must be true or false"),
    ],
)
def test_invalid_anonymous_access_is_rejected(
    tmp_path: Path, rules: ConfigRules, anonymous: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        config_of(tmp_path, "v1beta1", rules, anonymous=anonymous)


async def test_fetches_of_keys_are_recorded(provider: Provider, make: Any, clock: FakeClock) -> None:
    tokens = await make()
    fetched = clock.wall().timestamp()
    await tokens.user_of(provider.token())
    digest = hashlib.sha256(msgspec.json.encode(provider.documents[f"{ISSUER}/keys"])).hexdigest()
    assert (tokens.keys.fetched_at, tokens.keys.digest) == ({"success": fetched}, f"sha256:{digest}")

    del provider.documents[f"{ISSUER}/keys"]
    await clock.advance(60)
    await rejection(tokens, provider.token(SigningKey.load_or_create(provider.directory / "two")))

    assert tokens.keys.fetched_at == {"success": fetched, "failure": clock.wall().timestamp()}
    assert tokens.keys.digest == f"sha256:{digest}"


async def test_discovery_url_replaces_that_of_the_issuer(provider: Provider, make: Any) -> None:
    documents = provider.documents
    documents["https://inside/discovery"] = documents.pop(f"{ISSUER}/.well-known/openid-configuration")
    mapped = Mapped("sub")
    config = JwtConfig(ISSUER, ("cid",), mapped, algorithms=("ES256",), discovery_url="https://inside/discovery")

    assert (await (await make(config=config)).user_of(provider.token())).name == "u1"
