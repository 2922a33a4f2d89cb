"""Starts everything, shows a pod come to life, and stops everything again."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nodeagent.apiclient import Client, connect
from nodeagent.base.aio import SystemClock
from nodeagent.config.names import native_version
from nodeagent.contracts.api import CORE_EVENTS, NODES, PODS
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.demo.pod import CONTAINERS, NAMESPACE, NODE, POD, condition, make_pod, stages, trouble
from nodeagent.demo.programs import (
    DemoError,
    Ports,
    Program,
    start_agent,
    start_api_server,
    start_runtime,
    take_lock,
)
from nodeagent.demo.runtimes import EMBEDDED, choose_runtime
from nodeagent.errors import ApiError, ApiNotFound

BUILTIN_IMAGE = "nodeagent.local/host:latest"
"""The embedded runtime's own image, made of this machine's programs; no registry is needed for it."""
PULLED_IMAGE = "docker.io/library/busybox:1.36"
WAIT_SECONDS = 60.0
LOG_LINES = 3
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Demo:
    """One demo below *directory*.

    :ivar endpoint: the runtime; empty takes one that serves, else the embedded one.
    :ivar image: image with a shell; empty takes one that the runtime has or can pull.
    :ivar stop_pods: asked when the programs are stopped: whether the pod ends as well.
    :raises DemoError: something is missing; the text says what to do.
    """

    directory: Path
    endpoint: str
    image: str
    say: Callable[[str], None]
    stop_pods: Callable[[], Awaitable[bool]]
    _started_at: float = field(default_factory=time.monotonic)
    _programs: list[Program] = field(default_factory=list)

    async def run(self, *, once: bool, stop: asyncio.Event) -> None:
        """Show the pod; then, with *once*, stop everything, else wait for *stop* and leave the pod if so wished."""
        choice = await asyncio.to_thread(choose_runtime, self.endpoint)
        await asyncio.to_thread(self.directory.mkdir, 0o711, parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            stack.callback(take_lock(self.directory / "lock").close)
            ports = await asyncio.to_thread(Ports.find, self.directory / "ports.json")
            stack.push_async_callback(self._stop_programs)
            server = asyncio.create_task(self._start_api_server(ports), name="start the API server")
            try:
                endpoint = choice.endpoint or await self._start_runtime()
            finally:
                facts = await server
            kind = "found" if choice.endpoint else EMBEDDED
            self.say(f"Runtime     {self._seconds()}  {endpoint}  {kind}: {choice.why}")
            self.say(f"API server  {self._seconds()}  {facts['url']}  files in {self.directory / 'apiserver'}")
            agent = await asyncio.to_thread(self._start_agent, facts, endpoint, ports)
            self._programs.append(agent)
            self.say(f"Agent       {self._seconds()}  healthz on 127.0.0.1:{ports.health}  log {agent.log}")
            admin = connect(Path(facts["kubeconfig"]), NodeAgentConfiguration(), SystemClock())
            stack.push_async_callback(admin.close)
            image = self.image or (PULLED_IMAGE if choice.endpoint else BUILTIN_IMAGE)
            try:
                if await _unless(stop, self._show(admin, image)) and not once:
                    self._next_commands(facts)
                    await stop.wait()
            finally:
                if once or await self.stop_pods():
                    await self._delete(admin)
                    self.say("Pod                   ended and removed")
                else:
                    self.say("Pod                   goes on; the next run finds it")

    # --- programs -------------------------------------------------------------------------------------------

    async def _start_api_server(self, ports: Ports) -> dict[str, Any]:
        directory = self.directory / "apiserver"
        program, facts = await asyncio.to_thread(start_api_server, directory, ports.api_server, NODE)
        self._programs.append(program)
        return facts

    async def _start_runtime(self) -> str:
        path = self.directory / "cri.sock"
        program = await asyncio.to_thread(start_runtime, self.directory / "runtime", path)
        self._programs.append(program)
        return f"unix://{path}"

    def _start_agent(self, facts: dict[str, Any], endpoint: str, ports: Ports) -> Program:
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
            "authentication": {"x509": {"clientCAFile": facts["clientCaFile"]}},
            **_GENTLE,
        }
        plugins = {"plugins": {"pod_sync": {"log_root": str(self.directory / "logs")}}}
        for name, document in (("config.yaml", config), ("plugins.yaml", plugins)):
            file = self.directory / name
            file.touch(mode=0o600)
            file.chmod(0o600)  # what `nodeagent doctor` asks for, of files that an earlier run wrote too
            file.write_text(yaml.safe_dump(document))
        arguments = ["--config", str(self.directory / "config.yaml"), "--kubeconfig", facts["nodeKubeconfig"]]
        arguments += ["--plugin-config", str(self.directory / "plugins.yaml"), "--hostname-override", NODE]
        arguments += ["--node-ip", "127.0.0.1"]  # where it listens
        arguments += ["--root-dir", str(self.directory / "root"), "--cert-dir", str(self.directory / "pki")]
        arguments += ["--disable-plugin", "kernel_tunables"]  # as with _GENTLE: the machine is not the demo's
        arguments += ["--disable-plugin", "kernel_tunables"]
        return start_agent(self.directory, arguments, ports.health)

    async def _stop_programs(self) -> None:
        """Stop them all: the agent, which asks the others, first."""
        names = []
        while self._programs:
            program = self._programs.pop()
            await asyncio.to_thread(program.stop)
            names.append(program.name)
        self.say(f"Stopped     {', '.join(names)}")

    # --- what is shown --------------------------------------------------------------------------------------

    async def _show(self, admin: Client, image: str) -> None:
        node = await self._wait(lambda: self._node(admin), "the node did not register")
        ready = condition(node, "Ready")
        self.say(f"Node        {self._seconds()}  {NODE}  Ready={ready['status']}  {ready['message']}")
        own_network = ready["status"] == "True"
        if not own_network:
            self.say("                      pods cannot have networks of their own here; the pod uses the node's")
        begin = time.monotonic()
        if await self._keep_or_delete(admin):
            self.say(f"Pod         {self._seconds()}  {NAMESPACE}/{POD} is there from an earlier run")
        else:
            begin = time.monotonic()
            await admin.create(PODS, make_pod(image, host_network=not own_network), NAMESPACE)
        pod = await self._stages(admin, begin)
        started = min(c["state"]["running"]["startedAt"] for c in pod["status"]["containerStatuses"])
        self.say(
            f"                      {NAMESPACE}/{POD}  {len(CONTAINERS)} containers  {pod['status'].get('podIP', '')}"
            f"  {pod['status']['qosClass']}  runs since {started}"
        )
        for container in CONTAINERS:
            await self._log(pod, container)
        self.say("Events")
        # The names end with the time in nanoseconds; the timestamps are in seconds.
        for event in sorted(await self._events(admin, pod), key=lambda event: str(event["metadata"]["name"])):
            self.say(f"  {event.get('type', ''):9}{event.get('reason', ''):13}{event.get('message', '')}")

    async def _stages(self, admin: Client, begin: float) -> dict[str, Any]:
        """Tell each stage as the pod reaches it; return the pod once it is ready."""
        seen: set[str] = set()

        async def ready() -> dict[str, Any] | None:
            pod = await self._pod(admin)
            for stage in stages(pod):
                if stage not in seen:
                    seen.add(stage)
                    self.say(f"Pod         {self._seconds()}  {stage:10} after {time.monotonic() - begin:.2f} s")
            return pod if "Ready" in seen else None

        try:
            found: dict[str, Any] = await self._wait(ready, "the pod did not run")
        except DemoError as error:
            why = trouble(await self._pod(admin))
            raise DemoError(
                f"{error}\n  {why}\n  --endpoint {EMBEDDED} needs no registry" if why else str(error)
            ) from error
        return found

    async def _log(self, pod: dict[str, Any], container: str) -> None:
        folder = f"{NAMESPACE}_{POD}_{pod['metadata']['uid']}"
        directory = self.directory / "logs/pods" / folder / container

        def read() -> list[str] | None:
            found = [line for file in sorted(directory.glob("*.log")) for line in file.read_text().splitlines()]
            return found if len(found) >= 2 else None

        lines = await self._wait(lambda: asyncio.to_thread(read), f"container {container} wrote no log")
        self.say(f"Log of container {container}")
        for line in lines[-LOG_LINES:]:
            self.say(f"  {line.split(' ', 3)[-1]}")

    def _next_commands(self, facts: dict[str, Any]) -> None:
        self.say("Try")
        if shutil.which("kubectl"):
            self.say(f"  export KUBECONFIG={facts['kubeconfig']}")
            for command in ("get pods -o wide", f"describe pod {POD}", "get events", f"delete pod {POD}"):
                self.say(f"  kubectl {command}")
        self.say(f"  tail -F {self.directory}/logs/pods/{NAMESPACE}_{POD}_*/{CONTAINERS[0]}/0.log")
        self.say(f"  put a pod's manifest into {self.directory / 'manifests'}, and the agent runs it")
        self.say("Ctrl-C stops the programs")

    # --- asking the API server ------------------------------------------------------------------------------

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started_at:6.2f} s"

    async def _wait(self, look: Callable[[], Awaitable[Any]], failure: str) -> Any:
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            for program in self._programs:
                program.check()
            if found := await look():
                return found
            if time.monotonic() > limit:
                log = self._programs[-1].log
                raise DemoError(f"{failure} within {WAIT_SECONDS:g} s; the log of the agent is {log}")
            await asyncio.sleep(_LOOK_SECONDS)

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
        found = await admin.list(CORE_EVENTS, NAMESPACE, into=dict)
        return [event for event in found.items if event["involvedObject"].get("uid") == pod["metadata"]["uid"]]

    async def _keep_or_delete(self, admin: Client) -> bool:
        """Whether the pod of an earlier run goes on; one that has ended, or is about to, goes first."""
        try:
            pod = await self._pod(admin)
        except ApiNotFound:
            return False
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]:
            return True
        await self._delete(admin)
        return False

    async def _delete(self, admin: Client) -> None:
        """Delete the pod and return when it is gone, from the runtime too."""

        async def gone() -> bool:
            try:
                await self._pod(admin)
            except ApiNotFound:
                return True
            return False

        try:
            uid = (await self._pod(admin))["metadata"]["uid"]
            await admin.delete(PODS, POD, NAMESPACE, grace_seconds=1)
            await self._wait(gone, "the pod did not end")
        except ApiNotFound:
            return
        except ApiError as error:
            raise DemoError(f"the pod cannot be deleted: {error}") from error
        directory = self.directory / "root/pods" / uid

        async def removed() -> bool:
            return not await asyncio.to_thread(directory.exists)

        # The agent removes it once the runtime has removed the pod, which it does after the API server has.
        await self._wait(removed, "the pod was not removed")


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run *work* until its end, which makes it true, or until *stop* is set."""
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


# The demo shares the machine with its owner: it evicts nothing, collects no images, makes no cgroups, and
# leaves kernel and firewall as they are.
_GENTLE = {
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "evictionHard": {},
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "makeIPTablesUtilChains": False,
}


def default_directory() -> Path:
    """Return where the demo keeps its files: a system directory for root, else one of the user's."""
    if os.geteuid() == 0:
        return Path("/var/lib/nodeagent-demo")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "nodeagent-demo"
