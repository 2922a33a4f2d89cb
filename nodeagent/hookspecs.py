"""Hook specifications: every extension point of the agent, grouped by stage of the data flow.

*Provider* hooks are plain functions, called once at startup in the order of this page; they return an object that
implements a contract from ``nodeagent.contracts``. For a ``firstresult`` hook, the first result that is not ``None`` is
used; for the others, every result is.

*Async* hooks are called during the lifecycle of pods, containers, images and the node. A decision hook uses the first
result that is not ``None``; a notification hook is called on every plugin, and a failing plugin is logged and skipped.
Each call has a deadline; durations and failures are counted per plugin.

An implementation accepts any subset of a hook's arguments by name, and no others.

The ``context`` of a provider hook is a stage: it has the components that exist when the hook is called. Any other
component is unknown to the type checker, and its use raises ``ComponentUnavailable`` with the names of hook and
component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent import deadline, hookspec
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.checks import NodeCheck
from nodeagent.contracts.claims import ClaimDriver, ClaimManager
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import (
    AgentContext,
    ApiContext,
    CgroupsContext,
    ClaimsContext,
    ConfigContext,
    DevicesContext,
    ImageContext,
    NodeContext,
    ObjectsContext,
    ProberContext,
    PullerContext,
    RuntimeContext,
    ServerContext,
    StatsContext,
    VolumesContext,
)
from nodeagent.contracts.devices import DeviceManager, DeviceProvider
from nodeagent.contracts.events import EventRecorder, RecordedEvent
from nodeagent.contracts.eviction import EvictionCandidate, Reclaimed
from nodeagent.contracts.hooks import PluginHost
from nodeagent.contracts.images import CredentialProvider, ImageCollector, ImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.objects import ObjectReader
from nodeagent.contracts.persistent_volumes import ClaimResolver, PersistentVolumeKind
from nodeagent.contracts.plugin_checks import PluginCheck
from nodeagent.contracts.plugin_registry import PluginHandler
from nodeagent.contracts.pod_resources import ResourceReporter
from nodeagent.contracts.pods import PodSource, PodSyncer, Rejection
from nodeagent.contracts.probes import Prober
from nodeagent.contracts.runtime import ContainerConfig, ContainerRuntime, ImageService, SandboxConfig
from nodeagent.contracts.server import AccessRecord, Authenticator, Authorizer, Route
from nodeagent.contracts.settings_check import SettingsCheck
from nodeagent.contracts.stats import StatsProvider
from nodeagent.contracts.topology import HintProvider
from nodeagent.contracts.volumes import VolumeKind, VolumeManager
from nodeagent.model.pod import Container, Pod, PodStatus

# --- start ----------------------------------------------------------------------------------------------------


@hookspec
def nodeagent_addhooks() -> object | None:
    """Declare hooks for other plugins to implement.

    Called: once, after all plugins were imported and before the first of them is registered.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :returns: a module or an object with functions that are marked with ``nodeagent.hookspec``; their names start with
        the name of the plugin. A coroutine function is an async hook, another function a provider hook.
    """


@hookspec
def nodeagent_settings_schema() -> dict[str, Any]:
    """Return the schema of the plugin's settings under ``plugins: {NAME: {…}}`` of ``--plugin-config``.

    Called: once, before the file is validated; all errors are reported together, each with its field path.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :returns: a JSON schema of type ``object``; a plugin without this hook accepts no settings.
    """
    raise NotImplementedError


@hookspec
def nodeagent_check_settings(settings: Mapping[str, Mapping[str, Any]]) -> SettingsCheck | None:
    """Check rules of the plugin's settings that a schema cannot express, and declare plugins that they add.

    Called: once, after the settings were validated against the schemas; all errors are reported together, each with its
    field path.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param settings: the settings of all plugins by plugin name; a plugin without settings has no entry.
    :returns: the problems, and the names of plugins that the plugin registers in ``nodeagent_configure``.
    """


@hookspec
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext, plugins: PluginHost) -> None:
    """Initialize the plugin and register further plugin objects that depend on the configuration.

    Called: once, before any component exists. A plugin that needs components registers its objects in
    ``nodeagent_components_created``.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param config: the validated configuration; read-only.
    :param context: configuration, settings and clock, but no component.
    :param plugins: the plugin manager; ``plugins.register(object, name="plugin.component")`` adds further hooks.
    """


# --- components -----------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def nodeagent_provide_event_recorder(context: ApiContext) -> EventRecorder | None:
    """Provide the event recorder.

    Called: once, before every other component.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.eventRecordQPS, config.eventBurst

    :param context: the stage with the API client.
    :returns: the recorder, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_runtime(context: ApiContext) -> ContainerRuntime | None:
    """Provide the container runtime.

    Called: once; no request is sent to the runtime before the event loop runs.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.containerRuntimeEndpoint

    :param context: the stage with the API client.
    :returns: the runtime, or ``None`` to leave it to another plugin.
    :raises ConfigError: the plugin does not support the endpoint.
    """


@hookspec(firstresult=True)
def nodeagent_provide_image_service(context: RuntimeContext) -> ImageService | None:
    """Provide the image service of the runtime.

    Called: once, after the runtime.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.imageServiceEndpoint

    :param context: the stage with the runtime.
    :returns: the image service, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_object_reader(context: NodeContext) -> ObjectReader | None:
    """Provide the reader of ConfigMaps, Secrets, Services and service account tokens.

    Called: once, after the image service.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.configMapAndSecretChangeDetectionStrategy

    :param context: the stage with runtime, recorder, pods and node.
    :returns: the reader, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_cgroups(context: ObjectsContext) -> CgroupManager | None:
    """Provide the manager of pod cgroups.

    Called: once, after the object reader.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.cgroupDriver, config.cgroupsPerQOS

    :param context: the stage with the object reader.
    :returns: the manager, or ``None`` to leave it to another plugin.
    """


@hookspec
def nodeagent_provide_volume_kinds(context: CgroupsContext) -> Sequence[VolumeKind]:
    """Provide volume plugins (kinds of volumes).

    Called: once, before the volume manager is created.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with the cgroup manager.
    :returns: the kinds; if several support a volume, third-party plugins take precedence over bundled ones, and
        among these the plugin registered last.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_persistent_volume_kinds(context: CgroupsContext) -> Sequence[PersistentVolumeKind]:
    """Provide kinds of volumes whose source may be a PersistentVolume.

    Called: once, before the volume manager is created.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with the cgroup manager.
    :returns: the kinds; if several support a volume, third-party plugins take precedence over bundled ones, and
        among these the plugin registered last.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_claim_resolver(context: CgroupsContext) -> ClaimResolver | None:
    """Provide the resolver of claims, which finds the PersistentVolumes of pods.

    Called: once, before the volume manager is created.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the cgroup manager.
    :returns: the resolver, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_volume_manager(
    context: CgroupsContext,
    kinds: Sequence[VolumeKind],
    persistent_kinds: Sequence[PersistentVolumeKind],
    claims: ClaimResolver | None,
) -> VolumeManager | None:
    """Provide the volume manager, which sets up and tears down the volumes of pods.

    Called: once, after the volume kinds.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the cgroup manager.
    :param kinds: all provided kinds, in order of precedence.
    :param persistent_kinds: all provided kinds with PersistentVolumes, in order of precedence.
    :param claims: the resolver of claims, or ``None`` if no plugin provides one.
    :returns: the manager, or ``None`` to leave it to another plugin.
    """


@hookspec
def nodeagent_provide_credential_providers(context: ApiContext) -> Sequence[CredentialProvider]:
    """Provide credential providers for image registries.

    Called: once, before the image puller is created.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with the API client, which is ``None`` in standalone mode and for commands.
    :returns: the providers, called in the order of plugin names.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_device_providers(context: VolumesContext) -> Sequence[DeviceProvider]:
    """Provide devices that containers can request as extended resources.

    Called: once, before the device manager is created. The devices of gRPC device plugins are added when they register.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with the volume manager.
    :returns: the providers; if several have one resource, the plugin registered last takes precedence.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_device_manager(
    context: VolumesContext, providers: Sequence[DeviceProvider]
) -> DeviceManager | None:
    """Provide the device manager, which allocates devices to containers.

    Called: once, after the device providers.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the volume manager.
    :param providers: all provided providers, in the order of plugin names.
    :returns: the manager, or ``None`` to leave it to another plugin.
    """


@hookspec
def nodeagent_provide_claim_drivers(context: DevicesContext) -> Sequence[ClaimDriver]:
    """Provide drivers that prepare the devices of resource claims.

    Called: once, before the claim manager is created. gRPC drivers are added when they register.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with the device manager.
    :returns: the drivers; if several have one name, the plugin registered last takes precedence.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_claim_manager(context: DevicesContext, drivers: Sequence[ClaimDriver]) -> ClaimManager | None:
    """Provide the claim manager, which prepares the resource claims of pods.

    Called: once, after the claim drivers. Without a manager, dynamic resource allocation is disabled.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the device manager.
    :param drivers: all provided drivers, in the order of plugin names.
    :returns: the manager, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_image_puller(
    context: ClaimsContext, credential_providers: Sequence[CredentialProvider]
) -> ImagePuller | None:
    """Provide the image puller.

    Called: once, after the credential providers.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the claim manager.
    :param credential_providers: all providers, in the order in which to call them.
    :returns: the puller, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_image_collector(context: ImageContext) -> ImageCollector | None:
    """Provide the image garbage collector of ``nodeagent image gc``.

    Called: once by that command; the agent runs garbage collection in its background loops.
    On error: the command logs the plugin's name and exits with code 2.
    spec: config.imageGCHighThresholdPercent, config.imageMaximumGCAge

    :param context: the stage with runtime and image service.
    :returns: the collector, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_prober(context: PullerContext) -> Prober | None:
    """Provide the prober for liveness, readiness and startup probes.

    Called: once, after the image puller; ``context.pods`` is set.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with the image puller.
    :returns: the prober, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_stats(context: ProberContext) -> StatsProvider | None:
    """Provide the stats provider: resource usage of the node, its pods and their containers.

    Called: once, after the prober; nothing is measured before the event loop runs.
    On error: the agent logs the plugin's name and exits with code 2.
    spec: config.volumeStatsAggPeriod

    :param context: the stage with the prober.
    :returns: the provider, or ``None`` to leave it to another plugin.
    """


@hookspec(firstresult=True)
def nodeagent_provide_pod_syncer(context: StatsContext, plugins: PluginHost) -> PodSyncer | None:
    """Provide the pod syncer, which drives a pod towards its desired state.

    Called: once, after all other components.
    On error: the agent logs the plugin's name and exits with code 2.

    :param context: the stage with all components but the syncer.
    :param plugins: the plugin manager, to call the hooks of containers.
    :returns: the syncer, or ``None`` to leave it to another plugin.
    """


@hookspec
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    """Initialize the parts of a plugin that need components, and register further plugin objects.

    Called: once, after the pod syncer and before the pod sources; no event loop task of the agent runs yet.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components.
    :param plugins: the plugin manager; ``plugins.register(object, name="plugin.component")`` adds further hooks.
    """


@hookspec
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    """Provide pod sources.

    Called: once, after all components.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.
    spec: config.staticPodPath, config.staticPodURL

    :param context: the stage with all components.
    :returns: the sources that the configuration enables; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_background_loops(context: AgentContext, plugins: PluginHost) -> Sequence[BackgroundLoop]:
    """Provide background loops: eviction, image and container garbage collection, log rotation.

    Called: once, after the pod sources.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components.
    :param plugins: the plugin manager, to call hooks.
    :returns: the loops; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_plugin_handlers(context: AgentContext) -> Sequence[PluginHandler]:
    """Provide handlers of node plugins that register with a socket: CSI drivers, device plugins and DRA drivers.

    Called: once, with the background loops, by the plugin that watches the directory of the sockets.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components.
    :returns: the handlers; if several have one type, the plugin registered last takes precedence.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_hint_providers(context: AgentContext) -> Sequence[HintProvider]:
    """Provide topology hints for resources whose NUMA node matters.

    Called: once, after all components, by the plugin that aligns resources.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.
    spec: config.topologyManagerPolicy

    :param context: the stage with all components.
    :returns: the providers; containers get resources from them in the order of plugin names, then CPUs and memory.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_resource_reporters(context: AgentContext) -> Sequence[ResourceReporter]:
    """Provide reporters of resources that are assigned to containers: devices, CPUs, memory, claims.

    Called: once, with the background loops, by the plugin that serves the pod-resources API.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components.
    :returns: the reporters; their results are combined.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_authenticators(context: ServerContext) -> Sequence[Authenticator]:
    """Provide the authenticators of the agent's HTTPS server.

    Called: once, after the background loops, if the secure port is served. ``tryfirst`` and ``trylast`` order an
    authenticator before or after those of other plugins.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.
    ``ServerConfigError`` it runs without the secure port.
    spec: config.authentication

    :param context: the stage with all components and the local queries.
    :returns: the authenticators that the configuration enables; may be empty.
    :raises ServerConfigError: the configured method cannot work on this node.
    """
    raise NotImplementedError


@hookspec(firstresult=True)
def nodeagent_provide_authorizer(context: ServerContext) -> Authorizer | None:
    """Provide the authorizer of the agent's HTTPS server.

    Called: once, after the authenticators.
    On error: the agent logs the plugin's name and exits with code 2; after
    ``ServerConfigError`` it runs without the secure port.
    spec: config.authorization

    :param context: the stage with all components and the local queries.
    :returns: the authorizer, or ``None`` to leave it to another plugin.
    :raises ServerConfigError: the configured method cannot work on this node.
    """


@hookspec
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    """Provide routes of the agent's HTTPS server.

    Called: once, after the authorizer if a third-party plugin provides routes, else at the first connection to the
        secure or the read-only port.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components and the local queries.
    :returns: the routes; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_local_queries(context: AgentContext) -> Sequence[LocalQuery]:
    """Provide queries that commands on this host can send to the agent over its local socket.

    Called: once, after the background loops.
    On error: the plugin is skipped and listed as failed; if it is required or bundled, the agent exits with code 2.

    :param context: the stage with all components.
    :returns: the queries; may be empty.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_node_checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Provide the checks of ``nodeagent doctor``.

    Called: once by that command, which runs alongside the agent or without it; the agent does not run these checks.
    On error: the command logs the plugin's name and exits with code 2.

    :param context: the stage with runtime and image service.
    :returns: the checks; they run concurrently, each for at most 15 seconds.
    """
    raise NotImplementedError


@hookspec
def nodeagent_provide_plugin_checks(plugins: PluginHost) -> Sequence[PluginCheck]:
    """Provide checks of ``nodeagent plugins check`` for plugins that are not Python modules.

    Called: once by that command; the agent does not run these checks.
    On error: the command logs the plugin's name and exits with code 2.

    :param plugins: the plugin manager.
    :returns: the checks; each one runs for projects that contain its file.
    """
    raise NotImplementedError


# --- pod lifecycle --------------------------------------------------------------------------------------------


@hookspec
@deadline(10)
async def nodeagent_admit_pod(pod: Pod, active: Sequence[Pod]) -> Rejection | None:
    """Admit or reject *pod* before its worker starts, or its new resources when it is resized.

    Called: once per pod UID, again after a restart of the agent for each pod that has not finished, and for each
    decision on a resize, while *active* contains the pod with the resources that it was granted; the first rejection
    is used. A rejection after a restart fails the pod. A rejected resize is deferred. A third-party plugin that does
    not accept *active* is called before the others, for several pods concurrently; every other plugin for one pod at a
    time.
    On error: the pod is rejected with reason ``UnexpectedAdmissionError``. If the deadline is exceeded, the pod waits,
    and the plugin is called again after a delay.

    :param pod: the pod to admit, with the resources that it requests.
    :param active: the pods that are admitted and not terminated.
    :returns: the reason to reject *pod*, with ``retry`` to delay the decision, or ``None`` to admit it.
    """
    raise NotImplementedError


@hookspec
@deadline(10)
async def nodeagent_permit_pod(pod: Pod) -> Rejection | None:
    """Delay an admitted pod until a later sync.

    Called: before each sync of a pod; on the first rejection, the pod's containers are stopped and the pod waits.
    On error: the sync fails and is retried.

    :param pod: the admitted pod.
    :returns: the reason why *pod* must not run now, or ``None``.
    """
    raise NotImplementedError


@hookspec
@deadline(10)
async def nodeagent_pod_admitted(pod: Pod) -> None:
    """Handle the admission of *pod*; its worker starts next.

    Called: once per pod UID; again after a restart of the agent.
    On error: logged; the pod is not affected.

    :param pod: the pod.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_pod_status_changed(pod: Pod, status: PodStatus) -> None:
    """Handle a newly generated status of *pod*.

    Called: after each change, before the status reaches the API server; intermediate statuses may be skipped.
    On error: logged; the pod is not affected.

    :param pod: the pod.
    :param status: its new status.
    """
    raise NotImplementedError


@hookspec
@deadline(30)
async def nodeagent_pod_terminated(pod: Pod) -> None:
    """Handle the termination of *pod*, after its resources have been released.

    Called: once per pod UID; again after a restart of the agent. For a pod that was deleted while the agent did not
    run, *pod* has only name, namespace and UID.
    On error: logged.

    :param pod: the pod.
    """
    raise NotImplementedError


# --- container lifecycle --------------------------------------------------------------------------------------


@hookspec
@deadline(10)
async def nodeagent_mutate_sandbox(pod: Pod, sandbox: SandboxConfig) -> SandboxConfig | None:
    """Mutate the configuration of a pod's sandbox.

    Called: before each sandbox is created; each plugin receives the result of the previous one.
    On error: the sandbox is not created; the sync is retried.

    :param pod: the pod.
    :param sandbox: the configuration to pass to the runtime.
    :returns: the changed configuration, or ``None`` to leave it unchanged.
    """
    raise NotImplementedError


@hookspec
@deadline(10)
async def nodeagent_mutate_container(
    pod: Pod, container: Container, settings: ContainerConfig
) -> ContainerConfig | None:
    """Mutate the configuration of a container: devices, CPU sets, mounts, environment.

    Called: before each container is created; each plugin receives the result of the previous one.
    On error: the container waits with reason ``PreCreateHookError``; the sync is retried.

    :param pod: the pod.
    :param container: the container of the pod spec.
    :param settings: the configuration to pass to the runtime.
    :returns: the changed configuration, or ``None`` to leave it unchanged.
    """
    raise NotImplementedError


@hookspec
@deadline(10)
async def nodeagent_container_started(pod: Pod, container: Container, container_id: str) -> None:
    """Handle the start of a container.

    Called: after the runtime started it, before its postStart hook.
    On error: logged; the container is not affected.

    :param pod: the pod.
    :param container: the container of the pod spec.
    :param container_id: the container's ID in the runtime.
    """
    raise NotImplementedError


@hookspec
@deadline(10)
async def nodeagent_container_stopped(pod: Pod, container_name: str, container_id: str) -> None:
    """Handle the stop of a container by the agent; a container that exits is reported in the pod's status.

    Called: after the runtime has stopped it.
    On error: logged.

    :param pod: the pod.
    :param container_name: the container's name in the pod spec.
    :param container_id: the container's ID in the runtime.
    """
    raise NotImplementedError


# --- node -----------------------------------------------------------------------------------------------------


@hookspec
@deadline(10)
async def nodeagent_report_node() -> NodeReport | None:
    """Contribute capacity, allocatable, conditions or reasons for NotReady to the node status.

    Called: at each computation of the status (spec: config.nodeStatusUpdateFrequency); every report is used. Extended
    resources in the report are enforced by the scheduler and at admission on the node, which rejects a pod that exceeds
    ``allocatable``; ``nodeagent_provide_device_providers`` assigns devices.
    On error: logged; the node status omits the plugin's contribution.

    :returns: the plugin's contribution, or ``None``.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_node_ready_changed(ready: bool, message: str) -> None:
    """Handle a change of the node's Ready condition.

    Called: at each change, the first time when the agent has computed its first node status.
    On error: logged.

    :param ready: whether the node is Ready.
    :param message: the condition's message.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_event_recorded(event: RecordedEvent) -> None:
    """Handle a recorded event, for example forward it to another system.

    Called: for each event in order, one at a time, without delaying the recorder; the latest thousand events are queued
    for a slow plugin. A plugin that records events here causes an endless loop.
    On error: logged.

    :param event: the event.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_access_recorded(access: AccessRecord) -> None:
    """Handle an access to containers or logs, for example write it to an audit log.

    Called: for each request of exec, attach, port forwarding, run, checkpoint, container logs and system logs when its
    handling starts and when it has ended, and once for a rejected one; in order, one at a time, without delaying the
    request; the latest thousand records are queued for a slow plugin.
    On error: logged; the access is not affected.

    :param access: the access.
    """
    raise NotImplementedError


# --- node pressure --------------------------------------------------------------------------------------------


@hookspec
@deadline(120)
async def nodeagent_reclaim_disk(signal: str) -> Reclaimed | None:
    """Free disk space or inodes before pods are evicted.

    Called: when a disk signal has crossed its threshold, on one plugin after the other; not for nodefs if images and
    writable layers are stored on a separate file system.
    On error: logged; eviction continues with the results of the other plugins.
    spec: config.evictionHard

    :param signal: the eviction signal, such as ``imagefs.available`` or ``nodefs.inodesFree``.
    :returns: the freed resources, or ``None`` if the plugin stores nothing on that file system.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_rank_pods_for_eviction(
    signal: str, candidates: Sequence[EvictionCandidate]
) -> Sequence[EvictionCandidate] | None:
    """Change the order in which pods are evicted; the first candidate is evicted first.

    Called: when a threshold is met and reclaiming did not suffice; each plugin receives the result of the previous one.
    On error: logged; the plugin's order is ignored.
    spec: config.evictionHard, config.evictionSoft

    :param signal: the eviction signal.
    :param candidates: the pods in the agent's default order.
    :returns: the same candidates in another order, or ``None`` to leave the order unchanged.
    """
    raise NotImplementedError


@hookspec
@deadline(5)
async def nodeagent_permit_eviction(pod: Pod, signal: str) -> Rejection | None:
    """Veto the eviction of a pod.

    Called: before each eviction; the first rejection is used and recorded with the plugin's name, and the next
    candidate is considered.
    On error: logged; the pod may be evicted.
    spec: config.evictionHard, config.evictionSoft

    :param pod: the pod to evict.
    :param signal: the eviction signal.
    :returns: the reason for the veto, or ``None``.
    """
    raise NotImplementedError
