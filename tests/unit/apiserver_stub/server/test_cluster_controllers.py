"""Tests for the start of cluster controllers: which ones run depends on the options and the served kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.aggregation.extension_client import ExtensionRequestError
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.options import Options, parse
from apiserver_stub.server import cluster_controllers
from apiserver_stub.server.cluster_controllers import ControllerResources, build_leadership, start_controllers
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from nodeagent.testing.clock import eventually
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.server.tasks import RecordedTasks

OBJECTS = {"namespaces", "namespace-contents", "aggregated-roles", "custom-resource-cleanup", "garbage"}
VOLUMES = {"volume-binder", "ephemeral-claims", "volume-attacher", "local-path-provisioner"}
CLAIMS_SERVED = "--compatibility-version=1.36"


def resources(store: Memory, options: Options, *, own_authority: Any = None, **components: Any) -> ControllerResources:
    fake: Any = SimpleNamespace(store=store, own_authority=lambda: own_authority, trusts_own_clients=lambda: True)
    leadership: Any = Leadership(store, Identity(), FakeClock())  # type: ignore[arg-type]
    parts = ControllerResources(
        fake,
        build_registry(options),
        leadership,
        fake,
        fake,
        fake,
        "CA",
        None,
        fake,
        SimpleNamespace(),  # type: ignore[arg-type]
    )
    return replace(parts, **components)


async def started(*arguments: str, own_authority: Any = None) -> set[str]:
    """Return the names of the tasks that the options start."""
    options, tasks = parse(list(arguments)), RecordedTasks()
    await start_controllers(options, tasks, resources(Memory(), options, own_authority=own_authority))  # type: ignore[arg-type]
    assert len(tasks.names) == len(set(tasks.names))
    return set(tasks.names)


async def test_default_options_start_objects_volumes_scheduler_and_manager() -> None:
    assert await started() == OBJECTS | VOLUMES | {"scheduler", "controllers"}


async def test_release_with_claims_starts_the_controllers_of_devices() -> None:
    assert await started(CLAIMS_SERVED) - await started() == {"resource-claims", "device-taint-eviction"}


@pytest.mark.parametrize(
    ("controller", "task"),
    [
        ("namespace-controller", "namespaces"),
        ("clusterrole-aggregation-controller", "aggregated-roles"),
        ("garbage-collector-controller", "garbage"),
        ("resourceclaim-controller", "resource-claims"),
        ("device-taint-eviction-controller", "device-taint-eviction"),
        ("persistentvolume-binder-controller", "volume-binder"),
        ("ephemeral-volume-controller", "ephemeral-claims"),
        ("persistentvolume-attach-detach-controller", "volume-attacher"),
    ],
)
async def test_disabled_controller_is_not_started(controller: str, task: str) -> None:
    names = await started(CLAIMS_SERVED)

    assert names - await started(CLAIMS_SERVED, f"--controllers=*,-{controller}") == {task}


@pytest.mark.parametrize(
    ("argument", "tasks"),
    [
        ("--enable-garbage-collector=false", {"garbage"}),
        ("--feature-gates=DRADeviceTaints=false", {"device-taint-eviction"}),
        ("--runtime-config=resource.k8s.io/v1=false", {"resource-claims", "device-taint-eviction"}),
        ("--bind-pods-to-single-node=false", {"scheduler"}),
        ("--manage-volumes=false", VOLUMES),
        ("--runtime-config=apiextensions.k8s.io/v1=false", {"custom-resource-cleanup"}),
    ],
)
async def test_option_disables_controllers(argument: str, tasks: set[str]) -> None:
    names = await started(CLAIMS_SERVED, argument)

    assert await started(CLAIMS_SERVED) - names == tasks


@pytest.mark.parametrize(
    ("argument", "generated", "signed"),
    [
        ("--sign-node-certificates=true", True, True),
        ("--sign-node-certificates=true", False, False),
        ("--sign-node-certificates=false", True, False),
    ],
)
async def test_node_certificates_are_signed_with_the_generated_ca(argument: str, generated: bool, signed: bool) -> None:
    names = await started(argument, own_authority=object() if generated else None)

    assert ("node-certificates" in names) is signed


@pytest.mark.parametrize(("arguments", "leads"), [([], True), (["--etcd-servers=http://127.0.0.1:1"], False)])
async def test_only_servers_of_a_shared_store_elect_a_leader(tmp_path: Path, arguments: list[str], leads: bool) -> None:
    store: Any = Memory()
    async with AsyncExitStack() as stack:
        leadership = build_leadership(parse([f"--data-dir={tmp_path}", *arguments]), store, stack)

        assert leadership.leads is leads


class OneTask(RecordedTasks):
    """Runs the task *name* only."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        if name == self._name:
            self.task = asyncio.ensure_future(coroutine)
        else:
            super().start(coroutine, name)


@asynccontextmanager
async def running(name: str, store: Memory, *arguments: str) -> AsyncIterator[None]:
    """Run one of the controllers over *store*."""
    options, tasks = parse(list(arguments)), OneTask(name)
    await start_controllers(options, tasks, resources(store, options))  # type: ignore[arg-type]
    try:
        yield
    finally:
        tasks.task.cancel()
        await asyncio.gather(tasks.task, return_exceptions=True)


@pytest.mark.parametrize(("arguments", "content"), [([], "CA"), (["--etcd-servers=http://127.0.0.1:1"], "other")])
async def test_ca_of_another_server_of_the_store_is_kept(arguments: list[str], content: str) -> None:
    store = Memory()
    for name in ("n", "m"):
        store.put("core/namespaces", {"metadata": {"name": name, "uid": name}, "status": {"phase": "Active"}})
    metadata = {"name": "kube-root-ca.crt", "namespace": "n", "uid": "ca"}
    store.put("core/configmaps", {"metadata": metadata, "data": {"ca.crt": "other"}})

    async with running("namespace-contents", store, *arguments):
        await eventually(lambda: store.read("core/configmaps", "m/kube-root-ca.crt"))
        await eventually(lambda: store.read("core/serviceaccounts", "n/default"))

    assert store.read("core/configmaps", "n/kube-root-ca.crt")["data"]["ca.crt"] == content


@pytest.mark.parametrize(("served", "bound"), [("true", False), ("false", True)])
async def test_scheduler_allocates_devices_if_claims_are_served(served: str, bound: bool) -> None:
    store = Memory()
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "pods": "9"}}
    store.put("core/nodes", {"metadata": {"name": "node"}, "spec": {}, "status": status})
    claims = [{"name": "c", "resourceClaimName": "missing"}]
    spec = {"schedulerName": "default-scheduler", "containers": [], "resourceClaims": claims}
    store.put("core/pods", {"metadata": {"name": "p", "namespace": "n", "uid": "p"}, "spec": spec, "status": {}})

    async with running("scheduler", store, CLAIMS_SERVED, f"--runtime-config=resource.k8s.io/v1={served}"):
        await eventually(lambda: store.read("core/pods", "n/p")["status"].get("conditions"))

    assert ("nodeName" in store.read("core/pods", "n/p")["spec"]) is bound


class Extensions:
    """Extension server whose API has one metric; *error* is that of requests."""

    def __init__(self, error: str = "") -> None:
        self._error = error

    async def read(self, remote: object, path: str) -> Any:
        if self._error:
            raise ExtensionRequestError(self._error)
        return {"items": [{"value": "7"}]}


@pytest.mark.parametrize(
    ("served", "error", "expected"),
    [
        (True, "", [7000]),
        (True, "no answer", "unable to fetch metrics from external metrics API: no answer"),
        (False, "", "could not find the requested resource"),
    ],
)
async def test_autoscalers_read_metrics_of_extension_servers(
    monkeypatch: pytest.MonkeyPatch, served: bool, error: str, expected: Any
) -> None:
    clients: list[MetricsClient] = []

    class Manager:
        def __init__(self, *arguments: Any) -> None:
            clients.append(arguments[-1])

        async def run(self) -> None:
            pass

    monkeypatch.setattr(cluster_controllers, "ControllerManager", Manager)
    options, tasks = parse([]), RecordedTasks()
    table = {("external.metrics.k8s.io", "v1beta1"): object()} if served else {}
    remotes: Any = SimpleNamespace(table=table)
    parts = resources(Memory(), options, remotes=remotes, extensions=Extensions(error))
    await start_controllers(options, tasks, parts)  # type: ignore[arg-type]

    if isinstance(expected, str):
        with pytest.raises(MetricsError, match=expected):
            await clients[0].external("n", "m", "")
    else:
        assert await clients[0].external("n", "m", "") == expected
