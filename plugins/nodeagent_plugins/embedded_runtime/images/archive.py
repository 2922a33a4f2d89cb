"""Import of image archives: OCI layouts in a tar file, and the format of ``docker save``."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from nodeagent_plugins.embedded_runtime import paths
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.loading import (
    MAX_DOCUMENT_BYTES,
    Loader,
    choose_manifest,
    decode,
    digest_of,
    is_digest,
    is_index,
    kept,
    section,
    sections,
    total_size,
)
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.tar_stream import TarStream

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


async def import_archive(path: Path, loader: Loader) -> list[str]:
    """Import all images of the archive at *path*; return their names, or IDs for those without names.

    :raises CallError: the file is not an image archive.
    """
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=loader.store.incoming))
    try:
        await asyncio.to_thread(_open, path, directory)
        if (directory / "index.json").is_file():
            return await _import_oci(directory, loader)
        if (directory / "manifest.json").is_file():
            return await _import_docker(directory, loader)
        raise CallError(f"{path} is not an image archive: it contains neither index.json nor manifest.json")
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, True)


async def _import_oci(directory: Path, loader: Loader) -> list[str]:
    found = []
    index = decode(await asyncio.to_thread(_read, directory / "index.json"), "index.json")
    for entry in sections(index, "manifests"):
        manifest_bytes = await asyncio.to_thread(_blob, directory, entry)
        manifest = decode(manifest_bytes, "manifest")
        if is_index(manifest):
            entry_of_machine = choose_manifest(manifest)
            manifest = decode(await asyncio.to_thread(_blob, directory, entry_of_machine), "manifest")
        layers = sections(manifest, "layers")

        def fetch(
            number: int, layers: Sequence[Mapping[str, Any]] = layers
        ) -> contextlib.AbstractAsyncContextManager[Path]:
            return kept(_blob_path(directory, layers[number] if number < len(layers) else {}))

        annotations = section(entry, "annotations")
        name = str(next((annotations[key] for key in _NAMES if annotations.get(key)), ""))
        tag, digest = _names(name, manifest_bytes)
        config = await asyncio.to_thread(_blob, directory, section(manifest, "config"))
        image = await loader.load(config, fetch, total_size(layers), tag=tag, digest=digest)
        found.append(tag or digest or image.id)
    return found


async def _import_docker(directory: Path, loader: Loader) -> list[str]:
    found = []
    try:
        content = await asyncio.to_thread(_read, directory / "manifest.json")
        entries = msgspec.json.decode(content, type=list[dict[str, Any]])
    except (ValueError, RecursionError) as error:
        raise CallError(f"manifest.json: {error}") from error
    for entry in entries:
        layers = [_member(directory, name) for name in _texts(entry, "Layers")]

        def fetch(number: int, layers: list[Path] = layers) -> contextlib.AbstractAsyncContextManager[Path]:
            if number >= len(layers):
                raise CallError("the image configuration lists more layers than the archive")
            return kept(layers[number])

        size = sum(layer.stat().st_size for layer in layers)
        config = await asyncio.to_thread(_read, _member(directory, str(entry.get("Config"))))
        for name in _texts(entry, "RepoTags") or [""]:
            tag, _ = _names(name, b"")
            image = await loader.load(config, fetch, size, tag=tag)
            found.append(tag or image.id)
    return found


def _texts(entry: Mapping[str, Any], name: str) -> list[str]:
    value = entry.get(name) or []
    if not isinstance(value, list):
        raise CallError(f"manifest.json: {name} is not a list")
    return [str(text) for text in value]


def _member(directory: Path, name: str) -> Path:
    """Return a file of the archive.

    :raises CallError: there is no such file.
    """
    try:
        path = paths.resolve_in_root(directory, name)
        if path.is_file():
            return path
    except (OSError, ValueError) as error:
        raise CallError(f"invalid name in archive: {name!r}: {error}") from error
    raise CallError(f"the archive lacks {name}")


def _names(name: str, manifest: bytes) -> tuple[str, str]:
    """Return the tag and the digest for an image called *name*; a tag without repository is ignored."""
    if not name or ("/" not in name and ":" not in name):
        return "", ""
    full = parse_name(name)
    return full.tagged, f"{full.repository}@{digest_of(manifest)}" if manifest else ""


def _open(path: Path, directory: Path) -> None:
    """Extract the files of an archive by name; other members are ignored."""
    with _open_file(path) as file:
        stream = TarStream(file, directory, f"archive {path}")
        with stream.opened("*") as archive:
            for member in stream.members(archive):
                goal = paths.resolve_in_root(directory, member.name)
                goal.parent.mkdir(parents=True, exist_ok=True)
                if member.isfile():
                    with goal.open("wb") as content:
                        stream.copy(archive, member, content)
                elif member.issym() and goal != directory:  # Docker links repeated layers.
                    goal.unlink(missing_ok=True)
                    goal.symlink_to(member.linkname)


def _open_file(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise CallError(f"read {path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise CallError(f"{path.name} is too large")
        return path.read_bytes()
    except OSError as error:
        raise CallError(f"the archive lacks {path.name}") from error


def _blob_path(directory: Path, descriptor: Mapping[str, Any]) -> Path:
    digest = descriptor.get("digest")
    if not is_digest(digest):
        raise CallError(f"invalid blob digest {digest!r} in archive")
    return directory / "blobs" / "sha256" / str(digest).removeprefix("sha256:")


def _blob(directory: Path, descriptor: Mapping[str, Any]) -> bytes:
    content = _read(_blob_path(directory, descriptor))
    if digest_of(content) != descriptor["digest"]:
        raise CallError(f"digest mismatch of blob {descriptor['digest']}")
    return content
