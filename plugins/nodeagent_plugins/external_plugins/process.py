"""Process of an executable plugin: a dedicated user, a cgroup and a private directory; it ends with the agent."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.structs import Struct
from nodeagent.contracts.cgroups import ProcessCgroups
from nodeagent_plugins.external_plugins.output import OutputLog
from nodeagent_plugins.external_plugins.settings import SOCKET_VARIABLE, ExternalPlugin

SOCKET_NAME = "plugin.sock"
NAME_VARIABLE = "NODEAGENT_PLUGIN_NAME"
_LAUNCHER = Path(__file__).with_name("launcher.py")
_STOP_SECONDS = 2.0
_KILL_SECONDS = 5.0
_DRAIN_SECONDS = 0.5
"""Time to read the output of a process that has exited while its children keep the pipe open."""
_FIRST_ID, _IDS = 60600, 400
"""User IDs for plugins without a configured user; systemd and Debian do not allocate them."""


class StartError(Exception):
    """The executable cannot be started; the message contains the reason."""


class Owner(Struct, frozen=True):
    """User and group of a process."""

    uid: int
    gid: int


class Cgroup(Struct, frozen=True):
    """Cgroup of a process."""

    manager: ProcessCgroups
    name: str


class Process:
    """A running executable."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.exited = asyncio.Event()

    @property
    def pid(self) -> int:
        """Process ID."""
        return self._popen.pid

    def result(self) -> str:
        """Return how the exited process ended, for display."""
        code = self._popen.wait()
        if code >= 0:
            return f"exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    async def stop(self, clock: Clock) -> None:
        """Send SIGTERM, and SIGKILL to its process group after a delay."""
        if not self.exited.is_set():
            self._popen.send_signal(signal.SIGTERM)
            await wait_for(self.exited, clock, _STOP_SECONDS)
        self.kill()
        await wait_for(self.exited, clock, _KILL_SECONDS)  # A process that is blocked in the kernel does not exit.

    def kill(self) -> None:
        """Send SIGKILL to the process group; until the process is reaped, its ID cannot be reused."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)


class Executable:
    """Starts the executable of one plugin.

    :param directory: directory of its socket.
    :param owner: its user; ``None`` is that of the agent.
    :param cgroup: ``None`` runs it without limits.
    :param emit: called with each line of its output, which is logged otherwise.
    """

    def __init__(
        self,
        plugin: ExternalPlugin,
        directory: Path,
        owner: Owner | None,
        cgroup: Cgroup | None,
        clock: Clock,
        emit: Callable[[str], None] | None = None,
    ) -> None:
        self._emit = emit
        self._plugin, self._directory, self._owner = plugin, directory, owner
        self._cgroup, self._clock = cgroup, clock
        self._output: OutputLog | None = None

    @property
    def last_line(self) -> str:
        """Last line of the output of the latest process, empty without output."""
        return self._output.last if self._output is not None else ""

    @property
    def socket(self) -> Path:
        """The socket that the plugin must serve."""
        return self._directory / SOCKET_NAME

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """Start the process, and stop it with its children at the end of the block.

        :raises StartError: the directory or the process cannot be created.
        :raises NodeAgentError: the cgroup cannot be created.
        """
        try:
            await asyncio.to_thread(prepare_directory, self._directory, self._owner)
        except OSError as error:
            raise StartError(f"failed to create {self._directory}: {error.strerror}") from error
        try:
            files = await self._join_files()
            async with self._started(files) as process:
                yield process
        finally:
            if self._cgroup is not None:
                await self._cgroup.manager.remove_processes(self._cgroup.name)
            await asyncio.to_thread(self.socket.unlink, missing_ok=True)

    async def _join_files(self) -> Sequence[Path]:
        if self._cgroup is None:
            return ()
        manager, name = self._cgroup.manager, self._cgroup.name
        await manager.remove_processes(name)  # Children that an earlier process has left.
        return await manager.ensure_processes(name, self._plugin.limits)

    @contextlib.asynccontextmanager
    async def _started(self, files: Sequence[Path]) -> AsyncIterator[Process]:
        async with contextlib.AsyncExitStack() as cleanup:
            popen = self._spawn(files)
            process = Process(popen)
            cleanup.callback(popen.poll)
            cleanup.enter_context(_watch(popen.pid, process.exited))
            output = asyncio.create_task(self._copy_output(popen), name=f"output of plugin {self._plugin.name}")
            cleanup.push_async_callback(_finish, output)
            cleanup.push_async_callback(process.stop, self._clock)
            yield process

    async def _copy_output(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdout is not None, "the output is a pipe"
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), popen.stdout)
        log = OutputLog(self._plugin.name, self._plugin.log_lines_per_second, self._clock, self._emit)
        self._output = log
        try:
            await log.copy(reader)
        finally:
            transport.close()

    def _spawn(self, files: Sequence[Path]) -> subprocess.Popen[bytes]:
        """Start the launcher. In the thread of the event loop: a child ends with the thread that has started it."""
        request = {
            "parent": os.getpid(),
            "cgroups": [str(file) for file in files],
            "uid": self._owner.uid if self._owner is not None else None,
            "gid": self._owner.gid if self._owner is not None else None,
            "directory": self._plugin.working_directory or str(self._directory),
            "command": list(self._plugin.command),
        }
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._directory),
            **self._plugin.environment,
            NAME_VARIABLE: self._plugin.name,
            SOCKET_VARIABLE: str(self.socket),
        }
        try:
            return subprocess.Popen(  # nodeagent: ignore[blocking-call]
                [sys.executable, "-I", "-S", str(_LAUNCHER), json.dumps(request)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise StartError(f"failed to start {self._plugin.command[0]}: {error.strerror}") from error


@contextlib.contextmanager
def _watch(pid: int, exited: asyncio.Event) -> Iterator[None]:
    """Set *exited* when the process exits."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(pid)

    def process_exited() -> None:
        loop.remove_reader(descriptor)
        exited.set()

    loop.add_reader(descriptor, process_exited)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _finish(output: asyncio.Task[None]) -> None:
    await asyncio.wait((output,), timeout=_DRAIN_SECONDS)
    output.cancel()
    await asyncio.gather(output, return_exceptions=True)


def prepare_directory(directory: Path, owner: Owner | None) -> None:
    """Create the directory of a plugin's socket, accessible only to its owner; remove an earlier socket. Blocking."""
    _make_traversable(directory.parent)
    directory.mkdir(exist_ok=True, mode=0o700)
    if owner is not None:
        os.chown(directory, owner.uid, owner.gid, follow_symlinks=False)
    directory.chmod(0o700)
    (directory / SOCKET_NAME).unlink(missing_ok=True)


def _make_traversable(directory: Path) -> None:
    """Create *directory* and its parents so that other users can traverse them, regardless of the umask."""
    if not directory.is_dir():
        _make_traversable(directory.parent)
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)


def owner_of(plugin: ExternalPlugin, names: Sequence[str]) -> Owner:
    """Return the user of an executable. Blocking.

    :param names: names of all executables without a configured user, which get different IDs.
    :raises StartError: the user or the group does not exist.
    """
    if plugin.user is None:
        allocated = _allocate(names)[plugin.name]
        return Owner(allocated, allocated)
    try:
        if isinstance(plugin.user, int):
            uid, gid = plugin.user, plugin.user
            with contextlib.suppress(KeyError):
                gid = pwd.getpwuid(uid).pw_gid
        else:
            entry = pwd.getpwnam(plugin.user)
            uid, gid = entry.pw_uid, entry.pw_gid
    except KeyError:
        raise StartError(f"user {plugin.user!r} does not exist") from None
    if plugin.group is not None:
        try:
            gid = plugin.group if isinstance(plugin.group, int) else grp.getgrnam(plugin.group).gr_gid
        except KeyError:
            raise StartError(f"group {plugin.group!r} does not exist") from None
    return Owner(uid, gid)


def _allocate(names: Sequence[str]) -> dict[str, int]:
    """Return an ID per name that depends on the other names only after a collision."""
    used: dict[int, str] = {}
    for name in sorted(names):
        slot = int.from_bytes(name.encode(), "big") % _IDS
        while slot in used:
            slot = (slot + 1) % _IDS
        used[slot] = name
    return {name: _FIRST_ID + slot for slot, name in used.items()}
