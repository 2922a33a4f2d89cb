"""Turns an image's configuration and the blobs of its layers into an image of the store."""

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
    """Puts images into *store*; several loads of one layer wait for the first.

    :param user_attributes: how removals are marked in layers.
    """

    def __init__(self, store: ImageStore, *, user_attributes: bool) -> None:
        self.store, self._user_attributes = store, user_attributes
        self._locks: dict[str, asyncio.Lock] = {}

    async def load(
        self, config: bytes, fetch: FetchLayer, size_bytes: int, *, tag: str = "", digest: str = ""
    ) -> Image:
        """Put the image with that configuration into the store, under the names given, and return it.

        :param config: the document, whose digest is the image's id.
        :param fetch: gives a file with the layer of a number, as long as it is needed.
        :raises CallError: a layer cannot be had, or is not what the configuration says.
        """
        document = decode(config, "image configuration")
        diff_ids = (document.get("rootfs") or {}).get("diff_ids")
        if not isinstance(diff_ids, list) or not all(is_digest(diff_id) for diff_id in diff_ids):
            raise CallError("the image's configuration does not name its layers")
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
    """Give a file that stays when it is no longer needed."""
    yield path


def choose_manifest(index: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry of an image index that is for this machine.

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
    raise CallError(f"the image is not made for {requested}, only for {', '.join(offered)}")


def decode(content: bytes, what: str) -> dict[str, Any]:
    """Return a JSON document.

    :raises CallError: it is none.
    """
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except ValueError as error:
        raise CallError(f"{what}: {error}") from error


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_digest(text: object) -> bool:
    """Tell whether *text* is a digest of the one kind that is supported."""
    return isinstance(text, str) and text.startswith("sha256:") and len(text) == 71 and text[7:].isalnum()


def total_size(descriptors: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(descriptor.get("size") or 0) for descriptor in descriptors)
