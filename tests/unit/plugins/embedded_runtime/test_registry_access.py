"""Tests for pulls from registries: credentials, tokens, digests, connections without TLS, and errors."""

import base64
import json
import ssl
from types import SimpleNamespace

import aiohttp
import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import CallError, NotFound
from nodeagent_plugins.embedded_runtime.images import pull
from nodeagent_plugins.embedded_runtime.images.loading import Loader, digest_of
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.registry import Credentials, Registry, explain, is_plain
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore

from .test_malicious_registry import HOME, Session, blob

MANIFEST = f"{HOME}manifests/1"


class Recording(Session):
    """Session that also records the parameters and the form of requests to token endpoints."""

    def __init__(self, responses):
        super().__init__(responses)
        self.forms, self.parameters = [], []

    def get(self, url, headers=None, params=None, **options):
        if params is not None:
            self.parameters.append(params)
        return super().get(url, headers=headers, **options)

    def post(self, url, data=None, **options):
        self.forms.append(data)
        return super().get(url, **options)


def registry(responses, credentials=None, *, name="registry.example/shop/tool:1", plain=False):
    session = Recording(responses)
    return Registry(session, parse_name(name), credentials or Credentials(), plain=plain), session


def challenge(text):
    return 401, {"WWW-Authenticate": text}, b""


def test_credentials_are_read_from_the_fields_or_their_base64():
    encoded = base64.b64encode(b"user:pass:word").decode()
    for auth, expected in [
        (cri.AuthConfig(), Credentials()),
        (cri.AuthConfig(username="a", password="b"), Credentials("a", "b")),
        (cri.AuthConfig(auth=encoded), Credentials("user", "pass:word")),
        (cri.AuthConfig(auth=encoded, username="a", password="b"), Credentials("a", "b")),
        (cri.AuthConfig(identity_token="i", registry_token="r"), Credentials("", "", "i", "r")),
    ]:
        found = Credentials.of(auth)
        assert (found.username, found.password) == (expected.username, expected.password), auth
        assert (found.identity_token, found.registry_token) == (expected.identity_token, expected.registry_token)
        assert "b" not in repr(found).replace("Credentials", "")
    with pytest.raises(CallError, match="not valid base64"):
        Credentials.of(cri.AuthConfig(auth="!"))


def test_tls_is_omitted_only_for_listed_and_local_registries():
    for name, expected in [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("[::1]:5000", True),
        ("10.0.0.1:5000", False),
        ("registry.example", False),
        ("plain.example:5000", True),
        ("plain.example", False),
    ]:
        assert is_plain(name, ["plain.example:5000"]) is expected, name


async def test_registry_is_reached_by_its_scheme_and_host():
    for name, plain, url in [
        ("registry.example/shop/tool:1", False, MANIFEST),
        ("registry.example/shop/tool:1", True, MANIFEST.replace("https", "http")),
        ("busybox:1", False, "https://registry-1.docker.io/v2/library/busybox/manifests/1"),
    ]:
        made, session = registry({url: (200, {}, b"{}")}, name=name, plain=plain)
        assert await made.manifest("1") == (b"{}", digest_of(b"{}"))
        assert session.seen == [(url, "")]


async def test_manifest_has_to_match_its_digest():
    other = digest_of(b"other")
    made, _ = registry({f"{HOME}manifests/{other}": (200, {}, b"{}"), MANIFEST: (200, {}, b"{}")})

    await made.manifest("1")
    with pytest.raises(CallError, match="has another digest"):
        await made.manifest(other)


async def test_blob_has_to_match_its_digest(tmp_path):
    status = type("Status", (), {"offset": 0})()
    wrong, right = digest_of(b"other"), digest_of(b"blob")
    made, _ = registry({f"{HOME}blobs/{wrong}": (200, {}, b"blob"), f"{HOME}blobs/{right}": (200, {}, b"blob")})

    assert await made.document(blob(b"blob")) == b"blob"
    await made.download(blob(b"blob"), tmp_path / "blob", status)
    assert ((tmp_path / "blob").read_bytes(), status.offset) == (b"blob", 4)
    for call in (made.document({"digest": wrong}), made.download({"digest": wrong, "size": 4}, tmp_path / "b", status)):
        with pytest.raises(CallError, match="digest mismatch"):
            await call


async def test_basic_challenge_is_met_with_the_password():
    basic = "Basic " + base64.b64encode(b"user:password").decode()
    made, session = registry({MANIFEST: challenge("Basic realm=x")}, Credentials("user", "password"))
    with pytest.raises(CallError, match="registry responded with 401"):
        await made.manifest("1")
    assert [authorization for _, authorization in session.seen] == ["", basic]
    for credentials, text in [(Credentials(), "Basic realm=x"), (Credentials("u", "p"), "Digest x"), (None, "")]:
        made, session = registry({MANIFEST: challenge(text)}, credentials)
        with pytest.raises(CallError, match="responded with 401: credentials are required"):
            await made.manifest("1")
        assert len(session.seen) == 1


async def test_token_is_requested_for_the_scope_of_the_challenge():
    realm = "https://auth.example/token"
    plain = f'Bearer realm="{realm}"'
    full = f'Bearer realm="{realm}",service="reg",scope="repository:x:pull"'
    own_scope = {"scope": "repository:shop/tool:pull"}
    for text, body, parameters in [
        (plain, {"token": "t"}, own_scope),
        (full, {"access_token": "t"}, {"scope": "repository:x:pull", "service": "reg"}),
        (plain, {"token": "t", "access_token": "other"}, own_scope),
    ]:
        made, session = registry({MANIFEST: challenge(text), realm: (200, {}, json.dumps(body).encode())})
        with pytest.raises(CallError):
            await made.manifest("1")
        assert session.parameters == [parameters]
        assert session.seen[-1] == (MANIFEST, "Bearer t"), text
    for status, body, error in [
        (200, b"{}", "returned no token"),
        (200, b'{"token":5}', "no token"),
        (403, b"", "403"),
    ]:
        made, _ = registry({MANIFEST: challenge(plain), realm: (status, {}, body)})
        with pytest.raises(CallError, match=error):
            await made.manifest("1")


async def test_identity_and_registry_tokens_are_used():
    realm = "https://auth.example/token"
    responses = {MANIFEST: challenge(f'Bearer realm="{realm}"'), realm: (200, {}, b'{"token":"t"}')}
    made, session = registry(responses, Credentials("", "", "identity"))
    with pytest.raises(CallError):
        await made.manifest("1")
    (form,) = session.forms
    assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "identity")
    made, session = registry({MANIFEST: (200, {}, b"{}")}, Credentials(registry_token="r"))
    await made.manifest("1")
    assert session.seen == [(MANIFEST, "Bearer r")]


async def test_failure_contains_the_message_of_the_registry():
    errors = json.dumps({"errors": [{"message": "too many requests"}]}).encode()
    for status, body, text in [
        (429, errors, "registry responded with 429: too many requests"),
        (500, b"broken", "registry responded with 500: broken"),
        (500, b"{}", "registry responded with 500: {}"),
        (404, b"", "registry responded with 404"),
    ]:
        made, _ = registry({MANIFEST: (status, {}, body)})
        with pytest.raises(CallError) as caught:
            await made.manifest("1")
        assert str(caught.value) == text
        assert isinstance(caught.value, NotFound) is (status == 404)


def test_cause_of_a_failed_connection_is_explained():
    for error, text in [
        (TimeoutError(), "timed out"),
        (aiohttp.ClientPayloadError("cut"), "cut"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (ssl.SSLError("handshake"), "('handshake',)"),
        (OSError(), "OSError"),
    ]:
        assert explain(error) == text
    with pytest.raises(ZeroDivisionError):
        explain(ZeroDivisionError())


async def test_pinned_and_built_in_images_are_not_pulled(tmp_path):
    store = ImageStore(tmp_path)
    digests = iter("123")

    def add(name, **fields):
        return store.add(Image(f"sha256:{next(digests)}" + "0" * 63, [], **fields), tag=name)

    pinned, built_in = add("registry.example/a:1", pinned=True), add("nodeagent.local/b:1")
    known = add("registry.example/c:1")
    puller = pull.Puller(Loader(store, user_attributes=True), [])
    puller._session = Recording({})

    assert await puller.pull("registry.example/a:1", cri.AuthConfig()) is pinned
    assert await puller.pull("nodeagent.local/b:1", cri.AuthConfig()) is built_in
    for name in (known.tags[0], "registry.example/d:1"):
        with pytest.raises(NotFound):
            await puller.pull(name, cri.AuthConfig())


async def test_outdated_manifest_format_is_rejected(tmp_path):
    puller = pull.Puller(Loader(ImageStore(tmp_path), user_attributes=True), [])
    for manifest in (
        {"schemaVersion": 1},
        {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v1+prettyjws"},
    ):
        made, _ = registry({MANIFEST: (200, {}, json.dumps(manifest).encode())})
        with pytest.raises(CallError, match="unsupported image format"):
            await puller._pull(made, parse_name("registry.example/shop/tool:1"))


async def test_connections_are_closed_once_there_are_any(tmp_path):
    closed = []

    class Session:
        async def close(self):
            closed.append(1)

    puller = pull.Puller(Loader(ImageStore(tmp_path), user_attributes=True), [])
    await puller.close()
    puller._session = Session()
    await puller.close()
    assert closed == [1]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(111, "Connection refused"), "connection refused (registry.example:443)"),
        (OSError("Name not known"), "name not known (registry.example:443)"),
    ],
)
def test_failed_connection_has_its_cause_and_endpoint(error, text):
    key = SimpleNamespace(host="registry.example", port=443, ssl=True)

    assert explain(aiohttp.ClientConnectorError(key, error)) == text
