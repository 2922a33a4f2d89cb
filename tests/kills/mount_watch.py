"""Watch of the mount table: no mount of a pod may disappear while a process of the pod runs."""

from __future__ import annotations

import contextlib
import re
import select
import threading
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.mounts.table import MOUNTINFO, parse_mounts

_UID = re.compile(r"/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:/|$)")
_POLL_MILLISECONDS = 200


class MountWatch(threading.Thread):
    """Compares each version of the mount table with the previous one; the kernel reports changes.

    :param root: the agent's root directory.
    :param violate: called with a description of a mount that disappeared too early.
    """

    def __init__(self, root: Path, violate: Callable[[str], None]) -> None:
        super().__init__(name="mount watch", daemon=True)
        self._root, self._violate = str(root), violate
        self._stop_requested = threading.Event()
        self.changes = 0

    def run(self) -> None:
        with MOUNTINFO.open(encoding="utf-8", errors="surrogateescape") as table:
            poll = select.poll()
            poll.register(table, select.POLLERR | select.POLLPRI)
            before = self._paths(table.read())
            while not self._stop_requested.is_set():
                if not poll.poll(_POLL_MILLISECONDS):
                    continue
                table.seek(0)
                now = self._paths(table.read())
                self.changes += before != now
                for path in before - now:
                    self._check(path)
                before = now

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def _paths(self, text: str) -> set[str]:
        return {each.path for each in parse_mounts(text) if each.path.startswith(self._root)}

    def _check(self, path: str) -> None:
        match = _UID.search(path)
        # The processes are listed after the mount has disappeared, so one that runs now has lost its volume.
        if match and (pids := processes_of(match[1])):
            self._violate(f"{path} was unmounted while the processes {pids} of the pod run")


def processes_of(pod_uid: str) -> list[int]:
    """Return the processes that have the UID of the pod in their arguments, as those of workers do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if pod_uid.encode() in arguments:
                    found.append(int(entry.name))
    return found
