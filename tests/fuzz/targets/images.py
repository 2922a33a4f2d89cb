"""Images of the embedded runtime: manifests, configurations, archives and layers."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images.archive import import_archive
from nodeagent_plugins.embedded_runtime.images.loading import Loader
from nodeagent_plugins.embedded_runtime.images.names import parse_name
from nodeagent_plugins.embedded_runtime.images.pull import Puller
from nodeagent_plugins.embedded_runtime.images.registry import Credentials, digest_in
from nodeagent_plugins.embedded_runtime.images.store import ImageStore
from nodeagent_plugins.embedded_runtime.images.unpack import unpack_layer
from tests.fuzz.connections import drive
from tests.fuzz.files import directory
from tests.fuzz.target import target

KINDS = {
    b"f": tarfile.REGTYPE,
    b"d": tarfile.DIRTYPE,
    b"s": tarfile.SYMTYPE,
    b"l": tarfile.LNKTYPE,
    b"p": tarfile.FIFOTYPE,
    b"c": tarfile.CHRTYPE,
    b"x": b"X",
}
FILES = (
    b"\nf|",
    b"\nd|",
    b"\ns|a|",
    b"\nl|a|",
    b"\nc|",
    b"../",
    b"/",
    b".wh.",
    b".wh..wh..opq",
    b"@/outside",
    b"||",
    b"|7777|",
    b"\x00",
    b"a/b/c",
)
TAR = (
    b"ustar\x0000",
    b"././@PaxHeader",
    b"././@LongLink",
    b"30 path=../../outside\n",
    b"20 GNU.sparse.map=0,",
    b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
)
DOCUMENTS = (
    b"\x00",
    b'"manifests":[',
    b'"layers":[',
    b'"config":{',
    b'"digest":"sha256:',
    b"@1",
    b"@2",
    b"@3",
    b'"rootfs":{"diff_ids":[',
    b'"size":',
    b'"platform":{"architecture":"amd64","os":"linux"}',
    b'"mediaType":"',
    b'"schemaVersion":1',
    b"[" * 1100,
    b'"Env":[',
)


@contextlib.contextmanager
def confined() -> Iterator[Path]:
    """Yield a directory for a target, and check that files outside of it are not changed."""
    base = directory() / "images"
    shutil.rmtree(base, ignore_errors=True)
    (base / "outside").mkdir(parents=True)
    (base / "outside/file").write_text("unchanged")
    (base / "inside").mkdir()
    before = _state(base)
    try:
        yield base / "inside"
    finally:
        assert _state(base) == before


def _state(base: Path) -> list[tuple[object, ...]]:
    paths = [base / "outside", base / "outside/file", *sorted((base / "outside").iterdir())]
    found: list[tuple[object, ...]] = [(name,) for name in sorted(os.listdir(base))]
    return found + [(path, path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_nlink) for path in paths]


@target(CallError, tokens=FILES)
def layer_files(data: bytes) -> None:
    """Files of a layer, one per line of the input, are created only in the directory of the layer."""
    with confined() as inside:
        blob = inside.parent / "inside" / "blob"
        blob.write_bytes(_layer(data, str(inside.parent).encode()))
        for user_attributes in (False, True):
            with contextlib.suppress(CallError):
                unpack_layer(blob, inside / f"layer-{user_attributes}", "", user_attributes=user_attributes)


def _layer(data: bytes, base: bytes) -> bytes:
    """Return a tar file with one file per line: kind, name, link, mode and content."""
    packed = b""
    for line in data.split(b"\n"):
        kind, name, link, mode, content = (*line.split(b"|", 4), b"", b"", b"", b"", b"")[:5]
        info = tarfile.TarInfo(name.replace(b"@", base).decode("utf-8", "surrogateescape"))
        info.type, info.linkname = (
            KINDS.get(kind, tarfile.REGTYPE),
            link.replace(b"@", base).decode("utf-8", "surrogateescape"),
        )
        info.mode = int(mode, 8) if mode and not mode.strip(b"01234567") else 0o644
        info.size = len(content) if info.isreg() else 0
        info.pax_headers = {"SCHILY.xattr.user.a": "b"} if content else {}
        packed += info.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
        if info.isreg():
            packed += content + bytes(-len(content) % tarfile.BLOCKSIZE)
    return packed + bytes(2 * tarfile.BLOCKSIZE)


@target(CallError, tokens=TAR, max_bytes=4096)
def layer_bytes(data: bytes) -> None:
    """A damaged tar file is rejected, and uses no more than its size."""
    with confined() as inside:
        blob = inside / "blob"
        blob.write_bytes(data)
        try:
            unpack_layer(blob, inside / "layer", f"sha256:{hashlib.sha256(data).hexdigest()}", user_attributes=False)
        finally:
            size = sum(path.lstat().st_blocks * 512 for path in (inside / "layer").rglob("*") if not path.is_dir())
            assert size <= 1 << 20


@target(CallError, tokens=DOCUMENTS)
def image_archive(data: bytes) -> None:
    """An archive is imported, or rejected without effect outside of the store."""
    first, *documents = _documents(data)
    names = ("index.json", "manifest.json")
    with confined() as inside:
        store = ImageStore(inside)
        with tarfile.open(inside / "archive", "w") as archive:
            for name, content in [
                (names[len(documents) % 2], first),
                *((f"blobs/sha256/{_digest(each)}", each) for each in documents),
            ]:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        drive(import_archive(inside / "archive", Loader(store, user_attributes=True)))
        _check_store(store)


class _Registry:
    """Registry that returns the documents in their order, whatever is requested."""

    def __init__(self, documents: list[bytes]) -> None:
        self._documents = documents

    def _next(self) -> bytes:
        return self._documents.pop(0) if self._documents else b""

    async def manifest(self, reference: str) -> tuple[bytes, str]:
        content = self._next()
        return content, f"sha256:{_digest(content)}"

    async def document(self, descriptor: Mapping[str, Any]) -> bytes:
        digest_in(descriptor)
        return self._next()

    async def download(self, descriptor: Mapping[str, Any], path: Path, status: Any) -> None:
        digest_in(descriptor)
        path.write_bytes(self._next())


@target(CallError, tokens=DOCUMENTS)
def image_manifest(data: bytes) -> None:
    """A manifest is pulled, or rejected; the size of the image is a number of 63 bits."""
    with confined() as inside:
        store = ImageStore(inside)
        puller = Puller(Loader(store, user_attributes=True), [])
        registry: Any = _Registry(_documents(data))
        drive(puller._pull(registry, parse_name("registry.test/image")))
        _check_store(store)


@target(CallError)
def registry_credentials(data: bytes) -> None:
    """Credentials are accepted only if they are valid in a header."""
    text = data.decode("utf-8", "ignore")
    Credentials.of(cri.AuthConfig(auth=text)).basic.encode("ascii")


def _documents(data: bytes) -> list[bytes]:
    """Return the parts of *data* between zero bytes; ``@N`` in a part is the digest of part N, which follows it."""
    parts = data.split(b"\x00")[:5]
    for number in reversed(range(len(parts))):
        for later in range(number + 1, len(parts)):
            parts[number] = parts[number].replace(b"@%d" % later, _digest(parts[later]).encode())
    return parts


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_store(store: ImageStore) -> None:
    again = ImageStore.__new__(ImageStore)
    again.__dict__.update(store.__dict__, _images={})
    again.load()
    assert [image.id for image in again.all()] == sorted(image.id for image in store.all())
    assert all(image.size_bytes < 1 << 63 for image in store.all())
