"""Tests for the start of cluster controllers: which ones run depends on the options and the served kinds."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.options import parse
from apiserver_stub.server.cluster_controllers import ControllerResources, build_leadership, start_controllers
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.server.tasks import RecordedTasks

OBJECTS = {"namespaces", "namespace-contents", "aggregated-roles", "custom-resource-cleanup", "garbage"}
VOLUMES = {"volume-binder", "ephemeral-claims", "volume-attacher", "local-path-provisioner"}
CLAIMS_SERVED = "--compatibility-version=1.36"


async def started(*arguments: str, own_authority: Any = None) -> set[str]:
    """Return the names of the tasks that the options start."""
    options, store, tasks = parse(list(arguments)), Memory(), RecordedTasks()
    fake: Any = SimpleNamespace(store=store, own_authority=lambda: own_authority, trusts_own_clients=lambda: True)
    parts = ControllerResources(
        fake,
        build_registry(options),
        Leadership(store, Identity(), FakeClock()),  # type: ignore[arg-type]
        fake,
        fake,
        fake,
        "",
        None,
        fake,
        fake,
    )
    await start_controllers(options, tasks, parts)  # type: ignore[arg-type]
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
