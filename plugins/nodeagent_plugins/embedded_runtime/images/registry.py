"""Registry client: OCI distribution over HTTP, with basic or token authentication.

Custom, since registry packages are blocking.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent.model.image_name import DEFAULT_DOMAIN
from nodeagent_plugins.embedded_runtime.errors import CallError, NotFound
from nodeagent_plugins.embedded_runtime.images.loading import MAX_DOCUMENT_BYTES, decode, is_digest, size_of
from nodeagent_plugins.embedded_runtime.images.names import Name

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MAX_REDIRECTS = 5
STALL_SECONDS = 60.0
"""Timeout of a connection without data."""
_REDIRECTS = (301, 302, 303, 307, 308)
_PARAMETER = re.compile(r'([a-zA-Z_]+)="([^"]*)"')


class Credentials(Struct, frozen=True):
    """Registry credentials; secrets are masked in the representation."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return "Credentials(***)"

    @classmethod
    def of(cls, auth: cri.AuthConfig) -> Credentials:
        """Return the credentials in *auth*.

        :raises CallError: its ``auth`` is not the base64 of user and password.
        """
        username, password = auth.username, auth.password
        if auth.auth and not username:
            try:
                username, _, password = base64.b64decode(auth.auth, validate=True).decode().partition(":")
            except ValueError as error:
                raise CallError("the credentials are not valid base64") from error
        return cls(username, password.rstrip("\0"), auth.identity_token, auth.registry_token)

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class Registry:
    """One repository of a registry, for one pull.

    :param plain: use HTTP without TLS.
    """

    def __init__(self, session: aiohttp.ClientSession, name: Name, credentials: Credentials, *, plain: bool) -> None:
        self._session, self._name, self._credentials = session, name, credentials
        host = "registry-1.docker.io" if name.domain == DEFAULT_DOMAIN else name.domain
        self._base = f"{'http' if plain else 'https'}://{host}/v2/{name.path}/"
        self._authorization = f"Bearer {credentials.registry_token}" if credentials.registry_token else ""

    async def manifest(self, reference: str) -> tuple[bytes, str]:
        """Return a manifest by tag or digest, and its digest.

        :raises CallError: the manifest is missing or does not match the digest.
        """
        async with self._get(f"manifests/{reference}", {"Accept": ", ".join(MANIFEST_TYPES)}) as response:
            content = await _read(response, MAX_DOCUMENT_BYTES)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if reference.startswith("sha256:") and digest != reference:
            raise CallError(f"manifest {reference} has another digest: {digest}")
        return content, digest

    async def document(self, descriptor: Mapping[str, Any]) -> bytes:
        """Return a small blob, such as an image's configuration."""
        digest = digest_in(descriptor)
        async with self._get(f"blobs/{digest}", {}) as response:
            content = await _read(response, MAX_DOCUMENT_BYTES)
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise CallError(f"digest mismatch of blob {digest}")
        return content

    async def download(self, descriptor: Mapping[str, Any], target: Path, status: Any) -> None:
        """Download a blob to *target*, and update the received amount in ``offset`` of *status*.

        :raises CallError: the blob does not match the descriptor or is unavailable.
        """
        digest, size = digest_in(descriptor), size_of(descriptor)
        counted, received = hashlib.sha256(), 0
        with target.open("wb") as file:
            async with self._get(f"blobs/{digest}", {}) as response:
                async for chunk in response.content.iter_chunked(1 << 20):
                    received += len(chunk)
                    if received > size:
                        raise CallError(f"blob {digest} is longer than its {size} bytes")
                    await asyncio.to_thread(counted.update, chunk)
                    await asyncio.to_thread(file.write, chunk)
                    status.offset = received
        if f"sha256:{counted.hexdigest()}" != digest:
            raise CallError(f"digest mismatch of blob {digest}")

    @contextlib.asynccontextmanager
    async def _get(self, path: str, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        url = urljoin(self._base, path)
        headers = headers | {"Accept-Encoding": "identity"}  # The limits apply to the data as it is sent.
        for attempt in range(2):
            async with contextlib.AsyncExitStack() as stack:
                response = await self._follow(stack, url, headers)
                if response.status == 401 and attempt == 0 and self._is_own(str(response.url)):
                    await self._authorize(response)
                    continue
                if response.status != 200:
                    raise await _failure(response)
                yield response
                return

    async def _follow(
        self, stack: contextlib.AsyncExitStack, url: str, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        """Request *url* and follow redirects; credentials are sent only to the registry."""
        for _ in range(MAX_REDIRECTS):
            own = self._authorization and self._is_own(url)
            sent = headers | ({"Authorization": self._authorization} if own else {})
            response = await stack.enter_async_context(self._session.get(url, headers=sent, allow_redirects=False))
            if response.status not in _REDIRECTS:
                return response
            url = urljoin(url, response.headers.get("Location", ""))
            if not self._is_permitted(url):
                raise CallError(f"registry {self._name.domain} redirects to an invalid URL")
        raise CallError(f"registry {self._name.domain} redirects too often")

    def _is_own(self, url: str) -> bool:
        """Return whether *url* belongs to the registry, which may receive the credentials and request them."""
        base, other = urlsplit(self._base), urlsplit(url)
        return (other.scheme, other.netloc) == (base.scheme, base.netloc)

    def _is_permitted(self, url: str) -> bool:
        """Return whether the registry may refer to *url*: only registries without TLS may refer to those without it."""
        scheme = urlsplit(url).scheme
        return scheme == "https" or (scheme == "http" and urlsplit(self._base).scheme == "http")

    async def _authorize(self, response: aiohttp.ClientResponse) -> None:
        """Authenticate as the registry's challenge requires."""
        challenge = response.headers.get("WWW-Authenticate", "")
        kind = challenge.partition(" ")[0].lower()
        credentials = self._credentials
        if kind == "basic" and credentials.username:
            self._authorization = credentials.basic
        elif kind == "bearer":
            self._authorization = f"Bearer {await self._fetch_token(dict(_PARAMETER.findall(challenge)))}"
        else:
            raise CallError(f"registry {self._name.domain} responded with 401: credentials are required")

    async def _fetch_token(self, requested: Mapping[str, str]) -> str:
        realm, credentials = requested.get("realm", ""), self._credentials
        if not self._is_permitted(realm):
            raise CallError(f"registry {self._name.domain} sent no valid token endpoint")
        given = {"scope": requested.get("scope") or f"repository:{self._name.path}:pull"}
        if requested.get("service"):
            given["service"] = requested["service"]
        if credentials.identity_token:
            form = given | {"grant_type": "refresh_token", "refresh_token": credentials.identity_token}
            request = self._session.post(realm, data=form | {"client_id": "nodeagent"})
        else:
            headers = {"Authorization": credentials.basic} if credentials.username else {}
            request = self._session.get(realm, params=given, headers=headers)
        async with request as response:
            if response.status != 200:
                raise await _failure(response)
            document = decode(await _read(response, MAX_DOCUMENT_BYTES), "token")
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str):
            raise CallError(f"registry {self._name.domain} returned no token")
        return token


def digest_in(descriptor: Mapping[str, Any]) -> str:
    """Return the digest of the blob or manifest that *descriptor* refers to.

    :raises CallError: it has no digest that can be verified.
    """
    digest = descriptor.get("digest")
    if not is_digest(digest):
        raise CallError(f"invalid digest {digest!r} in manifest")
    return str(digest)


def is_plain(registry: str, insecure: list[str]) -> bool:
    """Return whether to use HTTP without TLS: for the listed registries, and those on this host."""
    if registry in insecure:
        return True
    host = urlsplit(f"//{registry}").hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def explain(error: Exception) -> str:
    """Return the cause of a failed connection to a registry."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"untrusted certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error.strerror or str(error.os_error)
        return f"{cause.lower()} ({error.host}:{error.port})"
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return "timed out"
    if isinstance(error, (aiohttp.ClientError, ssl.SSLError, OSError)):
        return str(error) or type(error).__name__
    raise error


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    content = b""
    async for chunk in response.content.iter_chunked(1 << 16):
        content += chunk
        if len(content) > limit:
            raise CallError(f"{response.url.path} is larger than {limit} bytes")
    return content


async def _failure(response: aiohttp.ClientResponse) -> CallError:
    text = (await response.content.read(2048)).decode(errors="replace").strip()
    with contextlib.suppress(CallError, LookupError, TypeError):
        text = str(decode(text.encode(), "")["errors"][0]["message"])
    kind = NotFound if response.status == 404 else CallError
    return kind(f"registry responded with {response.status}{f': {text[:500]}' if text else ''}")
