"""Container lifecycle: create, start, watch, stop and remove."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import cgroups, commands, mounts
from nodeagent_plugins.embedded_runtime.apparmor import apparmor_profile
from nodeagent_plugins.embedded_runtime.cdi_devices import CdiDevices
from nodeagent_plugins.embedded_runtime.errors import AlreadyExists, CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.fork_server import ForkServer
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.id_mappings import mappings_of, opened
from nodeagent_plugins.embedded_runtime.images.store import Image, ImageStore
from nodeagent_plugins.embedded_runtime.mount_sources import MountSources, is_image
from nodeagent_plugins.embedded_runtime.oci_runtimes import Runner
from nodeagent_plugins.embedded_runtime.oci_spec import ContainerEnvironment, Spec, compute_resources, make_spec
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.profiles import seccomp_profile
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox, new_id
from nodeagent_plugins.embedded_runtime.rootfs import RootFileSystems
from nodeagent_plugins.embedded_runtime.sandboxes import Sandboxes
from nodeagent_plugins.embedded_runtime.shim_client import command_shim
from nodeagent_plugins.embedded_runtime.stop_signals import signal_number, stop_signal_of
from nodeagent_plugins.embedded_runtime.users import User, resolve_user

_log = logging.getLogger(__name__)
START_SECONDS = 60.0
END_SECONDS = 10.0
LOST_EXIT_CODE = 255
"""Exit code of a container whose exit was not observed."""


class Containers:
    """All containers of the runtime.

    :param changed: called for each container that was created, started, stopped or removed.
    """

    def __init__(
        self,
        records: Records[Container],
        sandboxes: Sandboxes,
        images: ImageStore,
        roots: RootFileSystems,
        runner: Runner,
        host: Host,
        changed: Callable[[cri.ContainerEventType, Container], None],
        cdi: CdiDevices,
        helpers: ForkServer,
    ) -> None:
        self.records, self._sandboxes, self._images = records, sandboxes, images
        self._roots, self.runner, self._host, self._changed, self._cdi = roots, runner, host, changed, cdi
        self._helpers = helpers
        self._names: dict[tuple[str, str, int], str] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def adopt(self) -> None:
        """Adopt the containers of the previous runtime process; exits since then are read from their files."""
        for torn in self.records.load():
            self._roots.remove(self.records.directory(torn))
            self.records.forget(torn)
        for container in self.records.all():
            self._names[_name(container)] = container.id
            if container.running:
                self._watch(container)
            elif not container.finished_at:
                self._restore(container)

    async def close(self) -> None:
        """Stop watching; the containers keep running."""
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)

    def handler_features(self) -> cri.RuntimeHandlerFeatures:
        """Return the features of the only runtime handler."""
        return cri.RuntimeHandlerFeatures(
            recursive_read_only_mounts=self._roots.clones_mounts,
            user_namespaces=not self._sandboxes.user_namespace_problem,
        )

    @property
    def cdi_directories(self) -> Sequence[str]:
        """Directories of CDI specs."""
        return self._cdi.directories

    def of(self, sandbox_id: str) -> list[Container]:
        """Return the containers of a sandbox."""
        return [container for container in self.records.all() if container.sandbox_id == sandbox_id]

    # --- create and start -------------------------------------------------------------------------------------

    async def create(self, sandbox: Sandbox, config: cri.ContainerConfig) -> str:
        """Prepare a container and return its ID.

        :raises FailedPrecondition: the sandbox is not ready, or the host does not support a setting.
        :raises AlreadyExists: the sandbox has a container with this name and attempt.
        """
        if not sandbox.ready:
            raise FailedPrecondition(f"sandbox {sandbox.id} is not ready")
        if not config.metadata.name:
            raise InvalidArgument("missing container name")
        image = self._images.get(config.image.image)
        container = Container(new_id(), sandbox.id, config, image.id, image.reference, time.time_ns())
        container.layers = list(image.layers)
        for mount in config.mounts:
            if is_image(mount):
                container.volume_layers += self._images.get(mount.image.image).layers
        if config.log_path and sandbox.config.log_directory:
            container.log_path = str(Path(sandbox.config.log_directory, config.log_path))
        container.stop_signal = stop_signal_of(config, str(image.config.get("StopSignal") or ""))
        if (known := self._names.get(_name(container))) is not None:
            raise AlreadyExists(f"container {config.metadata.name}, attempt {config.metadata.attempt}, exists: {known}")
        self._names[_name(container)] = container.id
        try:
            await asyncio.to_thread(self._prepare, container, sandbox, image)
        except BaseException as error:
            self._names.pop(_name(container), None)
            await asyncio.shield(asyncio.to_thread(self._discard, container))
            if isinstance(error, OSError):
                raise CallError(f"failed to create container {config.metadata.name}: {error}") from error
            raise
        self._changed(cri.CONTAINER_CREATED_EVENT, container)
        return container.id

    async def start(self, container: Container) -> None:
        """Start a created container.

        :raises CallError: the start failed; the container has exited with that message.
        """
        async with self._lock(container):
            if container.started_at or container.finished_at:
                raise FailedPrecondition(f"container {container.id} has already been started")
            if not self._sandboxes.records.get(container.sandbox_id).ready:
                raise FailedPrecondition(f"the sandbox of container {container.id} is not ready")
            try:
                await self._start(container)
            except BaseException as error:
                await asyncio.shield(self._delete(container))
                container.finished_at = time.time_ns()
                container.exit_code, container.reason, container.message = 128, "StartError", str(error)
                await asyncio.to_thread(self.records.save, container)
                self._changed(cri.CONTAINER_STOPPED_EVENT, container)
                raise
            self._changed(cri.CONTAINER_STARTED_EVENT, container)
            self._watch(container)

    async def _start(self, container: Container) -> None:
        directory, config = self.records.directory(container.id), container.config
        given = (("tty", config.tty), ("stdin", config.stdin), ("once", config.stdin_once))
        options = ",".join(name for name, enabled in given if enabled)
        runner = self.runner.run(directory, container.id, terminal=config.tty)
        if container.log_path:
            await asyncio.to_thread(Path(container.log_path).parent.mkdir, parents=True, exist_ok=True)
        arguments = (str(directory), container.log_path, options, *runner)
        attempt = f"start container {config.metadata.name}"
        output = await self._helpers.run("shim", *arguments, attempt=attempt, timeout_seconds=START_SECONDS)
        pid, shim = map(int, output.split()[1:])
        container.started_at = time.time_ns()
        container.process, container.shim = Process.of(pid), Process.of(shim)
        sandbox = self._sandboxes.records.get(container.sandbox_id)
        if path := self._cgroups_path(container, sandbox):
            container.cgroups = await asyncio.to_thread(cgroups.find_groups, path)
        await asyncio.to_thread(self.records.save, container)

    # --- stop and remove --------------------------------------------------------------------------------------

    async def stop(self, container: Container, grace_seconds: float) -> None:
        """Send the stop signal, and SIGKILL after the grace period; return once the container has exited."""
        if container.running and container.process is not None:
            if grace_seconds > 0:
                await container.process.end(grace_seconds, signal_number(container.stop_signal))
            else:
                await container.process.end(0)
        await self._wait_until_noted(container)

    async def remove(self, container: Container) -> None:
        """Kill the container if it is running, and remove it with all its data except the log."""
        async with self._lock(container):
            await self.stop(container, 0)
            await asyncio.to_thread(self._discard, container)
            self._names.pop(_name(container), None)
        self._locks.pop(container.id, None)
        await asyncio.to_thread(self._images.collect, [layer for c in self.records.all() for layer in c.all_layers])
        self._changed(cri.CONTAINER_DELETED_EVENT, container)

    async def _wait_until_noted(self, container: Container) -> None:
        watcher = self._watchers.get(container.id)
        if watcher is not None:
            await asyncio.wait({watcher}, timeout=END_SECONDS)

    async def _delete(self, container: Container) -> None:
        """Delete the container in the OCI runtime, with its remaining processes."""
        try:
            await commands.run(self.runner.delete(container.id), f"delete container {container.id}")
        except CallError as error:
            _log.debug("Failed to delete container", extra={"containerID": container.id, "err": str(error)})

    def _discard(self, container: Container) -> None:
        self._roots.remove(self.records.directory(container.id))
        self.records.forget(container.id)

    # --- running containers -----------------------------------------------------------------------------------

    async def reopen_log(self, container: Container) -> None:
        """Reopen the container's log."""
        if not container.running:
            raise FailedPrecondition(f"container {container.id} is not running")
        await command_shim(self.records.directory(container.id), "reopen")

    async def update(self, container: Container, resources: cri.LinuxContainerResources) -> None:
        """Update the limits of a container; before its start they are only stored.

        :raises FailedPrecondition: cgroups are unavailable, or the container has exited.
        """
        if not self._host.cgroup_version:
            raise FailedPrecondition("updating limits requires permission to create cgroups")
        if container.finished_at:
            raise FailedPrecondition(f"container {container.id} has exited")
        limits = compute_resources(resources, self._host.cgroup_version)
        async with self._lock(container):
            if container.running:
                attempt, given = f"update limits of container {container.id}", msgspec.json.encode(limits).decode()
                await commands.run(self.runner.update(container.id), attempt, given=given)
            else:
                await asyncio.to_thread(self._change_spec, container, limits)
            if resources.hugepage_limits:
                del container.config.linux.resources.hugepage_limits[:]
            container.config.linux.resources.MergeFrom(resources)
            await asyncio.to_thread(self.records.save, container)

    def usage(self, container: Container) -> cgroups.Usage:
        """Return the usage of a running container."""
        pid = container.process.pid if container.process is not None else 0
        return cgroups.usage(container.cgroups, pid)

    def written(self, container: Container) -> tuple[int, int]:
        """Return the bytes and files that the container has written to its root file system."""
        return self._roots.usage(self.records.directory(container.id))

    # --- helpers ----------------------------------------------------------------------------------------------

    def _prepare(self, container: Container, sandbox: Sandbox, image: Image) -> None:
        directory = self.records.directory(container.id)
        directory.mkdir(mode=0o711)
        users = mappings_of(sandbox.options)
        owner = (0, 0) if users is None else users.root
        mounts.check(container.config.mounts)
        edits = self._cdi.edits(container.config)
        with opened(sandbox.namespace("user")) as namespace:
            rootfs = self._roots.make(directory, self._layers_of(image.id), namespace, owner)
            mounts.check_root(rootfs)
            sources = MountSources(directory, self._roots, self._layers_of, namespace)
            around = ContainerEnvironment(
                host=self._host,
                user=self._user(container.config, image, rootfs),
                image_config=image.config,
                hostname=sandbox.config.hostname or os.uname().nodename,
                namespaces=self._namespaces(container, sandbox),
                files=self._sandboxes.files(sandbox),
                sources=sources.prepare(container.config.mounts),
                users=users,
                lent=image.lent,
                cgroups_path=self._cgroups_path(container, sandbox),
                seccomp=seccomp_profile(container.config.linux.security_context, self.runner),
                apparmor=apparmor_profile(container.config.linux.security_context, self.runner),
                edits=edits,
                map_owners=sources.map_owners,
                directory=directory,
            )
            spec = make_spec(container.config, around)
        user = spec["process"]["user"]
        container.user = {"uid": user["uid"], "gid": user["gid"], "groups": user["additionalGids"]}
        self._write_spec(directory, spec)
        self.records.save(container)

    def _layers_of(self, name: str) -> list[Path]:
        return [self._images.layer(layer) for layer in self._images.get(name).layers]

    def _user(self, config: cri.ContainerConfig, image: Image, rootfs: Path) -> User:
        security = config.linux.security_context
        group = security.run_as_group.value if security.HasField("run_as_group") else None
        if security.HasField("run_as_user"):
            requested = str(security.run_as_user.value)
        elif security.run_as_username:
            requested = security.run_as_username
        elif group is not None:
            raise InvalidArgument("run_as_group requires run_as_user")
        else:
            requested = str(image.config.get("User") or "")
        strict = security.supplemental_groups_policy == cri.Strict
        user = resolve_user(rootfs, requested, group, tuple(security.supplemental_groups), strict=strict)
        if self._host.remapped:
            user = mounts.check_mapped(user)
        return user

    def _namespaces(self, container: Container, sandbox: Sandbox) -> dict[str, str]:
        """Return the namespaces that the container joins or creates, with their OCI names."""
        options = container.config.linux.security_context.namespace_options
        found = {"mount": ""}
        for kind, name in (("user", "user"), ("net", "network"), ("ipc", "ipc"), ("uts", "uts")):
            if path := sandbox.namespace(kind):
                found[name] = path
        if options.pid == cri.CONTAINER:
            found["pid"] = ""
        elif options.pid == cri.POD and (path := sandbox.namespace("pid")):
            found["pid"] = path
        elif options.pid == cri.TARGET:
            target = self.records.get(options.target_id)
            if target.sandbox_id != sandbox.id or not target.running or target.process is None:
                raise FailedPrecondition(f"target container {options.target_id} is not running in this pod")
            found["pid"] = f"/proc/{target.process.pid}/ns/pid"
        if self._host.cgroup_version == 2 and not container.config.linux.security_context.privileged:
            found["cgroup"] = ""
        return found

    def _cgroups_path(self, container: Container, sandbox: Sandbox) -> str:
        if not self._host.cgroup_version:
            return ""
        parent = sandbox.config.linux.cgroup_parent or "/nodeagent-pods"
        return f"{parent.rstrip('/')}/{container.id}"

    def _write_spec(self, directory: Path, spec: Spec) -> None:
        path = directory / "config.json"
        path.touch(mode=0o600)  # The environment may contain secrets.
        path.write_bytes(msgspec.json.encode(spec))

    def _change_spec(self, container: Container, limits: Spec) -> None:
        directory = self.records.directory(container.id)
        spec = msgspec.json.decode((directory / "config.json").read_bytes())
        for name, values in limits.items():
            kept = spec["linux"]["resources"].get(name)
            merged = {**kept, **values} if isinstance(kept, dict) else values
            spec["linux"]["resources"][name] = merged
        self._write_spec(directory, spec)

    def _restore(self, container: Container) -> None:
        try:
            layers = [self._images.layer(name) for name in container.layers]
            self._roots.restore(self.records.directory(container.id), layers)
        except OSError as error:
            _log.warning("Failed to restore root file system", extra={"containerID": container.id, "err": str(error)})

    def _lock(self, container: Container) -> asyncio.Lock:
        return self._locks.setdefault(container.id, asyncio.Lock())

    def _watch(self, container: Container) -> None:
        task = asyncio.create_task(self._note_end(container), name=f"container {container.id}")
        self._watchers[container.id] = task

    async def _note_end(self, container: Container) -> None:
        """Wait until the shim exits, which records the container's exit first."""
        if container.shim is not None:
            await container.shim.ended()
        if container.process is not None and container.process.alive:
            # Without the shim the output of the container is not read, so the container would eventually block.
            _log.warning("Container shim was killed", extra={"containerID": container.id})
            await container.process.end(0)
        await asyncio.to_thread(self._read_exit, container)
        await asyncio.to_thread(self.records.save, container)
        self._changed(cri.CONTAINER_STOPPED_EVENT, container)
        await self._delete(container)  # Also kills remaining processes in a shared PID namespace.
        self._watchers.pop(container.id, None)

    def _read_exit(self, container: Container) -> None:
        killed = cgroups.memory_ran_out(container.cgroups)
        try:
            noted = msgspec.json.decode((self.records.directory(container.id) / "exit.json").read_bytes())
            container.exit_code, container.finished_at = noted["exit_code"], noted["finished_at"]
        except (OSError, ValueError, KeyError):
            container.exit_code, container.finished_at = LOST_EXIT_CODE, time.time_ns()
            container.reason, container.message = "Unknown", "the exit of the container was not observed"
            return
        if killed and container.exit_code == 128 + signal.SIGKILL:
            container.reason = "OOMKilled"
        else:
            container.reason = "Error" if container.exit_code else "Completed"


def _name(container: Container) -> tuple[str, str, int]:
    meta = container.config.metadata
    return container.sandbox_id, meta.name, meta.attempt
