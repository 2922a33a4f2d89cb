"""Sequence of the demo: start the processes, print the stages of a pod, stop the processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml
from msgspec import field

from nodeagent.apiclient import Client, connect
from nodeagent.base.aio import SystemClock
from nodeagent.base.structs import MutableStruct
from nodeagent.config.names import native_version
from nodeagent.contracts.api import CORE_EVENTS, NODES, PODS
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.demo.plugin_config import plugin_config
from nodeagent.demo.pod import CONTAINERS, NAMESPACE, NODE, POD, condition, make_pod, stages, waiting_message
from nodeagent.demo.processes import (
    DemoError,
    DemoProcess,
    Ports,
    acquire_lock,
    release_root,
    start_agent,
    start_api_server,
    start_runtime,
)
from nodeagent.demo.runtimes import EMBEDDED, select_runtime
from nodeagent.errors import ApiError, ApiNotFound

BUILTIN_IMAGE = "nodeagent.local/host:latest"
"""Image of the embedded runtime, built from executables of this host; needs no registry."""
PULLED_IMAGE = "docker.io/library/busybox:1.36"
FIELDS_MANIFEST = Path(__file__).parents[2] / "docs/pod-fields.yaml"
"""Pods that the documentation refers to; not part of an installed package."""
WAIT_SECONDS = 60.0
LOG_LINES = 3
_POLL_SECONDS = 0.05


class Demo(MutableStruct):
    """A demo with its files in *directory*.

    :ivar endpoint: CRI endpoint; empty for a running runtime on this host, otherwise the embedded one.
    :ivar image: image with a shell; empty for one that the runtime has or can pull.
    :ivar write: called with each line of output.
    :ivar stop_pods: called before the processes are stopped; returns whether to delete the pod.
    :ivar plugin_config: file with settings of plugins for the agent.
    """

    directory: Path
    endpoint: str
    image: str
    write: Callable[[str], None]
    stop_pods: Callable[[], Awaitable[bool]]
    plugin_config: Path | None = None
    _started_at: float = field(default_factory=time.monotonic)
    _processes: list[DemoProcess] = field(default_factory=list)

    async def run(self, *, once: bool, stop: asyncio.Event) -> None:
        """Start the processes and print the stages of the pod; then, unless *once* is set, wait for *stop*.

        :raises DemoError: the demo cannot run; the message contains a remedy.
        """
        selection = await asyncio.to_thread(select_runtime, self.endpoint)
        await asyncio.to_thread(self.directory.mkdir, 0o711, parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            stack.callback(acquire_lock(self.directory / "lock").close)
            stack.push_async_callback(asyncio.to_thread, release_root, self.directory / "root")
            ports = await asyncio.to_thread(Ports.find, self.directory / "ports.json")
            stack.push_async_callback(self._stop_processes)
            api_server = asyncio.create_task(self._start_api_server(ports), name="start the API server")
            try:
                endpoint = selection.endpoint or await self._start_runtime()
            finally:
                server = await api_server
            kind = "found" if selection.endpoint else EMBEDDED
            self.write(f"Runtime     {self._seconds()}  {endpoint}  {kind}: {selection.reason}")
            self.write(f"API server  {self._seconds()}  {server['url']}  files in {self.directory / 'apiserver'}")
            agent = await asyncio.to_thread(self._start_agent, server, endpoint, ports)
            self._processes.append(agent)
            self.write(f"Agent       {self._seconds()}  healthz on 127.0.0.1:{ports.health}  log {agent.log}")
            admin = connect(Path(server["kubeconfig"]), NodeAgentConfiguration(), SystemClock())
            stack.push_async_callback(admin.close)
            image = self.image or (PULLED_IMAGE if selection.endpoint else BUILTIN_IMAGE)
            try:
                if await _unless(stop, self._show(admin, image)) and not once:
                    self._next_commands(server)
                    await stop.wait()
            finally:
                if once or await self.stop_pods():
                    await self._delete(admin)
                    self.write("Pod                   terminated and deleted")
                else:
                    self.write("Pod                   keeps running; the next run reuses it")

    # --- processes ------------------------------------------------------------------------------------------

    async def _start_api_server(self, ports: Ports) -> dict[str, Any]:
        directory = self.directory / "apiserver"
        process, server = await asyncio.to_thread(start_api_server, directory, ports.api_server, NODE)
        self._processes.append(process)
        return server

    async def _start_runtime(self) -> str:
        path = self.directory / "cri.sock"
        process = await asyncio.to_thread(start_runtime, self.directory / "runtime", path)
        self._processes.append(process)
        return f"unix://{path}"

    def _start_agent(self, server: dict[str, Any], endpoint: str, ports: Ports) -> DemoProcess:
        manifests = self.directory / "manifests"
        manifests.mkdir(exist_ok=True)
        config = {
            "apiVersion": native_version(),
            "kind": "NodeAgentConfiguration",
            "containerRuntimeEndpoint": endpoint,
            "staticPodPath": str(manifests),
            "healthzPort": ports.health,
            "address": "127.0.0.1",
            "port": ports.agent,
            "authentication": {"x509": {"clientCAFile": server["clientCaFile"]}},
            **_NO_HOST_CHANGES,
        }
        plugins = plugin_config(self.directory / "logs", self.plugin_config)
        for name, document in (("config.yaml", config), ("plugins.yaml", plugins)):
            file = self.directory / name
            file.touch(mode=0o600)
            file.chmod(0o600)  # A file of an earlier run may have another mode, which `nodeagent doctor` reports.
            file.write_text(yaml.safe_dump(document))
        arguments = ["--config", str(self.directory / "config.yaml"), "--kubeconfig", server["nodeKubeconfig"]]
        arguments += ["--plugin-config", str(self.directory / "plugins.yaml"), "--hostname-override", NODE]
        arguments += ["--node-ip", "127.0.0.1"]  # The address on which the agent listens.
        arguments += ["--root-dir", str(self.directory / "root"), "--cert-dir", str(self.directory / "pki")]
        arguments += ["--disable-plugin", "kernel_tunables"]  # See _NO_HOST_CHANGES.
        return start_agent(self.directory, arguments, ports.health)

    async def _stop_processes(self) -> None:
        """Stop all processes, the agent first because it is a client of the others."""
        names = []
        while self._processes:
            process = self._processes.pop()
            await asyncio.to_thread(process.stop)
            names.append(process.name)
        self.write(f"Stopped     {', '.join(names)}")

    # --- output ---------------------------------------------------------------------------------------------

    async def _show(self, admin: Client, image: str) -> None:
        node = await self._wait(lambda: self._node(admin), "the node to register")
        ready = condition(node, "Ready")
        self.write(f"Node        {self._seconds()}  {NODE}  Ready={ready['status']}  {ready['message']}")
        pod_network = ready["status"] == "True"
        if not pod_network:
            self.write("                      no pod network available; the pod uses the host network")
        start = time.monotonic()
        if await self._reuse_or_delete(admin):
            self.write(f"Pod         {self._seconds()}  {NAMESPACE}/{POD} is running since an earlier run")
        else:
            start = time.monotonic()
            await admin.create(PODS, make_pod(image, host_network=not pod_network), NAMESPACE)
        pod = await self._stages(admin, start)
        started = min(c["state"]["running"]["startedAt"] for c in pod["status"]["containerStatuses"])
        self.write(
            f"                      {NAMESPACE}/{POD}  {len(CONTAINERS)} containers  {pod['status'].get('podIP', '')}"
            f"  {pod['status']['qosClass']}  running since {started}"
        )
        for container in CONTAINERS:
            await self._log(pod, container)
        self.write("Events")
        # The timestamps have a resolution of seconds, but the names end with the time in nanoseconds.
        for event in sorted(await self._events(admin, pod), key=lambda event: str(event["metadata"]["name"])):
            self.write(f"  {event.get('type', ''):9}{event.get('reason', ''):12} {event.get('message', '')}")

    async def _stages(self, admin: Client, start: float) -> dict[str, Any]:
        """Print each stage when the pod reaches it; return the pod once it is Ready."""
        seen: set[str] = set()

        async def ready() -> dict[str, Any] | None:
            pod = await self._pod(admin)
            for stage in stages(pod):
                if stage not in seen:
                    seen.add(stage)
                    self.write(f"Pod         {self._seconds()}  {stage:10} after {time.monotonic() - start:.2f} s")
            return pod if "Ready" in seen else None

        try:
            pod: dict[str, Any] = await self._wait(ready, "the pod to be Ready")
        except DemoError as error:
            cause = waiting_message(await self._pod(admin))
            raise DemoError(
                f"{error}\n  {cause}\n  --endpoint {EMBEDDED} needs no registry" if cause else str(error)
            ) from error
        return pod

    async def _log(self, pod: dict[str, Any], container: str) -> None:
        directory = self.directory / "logs/pods" / f"{NAMESPACE}_{POD}_{pod['metadata']['uid']}" / container

        def read() -> list[str] | None:
            lines = [line for file in sorted(directory.glob("*.log")) for line in file.read_text().splitlines()]
            return lines if len(lines) >= 2 else None

        lines = await self._wait(lambda: asyncio.to_thread(read), f"the log of container {container}")
        self.write(f"Log of container {container}")
        for line in lines[-LOG_LINES:]:
            self.write(f"  {line.split(' ', 3)[-1]}")

    def _next_commands(self, server: dict[str, Any]) -> None:
        self.write("Try")
        if shutil.which("kubectl"):
            self.write(f"  export KUBECONFIG={server['kubeconfig']}")
            for command in ("get pods -o wide", f"describe pod {POD}", "get events", f"delete pod {POD}"):
                self.write(f"  kubectl {command}")
            if FIELDS_MANIFEST.exists():
                self.write(f"  kubectl apply -f {FIELDS_MANIFEST}    # a pod per field of recent releases")
        for command in (f"why {NAMESPACE}/{POD}", "plugins list"):
            self.write(f"  nodeagent {command} --root-dir {self.directory / 'root'}")
        self.write(f"  tail -F {self.directory}/logs/pods/{NAMESPACE}_{POD}_*/{CONTAINERS[0]}/0.log")
        self.write(f"  copy a pod manifest to {self.directory / 'manifests'} to run a static pod")
        self.write("Ctrl-C stops the demo")

    # --- requests to the API server -------------------------------------------------------------------------

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started_at:6.2f} s"

    async def _wait(self, poll: Callable[[], Awaitable[Any]], subject: str) -> Any:
        """Return the first result of *poll* that is true.

        :raises DemoError: there is none in time, or a process has exited.
        """
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            for process in self._processes:
                process.check()
            if result := await poll():
                return result
            if time.monotonic() > limit:
                log = self._processes[-1].log
                raise DemoError(f"timed out after {WAIT_SECONDS:g} s waiting for {subject}; see the agent's log {log}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _node(self, admin: Client) -> dict[str, Any] | None:
        try:
            node = await admin.get(NODES, NODE, into=dict)
        except ApiNotFound:
            return None
        ready = condition(node, "Ready")
        settled = ready.get("status") == "True" or "network not ready" in ready.get("message", "")
        return node if settled else None

    async def _pod(self, admin: Client) -> dict[str, Any]:
        return await admin.get(PODS, POD, NAMESPACE, into=dict)

    async def _events(self, admin: Client, pod: dict[str, Any]) -> list[dict[str, Any]]:
        events = await admin.list(CORE_EVENTS, NAMESPACE, into=dict)
        return [event for event in events.items if event["involvedObject"].get("uid") == pod["metadata"]["uid"]]

    async def _reuse_or_delete(self, admin: Client) -> bool:
        """Return whether the pod of an earlier run is still running; a terminated or terminating one is deleted."""
        try:
            pod = await self._pod(admin)
        except ApiNotFound:
            return False
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            return True
        await self._delete(admin)
        return False

    async def _delete(self, admin: Client) -> None:
        """Delete the pod and wait until API server and runtime have removed it."""

        async def deleted() -> bool:
            try:
                await self._pod(admin)
            except ApiNotFound:
                return True
            return False

        try:
            uid = (await self._pod(admin))["metadata"]["uid"]
            await admin.delete(PODS, POD, NAMESPACE, grace_seconds=1)
            await self._wait(deleted, "the pod to terminate")
        except ApiNotFound:
            return
        except ApiError as error:
            raise DemoError(f"failed to delete the pod: {error}") from error
        directory = self.directory / "root/pods" / uid

        async def removed() -> bool:
            return not await asyncio.to_thread(directory.exists)

        # The agent removes the directory last, after the object is deleted and the runtime has removed the pod.
        await self._wait(removed, "the pod's directory to be removed")


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run *work* until it completes or *stop* is set; return whether it completed."""
    tasks = [asyncio.create_task(work, name="show"), asyncio.create_task(stop.wait(), name="stop")]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    if not tasks[0].cancelled() and (error := tasks[0].exception()) is not None:
        raise error
    return not tasks[0].cancelled()


# The demo runs on a host in use: no evictions, image garbage collection, cgroups, kernel or firewall settings.
_NO_HOST_CHANGES = {
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {},
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "makeIPTablesUtilChains": False,
}


def default_directory() -> Path:
    """Return the default directory for the demo's files: a system directory for root, otherwise in the user's home."""
    if os.geteuid() == 0:
        return Path("/var/lib/nodeagent-demo")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "nodeagent-demo"
