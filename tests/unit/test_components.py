"""Tests for component assembly: third-party plugins replace or extend the bundled components through provider hooks."""

import itertools
from typing import get_type_hints

import pytest

from nodeagent import hookimpl, hookspecs
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
from nodeagent.contracts.context import (
    STAGES,
    ApiContext,
    ComponentUnavailable,
    ConfigContext,
    NodeContext,
    ServerContext,
)
from nodeagent.contracts.local import LocalQuery, NoArguments
from nodeagent.contracts.pods import KillReason, SyncOutcome
from nodeagent.contracts.runtime import Credentials
from nodeagent.contracts.server import Route
from nodeagent.errors import PluginError
from nodeagent.model.pod import ContainerKind
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy
from nodeagent.testing import make_config, make_container, make_context, make_pod
from nodeagent.testing.fakes import FakeAllocations, FakePodDirectory


async def _nothing(_):
    return None


BUNDLED_ROUTE, THIRD_PARTY_ROUTE = Route("GET", "/bundled", _nothing), Route("GET", "/third-party", _nothing)


class BundledPlugins:
    """Fake bundled plugins: one component per hook, named after the hook."""

    @hookimpl
    def nodeagent_provide_event_recorder(self):
        return "bundled event_recorder"

    @hookimpl
    def nodeagent_provide_runtime(self):
        return "bundled runtime"

    @hookimpl
    def nodeagent_provide_image_service(self):
        return "bundled image_service"

    @hookimpl
    def nodeagent_provide_object_reader(self):
        return "bundled object_reader"

    @hookimpl
    def nodeagent_provide_cgroups(self):
        return "bundled cgroups"

    @hookimpl
    def nodeagent_provide_prober(self):
        return "bundled prober"

    @hookimpl
    def nodeagent_provide_stats(self):
        return "bundled stats"

    @hookimpl
    def nodeagent_provide_volume_kinds(self):
        return ["bundled kind"]

    @hookimpl
    def nodeagent_provide_volume_manager(self, kinds):
        return ("bundled volume_manager", *kinds)

    @hookimpl
    def nodeagent_provide_device_providers(self):
        return ["bundled devices"]

    @hookimpl
    def nodeagent_provide_device_manager(self, providers):
        return ("bundled device_manager", *providers)

    @hookimpl
    def nodeagent_provide_image_puller(self, credential_providers):
        return ("bundled image_puller", *credential_providers)

    @hookimpl
    def nodeagent_provide_pod_syncer(self):
        return "bundled pod_syncer"

    @hookimpl
    def nodeagent_provide_pod_sources(self):
        return ["bundled source"]

    @hookimpl
    def nodeagent_provide_background_loops(self):
        return ["bundled loop"]

    @hookimpl
    def nodeagent_provide_authenticators(self):
        return ["bundled authenticator"]

    @hookimpl
    def nodeagent_provide_authorizer(self):
        return "bundled authorizer"

    @hookimpl
    def nodeagent_provide_routes(self):
        return [BUNDLED_ROUTE]


def assemble(tmp_path, third_party):
    plugins = PluginManager()
    plugins.register(BundledPlugins(), name="bundled", origin="nodeagent")
    plugins.register(third_party, name="third-party", origin="third-party")
    return assembled(make_context(tmp_path), plugins, FakePodDirectory()), plugins


def assembled(fakes, plugins, directory):
    """Return the context with the components of *plugins*, assembled as the agent does."""
    recording = provide_recorder(fakes.stage(ApiContext), plugins, directory, FakeAllocations())
    node = {name: getattr(fakes, name) for name in ("node", "wait_for_node", "trigger_node_status", "runtime_status")}
    components = provide_components(recording.stage(NodeContext, **node), plugins)
    return provide_syncer(components, plugins, fakes.flush_statuses).stage(ServerContext, queries={})


def providing(hook, value):
    """Return a plugin whose *hook* returns *value*."""

    class ThirdParty:
        pass

    def provide(self, context):
        return value

    setattr(ThirdParty, hook, hookimpl(provide))
    return ThirdParty()


def test_hook_provide_event_recorder(tmp_path):
    context, _ = assemble(tmp_path, providing("nodeagent_provide_event_recorder", "third party"))

    assert (context.recorder, context.runtime) == ("third party", "bundled runtime")


def test_hook_provide_runtime(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_runtime", "third party"))[0].runtime == "third party"


def test_hook_provide_image_service(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_image_service", "third party"))[0].images == "third party"


def test_hook_provide_object_reader(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_object_reader", "third party"))[0].objects == "third party"


def test_hook_provide_cgroups(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_cgroups", "third party"))[0].cgroups == "third party"


def test_hook_provide_volume_kinds(tmp_path):
    context, _ = assemble(tmp_path, providing("nodeagent_provide_volume_kinds", ["third party"]))

    assert context.volumes == (
        "bundled volume_manager",
        "third party",
        "bundled kind",
    )  # the plugin registered last takes precedence


class VolumePlugin:
    """Plugin that provides what a volume manager receives."""

    @hookimpl
    def nodeagent_provide_claim_resolver(self):
        return "claims"

    @hookimpl
    def nodeagent_provide_persistent_volume_kinds(self):
        return ["first", "second"]

    @hookimpl
    def nodeagent_provide_volume_manager(self, persistent_kinds, claims):
        return (claims, *persistent_kinds)


def test_hook_provide_claim_resolver(tmp_path):
    assert assemble(tmp_path, VolumePlugin())[0].volumes[0] == "claims"


def test_hook_provide_persistent_volume_kinds(tmp_path):
    assert assemble(tmp_path, VolumePlugin())[0].volumes[1:] == ("second", "first")


def test_hook_provide_volume_manager(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_volume_manager", "third party"))[0].volumes == "third party"


def test_hook_provide_device_providers(tmp_path):
    context, _ = assemble(tmp_path, providing("nodeagent_provide_device_providers", ["third party"]))

    assert context.devices == ("bundled device_manager", "bundled devices", "third party")


def test_hook_provide_device_manager(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_device_manager", "third party"))[0].devices == "third party"


def test_hook_provide_claim_drivers(tmp_path):
    class ThirdParty:
        @hookimpl
        def nodeagent_provide_claim_drivers(self):
            return ["third party"]

        @hookimpl
        def nodeagent_provide_claim_manager(self, drivers):
            return tuple(drivers)

    assert assemble(tmp_path, ThirdParty())[0].claims == ("third party",)


def test_hook_provide_claim_manager(tmp_path):
    assert assemble(tmp_path, object())[0].claims is None
    assert assemble(tmp_path, providing("nodeagent_provide_claim_manager", "third party"))[0].claims == "third party"


def test_hook_provide_credential_providers(tmp_path):
    context, _ = assemble(tmp_path, providing("nodeagent_provide_credential_providers", ["third party"]))

    assert context.puller == ("bundled image_puller", "third party")


def test_hook_provide_image_puller(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_image_puller", "third party"))[0].puller == "third party"


def test_hook_provide_prober(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_prober", "third party"))[0].prober == "third party"


def test_hook_provide_stats(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_stats", "third party"))[0].stats == "third party"


def test_hook_provide_pod_syncer(tmp_path):
    assert assemble(tmp_path, providing("nodeagent_provide_pod_syncer", "third party"))[0].syncer == "third party"


def test_hook_provide_pod_sources(tmp_path):
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_pod_sources", ["third party"]))

    assert provide_sources(context, plugins) == ["bundled source", "third party"]


def test_hook_provide_background_loops(tmp_path):
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_background_loops", ["third party"]))

    assert provide_loops(context, plugins) == [("bundled", "bundled loop"), ("third-party", "third party")]


def test_hook_provide_authenticators(tmp_path):
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_authenticators", ["third party"]))

    assert provide_access(context, plugins) == (["bundled authenticator", "third party"], "bundled authorizer")


def test_hook_provide_authorizer(tmp_path):
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_authorizer", "third party"))

    assert provide_access(context, plugins)[1] == "third party"


def test_hook_provide_routes(tmp_path):
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_routes", [THIRD_PARTY_ROUTE]))

    assert [route.path for route in provide_routes(context, plugins)] == [BUNDLED_ROUTE.path, THIRD_PARTY_ROUTE.path]


def test_hook_provide_local_queries(tmp_path):
    query = LocalQuery("third party", NoArguments, handler=_nothing)
    context, plugins = assemble(tmp_path, providing("nodeagent_provide_local_queries", [query]))

    assert [each.name for each in provide_local_queries(context, plugins)] == [query.name]


def test_hook_configure(tmp_path):
    class ThirdParty:
        @hookimpl
        def nodeagent_configure(self, context, plugins):
            plugins.register(providing("nodeagent_provide_runtime", "third party"), name="third-party.runtime")

    plugins = PluginManager()
    plugins.register(ThirdParty(), name="third-party", version="2", origin="third-party")
    plugins.provide_all("nodeagent_configure", config=None, context=make_context(tmp_path), plugins=plugins)

    component = next(info for info in plugins.plugins() if info.name == "third-party.runtime")
    assert (component.version, component.origin) == ("2", "third-party")
    assert plugins.provide("nodeagent_provide_runtime", context=None) == "third party"


# --- stages of the context ------------------------------------------------------------------------------------


def test_hook_components_created(tmp_path):
    contexts = []

    class ThirdParty:
        @hookimpl
        def nodeagent_components_created(self, context, plugins):
            contexts.append(context)
            plugins.register(providing("nodeagent_provide_routes", [THIRD_PARTY_ROUTE]), name="third-party.routes")

    context, plugins = assemble(tmp_path, ThirdParty())

    assert [created.syncer for created in contexts] == [context.syncer]
    assert [route.path for route in provide_routes(context, plugins)] == [BUNDLED_ROUTE.path, THIRD_PARTY_ROUTE.path]


@pytest.mark.parametrize(
    ("hook", "component", "first_hook"),
    [
        ("nodeagent_configure", "api", "nodeagent_provide_event_recorder"),
        ("nodeagent_provide_runtime", "recorder", "nodeagent_provide_object_reader"),
        ("nodeagent_provide_image_puller", "prober", "nodeagent_provide_stats"),
        ("nodeagent_provide_pod_syncer", "syncer", "nodeagent_components_created"),
        ("nodeagent_provide_background_loops", "queries", "nodeagent_provide_authenticators"),
    ],
)
def test_early_use_of_a_component_names_hook_and_component(tmp_path, hook, component, first_hook):
    class ThirdParty:
        pass

    setattr(ThirdParty, hook, hookimpl(lambda self, context: getattr(context, component)))
    plugins = PluginManager()
    plugins.register(ThirdParty(), name="eager")
    plugins.contain(QuarantinePolicy(), ["eager"])

    with pytest.raises(PluginError) as raised:
        plugins.provide_all(hook, config=None, context=make_context(tmp_path), plugins=plugins)

    message = f"plugin eager: {hook} cannot use context.{component}: it does not exist before {first_hook}"
    assert str(raised.value).startswith(message)


def test_stored_context_stays_at_its_stage(tmp_path):
    contexts = []

    class ThirdParty:
        @hookimpl
        def nodeagent_provide_prober(self, context):
            contexts.append(context)

    assemble(tmp_path, ThirdParty())
    (context,) = contexts

    assert context.puller
    assert not hasattr(context, "stats")
    with pytest.raises(ComponentUnavailable, match="nodeagent_provide_prober cannot use context"):
        context.stats  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'statistics'"):
        context.statistics  # noqa: B018
    with pytest.raises(AttributeError):
        context.puller = None


def test_stages_name_the_first_hook_that_receives_them():
    hooks = [name for name in vars(hookspecs) if name.startswith("nodeagent_")]
    stages = {hook: get_type_hints(getattr(hookspecs, hook)).get("context") for hook in hooks}
    stages = {hook: stage for hook, stage in stages.items() if stage is not None}

    for stage in STAGES:
        assert stage.first_hook == next(hook for hook in hooks if issubclass(stages.get(hook, object), stage))
    assert set(stages.values()) <= set(STAGES)


def test_stages_extend_each_other_without_gaps(tmp_path):
    assert all(issubclass(later, earlier) for earlier, later in itertools.pairwise(STAGES))
    with pytest.raises(TypeError, match="runtime"):
        make_context(tmp_path).stage(ConfigContext).stage(ServerContext, api=None, new_api=None)


class CustomNode:
    """One third-party plugin that provides several components."""

    class Syncer:
        async def sync_pod(self, pod, status, observed):
            return SyncOutcome()

    class Cgroups:
        def parent_of(self, pod):
            return "/custom"

    class RegistryCredentials:
        async def credentials(self, image, pod=None):
            return [Credentials("user", "word", "custom")]

    class Evictor:
        name = "eviction"

        def __init__(self, context):
            self.context = context

        async def run(self):
            for pod in self.context.pods.active():
                self.context.pods.kill(pod.uid, KillReason.EVICTED, "no room", status_reason="Evicted")

    class Collector:
        name = "image collection"

        def __init__(self, context):
            self.context = context

        async def run(self):
            for image in await self.context.images.list_images():
                await self.context.images.remove_image(image.id)

    @hookimpl
    def nodeagent_provide_pod_syncer(self):
        return self.Syncer()

    @hookimpl
    def nodeagent_provide_cgroups(self):
        return self.Cgroups()

    @hookimpl
    def nodeagent_provide_credential_providers(self):
        return [self.RegistryCredentials()]

    @hookimpl
    def nodeagent_provide_background_loops(self, context):
        return [self.Evictor(context), self.Collector(context)]


@pytest.mark.row("card.plugin-hooks")
async def test_third_party_plugin_replaces_syncer_cgroups_gc_and_credentials(tmp_path):
    plugins = PluginManager()
    plugins.load_entry_points()
    plugins.register(CustomNode(), name="custom", origin="custom")
    fakes = make_context(tmp_path)
    plugins.register(providing("nodeagent_provide_image_service", fakes.images), name="images", origin="custom")
    fakes.images.add("registry.test/old:1")
    fakes.images.serve("registry.test/private:1", ("user", "word"))
    pod = make_pod("web", containers=[make_container("main", "registry.test/private:1")])
    directory = FakePodDirectory(pod)
    bundled = make_context(tmp_path, config=make_config(container_runtime_endpoint="unix:///run/none.sock"))
    plugins.provide_all("nodeagent_configure", config=bundled.config, context=bundled, plugins=plugins)
    try:
        context = assembled(bundled, plugins, directory)
        loops = {loop.name: loop for plugin, loop in provide_loops(context, plugins) if plugin == "custom"}

        pulled = await context.puller.ensure(pod, ContainerKind.REGULAR, pod.spec.containers[0])
        await loops["eviction"].run()
        await loops["image collection"].run()
    finally:
        await bundled.cleanup.aclose()
        await bundled.tasks.close()

    assert isinstance(context.syncer, CustomNode.Syncer)
    assert context.cgroups.parent_of(pod) == "/custom"
    assert "registry.test/private:1" in pulled.image.repo_tags
    assert [kill.reason for kill in directory.kills] == [KillReason.EVICTED]
    assert list(await fakes.images.list_images()) == []
