"""Loading of images into the store from their configuration and layer blobs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import platform
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore
from nodeagent_plugins.embedded_runtime.images.unpack import unpack_layer

MAX_DOCUMENT_BYTES = 4 << 20
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

FetchLayer = Callable[[int], contextlib.AbstractAsyncContextManager[Path]]


class Loader:
    """Adds images to *store*; concurrent loads of a layer share the first one.

    :param user_attributes: mark removed files with attributes that a user namespace can set.
    """

    def __init__(self, store: ImageStore, *, user_attributes: bool) -> None:
        self.store, self._user_attributes = store, user_attributes
        self._locks: dict[str, asyncio.Lock] = {}

    async def load(
        self, config: bytes, fetch: FetchLayer, size_bytes: int, *, tag: str = "", digest: str = ""
    ) -> Image:
        """Add the image with the configuration *config* to the store, under the given names, and return it.

        :param config: the configuration, whose digest is the image ID.
        :param fetch: context manager that provides the file of a layer by its index.
        :raises CallError: a layer is unavailable or does not match the configuration.
        """
        document = decode(config, "image configuration")
        diff_ids = (document.get("rootfs") or {}).get("diff_ids")
        if not isinstance(diff_ids, list) or not all(is_digest(diff_id) for diff_id in diff_ids):
            raise CallError("the image configuration lists no layers")
        if not diff_ids:
            raise CallError("the image has no layers")
        names = [diff_id.removeprefix("sha256:")[:40] for diff_id in diff_ids]
        with self.store.hold(names):
            tasks = [
                asyncio.create_task(self._ensure_layer(name, diff_id, fetch, number), name=f"layer {name}")
                for number, (name, diff_id) in enumerate(zip(names, diff_ids, strict=True))
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            settings = document.get("config") or {}
            image = Image(id=digest_of(config), layers=names, config=settings, size_bytes=size_bytes)
            return self.store.add(image, tag=tag, digest=digest)

    async def _ensure_layer(self, name: str, diff_id: str, fetch: FetchLayer, number: int) -> None:
        async with self._locks.setdefault(name, asyncio.Lock()):
            goal = self.store.layer(name)
            if goal.exists():
                return
            async with fetch(number) as blob:
                aside = self.store.incoming / f"layer-{name}"
                await asyncio.to_thread(self._unpack, blob, aside, goal, diff_id)

    def _unpack(self, blob: Path, aside: Path, goal: Path, diff_id: str) -> None:
        import shutil

        shutil.rmtree(aside, ignore_errors=True)
        try:
            unpack_layer(blob, aside, diff_id, user_attributes=self._user_attributes)
            aside.rename(goal)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextlib.asynccontextmanager
async def kept(path: Path) -> AsyncIterator[Path]:
    """Yield a file that is not deleted afterwards."""
    yield path


def choose_manifest(index: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry of an image index for this host.

    :raises CallError: there is none.
    """
    machine = platform.machine()
    requested = _ARCHITECTURES.get(machine, machine)
    entries = [entry for entry in index.get("manifests") or () if isinstance(entry, dict)]
    for entry in entries:
        about = entry.get("platform") or {}
        if about.get("os", "linux") == "linux" and about.get("architecture", requested) == requested:
            return entry
    offered = sorted({str((entry.get("platform") or {}).get("architecture")) for entry in entries})
    raise CallError(f"no image for architecture {requested}, only for {', '.join(offered)}")


def decode(content: bytes, what: str) -> dict[str, Any]:
    """Decode a JSON document.

    :raises CallError: the document is invalid.
    """
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except ValueError as error:
        raise CallError(f"{what}: {error}") from error


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_digest(text: object) -> bool:
    """Return whether *text* is a digest of the supported kind."""
    return isinstance(text, str) and text.startswith("sha256:") and len(text) == 71 and text[7:].isalnum()


def total_size(descriptors: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(descriptor.get("size") or 0) for descriptor in descriptors)
