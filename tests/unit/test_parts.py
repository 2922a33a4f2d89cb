"""A third party's plugin takes the place of any bundled part, or adds to it, through the documented hooks."""

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.local import LocalQuestion, NoArguments
from nodeagent.contracts.pods import KillReason, SyncOutcome
from nodeagent.contracts.runtime import Credentials
from nodeagent.contracts.server import Route
from nodeagent.model.pod import ContainerKind
from nodeagent.parts import (
    provide_access,
    provide_loops,
    provide_parts,
    provide_questions,
    provide_routes,
    provide_sources,
)
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import make_config, make_container, make_context, make_pod
from nodeagent.testing.parts import FakePodDirectory


async def _nothing(_):
    return None


BUNDLED_ROUTE, OWN_ROUTE = Route("GET", "/bundled", _nothing), Route("GET", "/mine", _nothing)


class Everything:
    """Stands for the bundled plugins: provides every part, each named after its hook."""

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


def assemble(tmp_path, foreign):
    plugins = PluginManager()
    plugins.register(Everything(), name="bundled", origin="nodeagent")
    plugins.register(foreign, name="foreign", origin="somebody")
    context = make_context(tmp_path)
    provide_parts(context, plugins, FakePodDirectory())
    return context, plugins


def replacing(hook, value):
    """Return a plugin that answers *hook* with *value*."""

    class Foreign:
        pass

    def provide(self, context):
        return value

    setattr(Foreign, hook, hookimpl(provide))
    return Foreign()


def test_hook_provide_event_recorder(tmp_path):
    context, _ = assemble(tmp_path, replacing("nodeagent_provide_event_recorder", "mine"))

    assert (context.recorder, context.runtime) == ("mine", "bundled runtime")


def test_hook_provide_runtime(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_runtime", "mine"))[0].runtime == "mine"


def test_hook_provide_image_service(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_image_service", "mine"))[0].images == "mine"


def test_hook_provide_object_reader(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_object_reader", "mine"))[0].objects == "mine"


def test_hook_provide_cgroups(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_cgroups", "mine"))[0].cgroups == "mine"


def test_hook_provide_volume_kinds(tmp_path):
    context, _ = assemble(tmp_path, replacing("nodeagent_provide_volume_kinds", ["mine"]))

    assert context.volumes == ("bundled volume_manager", "mine", "bundled kind")  # the later plugin's is preferred


def test_hook_provide_volume_manager(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_volume_manager", "mine"))[0].volumes == "mine"


def test_hook_provide_credential_providers(tmp_path):
    context, _ = assemble(tmp_path, replacing("nodeagent_provide_credential_providers", ["mine"]))

    assert context.puller == ("bundled image_puller", "mine")


def test_hook_provide_image_puller(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_image_puller", "mine"))[0].puller == "mine"


def test_hook_provide_prober(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_prober", "mine"))[0].prober == "mine"


def test_hook_provide_stats(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_stats", "mine"))[0].stats == "mine"


def test_hook_provide_pod_syncer(tmp_path):
    assert assemble(tmp_path, replacing("nodeagent_provide_pod_syncer", "mine"))[0].syncer == "mine"


def test_hook_provide_pod_sources(tmp_path):
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_pod_sources", ["mine"]))

    assert provide_sources(context, plugins) == ["bundled source", "mine"]


def test_hook_provide_background_loops(tmp_path):
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_background_loops", ["mine"]))

    assert provide_loops(context, plugins) == [("bundled", "bundled loop"), ("foreign", "mine")]


def test_hook_provide_authenticators(tmp_path):
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_authenticators", ["mine"]))

    assert provide_access(context, plugins) == (["bundled authenticator", "mine"], "bundled authorizer")


def test_hook_provide_authorizer(tmp_path):
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_authorizer", "mine"))

    assert provide_access(context, plugins)[1] == "mine"


def test_hook_provide_routes(tmp_path):
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_routes", [OWN_ROUTE]))

    assert provide_routes(context, plugins) == [BUNDLED_ROUTE, OWN_ROUTE]


def test_hook_provide_local_questions(tmp_path):
    question = LocalQuestion("mine", NoArguments, answer=_nothing)
    context, plugins = assemble(tmp_path, replacing("nodeagent_provide_local_questions", [question]))

    assert provide_questions(context, plugins) == [question]


def test_hook_configure(tmp_path):
    class Foreign:
        @hookimpl
        def nodeagent_configure(self, context, plugins):
            plugins.register(replacing("nodeagent_provide_runtime", "mine"), name="foreign.runtime")

    plugins = PluginManager()
    plugins.register(Foreign(), name="foreign", version="2", origin="somebody")
    plugins.provide_all("nodeagent_configure", config=None, context=make_context(tmp_path), plugins=plugins)

    part = next(info for info in plugins.plugins() if info.name == "foreign.runtime")
    assert (part.version, part.origin) == ("2", "somebody")
    assert plugins.provide("nodeagent_provide_runtime", context=None) == "mine"


class House:
    """One third-party plugin with a part of each kind."""

    class Syncer:
        async def sync_pod(self, pod, status, observed):
            return SyncOutcome()

    class Cgroups:
        def parent_of(self, pod):
            return "/house"

    class Keys:
        async def credentials(self, image):
            return [Credentials("user", "word", "house")]

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
        return [self.Keys()]

    @hookimpl
    def nodeagent_provide_background_loops(self, context):
        return [self.Evictor(context), self.Collector(context)]


@pytest.mark.row("card.plugin-hooks")
async def test_a_third_party_brings_pod_sync_cgroups_eviction_image_collection_and_credentials(tmp_path):
    plugins = PluginManager()
    plugins.load_entry_points()
    plugins.register(House(), name="house", origin="house")
    fakes = make_context(tmp_path)
    fakes.images.add("registry.test/old:1")
    fakes.images.serve("registry.test/private:1", ("user", "word"))
    pod = make_pod("web", containers=[make_container("main", "registry.test/private:1")])
    directory = FakePodDirectory(pod)
    context = make_context(tmp_path, config=make_config(container_runtime_endpoint="unix:///run/none.sock"))
    try:
        provide_parts(context, plugins, directory)
        loops = {loop.name: loop for plugin, loop in provide_loops(context, plugins) if plugin == "house"}
        context.images = fakes.images

        pulled = await context.puller.ensure(pod, ContainerKind.REGULAR, pod.spec.containers[0])
        await loops["eviction"].run()
        await loops["image collection"].run()
    finally:
        await context.cleanup.aclose()
        await context.tasks.close()

    assert isinstance(context.syncer, House.Syncer)
    assert context.cgroups.parent_of(pod) == "/house"
    assert "registry.test/private:1" in pulled.image.repo_tags
    assert [kill.reason for kill in directory.kills] == [KillReason.EVICTED]
    assert list(await fakes.images.list_images()) == []
