"""Runtime daemon: startup and shutdown of its components. Pods keep running when it stops."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO

from msgspec import field

from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime import cri_responses, passable_root
from nodeagent_plugins.embedded_runtime.cdi_devices import CdiDevices
from nodeagent_plugins.embedded_runtime.containers import Containers
from nodeagent_plugins.embedded_runtime.events import Events
from nodeagent_plugins.embedded_runtime.execution import Execution
from nodeagent_plugins.embedded_runtime.fork_server import ForkServer
from nodeagent_plugins.embedded_runtime.hairpin import PROMISCUOUS_BRIDGE
from nodeagent_plugins.embedded_runtime.host import Host, find_executable
from nodeagent_plugins.embedded_runtime.id_mappings import find_problem
from nodeagent_plugins.embedded_runtime.image_service import ImageService
from nodeagent_plugins.embedded_runtime.images.builtin import add_builtin
from nodeagent_plugins.embedded_runtime.images.loading import Loader
from nodeagent_plugins.embedded_runtime.images.pull import Puller
from nodeagent_plugins.embedded_runtime.images.store import ImageStore
from nodeagent_plugins.embedded_runtime.network import (
    DEFAULT_BRIDGE,
    DEFAULT_SUBNET,
    BridgeNetwork,
    HostNetwork,
    Network,
)
from nodeagent_plugins.embedded_runtime.oci_runtimes import choose_runner
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox
from nodeagent_plugins.embedded_runtime.rootfs import RootFileSystems
from nodeagent_plugins.embedded_runtime.runtime_service import RuntimeService
from nodeagent_plugins.embedded_runtime.sandboxes import Sandboxes
from nodeagent_plugins.embedded_runtime.server import (
    STOP_SECONDS,
    make_server,
    serve_changes,
    serve_hairpin_mode,
    serve_import,
    serve_transfers,
)
from nodeagent_plugins.embedded_runtime.streaming import StreamingServer
from nodeagent_plugins.embedded_runtime.streams import Streams

_log = logging.getLogger(__name__)


class Options(Struct, frozen=True):
    """Options of the runtime."""

    root: Path
    socket: Path
    runner: str = ""
    network: str = ""
    bridge: str = DEFAULT_BRIDGE
    subnet: str = DEFAULT_SUBNET
    hairpin_mode: str = PROMISCUOUS_BRIDGE
    insecure_registries: list[str] = field(default_factory=list)
    cdi_directories: Sequence[str] = DEFAULT_DIRECTORIES


class InUseError(Exception):
    """The directory is in use by another runtime."""


class Daemon:
    """One runtime on one directory."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._events = Events()
        self._host = host = Host.detect()
        root = options.root
        root.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._lock = _take_lock(root / "lock")
        self._network = choose_network(options, host)
        self._passable_root = passable_root.make_passable(root, host)
        try:
            runner = choose_runner(options.runner, self._passable_root / "state", host)
        except Exception:
            if not any((root / "sandboxes").glob("*")):
                passable_root.release(root)
            self._lock.close()
            raise
        self._helpers = ForkServer(root)
        self._sandboxes = Sandboxes(
            Records(self._passable_root / "sandboxes", Sandbox, cri.PodSandboxConfig),
            self._network,
            self._sandbox_changed,
            self._helpers,
        )
        self._images = ImageStore(root)
        self._roots = RootFileSystems(root, user_attributes=host.remapped)
        self._containers = Containers(
            Records(self._passable_root / "containers", Container, cri.ContainerConfig),
            self._sandboxes,
            self._images,
            self._roots,
            runner,
            host,
            self._container_changed,
            CdiDevices(runner.name, options.cdi_directories),
            self._helpers,
        )
        if not host.cgroup_version:
            _log.warning("Ignoring limits of containers, no permission to create cgroups")
        _log.info(
            "Starting embedded runtime",
            extra={"root": str(root), "runner": runner.name, "own_network": self._network.own},
        )

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with AsyncExitStack() as stack:
            stack.callback(self._lock.close)
            stack.push_async_callback(self._helpers.close)
            await asyncio.to_thread(self._load_images)
            problem = await find_problem(self._passable_root, self._host, self._roots, self._helpers)
            if problem:
                _log.info("User namespaces of pods are unavailable", extra={"err": problem})
            self._sandboxes.user_namespace_problem = problem
            self._sandboxes.adopt()
            await self._network.adopt()
            stack.push_async_callback(self._sandboxes.close)
            self._containers.adopt()
            stack.push_async_callback(self._containers.close)
            execution = Execution(self._containers)
            streaming = StreamingServer(Streams(self._sandboxes, self._containers, execution).run)
            stack.push_async_callback(streaming.close)
            loader = Loader(self._images, user_attributes=self._host.remapped)
            puller = Puller(loader, self._options.insecure_registries)
            stack.push_async_callback(puller.close)
            runtime = RuntimeService(
                self._sandboxes, self._containers, execution, streaming, self._network, self._events
            )
            images = ImageService(self._images, puller, self._layers_in_use)
            self._options.socket.parent.mkdir(parents=True, exist_ok=True)
            self._options.socket.unlink(missing_ok=True)
            server = make_server(self._options.socket, runtime, images)
            serve_import(server, loader)
            serve_transfers(server, puller.transfers)
            serve_changes(server, self._events.listen)
            serve_hairpin_mode(server, self._network.set_hairpin_mode)
            await server.start()
            self._options.socket.chmod(0o600)
            stack.push_async_callback(server.stop, STOP_SECONDS)
            ready()
            await stop.wait()
            if self.empty:
                await self._network.remove()
                passable_root.release(self._options.root)
            _log.info(
                "Shutting down embedded runtime, pods keep running", extra={"pods": len(self._sandboxes.records.all())}
            )

    def describe(self) -> str:
        """Return a one-line summary."""
        return f"{len(self._sandboxes.records.all())} sandboxes, {len(self._containers.records.all())} containers"

    @property
    def empty(self) -> bool:
        """Return whether there are no pods, so that nothing outlives this process."""
        return not self._sandboxes.records.all()

    def _load_images(self) -> None:
        self._images.load()
        add_builtin(self._images)

    def _layers_in_use(self) -> list[str]:
        return [layer for container in self._containers.records.all() for layer in container.all_layers]

    def _sandbox_changed(self, kind: cri.ContainerEventType, sandbox: Sandbox) -> None:
        self._publish(kind, sandbox.id, sandbox)

    def _container_changed(self, kind: cri.ContainerEventType, container: Container) -> None:
        sandbox = self._sandboxes.records.find(container.sandbox_id)
        if sandbox is not None:
            self._publish(kind, container.id, sandbox)

    def _publish(self, kind: cri.ContainerEventType, changed_id: str, sandbox: Sandbox) -> None:
        if not len(self._events):
            return
        self._events.send(
            cri.ContainerEventResponse(
                container_id=changed_id,
                container_event_type=kind,
                created_at=time.time_ns(),
                pod_sandbox_status=cri_responses.sandbox_status(sandbox),
                containers_statuses=map(cri_responses.container_status, self._containers.of(sandbox.id)),
            )
        )


def choose_network(options: Options, host: Host) -> Network:
    """Return the requested network, or the best supported one.

    :raises ValueError: a bridge is requested but not supported.
    """
    tools = bool(find_executable("ip") and find_executable("nsenter"))
    possible = tools and "NET_ADMIN" in host.capabilities and not host.remapped
    if options.network == "bridge" and not possible:
        raise ValueError("a bridge requires root and the commands ip (iproute2) and nsenter (util-linux)")
    if options.network != "host" and possible:
        return BridgeNetwork(options.bridge, options.subnet, options.hairpin_mode, options.root / "pod-network")
    return HostNetwork()


def _take_lock(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise InUseError(f"{path.parent} is in use by another runtime") from None
    return file
