"""OOM kills in the kernel log."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.structs import Struct

KERNEL_LOG = Path("/dev/kmsg")
_RECORD_BYTES = 8192
_KERNEL = 0
_FACILITY_SHIFT = 3
_RECORDS_AT_ONCE = 200

_SUMMARY = re.compile(r"oom-kill:constraint=(\w+),.*?task_memcg=(.*),task=(.*),pid=(\d+),uid=\d+")
_OLD_CGROUP = re.compile(r"Task in (\S+) killed as a result of limit of (\S+)")
_OLD_VICTIM = re.compile(r"Killed process (\d+),? .*?\((.*)\),? total-vm")
_NEW_VICTIM = "Memory cgroup out of memory: Killed"
_IN_CGROUP = "CONSTRAINT_MEMCG"


class OomKill(Struct, frozen=True):
    """One killed process.

    :ivar cgroup: memory cgroup of the process, ``/`` for none.
    :ivar limit: a cgroup limit was the cause, not the memory of the node.
    """

    process: str
    pid: int
    cgroup: str
    limit: bool


class OomParser:
    """Finds OOM kills in kernel log records of all supported kernel versions."""

    def __init__(self) -> None:
        self._cgroup: str | None = None
        self._summaries = False

    def feed(self, text: str) -> OomKill | None:
        """Process the next record; return the kill that it completes.

        Kernels since 5.0 report a kill in one record and then repeat the process, once per process if the cgroup is
        killed completely; older ones report the cgroup and the process in separate records, or only the process if the
        node is out of memory.
        """
        if (found := _SUMMARY.search(text)) is not None:
            constraint, cgroup, process, pid = found.groups()
            self._summaries = True
            return OomKill(process, int(pid), cgroup, constraint == _IN_CGROUP)
        if (found := _OLD_CGROUP.search(text)) is not None:
            self._cgroup = found[1]
            return None
        if self._summaries or text.startswith(_NEW_VICTIM) or (found := _OLD_VICTIM.search(text)) is None:
            return None
        cgroup, self._cgroup = self._cgroup, None
        return OomKill(found[2], int(found[1]), cgroup or "/", cgroup is not None)


def record_text(record: bytes) -> str:
    """Return the text of a ``/dev/kmsg`` record; empty for records of user space."""
    head, _, text = record.partition(b";")
    try:
        facility = int(head.split(b",", 1)[0]) >> _FACILITY_SHIFT
    except ValueError:
        return ""
    return text.partition(b"\n")[0].decode(errors="replace") if facility == _KERNEL else ""


class KernelLog:
    """Reads new records of the kernel log.

    :raises OSError: from :meth:`follow`: the log is not readable.
    """

    def __init__(self, path: Path = KERNEL_LOG) -> None:
        self._path = path

    async def follow(self, killed: Callable[[OomKill], None]) -> None:
        """Call *killed* for each kill until cancelled."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        loop, parser = asyncio.get_running_loop(), OomParser()
        ended: asyncio.Future[None] = loop.create_future()

        def read() -> None:
            try:
                for _ in range(_RECORDS_AT_ONCE):
                    record = _next(descriptor)
                    if record and (kill := parser.feed(record_text(record))) is not None:
                        killed(kill)
            except BlockingIOError:
                return
            except OSError as error:
                if not ended.done():
                    ended.set_exception(error)

        try:
            os.lseek(descriptor, 0, os.SEEK_END)
            loop.add_reader(descriptor, read)
            await ended
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _next(descriptor: int) -> bytes:
    """Return the next record; empty if records were overwritten before they were read."""
    try:
        return os.read(descriptor, _RECORD_BYTES)
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.EINVAL):
            return b""
        raise
