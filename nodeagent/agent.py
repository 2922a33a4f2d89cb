"""The agent: create, start and stop its components in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.allocation.decision import ResizeRules
from nodeagent.allocation.manager import AllocationManager
from nodeagent.base.aio import Backoff, Clock, SystemClock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import Release
from nodeagent.components import (
    provide_access,
    provide_components,
    provide_local_queries,
    provide_loops,
    provide_recorder,
    provide_routes,
    provide_sources,
    provide_syncer,
)
from nodeagent.config.release import remember_release
from nodeagent.contracts.certificates import client_store_name, current_pair, serving_is_requested
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ApiContext, ConfigContext, NodeContext, ServerContext
from nodeagent.contracts.diagnostics import LoopLine
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.pods import PodSource
from nodeagent.contracts.server import AccessRecord
from nodeagent.core_loops import CoreLoops
from nodeagent.event_journal import EventJournal
from nodeagent.event_listeners import EventListeners
from nodeagent.model.pod import Pod
from nodeagent.node import NodeManager
from nodeagent.node.overview import Overview
from nodeagent.node.release_check import ReleaseCheck
from nodeagent.node.root_directory import prepare_root
from nodeagent.notification_queue import NotificationQueue
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.evented import EventedPleg
from nodeagent.pleg.generic import GenericPleg
from nodeagent.pleg.notifications import ChangeNotifications
from nodeagent.plugin_changes import Components, PluginChanges
from nodeagent.plugin_context import new_context
from nodeagent.plugin_events import PluginEvents
from nodeagent.plugin_loops import PluginLoops
from nodeagent.plugin_profile import PluginProfiler
from nodeagent.plugin_report import PluginReport
from nodeagent.plugin_scopes import PluginScopes
from nodeagent.plugin_settings import PluginConfig
from nodeagent.pluginmanager import PluginManager
from nodeagent.pluginmanager.contained_tasks import create_task
from nodeagent.podworker.desired import ChangeKind, DesiredPods, is_static
from nodeagent.podworker.explain import Explainer
from nodeagent.podworker.first_sync import FirstSync
from nodeagent.podworker.housekeeping import Housekeeping
from nodeagent.podworker.run_once import RunOnce
from nodeagent.podworker.worker import PodWorker, WorkerComponents
from nodeagent.podworker.workers import PodWorkers
from nodeagent.server.health import HealthServer
from nodeagent.server.local import LocalServer
from nodeagent.server.server import AgentServer
from nodeagent.server.serving_certificate import ensure_self_signed
from nodeagent.stall_detector import StallDetector
from nodeagent.status.device_health import DeviceHealthReport
from nodeagent.status.manager import StatusManager
from nodeagent.status.mirror import MirrorPods

if TYPE_CHECKING:
    from nodeagent.apiclient import Client
    from nodeagent.config.load import Loaded

_log = logging.getLogger(__name__)
_CHECKS_LOOPS = Release(1, 32)
"""Release since which background loops are health checks."""

FLUSH_SECONDS = 5.0


class Agent:
    """One node agent.

    :param loaded: the validated configuration with feature gates and node settings.
    :param plugins: the loaded plugins.
    :param ready: called once the first sync is complete.
    :param plugin_config: the contents of ``--plugin-config``.
    :param ping_watchdog: sends a watchdog ping to the service manager; called from another thread.
    :param prepare: creates the root directory; called from another thread.
    :param connect: returns the API client; ``None`` creates one from the kubeconfig.
    :param restart: called when the agent must restart because the API server has another release than was assumed.
    :raises ConfigError: a plugin or the API client does not support the configuration.
    :raises PluginError: no plugin provides a component, or a plugin failed.
    """

    def __init__(
        self,
        loaded: Loaded,
        plugins: PluginManager,
        *,
        plugin_config: PluginConfig | None = None,
        clock: Clock | None = None,
        ready: Callable[[], None] = lambda: None,
        restart: Callable[[], None] = lambda: None,
        ping_watchdog: Callable[[], None] = lambda: None,
        prepare: Callable[[Path], None] = prepare_root,
        connect: Callable[[NodeAgentConfiguration, Clock], Client] | None = None,
    ) -> None:
        config, settings = loaded.config, loaded.settings
        plugin_config = plugin_config or PluginConfig()
        self._config, self._plugins, self._ready, self._restart = config, plugins, ready, restart
        self._clock = clock = clock or SystemClock()
        self._prepare = prepare
        self._core_loops = CoreLoops()
        self._client: Client | None = None
        self.exit_code = 0

        configured = new_context(
            config,
            loaded.gates,
            settings,
            clock=clock,
            tasks=TaskOwner("plugins"),
            plugin_settings=plugin_config.settings,
            release=loaded.release,
        )
        self._scopes = PluginScopes(plugins.is_bundled)
        plugins.narrow = self._scopes.narrow
        plugin_events = PluginEvents(plugins, lambda: self.context)
        self._stalls = StallDetector(
            plugins, plugin_config.containment.stall, ended=plugin_events.stall_ended, ping=ping_watchdog
        )
        plugins.provide_all("nodeagent_configure", config=config, context=configured, plugins=plugins)
        connected = self._connect(configured, connect)

        def wrap_recorder(recorder: EventRecorder) -> EventJournal:
            return EventJournal(EventListeners(recorder, plugins, configured.tasks), clock)

        self._pods = PodWorkers(DesiredPods(()), self._worker_components, self._mirror_changed)
        self._allocations = AllocationManager(
            Path(settings.root_dir),
            _resize_rules(config, loaded.gates),
            recorder=lambda: self.context.recorder,
            may_swap=lambda pod, container: self.context.cgroups.container_resources(pod, container).may_swap,
            now=clock.wall,
        )
        recording = provide_recorder(connected, plugins, self._pods, self._allocations, wrap_recorder)
        assert isinstance(recording.recorder, EventJournal)
        self._cache = PodCache(lambda: recording.runtime, clock)
        self._pleg = GenericPleg(
            lambda: recording.runtime,
            self._cache,
            clock,
            trigger_sync=self._pod_changed,
            recovered=self._pods.wake_all,
            is_syncing=self._pods.is_syncing,
        )
        self._evented = EventedPleg(
            lambda: recording.runtime, self._cache, self._pleg, clock, trigger_sync=self._pod_changed
        )
        self._notifications = ChangeNotifications(lambda: recording.runtime, self._pleg, clock)
        self._node = NodeManager(recording, plugins, self._problems)
        components = provide_components(
            recording.stage(
                NodeContext,
                node=lambda: self._node.node,
                on_node_change=self._node.on_change,
                wait_for_node=self._node.wait_for_node,
                trigger_node_status=self._node.wake,
                runtime_status=self._node.runtime_status,
            ),
            plugins,
        )
        self._explainer = Explainer(components, self._pods, recording.recorder, plugins)
        self._mirrors = MirrorPods(
            api=lambda: connected.api,
            clock=clock,
            static_pods=self._static_pods,
            node=self._node.owner_reference,
            appeared=lambda uid, mirror: self._status.mirror_appeared(uid, mirror),  # noqa: PLW0108  _status is created below
        )
        self._status = StatusManager(
            api=lambda: connected.api,
            clock=clock,
            plugins=plugins,
            probes=components.prober.result,
            host_ips=lambda: self._node.host_ips,
            runtime_name=lambda: self._node.runtime_name,
            is_static=is_static,
            mirror_of=self._mirrors.of,
            gates=loaded.gates,
            trigger_sync=self._pods.trigger_sync,
            note=self._explainer.note,
            allocations=self._allocations,
            device_health=DeviceHealthReport(components.devices, components.claims, self._pods).of_container,
            uses_claims=components.claims.is_in_use if components.claims is not None else lambda _: False,
        )
        context = provide_syncer(components, plugins, self._flush_statuses)
        self._sources = provide_sources(context, plugins)
        self._pods.expect(source.name for source in self._sources)
        self._loops = PluginLoops(provide_loops(context, plugins), clock)
        self._loop_checks = self._loops.health_checks() if context.release.release >= _CHECKS_LOOPS else {}
        self._report = PluginReport(plugins, clock)
        overview = Overview(context, self._node, self._explainer.lines, self._loop_lines, self._report.costs)
        queries = [
            *self._explainer.local_queries(),
            *overview.local_queries(),
            *self._report.local_queries(),
            *PluginProfiler(plugins, clock).local_queries(),
            *self._changes(configured).local_queries(),
            *provide_local_queries(context, plugins),
        ]
        self.context = context.stage(ServerContext, queries={query.name: query for query in queries})
        self._accesses: NotificationQueue[AccessRecord] = NotificationQueue(
            plugins, configured.tasks, "nodeagent_access_recorded", "access"
        )
        self._server = AgentServer(
            context,
            {"syncloop": lambda: self._pleg.health.problem, **self._loop_checks},
            partial(provide_access, self.context, plugins),
            partial(provide_routes, self.context, plugins),
            partial(plugins.is_implemented, "nodeagent_provide_routes", third_party=True),
            self._accesses,
        )
        self._local = LocalServer(context.root_dir, queries)
        self._housekeeping = Housekeeping(self._pods, self._cache, lambda: context.syncer, clock, self._allocations)

    # --- running --------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run until :meth:`stop` is called, or with ``runOnce`` until the pods are running; return the exit code.

        Containers keep running. An exception in a core loop stops the agent and is raised.
        """
        config, context, start = self._config, self.context, self._core_loops.start
        event_loop = asyncio.get_running_loop()
        previous = event_loop.get_task_factory()
        event_loop.set_task_factory(create_task)
        _log.info("Started nodeagent", extra={"node": context.node_name, "rootDirectory": str(context.root_dir)})
        await asyncio.to_thread(self._prepare, context.root_dir)
        await asyncio.to_thread(self._allocations.load)
        await asyncio.to_thread(remember_release, context.root_dir, context.release)
        has_certificate = bool(config.tls_cert_file and config.tls_private_key_file)
        if config.enable_server and not has_certificate and not serving_is_requested(config, context.settings):
            await ensure_self_signed(Path(context.settings.cert_dir), [context.node_name, "localhost", "127.0.0.1"])
        context.recorder.record(context.node_reference(), EventType.NORMAL, "Starting", f"Starting {_component()}.")
        try:
            start("stall detector", self._stalls.run())
            start("node status", self._node.run_status())
            start("local queries", self._local.run())
            if config.healthz_port:
                health = HealthServer(config.healthz_bind_address, config.healthz_port, self._checks(), self._clock)
                start("health", health.run())
            if self._server.enabled:
                start("server", self._server.run())
            if context.api is not None:
                start("status", self._status.run())
                if config.register_node:
                    start("registration", self._node.run_registration(), may_end=True)
                start("lease", self._node.run_lease())
                start("mirror pods", self._mirrors.run())
                start("release check", self._release_check(), may_end=True)
            start("pods", self._run_pods())
            await self._core_loops.wait()
            return self.exit_code
        finally:
            await self._shut_down()
            event_loop.set_task_factory(previous)

    def stop(self) -> None:
        """Stop :meth:`run`; pods keep running."""
        self._core_loops.stop()

    @property
    def stopping(self) -> bool:
        """True if the agent is shutting down."""
        return self._core_loops.stopping

    def describe(self) -> str:
        """Return a one-line status for display."""
        return f"{len(self._pods.all())} pods; {self._pleg.health.problem or 'the runtime is healthy'}"

    async def _run_pods(self) -> None:
        """List running pods before the sources start, so that no running container is started again.

        :raises NodeAgentError: the node's cgroups cannot be created.
        """
        start, backoff = self._core_loops.start, Backoff(0.2, 5.0)
        while not await self._pleg.relist():
            await self._clock.sleep(backoff.next())
        await self.context.cgroups.start()
        await self.context.devices.start()
        start("pleg", self._pleg.run())
        if self.context.gates.enabled("EventedPLEG"):
            start("evented pleg", self._evented.run(), may_end=True)
        else:
            start("change notifications", self._notifications.run(), may_end=True)
        for source in self._sources:
            start(f"source {source.name}", self._run_source(source))
        start("plugin loops", self._loops.run())
        start("housekeeping", self._housekeeping.run())
        if self._config.run_once:
            start("run once", self._run_once(), may_end=True)
        start("first sync", FirstSync(self._pods, self._clock, self._ready).run(), may_end=True)
        await self._pods.run()

    async def _run_source(self, source: PodSource) -> None:
        """Run a pod source, and restart it when it fails or returns; the pods that it has published stay desired."""
        backoff = Backoff(1.0, 300.0)
        while True:
            try:
                await source.run(partial(self._publish, source.name))
            except Exception:
                _log.exception("Failed to run pod source, restarting it", extra={"source": source.name})
            else:
                _log.warning("Pod source returned, restarting it", extra={"source": source.name})
            await self._clock.sleep(backoff.next())

    async def _run_once(self) -> None:
        self.exit_code = await RunOnce(self._pods, self._clock).run()
        self.stop()

    async def _shut_down(self) -> None:
        """Stop sources, workers and loops, then send pending statuses and events, then close clients."""
        _log.info("Shutting down, pods keep running")
        loops = self._core_loops
        await loops.cancel([name for name in loops.names if name.startswith("source ")])
        await loops.cancel({"pods", "first sync", "housekeeping", "pleg", "evented pleg", "run once"})
        await self._flush_statuses(FLUSH_SECONDS)
        await loops.cancel(loops.names)
        await self.context.tasks.close()
        await self._scopes.close_tasks()
        await asyncio.gather(self.context.recorder.flush(FLUSH_SECONDS), self._accesses.flush(FLUSH_SECONDS))
        await self.context.cleanup.aclose()
        if self._client is not None:
            await self._client.close()

    # --- wiring ---------------------------------------------------------------------------------------------

    def _connect(
        self, context: ConfigContext, connect: Callable[[NodeAgentConfiguration, Clock], Client] | None
    ) -> ApiContext:
        """Return the next stage, with the API client unless the node is standalone."""
        settings = context.settings
        if settings.standalone:
            return context.stage(ApiContext, api=None, new_api=None)
        self._client = client = (connect or partial(self._connect_to_kubeconfig, context))(self._config, self._clock)
        return context.stage(ApiContext, api=client, new_api=client.with_rate)

    def _connect_to_kubeconfig(self, context: ConfigContext, config: NodeAgentConfiguration, clock: Clock) -> Client:
        from nodeagent.apiclient import connect

        settings = context.settings
        return connect(
            Path(settings.kubeconfig),
            config,
            clock,
            pair=current_pair(Path(settings.cert_dir), client_store_name()) if config.rotate_certificates else None,
            pending=bool(settings.bootstrap_kubeconfig),
        )

    async def _release_check(self) -> None:
        from nodeagent.apiclient.server_version import PATIENT_SECONDS, query_server_version

        context = self.context
        query = partial(query_server_version, context.settings, PATIENT_SECONDS)
        await ReleaseCheck(context.release, context.root_dir, self._clock, query, self._restart).run()

    async def _flush_statuses(self, seconds: float) -> None:
        """Wait until all pod statuses were sent, at most *seconds*; without an API server, return immediately."""
        if self._client is not None:
            await self._status.flush(seconds)

    def _changes(self, configured: ConfigContext) -> PluginChanges:
        components = Components(
            configured=configured,
            context=lambda: self.context,
            loops=self._loops,
            change_routes=lambda: self._server.change_routes(),  # noqa: PLW0108  _server is created later
        )
        return PluginChanges(self._plugins, self._scopes, components)

    def _worker_components(self) -> WorkerComponents:
        return WorkerComponents(
            syncer=lambda: self.context.syncer,
            observer=self._cache,
            status=self._status,
            plugins=self._plugins,
            recorder=self.context.recorder,
            clock=self._clock,
            resync_seconds=self._config.sync_frequency.seconds,
            network_problem=lambda: self._node.network_problem,
            finished=self._pod_finished,
            ended=self._pods.ended,
            allocations=self._allocations,
        )

    def _problems(self) -> list[str]:
        """Return the reasons of core components for a NotReady node, in the kubelet's wording."""
        problem = self._pleg.health.problem
        return [f"PLEG is not healthy: {problem}"] if problem else []

    def _checks(self) -> dict[str, Callable[[], str]]:
        return {"ping": lambda: "", "pleg": lambda: self._pleg.health.problem, **self._loop_checks}

    def _loop_lines(self) -> list[LoopLine]:
        """Return the health of each loop."""
        problems = dict.fromkeys(self._core_loops.names, "") | self._loops.problems()
        problems["pleg"] = self._pleg.health.problem
        problems |= {f"source {name}": "has not published its pods yet" for name in self._pods.pending_sources}
        problems |= self._report.problems()
        return [LoopLine(name=name, problem=problem) for name, problem in sorted(problems.items())]

    def _publish(self, source: str, pods: Sequence[Pod]) -> None:
        self._pods.publish(source, pods)
        self._mirrors.wake()

    def _pod_changed(self, uid: str) -> None:
        self._pods.trigger_sync(uid)
        self._housekeeping.wake()

    def _pod_finished(self, worker: PodWorker) -> None:
        self._pods.finished(worker)
        self._explainer.forget(worker.pod.uid)
        self._mirrors.wake()

    def _static_pods(self) -> Sequence[Pod] | None:
        return self._pods.static_pods() if self._pods.all_sources_ready else None

    def _mirror_changed(self, kind: ChangeKind, mirror: Pod) -> None:
        if kind is ChangeKind.REMOVED:
            self._mirrors.gone(mirror)
        else:
            self._mirrors.seen(mirror)
            for pod in self._pods.static_pods():
                if pod.full_name == mirror.full_name:
                    self._status.record_api_status(pod)


def _component() -> str:
    from nodeagent.base import identity

    return identity.current().component


def _resize_rules(config: NodeAgentConfiguration, gates: FeatureGates) -> ResizeRules:
    return ResizeRules(
        enabled=gates.enabled("InPlacePodVerticalScaling"),
        init_containers=gates.enabled("InPlacePodVerticalScalingInitContainers"),
        pod_level=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
        static_cpu_policy=config.cpu_manager_policy.lower() == "static",
        static_memory_policy=config.memory_manager_policy.lower() == "static",
    )
