"""Sandboxes: shared namespaces and files of a pod's containers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import AlreadyExists, CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.fork_server import ForkServer
from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.id_mappings import mappings_of
from nodeagent_plugins.embedded_runtime.network import Network
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Records, Sandbox, new_id

_log = logging.getLogger(__name__)
SHM_BYTES = 64 << 20
HOLDER_SECONDS = 30.0
_IPC_PARAMETERS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


class Sandboxes:
    """Creates, watches and removes sandboxes.

    :param changed: called for each sandbox that was created, started, stopped or removed.
    """

    def __init__(
        self,
        records: Records[Sandbox],
        network: Network,
        changed: Callable[[cri.ContainerEventType, Sandbox], None],
        helpers: ForkServer,
    ) -> None:
        self.records, self._network, self._changed, self._helpers = records, network, changed, helpers
        self.user_namespace_problem = "not determined yet"
        """Reason why pods cannot have user namespaces; empty if they can."""
        self._names: dict[tuple[str, str, str, int], str] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}

    def adopt(self) -> None:
        """Adopt the sandboxes of the previous runtime process."""
        for torn in self.records.load():
            self._unmount(torn)
            self.records.forget(torn)
        for sandbox in self.records.all():
            self._names[_name(sandbox.config)] = sandbox.id
            if sandbox.ready and self._network.own and "net" in sandbox.namespaces:
                self._network.occupy(sandbox.ips)
            self._watch(sandbox)

    async def close(self) -> None:
        """Stop watching; the sandboxes keep running."""
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    async def run(self, config: cri.PodSandboxConfig, runtime_handler: str) -> str:
        """Create a sandbox and return its ID.

        :raises AlreadyExists: a sandbox exists for the same pod and attempt.
        :raises CallError: the creation failed; partial state has been removed.
        """
        meta = config.metadata
        if not meta.name or not meta.namespace or not meta.uid:
            raise InvalidArgument("a sandbox requires name, namespace and uid")
        if runtime_handler:
            raise InvalidArgument(f'no runtime handler "{runtime_handler}": this runtime has only the default one')
        if config.linux.cgroup_parent.endswith(".slice"):
            raise FailedPrecondition(
                f"cgroup parent {config.linux.cgroup_parent} requires cgroup driver systemd; the runtime uses cgroupfs"
            )
        if (known := self._names.get(_name(config))) is not None:
            raise AlreadyExists(f"sandbox of {meta.namespace}/{meta.name}, attempt {meta.attempt}, exists: {known}")
        sandbox = Sandbox(new_id(), config, time.time_ns(), runtime_handler)
        self._names[_name(config)] = sandbox.id
        try:
            await self._make(sandbox)
        except BaseException:
            self._names.pop(_name(config), None)
            await asyncio.shield(self._undo(sandbox))
            raise
        self._changed(cri.CONTAINER_CREATED_EVENT, sandbox)
        self._changed(cri.CONTAINER_STARTED_EVENT, sandbox)
        self._watch(sandbox)
        return sandbox.id

    async def stop(self, sandbox: Sandbox) -> None:
        """Stop the sandbox; its containers must have exited."""
        if sandbox.stopped:
            return
        if (watcher := self._watchers.pop(sandbox.id, None)) is not None:
            watcher.cancel()
        if sandbox.holder is not None:
            await sandbox.holder.end(0)
        await self._network.detach(sandbox.ips, sandbox.config.port_mappings)
        await asyncio.to_thread(self._unmount, sandbox.id)
        sandbox.stopped = True
        await asyncio.to_thread(self.records.save, sandbox)
        self._changed(cri.CONTAINER_STOPPED_EVENT, sandbox)

    async def remove(self, sandbox: Sandbox) -> None:
        """Remove a stopped sandbox."""
        await asyncio.to_thread(self._unmount, sandbox.id)
        self._names.pop(_name(sandbox.config), None)
        await asyncio.to_thread(self.records.forget, sandbox.id)
        self._changed(cri.CONTAINER_DELETED_EVENT, sandbox)

    def files(self, sandbox: Sandbox) -> dict[str, str]:
        """Return the sandbox's files by their path in a container."""
        directory = self.records.directory(sandbox.id)
        files = {f"/etc/{name}": str(directory / name) for name in ("resolv.conf", "hosts", "hostname")}
        shared = sandbox.options.ipc != cri.NODE
        return files | {"/dev/shm": str(directory / "shm") if shared else "/dev/shm"}  # noqa: S108

    # --- helpers ----------------------------------------------------------------------------------------------

    async def _make(self, sandbox: Sandbox) -> None:
        config, options = sandbox.config, sandbox.options
        kinds = {"uts", "ipc", "net", "pid"}
        if options.network == cri.NODE:
            kinds -= {"net", "uts"}
        elif not self._network.own:
            kinds -= {"net"}
        if options.ipc == cri.NODE:
            kinds -= {"ipc"}
        if options.pid != cri.POD:
            kinds -= {"pid"}
        parameters = compute_parameters(dict(config.linux.sysctls), kinds)
        users = mappings_of(options)
        if users is not None and self.user_namespace_problem:
            raise FailedPrecondition(f"user namespaces are not supported: {self.user_namespace_problem}")
        directory = self.records.directory(sandbox.id)
        await asyncio.to_thread(self._prepare_files, directory, sandbox, (0, 0) if users is None else users.root)
        if config.log_directory:
            await asyncio.to_thread(os.makedirs, config.log_directory, 0o755, True)
        maps = [] if users is None else users.arguments()
        output = await self._helpers.run(
            "pause",
            config.hostname,
            ",".join(sorted(kinds)),
            *maps,
            *parameters,
            attempt="start the pause process",
            timeout_seconds=HOLDER_SECONDS,
        )
        if users is not None:
            kinds.add("user")
        sandbox.holder, sandbox.namespaces = Process.of(int(output)), sorted(kinds)
        if sandbox.holder is None:
            raise CallError("start the pause process: it exited immediately")
        if options.network != cri.NODE:
            sandbox.ips = await self._network.attach(sandbox.id, sandbox.holder.pid, config.port_mappings)
        await asyncio.to_thread(self.records.save, sandbox)

    async def _undo(self, sandbox: Sandbox) -> None:
        if sandbox.holder is not None:
            await sandbox.holder.end(0)
        await self._network.detach(sandbox.ips, sandbox.config.port_mappings)
        await asyncio.to_thread(self._unmount, sandbox.id)
        await asyncio.to_thread(self.records.forget, sandbox.id)

    def _prepare_files(self, directory: Path, sandbox: Sandbox, owner: tuple[int, int]) -> None:
        directory.mkdir(mode=0o711)
        (directory / "resolv.conf").write_text(resolv_conf(sandbox.config))
        name = sandbox.config.hostname or os.uname().nodename
        (directory / "hostname").write_text(f"{name}\n")
        hosts = Path("/etc/hosts")
        (directory / "hosts").write_bytes(hosts.read_bytes() if hosts.exists() else b"127.0.0.1 localhost\n")
        for name in ("resolv.conf", "hostname", "hosts"):
            os.chown(directory / name, *owner)
        if sandbox.options.ipc != cri.NODE:
            shm = directory / "shm"
            shm.mkdir()
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("shm", str(shm), "tmpfs", flags, f"mode=1777,size={SHM_BYTES},uid={owner[0]},gid={owner[1]}")

    def _unmount(self, sandbox_id: str) -> None:
        shm = self.records.directory(sandbox_id) / "shm"
        while os.path.ismount(shm):
            syscalls.unmount(str(shm))

    def _watch(self, sandbox: Sandbox) -> None:
        if not sandbox.stopped and sandbox.holder is not None:
            task = asyncio.create_task(self._report_exit(sandbox, sandbox.holder), name=f"sandbox {sandbox.id}")
            self._watchers[sandbox.id] = task

    async def _report_exit(self, sandbox: Sandbox, holder: Process) -> None:
        await holder.ended()
        self._watchers.pop(sandbox.id, None)
        _log.warning("Pause process exited", extra={"podSandboxID": sandbox.id})
        self._changed(cri.CONTAINER_STOPPED_EVENT, sandbox)


def compute_parameters(requested: dict[str, str], kinds: set[str]) -> list[str]:
    """Return the kernel parameters as ``NAME=VALUE``.

    :raises InvalidArgument: a parameter is not namespaced, or the sandbox lacks the namespace.
    """
    for name in requested:
        has_own = (name.startswith("net.") and "net" in kinds) or (name.startswith(_IPC_PARAMETERS) and "ipc" in kinds)
        if not has_own or ".." in name or "/" in name:
            raise InvalidArgument(f"kernel parameter {name} does not belong to a namespace of this pod")
    return [f"{name}={value}" for name, value in sorted(requested.items())]


def resolv_conf(config: cri.PodSandboxConfig) -> str:
    """Return the resolver configuration; that of the node if the pod has none."""
    dns = config.dns_config
    if not (dns.servers or dns.searches or dns.options):
        with contextlib.suppress(OSError):
            return Path("/etc/resolv.conf").read_text()
        return ""
    lines = [f"search {' '.join(dns.searches)}"] if dns.searches else []
    lines += [f"nameserver {server}" for server in dns.servers]
    lines += [f"options {' '.join(dns.options)}"] if dns.options else []
    return "".join(f"{line}\n" for line in lines)


def _name(config: cri.PodSandboxConfig) -> tuple[str, str, str, int]:
    meta = config.metadata
    return meta.namespace, meta.name, meta.uid, meta.attempt
