"""Starts everything, shows a pod come to life, and stops everything again."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nodeagent.apiclient import Client, connect
from nodeagent.base.aio import SystemClock
from nodeagent.config.names import native_version
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.api import EVENTS, NODES, PODS
from nodeagent.demo.programs import DemoError, Program, free_port, start_agent, start_api_server
from nodeagent.errors import ApiError, ApiNotFound

DEFAULT_ENDPOINT = "unix:///run/containerd/containerd.sock"
OTHER_PODS = Path("/var/lib/kubelet/pods")
NODE = "demo-node"
POD = "demo"
WAIT_SECONDS = 60.0
LOG_LINES = 5
_LOOK_SECONDS = 0.1


@dataclass(slots=True)
class Demo:
    """One demo below *directory*, on the runtime at *endpoint*.

    :raises DemoError: something is missing; the text says what to do.
    """

    directory: Path
    endpoint: str
    image: str
    say: Callable[[str], None]

    async def run(self, *, once: bool, stop: asyncio.Event) -> None:
        """Show the pod; with *once* stop everything at the end, else wait for *stop* and leave the pod running."""
        socket = Path(self.endpoint.removeprefix("unix://"))
        if not await asyncio.to_thread(socket.is_socket):
            raise DemoError(
                f"no container runtime at {self.endpoint}: install and start one (apt install containerd), "
                "or name its socket with --endpoint"
            )
        if self.endpoint == DEFAULT_ENDPOINT and await asyncio.to_thread(_other_agent):
            raise DemoError(
                f"another node agent keeps pods in {OTHER_PODS} on this machine, and the demo would end them; "
                "name a runtime of its own with --endpoint"
            )
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        server, facts = await asyncio.to_thread(start_api_server, self.directory / "apiserver")
        self.say(f"API server  {facts['url']}  data in {self.directory / 'apiserver'}")
        agent: Program | None = None
        try:
            agent = await asyncio.to_thread(self._start_agent, facts)
            self.say(f"Agent       runtime {self.endpoint}  log {agent.log}")
            admin = connect(Path(facts["kubeconfig"]), NodeAgentConfiguration(), SystemClock())
            try:
                await self._show(admin, agent)
                if once:
                    await self._remove_pod(admin, agent)
                else:
                    self._next_commands(facts)
                    await stop.wait()
            finally:
                await admin.close()
        finally:
            if agent is not None:
                await asyncio.to_thread(agent.stop)
            await asyncio.to_thread(server.stop)
            self.say("Stopped agent and API server" + ("" if once else "; the pod goes on"))

    # --- steps ----------------------------------------------------------------------------------------------

    def _start_agent(self, facts: dict[str, Any]) -> Program:
        port = free_port()
        manifests = self.directory / "manifests"
        manifests.mkdir(exist_ok=True)
        config = {
            "apiVersion": native_version(),
            "kind": "NodeAgentConfiguration",
            "containerRuntimeEndpoint": self.endpoint,
            "staticPodPath": str(manifests),
            "healthzPort": port,
            "address": "127.0.0.1",
            "port": free_port(),
        }
        file = self.directory / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        arguments = ["--config", str(file), "--kubeconfig", facts["nodeKubeconfig"]]
        arguments += ["--root-dir", str(self.directory / "root"), "--cert-dir", str(self.directory / "pki")]
        arguments += ["--hostname-override", NODE]
        return start_agent(self.directory, arguments, port)

    async def _show(self, admin: Client, agent: Program) -> None:
        node = await self._wait(agent, lambda: self._node(admin), "the node did not register")
        ready = _condition(node, "Ready")
        network = ready["status"] == "True"
        self.say(f"Node        {NODE}  Ready={ready['status']}  {ready['message']}")
        if not network:
            self.say("            pods cannot have networks of their own here, so the pod uses that of the node")
        await self._delete(admin)
        created = time.monotonic()
        await admin.create(PODS, _pod(self.image, host_network=not network), "default")
        stages: dict[str, float] = {}

        async def running() -> dict[str, Any] | None:
            pod = await self._pod(admin)
            for stage in _stages(pod):
                if stage not in stages:
                    stages[stage] = time.monotonic() - created
                    self.say(f"Pod         {stages[stage]:6.2f} s  {stage}")
            return pod if "Ready" in stages else None

        pod = await self._wait(agent, running, "the pod did not run")
        self.say(f"            default/{POD}  {pod['status'].get('podIP', '')}  {pod['status']['qosClass']}")
        await self._log(agent, pod)
        self.say("Events")
        for event in sorted(await self._events(admin), key=lambda event: str(event.get("eventTime"))):
            self.say(f"  {event.get('type', ''):9}{event.get('reason', ''):13}{event.get('note', '')}")

    async def _log(self, agent: Program, pod: dict[str, Any]) -> None:
        directory = Path("/var/log/pods") / f"default_{POD}_{pod['metadata']['uid']}" / "main"

        async def lines() -> list[str] | None:
            found = [line for file in sorted(directory.glob("*.log")) for line in file.read_text().splitlines()]
            return found if len(found) >= 2 else None

        self.say("Log of container main")
        for line in (await self._wait(agent, lines, "the container wrote no log"))[-LOG_LINES:]:
            self.say(f"  {line.split(' ', 3)[-1]}")

    def _next_commands(self, facts: dict[str, Any]) -> None:
        if shutil.which("kubectl"):
            self.say(f"Try         kubectl --kubeconfig {facts['kubeconfig']} get pods -o wide")
            self.say(f"            kubectl --kubeconfig {facts['kubeconfig']} get events")
        self.say(f"            drop a pod manifest into {self.directory / 'manifests'}")
        self.say("Ctrl-C stops the programs")

    async def _remove_pod(self, admin: Client, agent: Program) -> None:
        await self._delete(admin)

        async def gone() -> bool:
            try:
                await self._pod(admin)
            except ApiNotFound:
                return True
            return False

        await self._wait(agent, gone, "the pod did not end")
        self.say("Pod         ended and removed")

    # --- helpers --------------------------------------------------------------------------------------------

    async def _wait(self, agent: Program, look: Callable[[], Any], failure: str) -> Any:
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            agent.check()
            if found := await look():
                return found
            if time.monotonic() > limit:
                raise DemoError(f"{failure} within {WAIT_SECONDS:g} s; the log of the agent is {agent.log}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _node(self, admin: Client) -> dict[str, Any] | None:
        try:
            node = await admin.get(NODES, NODE, into=dict)
        except ApiNotFound:
            return None
        ready = _condition(node, "Ready")
        settled = ready.get("status") == "True" or "network not ready" in ready.get("message", "")
        return node if settled else None

    async def _pod(self, admin: Client) -> dict[str, Any]:
        return await admin.get(PODS, POD, "default", into=dict)

    async def _events(self, admin: Client) -> list[dict[str, Any]]:
        found = await admin.list(EVENTS, "default", into=dict)
        return [event for event in found.items if event.get("regarding", {}).get("name") == POD]

    async def _delete(self, admin: Client) -> None:
        try:
            await admin.delete(PODS, POD, "default", grace_seconds=1)
            while True:
                await admin.get(PODS, POD, "default", into=dict)
                await asyncio.sleep(_LOOK_SECONDS)
        except ApiNotFound:
            return
        except ApiError as error:
            raise DemoError(f"the pod of an earlier run cannot be deleted: {error}") from error


def default_directory() -> Path:
    """Return where the demo keeps its files: a system directory for root, else one of the user's."""
    if os.geteuid() == 0:
        return Path("/var/lib/nodeagent-demo")
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "nodeagent-demo"


def _other_agent() -> bool:
    """Whether an agent that is not the demo's has pods on this machine."""
    return OTHER_PODS.is_dir() and any(OTHER_PODS.iterdir())


def _pod(image: str, *, host_network: bool) -> dict[str, Any]:
    script = 'i=0; trap "exit 0" TERM; while true; do i=$((i+1)); echo "tick $i from $POD_NAME"; sleep 0.5; done'
    name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container = {"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "env": [name]}
    container["command"] = ["/bin/sh", "-c", script]
    spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": 2}
    spec |= {"automountServiceAccountToken": False, "hostNetwork": host_network, "dnsPolicy": "Default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": "default"}, "spec": spec}


def _condition(obj: dict[str, Any], name: str) -> dict[str, Any]:
    conditions = obj.get("status", {}).get("conditions") or ()
    return next(
        (condition for condition in conditions if condition["type"] == name), {"status": "Unknown", "message": ""}
    )


def _stages(pod: dict[str, Any]) -> list[str]:
    """Return the stages that *pod* has reached."""
    reached = ["Created"]
    status = pod.get("status", {})
    if status.get("conditions"):
        reached.append("Accepted")
    if _condition(pod, "PodReadyToStartContainers")["status"] == "True":
        reached.append("Sandbox")
    if status.get("phase") == "Running":
        reached.append("Running")
    if _condition(pod, "Ready")["status"] == "True":
        reached.append("Ready")
    return reached
