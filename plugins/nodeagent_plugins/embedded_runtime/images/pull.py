"""Image pulls from registries."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import content
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.builtin import BUILTIN_REGISTRY
from nodeagent_plugins.embedded_runtime.images.loading import (
    Loader,
    choose_manifest,
    decode,
    is_index,
    section,
    sections,
    size_of,
    total_size,
)
from nodeagent_plugins.embedded_runtime.images.names import Name, parse_name
from nodeagent_plugins.embedded_runtime.images.registry import (
    STALL_SECONDS,
    Credentials,
    Registry,
    digest_in,
    explain,
    is_plain,
)
from nodeagent_plugins.embedded_runtime.images.store import Image

MAX_DOWNLOADS = 3
"""Maximum number of parallel layer downloads per pull."""
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1"


class Puller:
    """Pulls images into the store of *loader*.

    :param insecure: registries that are accessed without TLS.
    """

    def __init__(self, loader: Loader, insecure: list[str]) -> None:
        self._loader, self._insecure = loader, insecure
        self._session: aiohttp.ClientSession | None = None
        self._in_flight: dict[str, Any] = {}

    def transfers(self) -> list[Any]:
        """Return the layers being downloaded, of all pulls, with the received amounts (messages)."""
        return list(self._in_flight.values())

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def pull(self, text: str, auth: cri.AuthConfig) -> Image:
        """Pull the image called *text* and return it.

        Built-in images are not pulled.

        :raises CallError: the pull failed; the text states the cause, not the image.
        """
        name = parse_name(text)
        known = self._loader.store.find(str(name))
        if known is not None and (known.pinned or name.domain == BUILTIN_REGISTRY):
            return known
        if self._session is None:
            bounds = aiohttp.ClientTimeout(total=None, sock_connect=30.0, sock_read=STALL_SECONDS)
            self._session = aiohttp.ClientSession(timeout=bounds, trust_env=True, auto_decompress=False)
        plain = is_plain(name.domain, self._insecure)
        try:
            registry = Registry(self._session, name, Credentials.of(auth), plain=plain)
            return await self._pull(registry, name)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise CallError(f"registry {name.domain}: {explain(error)}") from error

    async def _pull(self, registry: Registry, name: Name) -> Image:
        content, digest = await registry.manifest(name.reference)
        manifest = decode(content, "manifest")
        if is_index(manifest):
            entry = choose_manifest(manifest)
            manifest = decode((await registry.manifest(digest_in(entry)))[0], "manifest")
        if str(manifest.get("mediaType", "")).startswith(_SCHEMA_1) or manifest.get("schemaVersion") == 1:
            raise CallError("unsupported image format: manifest schema 1")
        layers = sections(manifest, "layers")
        config = await registry.document(section(manifest, "config"))
        slots = asyncio.Semaphore(MAX_DOWNLOADS)

        @contextlib.asynccontextmanager
        async def fetch(number: int) -> AsyncIterator[Path]:
            if number >= len(layers):
                raise CallError("the image configuration lists more layers than the manifest")
            descriptor: Mapping[str, Any] = layers[number]
            with self._expected(name, descriptor) as status:  # Reported from here on, even while it is queued.
                async with slots:
                    with tempfile.NamedTemporaryFile(dir=self._loader.store.incoming) as file:
                        await registry.download(descriptor, Path(file.name), status)
                        yield Path(file.name)

        repo_digest = f"{name.repository}@{digest}"
        return await self._loader.load(config, fetch, total_size(layers), tag=name.tagged, digest=repo_digest)

    @contextlib.contextmanager
    def _expected(self, name: Name, descriptor: Mapping[str, Any]) -> Iterator[Any]:
        ref = f"{name} layer-{descriptor.get('digest')}"
        status = self._in_flight[ref] = content.Status(ref=ref, total=size_of(descriptor))
        try:
            yield status
        finally:
            self._in_flight.pop(ref, None)
