"""Resources of all pods in memory and in a state file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from nodeagent.allocation.checkpoint import CorruptCheckpoint, PodResources, decode, encode
from nodeagent.base.atomic_file import write_private
from nodeagent.model.pod import ResourceRequirements

_log = logging.getLogger(__name__)

ALLOCATED_FILE = "allocated_pods_state"
ACTUATED_FILE = "actuated_pods_state"
CORRUPT_SUFFIX = ".corrupt"


class ResourceState:
    """Resources by pod UID; each change is written to the file before it takes effect, unless it is forced.

    :param path: the state file; ``None`` keeps the resources in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries: dict[str, PodResources] = {}
        self._written = b""
        self._turn = asyncio.Lock()

    def load(self) -> str:
        """Read the file; return why it could not be used, otherwise an empty text. Blocks.

        A corrupt file is moved aside. Its content can be rebuilt from the statuses of the pods, so unlike the kubelet
        the agent starts without it.
        """
        if self._path is None:
            return ""
        try:
            content = self._path.read_bytes()
            self._entries, self._written = decode(content), content
        except FileNotFoundError:
            return ""
        except (CorruptCheckpoint, OSError) as error:
            aside = self._path.with_name(self._path.name + CORRUPT_SUFFIX)
            try:
                self._path.replace(aside)
            except OSError as problem:
                return f"{error}; failed to move it aside: {problem}"
            return f"{error}; moved to {aside}"
        return ""

    def get(self, uid: str) -> PodResources | None:
        """Return the resources of a pod."""
        return self._entries.get(uid)

    async def set(self, uid: str, resources: PodResources, *, forced: bool = False) -> None:
        """Set the resources of a pod.

        :param forced: set them even if the file cannot be written; the next change writes them, too.
        :raises OSError: the file cannot be written; unless *forced*, the previous resources are kept.
        """
        before = self._entries.get(uid)
        if before == resources:
            return
        self._entries[uid] = resources
        try:
            await self._save()
        except OSError:
            if forced:
                raise
            if before is None:
                self._entries.pop(uid, None)
            else:
                self._entries[uid] = before
            raise

    async def set_container(self, uid: str, name: str, resources: ResourceRequirements) -> None:
        """Set the resources of one container.

        :raises OSError: the file cannot be written; the previous resources are kept.
        """
        known = self._entries.get(uid, PodResources())
        await self.set(uid, PodResources({**known.containers, name: resources}, known.pod))

    async def set_pod(self, uid: str, resources: ResourceRequirements | None) -> None:
        """Set the pod-level resources.

        :raises OSError: the file cannot be written; the previous resources are kept.
        """
        known = self._entries.get(uid, PodResources())
        await self.set(uid, PodResources(known.containers, resources))

    async def retain(self, is_known: Callable[[str], bool]) -> None:
        """Remove the pods that are not known; a failure to write is logged, the next change retries."""
        removed = [uid for uid in self._entries if not is_known(uid)]
        if not removed:
            return
        for uid in removed:
            del self._entries[uid]
        try:
            await self._save()
        except OSError as error:
            _log.error("Failed to save pod resource checkpoint", extra={"path": str(self._path), "err": str(error)})

    async def _save(self) -> None:
        if self._path is None:
            return
        async with self._turn:
            await asyncio.to_thread(self._write, self._path, dict(self._entries))

    def _write(self, path: Path, entries: dict[str, PodResources]) -> None:
        content = encode(entries)
        if content != self._written:
            write_private(path, content)
            self._written = content
