"""Tests for the claim manager: preparation, release, shared claims, restarts and failures."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from nodeagent.contracts.api import Resource
from nodeagent.contracts.claims import ClaimReference, PreparedDevice, PrepareResult
from nodeagent.errors import ApiNotFound, ClaimError
from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakeClaimDriver, make_container, make_context, make_pod
from nodeagent.testing.contracts import BackgroundLoopContract, ClaimDriverContract, ClaimManagerContract
from nodeagent_plugins.claims.checkpoint import FILE, Checkpoint
from nodeagent_plugins.claims.drivers import RegisteredDriver
from nodeagent_plugins.claims.manager import RECONCILE_SECONDS, Manager
from tests.unit.plugins.claims.conftest import CLAIMS, GPU, add_claim, claim_pod

NET = "net.example.com"


class TestManagerContract(ClaimManagerContract):
    @pytest.fixture
    def claims(self, manager):
        return manager

    @pytest.fixture
    def pod(self, api):
        add_claim(api, "uid-web")
        return claim_pod()


class TestLoopContract(BackgroundLoopContract):
    @pytest.fixture
    def loop(self, manager):
        return manager


class TestFakeDriver(ClaimDriverContract):
    @pytest.fixture
    def driver(self):
        return FakeClaimDriver()

    @pytest.fixture
    def claim(self):
        return ClaimReference("default", "shared", "c-1")


def read_status(**fields):
    return msgspec.convert(fields, PodStatus)


def cdi(manager, pod):
    return list(manager.cdi_devices(pod, pod.spec.containers[0]))


async def test_claim_of_two_pods_is_prepared_and_unprepared_once(manager, api, driver):
    add_claim(api, "uid-a", "uid-b")
    first, second = claim_pod("a"), claim_pod("b")

    await manager.prepare_pod(first)
    await manager.prepare_pod(second)
    await manager.release_pod(first)
    assert (driver.prepared, driver.unprepared) == (["c-1"], [])
    assert cdi(manager, second) == ["example.com/gpu=c-1"]

    await manager.release_pod(second)
    assert driver.unprepared == ["c-1"]


async def test_pod_that_never_used_a_shared_claim_does_not_release_it(manager, api, driver):
    add_claim(api, "uid-a", "uid-b")
    await manager.prepare_pod(claim_pod("a"))

    await manager.release_pod(claim_pod("b"))

    assert driver.unprepared == []


async def test_claim_is_not_prepared_again_after_a_restart(make_manager, api, driver):
    add_claim(api, "uid-web")
    pod = claim_pod()
    await make_manager().prepare_pod(pod)
    api.requests.clear()

    restarted = make_manager()
    await restarted.prepare_pod(pod)

    assert (driver.prepared, cdi(restarted, pod)) == (["c-1"], ["example.com/gpu=c-1"])
    assert not api.requests
    await restarted.release_pod(pod)
    assert driver.unprepared == ["c-1"]


async def test_claim_is_prepared_again_after_a_boot_of_the_host(make_manager, api, driver):
    add_claim(api, "uid-web")
    pod = claim_pod()
    await make_manager().prepare_pod(pod)

    restarted = make_manager("another boot")
    with pytest.raises(ClaimError):
        cdi(restarted, pod)
    await restarted.prepare_pod(pod)

    assert driver.prepared == ["c-1", "c-1"]
    assert cdi(restarted, pod) == ["example.com/gpu=c-1"]


async def test_agent_killed_during_the_call_unprepares_the_claim(make_manager, api, driver, context):
    add_claim(api, "uid-web")
    called = asyncio.Event()

    async def hang(claims):
        called.set()
        await asyncio.Event().wait()

    driver.prepare = hang
    task = asyncio.create_task(make_manager().prepare_pod(claim_pod()))
    await called.wait()
    task.cancel()

    restarted = make_manager()
    await restarted.reconcile()

    assert driver.unprepared == ["c-1"]


async def test_claims_of_vanished_pods_are_unprepared_periodically(manager, api, driver, clock, context):
    add_claim(api, "uid-web")
    await manager.prepare_pod(claim_pod())
    task = asyncio.create_task(manager.run())
    await clock.advance(RECONCILE_SECONDS - 1)
    assert driver.unprepared == []

    await clock.advance(1)
    async with asyncio.timeout(5):
        while not driver.unprepared:
            await asyncio.sleep(0.005)

    assert driver.unprepared == ["c-1"]
    task.cancel()


async def test_pod_is_synced_when_its_driver_registers(manager, api, drivers, context, driver):
    drivers.remove(GPU, driver.endpoint)
    add_claim(api, "uid-web")

    with pytest.raises(ClaimError, match=f"^DRA driver {GPU} is not registered$"):
        await manager.prepare_pod(claim_pod())
    (event,) = context.recorder.events
    assert (event.reason, event.note) == (
        "FailedPrepareDynamicResources",
        f"Failed to prepare dynamic resources: DRA driver {GPU} is not registered",
    )
    assert context.pods.triggered == []
    drivers.add(RegisteredDriver(driver))
    assert context.pods.triggered == ["uid-web"]


async def test_release_fails_while_the_driver_is_missing(manager, api, drivers, driver, context):
    add_claim(api, "uid-web")
    pod = claim_pod()
    await manager.prepare_pod(pod)
    drivers.remove(GPU, driver.endpoint)

    with pytest.raises(ClaimError, match=f"unprepare dynamic resources: DRA driver {GPU} is not registered"):
        await manager.release_pod(pod)
    drivers.add(RegisteredDriver(driver))
    assert context.pods.triggered == ["uid-web"]
    await manager.release_pod(pod)

    assert driver.unprepared == ["c-1"]


async def test_second_driver_is_called_again_after_its_failure(manager, api, drivers, driver):
    other = FakeClaimDriver(NET, "other", failure="no link")
    drivers.add(RegisteredDriver(other))
    add_claim(api, "uid-web", devices=((GPU, "gpu-0"), (NET, "gpu-0")))
    pod = claim_pod()

    with pytest.raises(ClaimError, match=r"^no link$"):
        await manager.prepare_pod(pod)
    other.failure = ""
    await manager.prepare_pod(pod)

    assert (driver.prepared, other.prepared) == (["c-1"], ["c-1"])
    await manager.release_pod(pod)
    assert (driver.unprepared, other.unprepared) == (["c-1"], ["c-1"])


async def test_claim_that_cannot_be_unprepared_by_one_driver_is_kept(manager, api, drivers, driver):
    other = FakeClaimDriver(NET, "other")
    drivers.add(RegisteredDriver(other))
    add_claim(api, "uid-web", devices=((GPU, "gpu-0"), (NET, "gpu-0")))
    pod = claim_pod()
    await manager.prepare_pod(pod)
    other.errors["c-1"] = "in use"

    with pytest.raises(ClaimError, match="NodeUnprepareResources failed for ResourceClaim shared: in use"):
        await manager.release_pod(pod)
    other.errors.clear()
    await manager.release_pod(pod)

    assert (driver.unprepared, other.unprepared) == (["c-1"], ["c-1", "c-1"])


@pytest.mark.parametrize("failing", [GPU, NET])
async def test_claim_is_prepared_again_after_a_failed_attempt_to_unprepare_it(
    manager, api, drivers, driver, context, failing
):
    other = FakeClaimDriver(NET, "other")
    drivers.add(RegisteredDriver(other))
    add_claim(api, "uid-a", "uid-b", devices=((GPU, "gpu-0"), (NET, "gpu-0")))
    ended, pod = claim_pod("a"), claim_pod("b")
    context.pods.add(ended)
    await manager.prepare_pod(ended)
    failed = driver if failing == GPU else other
    failed.failure = "no answer"
    with pytest.raises(ClaimError, match="no answer"):
        await manager.release_pod(ended)
    failed.failure = ""

    await manager.prepare_pod(pod)
    await manager.release_pod(ended)

    assert (driver.prepared, other.prepared) == (["c-1"] * 2, ["c-1"] * 2)
    assert cdi(manager, pod)
    assert len(driver.unprepared) + len(other.unprepared) == 1


async def test_failed_attempt_to_unprepare_with_one_driver_is_undone(manager, api, driver, context):
    add_claim(api, "uid-a", "uid-b")
    ended, pod = claim_pod("a"), claim_pod("b")
    context.pods.add(ended)
    await manager.prepare_pod(ended)
    driver.failure = "no answer"
    with pytest.raises(ClaimError, match="no answer"):
        await manager.release_pod(ended)
    driver.failure = ""

    await manager.prepare_pod(pod)
    await manager.release_pod(ended)

    assert (driver.prepared, driver.unprepared) == (["c-1"] * 2, [])
    assert cdi(manager, pod)


async def test_claim_of_a_pod_that_exists_is_not_unprepared_for_another_one(manager, api, driver, context):
    add_claim(api, "uid-a", "uid-b", devices=((GPU, "name-in-the-slice"),))

    for name in "ab":
        await manager.prepare_pod(context.pods.add(claim_pod(name)))

    assert (driver.prepared, driver.unprepared) == (["c-1"], [])


async def test_claim_that_was_allocated_again_is_unprepared_first(make_manager, api, driver, context):
    add_claim(api, "uid-a")
    await make_manager().prepare_pod(claim_pod("a"))
    calls = []

    async def prepare(claims):
        calls.append("prepare")
        return {"c-1": PrepareResult([PreparedDevice("node-1", "gpu-1", (), ("example.com/gpu=new",))])}

    async def unprepare(claims):
        calls.append("unprepare")
        return {"c-1": ""}

    driver.prepare, driver.unprepare = prepare, unprepare
    add_claim(api, "uid-b", devices=((GPU, "gpu-1"),))
    pod = claim_pod("b")
    manager = make_manager()
    await manager.prepare_pod(pod)

    assert calls == ["unprepare", "prepare"]
    assert cdi(manager, pod) == ["example.com/gpu=new"]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({}, "NodePrepareResources skipped 1 ResourceClaims"),
        (
            {"c-1": PrepareResult(), "c-2": PrepareResult()},
            "NodePrepareResources returned result for unknown claim UID c-2",
        ),
        ({"c-1": PrepareResult(error="broken")}, "NodePrepareResources failed for ResourceClaim shared: broken"),
    ],
)
async def test_invalid_response_fails_the_preparation(manager, api, driver, results, message):
    add_claim(api, "uid-web")

    async def prepare(claims):
        return results

    driver.prepare = prepare
    with pytest.raises(ClaimError, match=f"^{message}$"):
        await manager.prepare_pod(claim_pod())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda claim: claim["status"].pop("allocation"), "ResourceClaim shared: not allocated"),
        (
            lambda claim: claim["status"].pop("reservedFor"),
            r"pod web \(uid-web\) is not allowed to use ResourceClaim shared \(c-1\)",
        ),
    ],
)
async def test_claim_must_be_allocated_and_reserved(manager, api, driver, change, message):
    add_claim(api, "uid-web")
    claim = api.find(CLAIMS, "shared")
    change(claim)
    api.put(CLAIMS, claim)

    with pytest.raises(ClaimError, match=f"^{message}$"):
        await manager.prepare_pod(claim_pod())
    assert not manager.cache.entries and not driver.prepared


async def test_claim_from_a_template_must_be_owned_by_the_pod(manager, api):
    entry = {"name": "gpu", "resourceClaimTemplateName": "one"}
    container = make_container("main", resources={"claims": [{"name": "gpu"}]})
    pod = make_pod("web", containers=[container], resource_claims=[entry])
    with pytest.raises(ClaimError, match=r'^pod "default/web": ResourceClaim not created yet$'):
        await manager.prepare_pod(pod)

    status = read_status(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "web-gpu-x"}])
    pod = make_pod("web", containers=[container], resource_claims=[entry], status=status)
    text = "ResourceClaim default/web-gpu-x was not created for Pod default/web \\(Pod is not owner\\)"
    for other in ([], [{"controller": False, "uid": "uid-web"}], [{"controller": True, "uid": "uid-other"}]):
        add_claim(api, "uid-web", name="web-gpu-x", ownerReferences=other)
        with pytest.raises(ClaimError, match=f"^{text}$"):
            await manager.prepare_pod(pod)

    owners = [{"kind": "Pod", "controller": True, "uid": "uid-web"}]
    add_claim(api, "uid-web", name="web-gpu-x", ownerReferences=owners)
    await manager.prepare_pod(pod)
    assert cdi(manager, pod) == ["example.com/gpu=c-1"]


async def test_container_gets_the_devices_of_its_request_only(manager, api, driver):
    add_claim(api, "uid-web", devices=((GPU, "gpu-0"), (GPU, "gpu-1"), (GPU, "gpu-2")))

    async def prepare(claims):
        requests = {"gpu-0": ("one",), "gpu-1": ("two/small",), "gpu-2": ()}
        devices = (("node-1", name, names, (f"example.com/gpu={name}",)) for name, names in requests.items())
        return {"c-1": PrepareResult([PreparedDevice(*device) for device in devices])}

    driver.prepare = prepare
    pod = claim_pod(request="two")
    await manager.prepare_pod(pod)

    assert cdi(manager, pod) == ["example.com/gpu=gpu-1", "example.com/gpu=gpu-2"]


async def test_claim_of_extended_resources_is_used_by_its_container(manager, api, driver):
    add_claim(api, "uid-web", name="web-extended", ownerReferences=[{"controller": True, "uid": "uid-web"}])
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "one"}
    extended = {"resourceClaimName": "web-extended", "requestMappings": [mapping]}
    status = read_status(extendedResourceClaimStatus=extended)
    requests = {"requests": {"example.com/gpu": "1"}}
    containers = [make_container(name, resources=requests) for name in ("main", "other")]
    pod = make_pod("web", containers=containers, status=status)

    await manager.prepare_pod(pod)

    assert cdi(manager, pod) == ["example.com/gpu=c-1"]
    assert list(manager.cdi_devices(pod, pod.spec.containers[1])) == []


async def test_hanging_driver_delays_only_its_own_claims(manager, api, drivers, driver):
    slow = FakeClaimDriver(NET, "other")
    called = asyncio.Event()

    async def hang(claims):
        called.set()
        await asyncio.Event().wait()

    slow.prepare = hang
    drivers.add(RegisteredDriver(slow))
    add_claim(api, "uid-slow", name="slow", uid="c-2", devices=((NET, "net-0"),))
    add_claim(api, "uid-web")
    task = asyncio.create_task(manager.prepare_pod(claim_pod("slow", "slow")))
    await called.wait()

    await manager.prepare_pod(claim_pod())

    assert driver.prepared == ["c-1"]
    task.cancel()


async def test_older_api_version_is_used_if_the_server_lacks_v1(manager, api, driver):
    add_claim(api, "uid-web")
    claim = api.find(CLAIMS, "shared")
    beta = Resource("resource", "v1beta1", "resourceclaims", "ResourceClaim")
    api.put(beta, claim)
    original = api.get

    async def get(resource, name, namespace="", **options):
        if resource.version != "v1beta1":
            raise ApiNotFound("get resourceclaims: the server could not find the requested resource", code=404)
        return await original(resource, name, namespace, **options)

    api.get = get
    await manager.prepare_pod(claim_pod())

    assert driver.prepared == ["c-1"]


async def test_missing_claim_is_read_in_one_version(manager, api):
    for _ in range(2):
        with pytest.raises(ClaimError, match="fetch ResourceClaim shared"):
            await manager.prepare_pod(claim_pod())

    assert len(api.made("get")) == 2


async def test_standalone_node_rejects_claims(tmp_path, drivers):
    manager = Manager(make_context(tmp_path), None, drivers, Checkpoint(tmp_path, ""))
    with pytest.raises(ClaimError, match="static pods cannot use ResourceClaims"):
        await manager.prepare_pod(claim_pod())


async def test_damaged_checkpoint_is_moved_aside(make_manager, tmp_path):
    (tmp_path / FILE).write_text("{")

    assert not make_manager().cache.entries
    assert (tmp_path / f"{FILE}.damaged").exists()
