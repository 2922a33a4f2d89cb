"""NFS volumes: inline and PersistentVolumes, mounted by the host's ``mount.nfs``.

A server that does not respond blocks only the operations on its own volumes: they run in separate processes and
threads, and the state of a mount is read from the mount table, never from the file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nodeagent.base import identity
from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent_plugins.in_tree_volumes.blocking import in_own_thread
from nodeagent_plugins.in_tree_volumes.mounter import LinuxMounter, Mounter, remove_mount_point
from nodeagent_plugins.in_tree_volumes.options import mount_options

MOUNT_SECONDS = 110.0
"""Time limit of a mount; after it, the mount may still succeed."""
UNMOUNT_SECONDS = 60.0
"""Time without a response after which the requests to the server are aborted, also those of other pods."""
ABORTS, ABORT_SECONDS = 5, 1.0
"""Number of attempts, and the pause between them."""
_HELPER = "mount.nfs"
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class _Export(NamedTuple):
    server: str
    path: str
    options: list[str]

    @property
    def source(self) -> str:
        server = f"[{self.server}]" if ":" in self.server and not self.server.startswith("[") else self.server
        return f"{server}:{self.path}"


class NfsVolumes:
    """Implements :class:`~nodeagent.contracts.persistent_volumes.PersistentVolumeKind` for ``nfs``."""

    def __init__(self, mounter: Mounter | None = None, search_path: str = _SEARCH_PATH) -> None:
        names = identity.current()
        self.name = f"{names.label_domain}~nfs"
        self._plugin_name = names.label("nfs")
        self._mounter, self._search_path = mounter or LinuxMounter(), search_path
        self._mounting: dict[Path, asyncio.subprocess.Process] = {}

    def supports(self, spec: VolumeSpec) -> bool:
        if spec.persistent_volume is not None:
            return spec.persistent_volume.spec.nfs is not None
        return spec.volume.nfs is not None

    def plugin_name(self, spec: VolumeSpec) -> str:
        return self._plugin_name

    async def mount(self, request: MountRequest) -> MountedVolume:
        """Mount the export.

        :raises UncertainVolumeError: the server does not respond; the mount may still succeed.
        :raises VolumeError: the export cannot be mounted.
        """
        spec, directory = request.spec, request.directory
        mounted = MountedVolume(spec.volume.name, str(directory), spec.read_only)
        if await in_own_thread(self._mounter.listed, directory):
            return mounted
        await self._await_earlier(directory)
        if await in_own_thread(self._mounter.listed, directory):
            return mounted
        export = _export(spec)
        helper = shutil.which("mount", path=self._search_path)
        if helper is None or shutil.which(_HELPER, path=self._search_path) is None:
            raise VolumeError(
                f"mount of {export.source} needs {_HELPER} on the node; install the NFS client of the host"
            )
        await in_own_thread(directory.mkdir, 0o750, exist_ok=True)
        arguments = ["-t", "nfs", *(["-o", ",".join(export.options)] if export.options else [])]
        arguments += [export.source, str(directory)]
        code, output = await self._run(helper, arguments, directory)
        if code != 0 and not await in_own_thread(self._mounter.listed, directory):
            with contextlib.suppress(VolumeError):
                await in_own_thread(remove_mount_point, directory)
            raise VolumeError(
                f"mount failed: exit status {code}\nMounting command: mount\n"
                f"Mounting arguments: {' '.join(arguments)}\nOutput: {output}\n"
            )
        return mounted

    async def unmount(self, volume: VolumeOnDisk) -> None:
        """Unmount the export and remove its directory; requests to a dead server are aborted after a minute.

        :raises VolumeError: the volume is still in use.
        """
        directory = volume.directory
        await self._await_earlier(directory)
        try:
            if not await self._has_unmounted(directory):
                await self._abort(directory)
            if await in_own_thread(self._mounter.listed, directory):
                raise VolumeError(f"unmount {directory}: the volume is still mounted")
        except OSError as error:
            raise VolumeError(f"unmount {directory}: {error.strerror}") from error
        await in_own_thread(remove_mount_point, directory)

    async def _has_unmounted(self, directory: Path) -> bool:
        """Unmount and return true, or return false if the server does not respond.

        :raises OSError: the volume cannot be unmounted, although the server responds.
        """
        waiting = asyncio.ensure_future(in_own_thread(self._mounter.unmount, directory))
        try:
            if not (await asyncio.wait({waiting}, timeout=UNMOUNT_SECONDS))[0]:
                return False
            await waiting
        except OSError as error:
            # A request that waits for the server, such as for the usage of the volume, keeps the mount busy.
            if error.errno != errno.EBUSY or await self._responds(directory):
                raise
            return False
        finally:
            waiting.cancel()
        return True

    async def _responds(self, directory: Path) -> bool:
        query = asyncio.ensure_future(in_own_thread(self._mounter.query, directory))
        try:
            done, _ = await asyncio.wait({query}, timeout=UNMOUNT_SECONDS)
            if done:
                query.exception()  # An error is a response, too.
            return bool(done)
        finally:
            query.cancel()

    async def _abort(self, directory: Path) -> None:
        """Abort all requests to the server and unmount.

        :raises OSError: the volume cannot be unmounted.
        """
        for attempt in range(1, ABORTS + 1):
            try:
                await in_own_thread(self._mounter.unmount, directory, force=True)
                return
            except OSError as error:  # Aborted requests have not returned yet.
                if error.errno != errno.EBUSY or attempt == ABORTS:
                    raise
            await asyncio.sleep(ABORT_SECONDS)

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        return VolumeOnDisk(pod_uid, directory.name, directory, mode)

    async def _run(self, helper: str, arguments: Sequence[str], directory: Path) -> tuple[int, str]:
        """Run the mount command; return its exit code and output.

        :raises UncertainVolumeError: it did not exit in time, and may not react to signals.
        """
        process = await asyncio.create_subprocess_exec(
            helper,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": self._search_path, "LC_ALL": "C"},
        )
        self._mounting[directory] = process
        try:
            async with asyncio.timeout(MOUNT_SECONDS):
                output, _ = await process.communicate()
        except TimeoutError as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(UncertainVolumeError):
                await self._await_earlier(directory)
            raise UncertainVolumeError(f"mount of {arguments[-2]} timed out after {MOUNT_SECONDS:.0f} s") from error
        del self._mounting[directory]
        return process.returncode or 0, output.decode(errors="replace").strip()

    async def _await_earlier(self, directory: Path) -> None:
        """Wait briefly for a mount command that an earlier attempt started.

        :raises UncertainVolumeError: it is still running.
        """
        process = self._mounting.get(directory)
        if process is None:
            return
        try:
            async with asyncio.timeout(1):
                await process.wait()
        except TimeoutError as error:
            raise UncertainVolumeError(f"an earlier mount at {directory} is still in progress") from error
        self._mounting.pop(directory, None)


def _export(spec: VolumeSpec) -> _Export:
    """Return server, path and options of the volume.

    :raises VolumeError: the source is incomplete.
    """
    own = ["ro"] if spec.read_only else []
    pv = spec.persistent_volume
    if pv is not None:
        assert pv.spec.nfs is not None
        server, path, options = pv.spec.nfs.server, pv.spec.nfs.path, mount_options(pv, *own)
    else:
        source = spec.volume.nfs or {}
        server, path, options = str(source.get("server") or ""), str(source.get("path") or ""), own
    if not server or not path.startswith("/") or server.startswith("-"):
        raise VolumeError(f"invalid NFS source {server}:{path}")
    return _Export(server, path, options)
