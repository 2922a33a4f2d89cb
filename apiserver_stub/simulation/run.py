"""A run of the server's simulation: executes steps until its end or the first violation."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import perf_counter

from apiserver_stub.nodes.agents import DEFAULT_PORT as AGENT_PORT
from apiserver_stub.simulation.actions import Actions
from apiserver_stub.simulation.admission import Reviewed
from apiserver_stub.simulation.admission_requests import AdmissionRequests
from apiserver_stub.simulation.autoscaling import Autoscaling, AutoscalingRequests
from apiserver_stub.simulation.client import Client, Lost
from apiserver_stub.simulation.cluster import ADMIN, GROUP, USER, Cluster
from apiserver_stub.simulation.cluster_faults import ClusterFaults
from apiserver_stub.simulation.collections import CONFIG_MAPS, PODS
from apiserver_stub.simulation.conversion import ConversionRequests
from apiserver_stub.simulation.invariants import Invariants
from apiserver_stub.simulation.isolation import simulated_time_of_day
from apiserver_stub.simulation.kubelet import Kubelet
from apiserver_stub.simulation.network import ServerLoop
from apiserver_stub.simulation.reflector import Reflector
from apiserver_stub.simulation.requests import Requests
from apiserver_stub.simulation.services import Service
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.webhooks import WebhookServer
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.directory import private_directory
from nodeagent.base.simulation.isolation import isolated
from nodeagent.base.simulation.loop import BusyLoop, Deadlock
from nodeagent.base.simulation.memory import MemoryGrowth
from nodeagent.base.simulation.steps import CALM_SECONDS, ROUND_SECONDS, Outcome, Step
from nodeagent.base.simulation.trace import Trace

_NODES = 1
"""The scheduler of the server binds pods only while the cluster has one ready node."""
_COMPARING_SECONDS = 120.0
_RELEASES, _RELEASE_SECONDS = 80, 5.0
"""Attempts to remove the finalizers, as a start on a disk that was slow takes minutes."""
_MAX_TASKS, _MAX_FILES = 600, 80


class _Run:
    """The parts of one run."""

    def __init__(self, seed: object, loop: ServerLoop, directory: Path, servers: int = 1) -> None:
        self.loop, self.trace = loop, Trace(loop.time)
        self.violations = Violations(self.trace)
        self.invariants = Invariants(self.violations, self.trace, loop.time)
        history, clock = self.invariants.history, SimulatedClock(loop)
        webhooks = WebhookServer(seed, self.trace, loop.time)

        def find_service(host: str, port: int) -> Service | None:
            return self.autoscaling if port == AGENT_PORT else webhooks.find(host, port)

        self.cluster = Cluster(
            seed, servers, loop, directory, history, self.violations.report, self.trace, clock, find_service
        )
        self.autoscaling = Autoscaling(seed, history, self.violations, clock, loop.time, self.cluster.calm)
        network = self.cluster.network
        self.admin, self.user = Client(network, ADMIN), Client(network, USER)
        self.requests = Requests(self.user, self.invariants, self.violations, self.trace)
        watched = [
            ("/api/v1/configmaps", CONFIG_MAPS, ""),
            ("/api/v1/namespaces/default/configmaps", CONFIG_MAPS, "default/"),
            ("/api/v1/namespaces/ns-0/configmaps", CONFIG_MAPS, "ns-0/"),
            ("/api/v1/pods", PODS, ""),
            ("/api/v1/configmaps", CONFIG_MAPS, "", "red"),
        ]
        self.reflectors = [Reflector(self.user, history, self.violations, *each) for each in watched]
        self.nodes = [Kubelet(self.admin, self.cluster.clock, number) for number in range(_NODES)]
        self.reviewed = reviewed = Reviewed(history, self.violations, webhooks, loop.time, self.cluster.calm)
        self.invariants.observers += [reviewed.observe, self.autoscaling.observe]
        admission = AdmissionRequests(
            self.requests, self.invariants, reviewed, self.violations, webhooks, loop.time, self.cluster.calm
        )
        conversion = ConversionRequests(self.requests, history, self.violations, webhooks, loop.time, self.cluster.calm)
        self.invariants.observers.append(conversion.observe)
        more = admission, AutoscalingRequests(self.requests, self.autoscaling), conversion
        subjects = (
            more if self.cluster.etcd is None else (*more, ClusterFaults(self.cluster.etcd, self.cluster.servers))
        )
        self.actions = Actions(self.cluster, self.requests, subjects, self.reflectors, self.nodes)
        self._tasks: list[asyncio.Task[None]] = []

    async def execute(self, steps: Sequence[Step], hours: int) -> None:
        """Execute the steps."""
        self.cluster.start()
        self._tasks.append(self.loop.create_task(self._bind_user(), name="binding"))
        self._tasks += [self.loop.create_task(node.run(), name="node") for node in self.nodes]
        self._tasks += [self.loop.create_task(each.run(), name="watch") for each in self.reflectors]
        waiting, memory = list(reversed(steps)), MemoryGrowth()
        for number in range(1, hours + 1):
            end = number * ROUND_SECONDS
            while waiting and waiting[-1].at < end:
                step = waiting.pop()
                if not await self._sleep_until(step.at):
                    return
                self.actions.execute(step)
            if not await self._sleep_until(end - CALM_SECONDS):
                return
            self.actions.calm()
            await self._release_finalizers()
            if not await self._sleep_until(end - _COMPARING_SECONDS):
                return
            await self._converge(end)
            if not await self._sleep_until(end):
                return
            self.invariants.history.forget(self.invariants.history.revision)
            self.reviewed.forget()
            self.autoscaling.forget()
            memory.record()
        if problem := memory.problem():
            self.violations.report(problem)

    async def _converge(self, end: float) -> None:
        """Verify that the controllers have converged, at the latest at the end of the round."""
        while problem := self._unconverged():
            if not await self._sleep_until(self.loop.time() + 5):
                return
            if self.loop.time() >= end:
                self.violations.report(f"not converged: {problem}")
                return
        for reflector in self.reflectors:
            reflector.verify_complete()
        for server in self.cluster.servers:
            if (tasks := len(self.loop.tasks_of(server.process))) > _MAX_TASKS:
                self.violations.report(f"a server has {tasks} tasks")
        if (files := _open_files()) > _MAX_FILES:
            self.violations.report(f"the servers have {files} open files")

    def _unconverged(self) -> str:
        """Return the first deviation from the converged state, or an empty string."""
        return self.invariants.unconverged() or self.autoscaling.deviation() or self.cluster.store.differences()

    async def _bind_user(self) -> None:
        """Authorize the user, whose requests are subject to flow control."""
        body = {
            "metadata": {"name": "simulated"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
        }
        while True:
            try:
                path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
                if (await self.admin.request("POST", path, body)).code in (201, 409):
                    return
            except Lost:
                pass
            await asyncio.sleep(1)

    async def _release_finalizers(self) -> None:
        """Remove all finalizers of config maps, so that everything can be deleted."""
        for _ in range(_RELEASES):
            state = self.invariants.history.current.get(CONFIG_MAPS, {})
            held = [
                key
                for key, each in state.items()
                if "simulated.test/hold" in (each.object()["metadata"].get("finalizers") or ())
            ]
            if not held:
                return
            for key in held:
                namespace, _, name = key.partition("/")
                with contextlib.suppress(Lost):
                    await self.requests.remove_finalizer(namespace, name)
            await asyncio.sleep(_RELEASE_SECONDS)

    async def _sleep_until(self, due: float) -> bool:
        """Wait until *due*; return false if there is a violation."""
        while not self.violations.first and self.loop.time() < due:
            await asyncio.sleep(min(5.0, due - self.loop.time()))
            if self.cluster.failure is not None:
                self.violations.report(f"server failed: {self.cluster.failure!r}")
            for error in (*self.actions.errors(), *_errors(self._tasks)):
                raise error
        return not self.violations.first


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _errors(tasks: Iterable[asyncio.Task[None]]) -> list[BaseException]:
    return [error for task in tasks if task.done() and (error := task.exception())]


def simulate(seed: object, steps: Sequence[Step], hours: int, servers: int = 1) -> Outcome:
    """Execute *steps* on new servers and return the outcome; not within a running event loop.

    :param servers: number of the servers; more than one share an etcd cluster.
    """
    started = perf_counter()
    loop = ServerLoop(seed)
    asyncio.set_event_loop(loop)
    try:
        with private_directory(f"apiserver-{seed}") as directory:
            run = _Run(seed, loop, directory, servers)
            cluster = run.cluster
            with (
                isolated(seed, loop, cluster.clock, cluster.replacements()),
                simulated_time_of_day(cluster.clock.wall),
                cluster.mounted(),
            ):
                gc.collect()
                gc.freeze()  # Each crash collects garbage.
                loop.on_unhandled = run.violations.report
                try:
                    loop.run_until_complete(run.execute(steps, hours))
                except (BusyLoop, Deadlock) as error:
                    run.violations.report(str(error))
                cluster.end()
                loop.drop(0)
    finally:
        gc.unfreeze()
        asyncio.set_event_loop(None)
        loop.close()
    return Outcome(
        violation=run.violations.first,
        at=loop.time(),
        digest=run.trace.digest(),
        trace=list(run.trace.recent),
        steps=Counter(run.actions.executed),
        events=Counter(run.trace.counts),
        checked=run.violations.checked,
        callbacks=loop.steps,
        seconds=perf_counter() - started,
    )
