"""Contract tests of the components that bundled plugins provide, on fakes of their environment."""

from __future__ import annotations

import json
import logging
import re
import stat
from pathlib import Path

import pytest
import yaml

from nodeagent import hookspecs
from nodeagent.authoring.check_blocking import check_blocking
from nodeagent.authoring.check_hooks import check_hooks, check_settings
from nodeagent.authoring.check_imports import check_imports
from nodeagent.authoring.source import read_module
from nodeagent.base.duration import Duration
from nodeagent.base.secret import Secret
from nodeagent.contracts.api import CONFIG_MAPS, CORE_EVENTS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from nodeagent.contracts.eviction import PLAN_QUERY
from nodeagent.contracts.server import AuthorizationAttributes, RequestCredentials, User
from nodeagent.contracts.settings import NodeSettings
from nodeagent.testing import (
    FakeApi,
    FakeImages,
    FakeRuntime,
    load_plugin,
    make_config,
    make_container,
    make_context,
    make_pod,
)
from nodeagent.testing.contracts import (
    SUITES,
    AuthenticatorContract,
    AuthorizerContract,
    BackgroundLoopContract,
    CredentialProviderContract,
    EventRecorderContract,
    ImageCollectorContract,
    ImagePullerContract,
    LocalQueryContract,
    NodeCheckContract,
    ObjectReaderContract,
    PodSourceContract,
    PodSyncerContract,
    ProberContract,
    RouteContract,
    VolumeManagerContract,
)
from nodeagent_plugins import (
    authn_anonymous,
    authn_webhook,
    authn_x509,
    authz_webhook,
    container_gc,
    credential_exec,
    event_recorder,
    eviction,
    image_gc,
    image_pull,
    log_rotation,
    node_checks,
    object_reader,
    pod_source_api,
    pod_sync,
    probes,
    routes_config,
    routes_debug,
    routes_exec,
    routes_logs,
    routes_pods,
    routes_stats,
    volumes,
)

UNKNOWN_TOKEN = RequestCredentials(token=Secret("unknown"))


def test_each_provide_hook_has_a_contract_suite():
    hooks = {name for name in vars(hookspecs) if name.startswith("nodeagent_provide_")}
    assert set(SUITES) == hooks


class ReviewingApi(FakeApi):
    """API server that authenticates one token, and authorizes only requests for logs."""

    async def create(self, resource, obj, namespace="", **options):
        spec = obj.get("spec", {})
        if resource.kind == "TokenReview":
            known = spec["token"] == "good"
            return {"status": {"authenticated": known, "user": {"username": "ada", "groups": ["ops"]}}}
        if resource.kind == "SubjectAccessReview":
            return {"status": {"allowed": spec["resourceAttributes"]["subresource"] == "log"}}
        return await super().create(resource, obj, namespace, **options)


@pytest.fixture
def api(clock):
    return ReviewingApi(clock)


@pytest.fixture
async def context(tmp_path, clock, api):
    """Context with fakes and an API server; tasks of plugins are cancelled after the test."""
    made = make_context(tmp_path, clock=clock, api=api)
    yield made
    await made.tasks.close()


def provided(plugin, hook, context, **arguments):
    """Return all components that *plugin* provides for *hook*, configured as by the agent."""
    plugins = load_plugin(plugin, name=plugin.__name__.rpartition(".")[2], context=context)
    results = plugins.provide_all(hook, context=context, plugins=plugins, **arguments)
    return [component for result in results for component in result.value]


# --- components ----------------------------------------------------------------------------------------------------


class TestApiRecorder(EventRecorderContract):
    @pytest.fixture
    async def recorder(self, context):
        return load_plugin(event_recorder, context=context).provide("nodeagent_provide_event_recorder", context=context)

    @pytest.fixture
    def emitted(self, api, clock):
        async def emitted():
            await clock.advance(5)
            return [event["reason"] for event in api.all(CORE_EVENTS)]

        return emitted


class TestLogRecorder(EventRecorderContract):
    @pytest.fixture
    async def recorder(self, tmp_path, clock, caplog):
        caplog.set_level(logging.INFO)
        context = make_context(tmp_path, clock=clock)
        return load_plugin(event_recorder, context=context).provide("nodeagent_provide_event_recorder", context=context)

    @pytest.fixture
    def emitted(self, caplog):
        async def emitted():
            return [record.reason for record in caplog.records if hasattr(record, "reason")]

        return emitted


@pytest.mark.parametrize("strategy", ["Get", "Cache", "Watch"])
class TestReader(ObjectReaderContract):
    @pytest.fixture
    async def objects(self, tmp_path, clock, api, strategy):
        config = make_config(config_map_and_secret_change_detection_strategy=strategy)
        context = make_context(tmp_path, clock=clock, api=api, config=config, node={})
        api.put(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        yield load_plugin(object_reader).provide("nodeagent_provide_object_reader", context=context)
        await context.tasks.close()

    @pytest.fixture
    def put(self, api):
        resources = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
        return lambda kind, obj: api.put(resources[kind], obj)


class TestVolumeManager(VolumeManagerContract):
    @pytest.fixture
    async def volumes(self, context):
        plugins = load_plugin(volumes)
        kinds = [
            kind
            for result in plugins.provide_all("nodeagent_provide_volume_kinds", context=context)
            for kind in result.value
        ]
        arguments = {"context": context, "kinds": kinds, "persistent_kinds": (), "claims": None}
        return plugins.provide("nodeagent_provide_volume_manager", **arguments)


class TestExecCredentials(CredentialProviderContract):
    """The credential provider executable is a shell script."""

    @pytest.fixture
    async def provider(self, tmp_path, clock):
        response = {
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "auth": {"known.test": {"username": "ada", "password": "very-secret"}},
        }
        executable = tmp_path / "bin" / "keys"
        executable.parent.mkdir()
        executable.write_text(f"#!/bin/sh\ncat >/dev/null\nprintf '%s' '{json.dumps(response)}'\n")
        executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
        entry = {"name": "keys", "matchImages": ["known.test"], "defaultCacheDuration": "1m"}
        entry["apiVersion"] = response["apiVersion"]
        file = tmp_path / "credentials.yaml"
        document = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [entry]}
        file.write_text(yaml.safe_dump(document))
        settings = NodeSettings(
            image_credential_provider_config=str(file), image_credential_provider_bin_dir=str(executable.parent)
        )
        context = make_context(tmp_path, clock=clock, settings=settings)
        (provider,) = provided(credential_exec, "nodeagent_provide_credential_providers", context)
        yield provider
        await context.tasks.close()

    @pytest.fixture
    def known(self):
        return "known.test/app:1"


class TestPuller(ImagePullerContract):
    @pytest.fixture
    async def puller(self, tmp_path, clock, present, pullable):
        images = FakeImages(open_registry=False)
        images.add(present)
        images.serve(pullable)
        context = make_context(tmp_path, clock=clock, images=images)
        yield load_plugin(image_pull).provide(
            "nodeagent_provide_image_puller", context=context, credential_providers=[]
        )
        await context.tasks.close()

    @pytest.fixture
    def present(self):
        return "reg.test/present:1"

    @pytest.fixture
    def pullable(self):
        return "reg.test/pullable:1"

    @pytest.fixture
    def absent(self):
        return "reg.test/no/such:image"


class TestCollector(ImageCollectorContract):
    @pytest.fixture
    def images(self, used, unused):
        images = FakeImages()
        for name in (used, unused):
            images.add(name)
        return images

    @pytest.fixture
    async def collector(self, tmp_path, clock, images, used, monkeypatch):
        runtime = FakeRuntime(clock)
        runtime.start("main", make_pod("web"), image=images.find(used).id)
        config = make_config(image_minimum_gc_age=Duration.parse("0s"))
        context = make_context(tmp_path, clock=clock, images=images, runtime=runtime, config=config)
        monkeypatch.setattr(image_gc.collector, "measure", lambda _: image_gc.collector.Disk(1000, 900))
        yield load_plugin(image_gc).provide("nodeagent_provide_image_collector", context=context)
        await context.tasks.close()

    @pytest.fixture
    def stored(self, images):
        async def stored():
            return {tag for image in await images.list_images() for tag in image.repo_tags}

        return stored

    @pytest.fixture
    def used(self):
        return "reg.test/used:1"

    @pytest.fixture
    def unused(self):
        return "reg.test/unused:1"


class TestProber(ProberContract):
    @pytest.fixture
    def runtime(self, clock):
        return FakeRuntime(clock)

    @pytest.fixture
    async def prober(self, tmp_path, clock, runtime):
        context = make_context(tmp_path, clock=clock, runtime=runtime)
        yield load_plugin(probes).provide("nodeagent_provide_prober", context=context)
        await context.tasks.close()

    @pytest.fixture
    def pod(self):
        probe = {"exec": {"command": ["check"]}, "timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3}
        return make_pod("contract", containers=[make_container("probed", readiness_probe=probe), "plain"])

    @pytest.fixture
    def observed(self, pod, runtime):
        for container in pod.spec.containers:
            runtime.start(container.name, pod)
        return runtime.pod(pod.uid)


class TestSyncer(PodSyncerContract):
    @pytest.fixture
    def runtime(self, clock):
        return FakeRuntime(clock)

    @pytest.fixture
    async def syncer(self, tmp_path, clock, runtime):
        (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
        context = make_context(
            tmp_path,
            clock=clock,
            runtime=runtime,
            config=make_config(resolv_conf=str(tmp_path / "resolv.conf")),
            plugin_settings={"pod_sync": {"log_root": str(tmp_path / "log")}},
        )
        plugins = load_plugin(pod_sync, name="pod_sync", context=context)
        yield plugins.provide("nodeagent_provide_pod_syncer", context=context, plugins=plugins)
        await context.tasks.close()

    @pytest.fixture
    def observe(self, runtime):
        async def observe(uid):
            return runtime.pod(uid)

        return observe


class TestApiSource(PodSourceContract):
    @pytest.fixture
    async def source(self, context):
        (source,) = provided(pod_source_api, "nodeagent_provide_pod_sources", context)
        return source

    @pytest.fixture
    async def set_pods(self, api):
        async def set_pods(names):
            for known in api.all(PODS):
                if known["metadata"]["name"] not in names:
                    api.remove(PODS, known["metadata"]["name"])
            for name in names:
                container = {"name": "c", "image": "a:1", "imagePullPolicy": "IfNotPresent"}
                spec = {"nodeName": "node-1", "containers": [container]}
                api.put(PODS, {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec})

        return set_pods


# --- loops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin", [container_gc, eviction, image_gc, log_rotation])
class TestLoops(BackgroundLoopContract):
    """The first background loop of each plugin."""

    @pytest.fixture
    async def loop(self, plugin, context):
        return provided(plugin, "nodeagent_provide_background_loops", context)[0]


# --- HTTPS server -----------------------------------------------------------------------------------------------


class TestAnonymous(AuthenticatorContract):
    @pytest.fixture
    async def authenticator(self):
        return authn_anonymous.AnonymousAuthenticator()

    @pytest.fixture
    def good(self):
        return RequestCredentials()

    @pytest.fixture
    def bad(self):
        return UNKNOWN_TOKEN

    async def test_invalid_credentials_raise_without_revealing_the_token(self, authenticator, bad):
        """Override: other authenticators, if any are configured, have rejected invalid credentials before."""
        assert await authenticator.authenticate(bad) == await authenticator.authenticate(RequestCredentials())


class TestX509(AuthenticatorContract):
    @pytest.fixture
    async def authenticator(self):
        return authn_x509.X509Authenticator()

    @pytest.fixture
    def good(self):
        return RequestCredentials(certificate={"subject": ((("commonName", "ada"),), (("organizationName", "ops"),))})

    @pytest.fixture
    def bad(self):
        return RequestCredentials(certificate={"subject": ((("organizationName", "ops"),),)})


class TestTokenReview(AuthenticatorContract):
    @pytest.fixture
    async def authenticator(self, context):
        (authenticator,) = provided(authn_webhook, "nodeagent_provide_authenticators", context)
        return authenticator

    @pytest.fixture
    def good(self):
        return RequestCredentials(token=Secret("good"))

    @pytest.fixture
    def bad(self):
        return UNKNOWN_TOKEN


def attributes(subresource):
    return AuthorizationAttributes(User("ada"), "get", subresource, "node-1")


class TestAccessReview(AuthorizerContract):
    @pytest.fixture
    async def authorizer(self, context):
        return load_plugin(authz_webhook).provide("nodeagent_provide_authorizer", context=context)

    @pytest.fixture
    def allowed(self):
        return attributes("log")

    @pytest.fixture
    def denied(self):
        return attributes("proxy")


class TestAlwaysAllow(AuthorizerContract):
    @pytest.fixture
    async def authorizer(self):
        return authz_webhook.AlwaysAllow()

    @pytest.fixture
    def allowed(self):
        return attributes("proxy")


@pytest.mark.parametrize("plugin", [routes_config, routes_debug, routes_exec, routes_logs, routes_pods, routes_stats])
class TestRoutes(RouteContract):
    @pytest.fixture
    async def routes(self, plugin, context):
        return provided(plugin, "nodeagent_provide_routes", context)


class TestEvictionPlan(LocalQueryContract):
    @pytest.fixture
    async def query(self, context):
        (query,) = provided(eviction, "nodeagent_provide_local_queries", context)
        assert query.name == PLAN_QUERY
        return query


class TestDoctor(NodeCheckContract):
    @pytest.fixture
    async def checks(self, context, api):
        await api.create(NODES, {"metadata": {"name": context.node_name}})
        return provided(node_checks, "nodeagent_provide_node_checks", context)


def test_plugins_check_reports_nothing_for_bundled_plugins():
    directory = Path(__file__).parents[2] / "plugins" / "nodeagent_plugins"
    modules = [read_module(file) for file in sorted(directory.rglob("*.py")) if "_pb2" not in file.name]
    problems = [*check_hooks(modules), *check_settings(modules, None)]
    for module in modules:
        of_module = (*check_imports(module, own={"nodeagent_plugins"}, others=()), *check_blocking(module))
        problems += [problem for problem in of_module if problem.rule not in module.ignored.get(problem.line, ())]

    assert [f"{problem.file.name}:{problem.line}: {problem.message}" for problem in problems] == []


def test_each_contract_suite_runs_for_a_bundled_plugin():
    texts = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [
        suite.__name__ for suite in SUITES.values() if not re.search(rf"class Test.*\({suite.__name__}\)", texts)
    ] == []
