"""Extraction of layers, confined to their directory."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from nodeagent_plugins.embedded_runtime import paths
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.host import find_executable
from nodeagent_plugins.embedded_runtime.images.tar_stream import TarStream

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_XATTR = "SCHILY.xattr."


def unpack_layer(blob: Path, target: Path, diff_id: str, *, user_attributes: bool) -> None:
    """Extract *blob*, an optionally compressed tar file, into the new directory *target*.

    Removals are marked for overlayfs. In a user namespace device nodes are omitted, and unmapped owners become root.

    :param diff_id: the digest of the uncompressed tar file.
    :raises CallError: the digest differs, or the archive is invalid.
    """
    target.mkdir(mode=0o755)
    with open_layer(blob) as source:
        stream = TarStream(source, target, f"layer {diff_id}")
        with stream.opened() as archive:
            _Unpacker(target, user_attributes, stream).unpack(archive)
    if stream.digest != diff_id:
        raise CallError(f"layer {diff_id} has another digest: {stream.digest}")


@contextlib.contextmanager
def open_layer(blob: Path) -> Iterator[IO[bytes]]:
    """Open a layer for reading, decompressed according to its first bytes."""
    with blob.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(_GZIP):
            with gzip.open(file) as plain:
                yield cast("IO[bytes]", plain)
        elif magic == _ZSTD:
            executable = find_executable("zstd")
            if not executable:
                raise CallError("the image is compressed with zstd, but the command zstd is not installed")
            os.lseek(file.fileno(), 0, os.SEEK_SET)  # A seek within the buffer does not move the descriptor.
            with subprocess.Popen([executable, "-dc"], stdin=file, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                yield process.stdout
        else:
            yield file


class _Unpacker:
    def __init__(self, root: Path, user_attributes: bool, stream: TarStream) -> None:
        self._root, self._remapped, self._stream = root, user_attributes, stream
        self._opaque = "user.overlay.opaque" if user_attributes else "trusted.overlay.opaque"
        self._times: list[tuple[Path, float]] = []

    def unpack(self, archive: tarfile.TarFile) -> None:
        for member in self._stream.members(archive):
            self._add(archive, member)
        for directory, when in reversed(self._times):  # Adding files to a directory changes its time.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # Replaced since then.
                os.utime(directory, (when, when), follow_symlinks=False)

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if not parts:
            return
        name = parts[-1]
        if name == ".." or "\0" in member.name:
            raise CallError(f"invalid name in archive: {member.name!r}")
        parent = paths.resolve_in_root(self._root, "/".join(parts[:-1]))
        parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if name == OPAQUE:
            os.setxattr(parent, self._opaque, b"y")
            return
        if name.startswith(WHITEOUT):
            self._mark_removed(parent, name.removeprefix(WHITEOUT))
            return
        target = parent / name
        if self._make(archive, member, target):
            self._dress(member, target)

    def _mark_removed(self, parent: Path, name: str) -> None:
        if name in ("", ".", ".."):
            raise CallError(f"invalid removal in archive: {name!r}")
        _clear(parent / name)
        os.mknod(parent / name, stat.S_IFCHR | 0o600, os.makedev(0, 0))

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> bool:
        """Create the file of *member*; return whether to set its attributes."""
        if member.isdir():
            if target.is_symlink() or not target.is_dir():
                _clear(target)
                target.mkdir()
            self._times.append((target, member.mtime))
            return True
        if member.islnk():
            source = paths.resolve_in_root(self._root, member.linkname, follow_last=False)
            if not source.is_symlink() and not source.is_file():
                raise CallError(f"the archive links {member.name} to {member.linkname}, which is not in the archive")
            if source != target:
                _clear(target)
                os.link(source, target, follow_symlinks=False)
            return False
        _clear(target)
        if member.isfile():
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                self._stream.copy(archive, member, file)
        elif member.issym():
            target.symlink_to(member.linkname)
        elif member.isfifo():
            os.mkfifo(target)
        elif member.ischr() or member.isblk():
            if self._remapped:
                return False
            kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
            os.mknod(target, kind | 0o600, os.makedev(member.devmajor, member.devminor))
        else:
            return False
        return True

    def _dress(self, member: tarfile.TarInfo, target: Path) -> None:
        try:
            os.chown(target, member.uid, member.gid, follow_symlinks=False)
        except OSError as error:
            if not self._remapped or error.errno not in (errno.EPERM, errno.EINVAL):
                raise
        for key, value in member.pax_headers.items():
            if key.startswith(_XATTR):
                with contextlib.suppress(OSError):  # Attributes that the file system does not support.
                    content = value.encode("utf-8", "surrogateescape")
                    os.setxattr(target, key.removeprefix(_XATTR), content, follow_symlinks=False)
        if not member.issym():
            target.chmod(member.mode & 0o7777)
        if not member.isdir():
            os.utime(target, (member.mtime, member.mtime), follow_symlinks=False)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
