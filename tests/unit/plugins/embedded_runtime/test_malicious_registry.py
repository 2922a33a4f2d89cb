"""Tests for the registry client with registries that send misleading manifests, redirects and challenges."""

from __future__ import annotations

import contextlib
import json

import pytest
from yarl import URL

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images import pull
from nodeagent_plugins.embedded_runtime.images.loading import Loader, digest_of
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.registry import Credentials, Registry
from nodeagent_plugins.embedded_runtime.images.store import ImageStore

HOME = "https://registry.example/v2/shop/tool/"
OTHER = "https://other.example/blob"
CONFIG = json.dumps({"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}).encode()


class Content:
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def iter_chunked(self, size: int):
        for start in range(0, len(self._body), size):
            yield self._body[start : start + size]

    async def read(self, size: int) -> bytes:
        return self._body[:size]


class Response:
    def __init__(self, url: str, status: int, headers: dict[str, str], body: bytes) -> None:
        self.url, self.status, self.headers, self.content = URL(url), status, headers, Content(body)


class Session:
    """HTTP session with responses by URL; records the requests with their credentials.

    A challenge is sent to the first request of a URL in *challenges* only.
    """

    def __init__(self, responses: dict[str, tuple[int, dict[str, str], bytes]]) -> None:
        self._responses = responses
        self.challenges: dict[str, str] = {}
        self.seen: list[tuple[str, str]] = []

    @contextlib.asynccontextmanager
    async def get(self, url: str, headers=None, **_options: object):
        self.seen.append((url, (headers or {}).get("Authorization", "")))
        challenge = self.challenges.pop(url, None)
        response = (401, {"WWW-Authenticate": challenge}, b"") if challenge else self._responses.get(url)
        yield Response(url, *(response or (404, {}, b"")))

    post = get

    async def close(self) -> None:
        pass


def registry(responses) -> tuple[Registry, Session]:
    session = Session(responses)
    name = parse_name("registry.example/shop/tool:1")
    return Registry(session, name, Credentials("user", "password"), plain=False), session


def blob(body: bytes) -> dict[str, object]:
    return {"digest": digest_of(body), "size": len(body)}


async def test_challenge_of_a_redirect_target_gets_no_credentials():
    body = b"blob"
    challenge = {"WWW-Authenticate": 'Bearer realm="https://other.example/token"'}
    made, session = registry(
        {f"{HOME}blobs/{digest_of(body)}": (307, {"Location": OTHER}, b""), OTHER: (401, challenge, b"")}
    )

    with pytest.raises(CallError, match="401"):
        await made.document(blob(body))

    assert [url for url, _ in session.seen] == [f"{HOME}blobs/{digest_of(body)}", OTHER]
    assert {authorization for _, authorization in session.seen} == {""}


async def test_redirect_target_gets_no_credentials():
    body = b"blob"
    home = f"{HOME}blobs/{digest_of(body)}"
    made, session = registry({home: (307, {"Location": OTHER}, b""), OTHER: (200, {}, body)})
    session.challenges[home] = "Basic"

    assert await made.document(blob(body)) == body
    assert session.seen == [(home, ""), (home, Credentials("user", "password").basic), (OTHER, "")]


@pytest.mark.parametrize(
    "location", ["http://registry.example/blob", "http://169.254.169.254/latest", "file:///etc/passwd", "gopher://x"]
)
async def test_redirect_to_a_connection_without_tls_is_not_followed(location):
    made, session = registry({f"{HOME}manifests/1": (302, {"Location": location}, b"")})

    with pytest.raises(CallError, match="redirects to an invalid URL"):
        await made.manifest("1")

    assert len(session.seen) == 1


async def test_token_endpoint_without_tls_gets_no_credentials():
    challenge = {"WWW-Authenticate": 'Bearer realm="http://registry.example/token"'}
    made, session = registry({f"{HOME}manifests/1": (401, challenge, b"")})

    with pytest.raises(CallError, match="sent no valid token endpoint"):
        await made.manifest("1")

    assert len(session.seen) == 1


async def test_endless_redirects_end():
    made, session = registry({f"{HOME}manifests/1": (302, {"Location": f"{HOME}manifests/1"}, b"")})

    with pytest.raises(CallError, match="redirects too often"):
        await made.manifest("1")

    assert len(session.seen) == 5


@pytest.mark.parametrize(
    "digest", ["sha512:" + "0" * 128, "latest", "../../../other/manifests/1", None, "sha256:é" + "0" * 63]
)
async def test_digest_that_cannot_be_verified_is_not_requested(tmp_path, digest):
    index = json.dumps({"manifests": [{"digest": digest}]}).encode()
    made, session = registry({f"{HOME}manifests/1": (200, {}, index)})
    puller = pull.Puller(Loader(ImageStore(tmp_path), user_attributes=True), [])

    with pytest.raises(CallError, match="invalid digest"):
        await puller._pull(made, parse_name("registry.example/shop/tool:1"))
    with pytest.raises(CallError, match="invalid digest"):
        await made.document({"digest": digest})

    assert len(session.seen) == 1


@pytest.mark.parametrize(
    "extra",
    [{"layers": [blob(b"x")]}, {"config": blob(b"x")}, {"mediaType": "application/vnd.oci.image.manifest.v1+json"}],
)
async def test_ambiguous_manifest_is_rejected(tmp_path, extra):
    manifest = json.dumps({"manifests": [blob(b"x")], **extra}).encode()
    made, _ = registry({f"{HOME}manifests/1": (200, {}, manifest)})
    puller = pull.Puller(Loader(ImageStore(tmp_path), user_attributes=True), [])

    with pytest.raises(CallError, match="ambiguous manifest"):
        await puller._pull(made, parse_name("registry.example/shop/tool:1"))


@pytest.mark.parametrize(
    "manifest",
    [
        {"layers": 5},
        {"layers": ["x"]},
        {"manifests": {"a": 1}},
        {"manifests": [{"platform": []}]},
        {"config": "x"},
        {"config": blob(CONFIG), "layers": [{"size": "many"}]},
        {"config": blob(CONFIG), "layers": [{"size": -1}]},
        {"config": blob(CONFIG), "layers": [{"size": 1 << 80}]},
        {"config": blob(CONFIG), "layers": []},
    ],
    ids=str,
)
async def test_malformed_manifest_is_rejected(tmp_path, manifest):
    made, _ = registry(
        {
            f"{HOME}manifests/1": (200, {}, json.dumps(manifest).encode()),
            f"{HOME}blobs/{digest_of(CONFIG)}": (200, {}, CONFIG),
        }
    )
    puller = pull.Puller(Loader(ImageStore(tmp_path), user_attributes=True), [])

    with pytest.raises(CallError):
        await puller._pull(made, parse_name("registry.example/shop/tool:1"))


async def test_large_documents_and_blobs_are_not_received(tmp_path):
    large = bytes(5 << 20)
    made, _ = registry({f"{HOME}manifests/1": (200, {}, large), f"{HOME}blobs/{digest_of(large)}": (200, {}, large)})

    with pytest.raises(CallError, match="larger than"):
        await made.manifest("1")
    with pytest.raises(CallError, match="larger than"):
        await made.document(blob(large))
    with pytest.raises(CallError, match="longer than its 1 bytes"):
        await made.download({"digest": digest_of(large), "size": 1}, tmp_path / "blob", type("Status", (), {})())


@pytest.mark.parametrize("config", [{"Env": "A=b"}, {"Cmd": [1]}, {"Entrypoint": ["a\0b"]}, {"User": 5}], ids=str)
async def test_image_configuration_of_other_types_is_rejected(tmp_path, config):
    store = ImageStore(tmp_path)
    (store.layer("0" * 40)).mkdir()
    document = json.dumps({"rootfs": {"diff_ids": ["sha256:" + "0" * 64]}, "config": config}).encode()

    with pytest.raises(CallError, match="invalid image configuration"):
        await Loader(store, user_attributes=True).load(document, None, 0, tag="localhost/x:1")

    assert store.all() == []
