"""Loading of images into the store from their configuration and layer blobs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import platform
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore
from nodeagent_plugins.embedded_runtime.images.unpack import unpack_layer

MAX_DOCUMENT_BYTES = 4 << 20
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

FetchLayer = Callable[[int], contextlib.AbstractAsyncContextManager[Path]]


class Loader:
    """Adds images to *store*; concurrent loads of a layer share the first one.

    :param user_attributes: mark removed files with attributes that a user namespace can set.
    """

    def __init__(self, store: ImageStore, *, user_attributes: bool) -> None:
        self.store, self._user_attributes = store, user_attributes
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(
        self, config: bytes, fetch: FetchLayer, size_bytes: int, *, tag: str = "", digest: str = ""
    ) -> Image:
        """Add the image with the configuration *config* to the store, under the given names, and return it.

        :param config: the configuration, whose digest is the image ID.
        :param fetch: context manager that provides the file of a layer by its index.
        :raises CallError: a layer is unavailable or does not match the configuration.
        """
        document = decode(config, "image configuration")
        diff_ids = section(document, "rootfs").get("diff_ids")
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
            settings = section(document, "config")
            _check_settings(settings)
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


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Check the types of the settings that containers use.

    :raises CallError: the image configuration is invalid.
    """
    for name in ("Env", "Cmd", "Entrypoint"):
        value = settings.get(name) or []
        if not (isinstance(value, list) and all(isinstance(text, str) and "\0" not in text for text in value)):
            raise CallError(f"invalid image configuration: {name} is not a list of strings")
    for name in ("User", "WorkingDir", "StopSignal"):
        if not isinstance(settings.get(name) or "", str):
            raise CallError(f"invalid image configuration: {name} is not a string")


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
    entries = sections(index, "manifests")
    for entry in entries:
        about = section(entry, "platform")
        if about.get("os", "linux") == "linux" and about.get("architecture", requested) == requested:
            return entry
    offered = sorted({str(section(entry, "platform").get("architecture")) for entry in entries})
    raise CallError(f"no image for architecture {requested}, only for {', '.join(offered)}")


def decode(content: bytes, what: str) -> dict[str, Any]:
    """Decode a JSON document.

    :raises CallError: the document is invalid.
    """
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise CallError(f"{what}: {error}") from error


def is_index(manifest: Mapping[str, Any]) -> bool:
    """Return whether *manifest* lists the manifests of an image by architecture.

    :raises CallError: it is ambiguous; another client could use its other part.
    """
    lists, is_image = "manifests" in manifest, bool(manifest.get("layers") or manifest.get("config"))
    kind = str(manifest.get("mediaType") or "")
    if lists and (is_image or kind.endswith((".manifest.v1+json", ".manifest.v2+json"))):
        raise CallError("ambiguous manifest: it lists both layers and other manifests")
    return lists


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object in the field *name*, empty if it is missing.

    :raises CallError: it is not an object.
    """
    value = document.get(name)
    if value is not None and not isinstance(value, dict):
        raise CallError(f"invalid image document: {name} is not an object")
    return value or {}


def sections(document: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects in the list *name*, empty if it is missing.

    :raises CallError: it is not a list of objects.
    """
    value = document.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(entry, dict) for entry in value)):
        raise CallError(f"invalid image document: {name} is not a list of objects")
    return value or ()


def size_of(descriptor: Mapping[str, Any]) -> int:
    """Return the size of a blob, 0 if it is missing.

    :raises CallError: it is not a size.
    """
    size = descriptor.get("size") or 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 63:
        raise CallError(f"invalid size of blob {descriptor.get('digest')}: {size!r}")
    return size


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_digest(text: object) -> bool:
    """Return whether *text* is a digest of the supported kind."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def total_size(descriptors: Sequence[Mapping[str, Any]]) -> int:
    return sum(map(size_of, descriptors))
