"""Every extension point of the agent, grouped by stage of the data flow.

*Provide* hooks are plain functions, called once at start in the order of this page; they return an object that keeps
a contract from ``nodeagent.contracts``. Where only one is wanted (``firstresult``), the first answer that is not
``None`` is used; else every answer is.

*Moment* hooks are ``async``: announcements and questions along the life of a pod, a container, an image, the node.
Each call has a deadline; its time and failures are counted by plugin. A question takes the first answer that is not
``None``; an announcement goes to everyone, and a failing listener is logged and passed over.

An implementation takes any of a hook's arguments by name, and none that are not listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pluggy

from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.checks import NodeCheck
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventRecorder, RecordedEvent
from nodeagent.contracts.eviction import EvictionCandidate, Reclaimed
from nodeagent.contracts.hooks import PluginHost
from nodeagent.contracts.images import CredentialProvider, ImageCollector, ImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.objects import ObjectReader
from nodeagent.contracts.pods import PodSource, PodSyncer, Rejection
from nodeagent.contracts.probes import Prober
from nodeagent.contracts.runtime import ContainerConfig, ContainerRuntime, ImageService, SandboxConfig
from nodeagent.contracts.server import Authenticator, Authorizer, Route
from nodeagent.contracts.stats import StatsProvider
from nodeagent.contracts.volumes import VolumeKind, VolumeManager
from nodeagent.model.pod import Container, Pod, PodStatus

hookspec = pluggy.HookspecMarker("nodeagent")

# --- start ----------------------------------------------------------------------------------------------------


@hookspec
def nodeagent_settings_schema() -> dict[str, Any]:
    """Describe the plugin's settings under ``plugins: {NAME: {…}}`` of ``--plugin-config``.

    Called: once, before the file is checked; every problem is reported together with its field path.
    On error: the agent logs the plugin's name and exits with code 2.

    :returns: a JSON schema of type ``object``; a plugin without this hook takes no settings.
    """
    raise NotImplementedError


@hookspec
def nodeagent_configure(config: NodeAgentConfiguration, context: AgentContext, plugins: PluginHost) -> None:
    """Prepare the plugin; register further plugin objects that need the configuration.

    Called: once, before any part exists; ``context`` holds configuration, gates, settings and clock.
    On error: the agent logs the plugin's name and exits with code 2.

    :param config: the validated configuration; read-only.
    :param context: the node; parts are filled in later.
    :param plugins: where ``plugins.register(object, name="plugin.part")`` adds more hooks.
    """


# --- parts ----------------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def nodeagent_provide_event_recorder(context: AgentContext) -> EventRecorder | None:
    """Provide what records events.

    Called: once, first of all parts.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.eventRecordQPS, config.eventBurst

    :param context: the node; no part is there yet, ``api`` and ``new_api`` are.
    :returns: the recorder, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_runtime(context: AgentContext) -> ContainerRuntime | None:
    """Provide the runtime that runs sandboxes and containers.

    Called: once; nothing is asked of the runtime before the event loop runs.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.containerRuntimeEndpoint

    :param context: the node.
    :returns: the runtime, or ``None`` to leave the choice to another plugin.
    :raises ConfigError: the endpoint is not one this plugin can use.
    """


@hookspec(firstresult=True)
def nodeagent_provide_image_service(context: AgentContext) -> ImageService | None:
    """Provide the image store of the runtime.

    Called: once, after the runtime.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.imageServiceEndpoint

    :param context: the node.
    :returns: the image service, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_object_reader(context: AgentContext) -> ObjectReader | None:
    """Provide what reads config maps, secrets, services and service account tokens for pods.

    Called: once, after the image service.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.configMapAndSecretChangeDetectionStrategy

    :param context: the node.
    :returns: the reader, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_cgroups(context: AgentContext) -> CgroupManager | None:
    """Provide what keeps the cgroups of pods.

    Called: once, after the object reader.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.cgroupDriver, config.cgroupsPerQOS

    :param context: the node.
    :returns: the manager, or ``None`` to leave the choice to another plugin.
    """


@hookspec
def nodeagent_provide_volume_kinds(context: AgentContext) -> Sequence[VolumeKind]:
    """Provide kinds of volume.

    Called: once, before the volume manager is made.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node.
    :returns: the kinds; of two that support one volume, that of the plugin registered later is used.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_volume_manager(context: AgentContext, kinds: Sequence[VolumeKind]) -> VolumeManager | None:
    """Provide what prepares and releases the volumes of pods.

    Called: once, after the volume kinds.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node.
    :param kinds: every kind that plugins provide, the preferred first.
    :returns: the manager, or ``None`` to leave the choice to another plugin.
    """


@hookspec
def nodeagent_provide_credential_providers(context: AgentContext) -> Sequence[CredentialProvider]:
    """Provide what knows credentials of registries.

    Called: once, before the image puller is made.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node.
    :returns: the providers, asked in the order of plugin names.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_image_puller(
    context: AgentContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller | None:
    """Provide what gets images onto the node.

    Called: once, after the credential providers.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node.
    :param credential_providers: every provider, in the order to ask them.
    :returns: the puller, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_image_collector(context: AgentContext) -> ImageCollector | None:
    """Provide what removes unused images, for ``nodeagent image gc``.

    Called: once by that command; the agent itself collects through its background loops.
    On error: the command logs the plugin's name and exits with code 2.
    spec: config.imageGCHighThresholdPercent, config.imageMaximumGCAge

    :param context: the node, with ``runtime`` and ``images`` alone.
    :returns: the collector, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_prober(context: AgentContext) -> Prober | None:
    """Provide what runs liveness, readiness and startup probes.

    Called: once, after the image puller; ``context.pods`` is there.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node.
    :returns: the prober, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_stats(context: AgentContext) -> StatsProvider | None:
    """Provide what measures the use of the node, its pods and their containers.

    Called: once, after the prober; nothing is measured before the event loop runs.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.volumeStatsAggPeriod

    :param context: the node.
    :returns: the provider, or ``None`` to leave the choice to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_pod_syncer(context: AgentContext, plugins: PluginHost) -> PodSyncer | None:
    """Provide what brings one pod to its wanted state.

    Called: once, after every part it needs.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node, complete but for the syncer.
    :param plugins: asks and announces the moments of containers.
    :returns: the syncer, or ``None`` to leave the choice to another plugin.
    """


@hookspec
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    """Provide where wanted pods come from.

    Called: once, when everything else stands.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.staticPodPath, config.staticPodURL

    :param context: the node, complete.
    :returns: the sources that the configuration asks for; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_background_loops(context: AgentContext, plugins: PluginHost) -> Sequence[BackgroundLoop]:
    """Provide loops that run as long as the agent: eviction, image and container collection, log rotation.

    Called: once, after the pod sources.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node, complete.
    :param plugins: asks and announces moments.
    :returns: the loops; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_authenticators(context: AgentContext) -> Sequence[Authenticator]:
    """Provide what tells who asks the agent's own server.

    Called: once, after the background loops, when the secured port is served; one that is asked before or after
    others is provided ``tryfirst`` or ``trylast``.
    On error: the agent logs the plugin's name and exits with code 2; with
    ``ServerConfigError`` it runs without the port.
    spec: config.authentication

    :param context: the node, complete.
    :returns: the authenticators that the configuration asks for; may be empty.
    :raises ServerConfigError: the configuration asks for one that cannot work here.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_authorizer(context: AgentContext) -> Authorizer | None:
    """Provide what decides what a user may do at the agent's own server.

    Called: once, after the authenticators.
    On error: the agent logs the plugin's name and exits with code 2; with
    ``ServerConfigError`` it runs without the port.
    spec: config.authorization

    :param context: the node, complete.
    :returns: the authorizer, or ``None`` to leave the choice to another plugin.
    :raises ServerConfigError: the configuration asks for one that cannot work here.
    """


@hookspec
def nodeagent_provide_routes(context: AgentContext) -> Sequence[Route]:
    """Provide paths of the agent's own server.

    Called: once, after the authorizer, when the secured or the read-only port is served.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node, complete.
    :returns: the routes; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_local_queries(context: AgentContext) -> Sequence[LocalQuery]:
    """Provide what commands on this machine may ask the running agent, on its local socket.

    Called: once, after the background loops.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the node, complete.
    :returns: the questions; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_node_checks(context: AgentContext) -> Sequence[NodeCheck]:
    """Provide what ``nodeagent doctor`` looks at.

    Called: once by that command, which runs beside the agent or without one; the agent itself checks nothing by it.
    On error: the command logs the plugin's name and exits with code 2.

    :param context: the node, with ``runtime``, ``images`` and, unless it is standalone, ``api`` alone.
    :returns: the checks; all run at the same time, each for at most 15 seconds.
    """
    raise NotImplementedError


# --- the life of a pod ----------------------------------------------------------------------------------------


@hookspec
async def nodeagent_admit_pod(pod: Pod, active: Sequence[Pod]) -> Rejection | None:
    """Accept or refuse *pod* before its worker starts.

    Called: once per pod UID, never for two pods at a time; the first rejection is used.
    On error: the pod is rejected with reason ``UnexpectedAdmissionError``.

    :param pod: the pod that asks to run.
    :param active: the pods already admitted and not yet terminated.
    :returns: why *pod* may not run on this node, or ``None`` to let it pass.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_permit_pod(pod: Pod) -> Rejection | None:
    """Hold back an admitted pod: asked again at each sync, so the answer may change.

    Called: before each step of a pod; the first rejection is used, its containers are stopped and it waits.
    On error: the step fails and is tried again.

    :param pod: the admitted pod.
    :returns: why *pod* may not run now, or ``None``.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_pod_admitted(pod: Pod) -> None:
    """Learn that *pod* was accepted and gets its worker.

    Called: once per pod UID and run of the agent.
    On error: logged; the pod goes on.

    :param pod: the pod.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_pod_status_changed(pod: Pod, status: PodStatus) -> None:
    """Learn that the agent generated a new status for *pod*.

    Called: after each change, before the status reaches the API server; may skip intermediate ones.
    On error: logged; the pod goes on.

    :param pod: the pod.
    :param status: its new status.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_pod_terminated(pod: Pod) -> None:
    """Learn that *pod* has ended and everything it held is released.

    Called: once per pod UID and run of the agent.
    On error: logged.

    :param pod: the pod.
    """
    raise NotImplementedError


# --- the life of a container ----------------------------------------------------------------------------------


@hookspec
async def nodeagent_mutate_sandbox(pod: Pod, sandbox: SandboxConfig) -> SandboxConfig | None:
    """Change how a pod's sandbox is made.

    Called: before each sandbox is created; each plugin sees what the one before returned.
    On error: the sandbox is not created; the pod is tried again.

    :param pod: the pod.
    :param sandbox: what would be asked of the runtime.
    :returns: a changed configuration, or ``None`` to leave it.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_mutate_container(
    pod: Pod, container: Container, settings: ContainerConfig
) -> ContainerConfig | None:
    """Change how a container is made: devices, CPU sets, mounts, environment.

    Called: before each container is created; each plugin sees what the one before returned.
    On error: the container waits with reason ``PreCreateHookError`` and is tried again.

    :param pod: the pod.
    :param container: the container as the pod wants it.
    :param settings: what would be asked of the runtime.
    :returns: a changed configuration, or ``None`` to leave it.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_container_started(pod: Pod, container: Container, container_id: str) -> None:
    """Learn that a container was started.

    Called: after the runtime started it, before its postStart hook.
    On error: logged; the container goes on.

    :param pod: the pod.
    :param container: the container as the pod wants it.
    :param container_id: the runtime's id.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_container_stopped(pod: Pod, container_name: str, container_id: str) -> None:
    """Learn that the agent stopped a container; one that ended by itself shows in the pod's status.

    Called: after the runtime stopped it.
    On error: logged.

    :param pod: the pod.
    :param container_name: its name in the pod.
    :param container_id: the runtime's id.
    """
    raise NotImplementedError


# --- the node -------------------------------------------------------------------------------------------------


@hookspec
async def nodeagent_report_node() -> NodeReport | None:
    """Add capacity, allocatable, conditions or reasons of not being ready to the node status.

    Called: at each computation of the status (spec: config.nodeStatusUpdateFrequency); every report is used.
    On error: logged; the node is reported without that part.

    :returns: this plugin's part, or ``None``.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_node_ready_changed(ready: bool, message: str) -> None:
    """Learn that the node became Ready or stopped being so.

    Called: at each change, first when the agent has computed its first status.
    On error: logged.

    :param ready: whether the node is Ready now.
    :param message: the condition's message.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_event_recorded(event: RecordedEvent) -> None:
    """Learn of an event, to tell others than the API server of it.

    Called: after each was recorded, in their order and one at a time; nobody waits for the plugin. The newest thousand
    wait for one that is slow. A plugin that records events of its own here would be told of them too, for ever.
    On error: logged.

    :param event: the event.
    """
    raise NotImplementedError


# --- pressure -------------------------------------------------------------------------------------------------


@hookspec
async def nodeagent_reclaim_disk(signal: str) -> Reclaimed | None:
    """Free space or inodes before any pod is evicted for them.

    Called: when a disk signal crossed its threshold; every plugin that can is asked, one after the other. Not for the
    node's own disk where images and writable layers are on another one.
    On error: logged; the eviction goes on with what was freed.
    spec: config.evictionHard

    :param signal: the eviction signal, such as ``imagefs.available`` or ``nodefs.inodesFree``.
    :returns: what was freed, or ``None`` when the plugin has nothing to do with that disk.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_rank_pods_for_eviction(
    signal: str, candidates: Sequence[EvictionCandidate]
) -> Sequence[EvictionCandidate] | None:
    """Change the order in which pods would be evicted; the first goes first.

    Called: when a threshold is met and nothing could be reclaimed; each plugin sees what the one before returned.
    On error: logged; that plugin's order is not used.
    spec: config.evictionHard, config.evictionSoft

    :param signal: the eviction signal.
    :param candidates: the pods in the agent's own order.
    :returns: the same candidates in another order, or ``None`` to leave it.
    """
    raise NotImplementedError


@hookspec
async def nodeagent_permit_eviction(pod: Pod, signal: str) -> Rejection | None:
    """Spare a pod from eviction.

    Called: before each eviction; the first rejection is used, it is recorded with the plugin's name, and the next pod
    in order is taken.
    On error: logged; the pod may be evicted.
    spec: config.evictionHard, config.evictionSoft

    :param pod: the pod that would go.
    :param signal: the eviction signal.
    :returns: why the pod has to stay, or ``None``.
    """
    raise NotImplementedError
