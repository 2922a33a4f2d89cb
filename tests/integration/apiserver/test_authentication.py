"""Tests for all authentication methods over TLS."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from apiserver_stub.authn import jwt
from apiserver_stub.authn.keys import SigningKey
from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import KeyPair, generate_ca, issue
from tests.integration.apiserver.conftest import Server
from tests.integration.apiserver.provider import Provider

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default/token"
PUBLISHED = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
ISSUERS = ("https://sa.example", "https://old.example")


class ServerHarness:
    """Server with its external services and CAs.

    PROVIDER in an argument is replaced by the address of the services.
    """

    def __init__(self, directory: Path, *more: str) -> None:
        self.directory = directory
        self.provider = Provider(directory)
        self.clients, self.proxies = generate_ca("clients"), generate_ca("proxies")
        for name, authority in (("clients", self.clients), ("proxies", self.proxies)):
            (directory / f"{name}.crt").write_bytes(authority.certificate)
        self.keys = {name: SigningKey.load_or_create(directory / f"{name}.key") for name in ("sign", "old", "oidc")}
        (directory / "tokens.csv").write_text('filetoken,frank,u-frank,"dev,ops"\n')
        self._play()
        self.server = Server(
            directory / "data",
            f"--client-ca-file={directory / 'clients.crt'}",
            f"--requestheader-client-ca-file={directory / 'proxies.crt'}",
            "--requestheader-allowed-names=front",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--token-auth-file={directory / 'tokens.csv'}",
            "--enable-bootstrap-token-auth",
            f"--authentication-token-webhook-config-file={directory / 'webhook.kubeconfig'}",
            "--authentication-token-webhook-cache-ttl=1h",
            "--authentication-token-webhook-version=v1",
            f"--service-account-key-file={directory / 'sign.key'}",
            f"--service-account-key-file={directory / 'old.key'}",
            f"--service-account-signing-key-file={directory / 'sign.key'}",
            *(f"--service-account-issuer={issuer}" for issuer in ISSUERS),
            "--api-audiences=https://api.example,https://old.example",
            "--service-account-max-token-expiration=2h",
            *(argument.replace("PROVIDER", self.provider.url) for argument in more),
        )

    def _play(self) -> None:
        url, paths = self.provider.url, self.provider.paths
        document = {"issuer": url, "jwks_uri": f"{url}/keys"}
        paths["/.well-known/openid-configuration"] = lambda _: (200, document)
        paths["/keys"] = lambda _: (200, {"keys": [self.keys["oidc"].public.jwk()]})
        paths["/review"] = self._review
        cluster = {"server": f"{url}/review", "certificate-authority": str(self.provider.ca_file)}
        config = {
            "clusters": [{"name": "a", "cluster": cluster}],
            "contexts": [{"name": "a", "context": {"cluster": "a"}}],
            "current-context": "a",
        }
        (self.directory / "webhook.kubeconfig").write_text(yaml.safe_dump(config))

    def _review(self, body: Any) -> tuple[int, Any]:
        token = body["spec"]["token"]
        if token == "moved":
            return 307, f"{self.provider.url}/keys"
        status: dict[str, Any] = {"authenticated": False}
        if token.startswith("remote"):
            user = {"username": "rita", "uid": "u-rita", "groups": ["far"], "extra": {"k": ["v"]}}
            status = {"authenticated": True, "user": user}
        return 200, {"kind": "TokenReview", "apiVersion": body["apiVersion"], "status": status}

    def reviews_of(self, token: str) -> list[Any]:
        return [body for _, body in self.provider.requests if body and body["spec"]["token"] == token]

    def oidc_token(self, **claims: Any) -> str:
        full = {"iss": self.provider.url, "aud": "cid", "sub": "olga", "exp": int(time.time()) + 600, **claims}
        return jwt.sign(self.keys["oidc"], full)

    def send(
        self, token: str = "", *, pair: KeyPair | None = None, headers: dict[str, str] | None = None, path: str = SELF
    ) -> tuple[int, Any]:
        """Return the response to one request on a separate connection."""
        context = ssl.create_default_context(cafile=self.server.ready["caFile"])
        if pair is not None:
            write_private(self.directory / "pair.pem", pair.key + pair.certificate)
            context.load_cert_chain(self.directory / "pair.pem")
        parts = urlsplit(self.server.ready["url"])
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port or 0, timeout=30, context=context)
        given = {"Content-Type": "application/json", **(headers or {})}
        if token:
            given["Authorization"] = f"Bearer {token}"
        try:
            connection.request("POST" if path == SELF else "GET", path, b"{}" if path == SELF else None, given)
            response = connection.getresponse()
            body = response.read()
            return response.status, json.loads(body) if body[:1] == b"{" else body.decode()
        finally:
            connection.close()

    def who(self, token: str = "", **options: Any) -> Any:
        """Return the authenticated user, the status code of the error, or ``None`` if the TLS handshake fails."""
        try:
            code, result = self.send(token, **options)
        except (ssl.SSLError, ConnectionError):
            return None
        return result["status"]["userInfo"] if code == 201 else code

    def close(self) -> None:
        assert self.server.stop() == 0
        self.provider.close()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHarness]:
    directory = tmp_path_factory.mktemp("authentication")
    directory.joinpath("data").mkdir()
    arguments = [
        "--oidc-issuer-url=PROVIDER",
        "--oidc-client-id=cid",
        f"--oidc-ca-file={directory / 'provider-ca.crt'}",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=idp:",
        "--oidc-signing-algs=ES256",
    ]
    found = ServerHarness(directory, *arguments)
    yield found
    found.close()


@pytest.mark.row("opt.client-ca-file")
def test_client_certificate_takes_precedence_over_a_token(harness: ServerHarness) -> None:
    pair = issue(harness.clients, "carol", organizations=["dev"], client=True)

    for token in ("", "filetoken", "wrong"):
        assert harness.who(token, pair=pair) == {"username": "carol", "groups": ["dev", "system:authenticated"]}


@pytest.mark.row("opt.client-ca-file")
def test_invalid_client_certificate_is_rejected_in_the_handshake(harness: ServerHarness) -> None:
    expired = issue(harness.clients, "carol", client=True, days=-0.02)  # type: ignore[arg-type]
    foreign = issue(generate_ca("clients"), "carol", client=True)
    for_servers = issue(harness.clients, "carol", server=True)

    for pair in (expired, foreign, for_servers):
        assert harness.who(pair=pair) is None
        assert harness.who("filetoken", pair=pair) is None
    assert harness.who("filetoken")["username"] == "frank"


@pytest.mark.row("opt.client-ca-file")
def test_token_is_used_if_another_bundle_issued_the_certificate(harness: ServerHarness) -> None:
    front = issue(harness.proxies, "front", client=True)

    assert harness.who(pair=front) == 401
    assert harness.who("filetoken", pair=front)["username"] == "frank"


@pytest.mark.row("opt.client-ca-file")
def test_intermediate_certificates_of_clients_need_python_3_13(harness: ServerHarness) -> None:
    between = generate_ca("between")
    signed = _signed_authority(harness.clients, between)
    pair = issue(between, "carol", client=True)

    found = harness.who(pair=KeyPair(pair.certificate + signed, pair.key))

    supported = hasattr(ssl.SSLObject, "get_unverified_chain")
    assert found["username"] == "carol" if supported else found == 401
    assert harness.who(pair=pair) is None


def _signed_authority(ca: KeyPair, other: KeyPair) -> bytes:
    """Return the certificate of the CA *other*, signed by *ca*."""
    parent, own = (x509.load_pem_x509_certificate(pair.certificate) for pair in (ca, other))
    builder = x509.CertificateBuilder(
        parent.subject, own.subject, own.public_key(), 7, own.not_valid_before_utc, own.not_valid_after_utc
    ).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    key: Any = serialization.load_pem_private_key(ca.key, None)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.row("opt.client-ca-file")
def test_changed_ca_bundle_is_reloaded(otherwise: ServerHarness) -> None:
    old, other = issue(otherwise.clients, "carol", client=True), generate_ca("other")
    new = issue(other, "dan", client=True)
    assert (otherwise.who(pair=old)["username"], otherwise.who(pair=new)) == ("carol", None)

    write_private(otherwise.directory / "clients.crt", other.certificate)

    until = time.monotonic() + 20
    while isinstance(otherwise.who(pair=new), int | None):  # the handshake and the requests follow separately
        assert time.monotonic() < until, "the bundle was not taken up"
        time.sleep(0.1)
    while otherwise.who(pair=old) is not None:
        assert time.monotonic() < until, "the previous bundle is still used"
        time.sleep(0.1)
    admin = otherwise.server.api()
    while admin.ok("GET", PUBLISHED)["data"]["client-ca-file"].encode() != other.certificate:
        assert time.monotonic() < until, "the bundle was not published"
        time.sleep(0.1)


@pytest.mark.row(
    "opt.requestheader-client-ca-file",
    "opt.requestheader-allowed-names",
    "opt.requestheader-username-headers",
    "opt.requestheader-group-headers",
    "opt.requestheader-extra-headers-prefix",
)
def test_only_the_proxy_may_set_identity_headers(harness: ServerHarness) -> None:
    headers = {"X-Remote-User": "dave", "X-Remote-Group": "dev", "X-Remote-Extra-Team": "a"}
    front = issue(harness.proxies, "front", client=True)

    assert harness.who(pair=front, headers=headers) == {
        "username": "dave",
        "groups": ["dev", "system:authenticated"],
        "extra": {"team": ["a"]},
    }
    assert harness.who(pair=front) == 401
    assert harness.who(pair=issue(harness.proxies, "back", client=True), headers=headers) == 401
    assert harness.who(pair=issue(harness.clients, "front", client=True), headers=headers)["username"] == "front"
    assert harness.who("filetoken", headers=headers)["username"] == "frank"
    published = harness.server.api().ok("GET", PUBLISHED)["data"]
    assert published["requestheader-username-headers"] == '["X-Remote-User"]'
    assert published["client-ca-file"].encode() == harness.clients.certificate


@pytest.mark.row("opt.token-auth-file")
def test_token_file_authenticates_users(harness: ServerHarness) -> None:
    user = {"username": "frank", "uid": "u-frank", "groups": ["dev", "ops", "system:authenticated"]}

    assert harness.who("filetoken") == user
    assert harness.who("filetokem") == 401


@pytest.mark.row("opt.enable-bootstrap-token-auth")
def test_bootstrap_token_is_valid_while_its_secret_exists(harness: ServerHarness) -> None:
    admin, collection = harness.server.api(), "/api/v1/namespaces/kube-system/secrets"
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:workers",
    }
    name = "bootstrap-token-abcdef"
    assert harness.who("abcdef.0123456789abcdef") == 401
    admin.ok(
        "POST", collection, {"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    )

    found = harness.who("abcdef.0123456789abcdef")

    assert found["username"] == "system:bootstrap:abcdef"
    assert found["groups"] == ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"]


@pytest.mark.row(
    "opt.authentication-token-webhook-config-file",
    "opt.authentication-token-webhook-version",
)
def test_token_webhook_authenticates_users(harness: ServerHarness) -> None:
    user = {"username": "rita", "uid": "u-rita", "groups": ["far", "system:authenticated"], "extra": {"k": ["v"]}}

    assert harness.who("remote-1") == user
    (review,) = harness.reviews_of("remote-1")
    assert review["apiVersion"] == "authentication.k8s.io/v1"
    assert review["spec"]["audiences"] == ["https://api.example", "https://old.example"]
    for _ in range(2):
        assert harness.who("unknown-1") == 401
    assert len(harness.reviews_of("unknown-1")) == 1
    assert harness.who("moved") == 401
    assert harness.reviews_of("filetoken") == []


@pytest.mark.row(
    "opt.oidc-issuer-url",
    "opt.oidc-client-id",
    "opt.oidc-ca-file",
    "opt.oidc-groups-claim",
    "opt.oidc-groups-prefix",
    "opt.oidc-signing-algs",
)
def test_oidc_tokens_authenticate_users(harness: ServerHarness) -> None:
    until = time.monotonic() + 15
    while (found := harness.who(harness.oidc_token(groups=["dev"]))) == 401:
        assert time.monotonic() < until, "the provider was not found"
        time.sleep(0.05)

    assert found == {"username": f"{harness.provider.url}#olga", "groups": ["idp:dev", "system:authenticated"]}
    assert harness.who(harness.oidc_token(aud="other")) == 401
    harness.keys["oidc"] = SigningKey.load_or_create(harness.directory / "rotated.key")
    assert harness.who(harness.oidc_token(groups="ops"))["groups"] == ["idp:ops", "system:authenticated"]


@pytest.mark.row(
    "opt.service-account-issuer",
    "opt.service-account-key-file",
    "opt.service-account-signing-key-file",
    "opt.service-account-max-token-expiration",
    "opt.api-audiences",
)
def test_service_account_tokens_have_the_configured_issuer(harness: ServerHarness) -> None:
    admin = harness.server.api()
    code, headers, body = admin.raw("POST", ACCOUNT, {"spec": {"expirationSeconds": 10000}})
    requested = json.loads(body)
    token = jwt.parse(requested["status"]["token"])

    assert (code, headers["warning"]) == (
        201,
        '299 - "requested expiration of 10000 seconds shortened to 7200 seconds"',
    )
    assert requested["spec"]["audiences"] == ["https://api.example", "https://old.example"]
    assert requested["spec"]["expirationSeconds"] == token.claims["exp"] - token.claims["iat"] == 7200
    assert (token.claims["iss"], token.key_id) == (ISSUERS[0], harness.keys["sign"].public.key_id)
    old = jwt.sign(harness.keys["old"], token.claims | {"iss": ISSUERS[1]})
    for text in (requested["status"]["token"], old):
        assert harness.who(text)["username"] == "system:serviceaccount:default:default"
    for strange in (
        jwt.sign(harness.keys["oidc"], token.claims),
        jwt.sign(harness.keys["old"], token.claims | {"aud": ["x"]}),
        jwt.sign(harness.keys["old"], token.claims | {"iss": "https://x"}),
    ):
        assert harness.who(strange) == 401
    keys = admin.ok("GET", "/openid/v1/jwks")["keys"]
    assert {key["kid"] for key in keys} == {harness.keys[name].public.key_id for name in ("sign", "old")}
    assert admin.ok("GET", "/.well-known/openid-configuration")["issuer"] == ISSUERS[0]


def test_token_review_checks_the_requested_audiences(harness: ServerHarness) -> None:
    admin = harness.server.api()
    token = admin.ok("POST", ACCOUNT, {"spec": {"audiences": ["vault", "https://api.example"]}})["status"]["token"]

    def review(text: str, *audiences: str) -> Any:
        return admin.ok("POST", REVIEWS, {"spec": {"token": text, "audiences": list(audiences)}})["status"]

    assert review(token, "vault", "x")["audiences"] == ["vault"]
    assert review(token)["audiences"] == ["https://api.example"]
    assert review(token, "x") == {
        "user": {},
        "error": 'token audiences ["vault" "https://api.example"] is invalid for the target audiences ["x"]',
    }
    assert review("filetoken", "https://old.example")["audiences"] == ["https://old.example"]
    assert review("filetoken", "x") == {"user": {}, "error": "invalid bearer token"}


@pytest.mark.row("opt.anonymous-auth")
def test_missing_credentials_are_anonymous_and_invalid_rejected(harness: ServerHarness) -> None:
    assert harness.send(path="/version")[0] == 200
    assert harness.send(path="/api")[0] == 403
    for path in ("/version", "/api"):
        assert harness.send("wrong", path=path)[0] == 401
        assert harness.send("x" * 7000, path=path)[0] == 401


def test_token_is_read_from_websocket_subprotocols(harness: ServerHarness) -> None:
    hidden = base64.urlsafe_b64encode(b"filetoken").decode().rstrip("=")
    protocols = f"base64url.bearer.authorization.k8s.io.{hidden}, v4.channel.k8s.io"

    assert harness.who(headers={"Sec-WebSocket-Protocol": protocols})["username"] == "frank"


def test_impersonation_requires_permission(harness: ServerHarness) -> None:
    admin = harness.server.ready["token"]

    assert harness.who(admin, headers={"Impersonate-User": "alice", "Impersonate-Group": "dev"}) == {
        "username": "alice",
        "groups": ["dev", "system:authenticated"],
    }
    code, rejection = harness.send("filetoken", headers={"Impersonate-User": "alice"})
    assert code == 403
    assert rejection["message"] == (
        'users "alice" is forbidden: User "frank" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    code, text = harness.send(admin, headers={"Impersonate-Group": "dev"}, path="/version")
    listed = 'Internal Server Error: "/version": requested [{Group  dev    }] without impersonating a user'
    assert (code, text.strip()) == (500, listed)
    assert harness.send(admin, headers={"Impersonate-User": "alice"}, path="/api/v1/nodes")[0] == 403


# Server with other options.


CONFIG = {
    "apiVersion": "apiserver.config.k8s.io/v1alpha1",
    "kind": "AuthenticationConfiguration",
    "jwt": [
        {
            "issuer": {"audiences": ["cid"]},
            "claimMappings": {
                "username": {"expression": "claims.sub + '@idp'"},
                "groups": {"claim": "roles", "prefix": ""},
                "extra": [{"key": "idp.example/team", "valueExpression": "claims.?team.orValue('')"}],
            },
            "userValidationRules": [{"expression": "!user.username.startsWith('system:')", "message": "reserved"}],
        }
    ],
}
GATES = (
    "StructuredAuthenticationConfiguration",
    "ServiceAccountTokenJTI",
    "ServiceAccountTokenNodeBinding",
    "ServiceAccountTokenNodeBindingValidation",
    "ServiceAccountTokenPodNodeInfo",
)


class _Otherwise(ServerHarness):
    """Server with an authentication configuration file and inverted default options."""

    def _play(self) -> None:
        super()._play()
        rsa_key = rsa.generate_private_key(65537, 2048)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (self.directory / "rsa.key").write_bytes(rsa_key.private_bytes(*form))
        self.keys["oidc"] = SigningKey.load(self.directory / "rsa.key")
        config = json.loads(json.dumps(CONFIG))
        config["jwt"][0]["issuer"] |= {
            "url": self.provider.url,
            "certificateAuthority": self.provider.ca_file.read_text(),
        }
        (self.directory / "authn.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHarness]:
    directory = tmp_path_factory.mktemp("otherwise")
    directory.joinpath("data").mkdir()
    found = _Otherwise(
        directory,
        "--feature-gates=" + ",".join(f"{name}=true" for name in GATES),
        f"--authentication-config={directory / 'authn.yaml'}",
        "--authentication-token-webhook-cache-ttl=0s",
        "--anonymous-auth=false",
        "--service-account-lookup=false",
        "--service-account-extend-token-expiration=false",
    )
    yield found
    found.close()


@pytest.mark.row("opt.authentication-config", "gate.StructuredAuthenticationConfiguration")
def test_authentication_configuration_defines_accepted_tokens(otherwise: ServerHarness) -> None:
    until = time.monotonic() + 15
    while (found := otherwise.who(otherwise.oidc_token(roles=["dev"], team="t"))) == 401:
        assert time.monotonic() < until, "the provider was not found"
        time.sleep(0.05)

    groups = ["dev", "system:authenticated"]
    assert found == {"username": "olga@idp", "groups": groups, "extra": {"idp.example/team": ["t"]}}
    assert otherwise.who(otherwise.oidc_token(sub="system:admin")) == 401


@pytest.mark.row("opt.anonymous-auth")
def test_anonymous_requests_are_rejected(otherwise: ServerHarness) -> None:
    for path in ("/version", "/healthz", "/api"):
        assert otherwise.send(path=path)[0] == 401
    assert otherwise.send("filetoken", path="/version")[0] == 200


@pytest.mark.row("opt.authentication-token-webhook-cache-ttl")
def test_zero_cache_ttl_calls_the_webhook_each_time(otherwise: ServerHarness) -> None:
    for _ in range(2):
        assert otherwise.who("unknown-2") == 401

    assert len(otherwise.reviews_of("unknown-2")) == 2


def _pod(harness: ServerHarness, account: str = "default") -> Any:
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "n1", "serviceAccountName": account}
    return harness.server.api().ok(
        "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "web"}, "spec": spec}
    )


@pytest.mark.row(
    "opt.service-account-extend-token-expiration",
    "gate.ServiceAccountTokenJTI",
    "gate.ServiceAccountTokenNodeBinding",
    "gate.ServiceAccountTokenNodeBindingValidation",
    "gate.ServiceAccountTokenPodNodeInfo",
)
def test_bound_tokens_add_pod_and_node_extras(harness: ServerHarness, otherwise: ServerHarness) -> None:
    def issue_for(location: ServerHarness, kind: str, name: str) -> tuple[int, Any]:
        reference = {"apiVersion": "v1", "kind": kind, "name": name}
        spec = {"expirationSeconds": 3607, "boundObjectRef": reference}
        return location.server.api().call("POST", ACCOUNT, {"spec": spec})

    found: dict[str, tuple[int, set[str]]] = {}
    for name, location in (("site", harness), ("otherwise", otherwise)):
        location.server.api().ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        _pod(location)
        token = issue_for(location, "Pod", "web")[1]["status"]["token"]
        claims = jwt.parse(token).claims
        extra = {key.rpartition("/")[2] for key in location.who(token)["extra"]}
        found[name] = (claims["exp"] - claims["iat"], extra)
    code, rejection = issue_for(harness, "Node", "n1")
    bound = issue_for(otherwise, "Node", "n1")[1]["status"]["token"]

    assert found == {
        "site": (365 * 24 * 3600, {"pod-name", "pod-uid"}),
        "otherwise": (3607, {"pod-name", "pod-uid", "node-name", "node-uid", "credential-id"}),
    }
    assert code == 400
    text = 'cannot bind token to a Node object as the "ServiceAccountTokenNodeBinding" feature-gate is disabled'
    assert rejection["message"] == text
    assert otherwise.who(bound)["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]


@pytest.mark.row("opt.service-account-lookup")
def test_legacy_token_lookup_can_be_disabled(harness: ServerHarness, otherwise: ServerHarness) -> None:
    prefix = "kubernetes.io/serviceaccount/"
    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:default",
        f"{prefix}namespace": "default",
        f"{prefix}secret.name": "never-was",
        f"{prefix}service-account.name": "default",
        f"{prefix}service-account.uid": "u",
    }

    assert harness.who(jwt.sign(harness.keys["sign"], claims)) == 401
    assert otherwise.who(jwt.sign(otherwise.keys["sign"], claims))["username"] == claims["sub"]


@pytest.mark.row("gate.LegacyServiceAccountTokenCleanUp")
def test_legacy_tokens_are_valid_until_marked_invalid(harness: ServerHarness) -> None:
    admin, prefix = harness.server.api(), "kubernetes.io/serviceaccount/"
    account = admin.ok("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    claims = {
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:default",
        f"{prefix}namespace": "default",
        f"{prefix}secret.name": "old",
        f"{prefix}service-account.name": "default",
        f"{prefix}service-account.uid": account["metadata"]["uid"],
    }
    token = jwt.sign(harness.keys["old"], claims)
    metadata = {"name": "old", "annotations": {"kubernetes.io/service-account.name": "default"}}
    secret = {"metadata": metadata, "type": "kubernetes.io/service-account-token", "stringData": {"token": token}}
    path = "/api/v1/namespaces/default/secrets"
    admin.ok("POST", path, secret)

    used = admin.ok("POST", REVIEWS, {"spec": {"token": token}})["status"]
    labels = admin.ok("GET", f"{path}/old")["metadata"]["labels"]
    mark = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}}}
    admin.ok("PATCH", f"{path}/old", mark, content_type="application/merge-patch+json")
    requested = {"spec": {"token": token, "audiences": ["https://old.example"]}}
    marked = admin.ok("POST", REVIEWS, requested)["status"]

    assert used["user"]["username"] == claims["sub"]
    assert list(labels) == ["kubernetes.io/legacy-token-last-used"]
    assert "marked invalid" in marked["error"]
