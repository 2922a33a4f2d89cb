"""Tests for node registration, status reports and lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nodeagent import __version__
from nodeagent.base.duration import Duration
from nodeagent.base.release import Release, ReleaseOrigin, SelectedRelease
from nodeagent.contracts.api import LEASES, NODES
from nodeagent.contracts.configuration import Taint
from nodeagent.contracts.node import NodeReport
from nodeagent.errors import ApiConflict, ApiUnavailable, RuntimeUnavailable
from nodeagent.testing import FakeApi, FakeClock

# --- registration ---------------------------------------------------------------------------------------------


def node_of(api: FakeApi) -> dict[str, Any]:
    node = api.find(NODES, "node-1", "")
    assert node is not None
    return node


def condition(api: FakeApi, kind: str) -> dict[str, Any]:
    return next(c for c in node_of(api)["status"]["conditions"] if c["type"] == kind)


def seconds(amount: float) -> Duration:
    return Duration.of(seconds=amount)


@pytest.mark.row("config.registerNode")
async def test_node_is_registered_with_default_labels(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node(settings={"node_labels": {"example.com/rack": "r1"}})

    async with node.running():
        await clock.advance(2)

    labels = node_of(api)["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "node-1"
    assert labels["kubernetes.io/os"] == labels["beta.kubernetes.io/os"] == "linux"
    assert labels["kubernetes.io/arch"]
    assert labels["example.com/rack"] == "r1"


@pytest.mark.row("config.registerNode")
async def test_node_is_not_registered_if_disabled(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(register_node=False).running():
        await clock.advance(30)

    assert api.find(NODES, "node-1", "") is None


async def test_wait_for_node_returns_once_the_node_was_read(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    await make_node(standalone=True).manager.wait_for_node()
    api.outage = True
    async with make_node().running() as manager:
        waiting = asyncio.ensure_future(manager.wait_for_node())
        await clock.advance(60)
        assert not waiting.done()
        api.outage = False
        await clock.advance(60)

        assert waiting.done()


@pytest.mark.row("config.registerWithTaints")
async def test_taints_are_set_only_on_a_new_node(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    taint = Taint(key="example.com/gpu", value="yes", effect="NoSchedule")
    async with make_node(register_with_taints=(taint, taint)).running():
        await clock.advance(2)
    first = node_of(api)["spec"]["taints"]

    api.put(NODES, {**node_of(api), "spec": {}})
    async with make_node(register_with_taints=(taint,)).running():
        await clock.advance(2)

    assert first == [{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}]
    assert "taints" not in node_of(api)["spec"]


@pytest.mark.row("config.providerID")
async def test_node_is_registered_with_provider_id(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(provider_id="cloud://1").running():
        await clock.advance(2)

    assert node_of(api)["spec"]["providerID"] == "cloud://1"


async def test_node_is_registered_unschedulable_if_configured(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(settings={"register_schedulable": False, "cloud_provider": "external"}).running():
        await clock.advance(2)

    spec = node_of(api)["spec"]
    assert spec["unschedulable"] is True
    assert [taint["key"] for taint in spec["taints"]] == [
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    ]


async def test_existing_node_is_reconciled(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    labels = {"kubernetes.io/hostname": "old", "team": "a"}
    api.put(NODES, {"metadata": {"name": "node-1", "labels": labels}, "spec": {"taints": [{"key": "kept"}]}})

    async with make_node().running():
        await clock.advance(2)

    found = node_of(api)
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["metadata"]["annotations"] == {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    assert found["spec"]["taints"] == [{"key": "kept"}]
    assert condition(api, "Ready")["status"] == "True"


async def test_registration_is_retried_until_the_server_responds(
    make_node: Any, api: FakeApi, clock: FakeClock
) -> None:
    api.outage = True
    node = make_node()

    async with node.running():
        await clock.advance(60)
        api.outage = False
        await clock.advance(10)

        assert condition(api, "Ready")["status"] == "True"


async def test_failed_registration_is_logged_once(
    make_node: Any, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    api.outage = True

    async with make_node().running():
        await clock.advance(30)
        api.outage = False
        await clock.advance(30)

    assert caplog.messages.count("Unable to register node with API server") == 1
    assert condition(api, "Ready")["status"] == "True"


# --- status ---------------------------------------------------------------------------------------------------


@pytest.mark.row("config.nodeStatusReportFrequency")
async def test_unchanged_status_is_reported_at_long_intervals(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    config = {"node_status_update_frequency": seconds(10), "node_status_report_frequency": seconds(100)}
    async with make_node(**config).running():
        await clock.advance(20)
        before = len(api.made("patch", NODES))
        await clock.advance(70)
        quiet = len(api.made("patch", NODES))
        await clock.advance(40)

        assert (quiet - before, len(api.made("patch", NODES)) - before) == (0, 1)


@pytest.mark.row("config.nodeStatusUpdateFrequency")
async def test_changed_status_is_reported_at_the_next_computation(
    make_node: Any, api: FakeApi, clock: FakeClock
) -> None:
    node = make_node(node_status_update_frequency=seconds(20))
    async with node.running():
        await clock.advance(30)
        node.problems.append("PLEG is not healthy")
        await clock.advance(5)
        early = condition(api, "Ready")
        await clock.advance(17)

        late = condition(api, "Ready")
    assert early["status"] == "True"
    assert (late["status"], late["reason"], late["message"]) == ("False", "KubeletNotReady", "PLEG is not healthy")


async def test_heartbeat_time_changes_and_transition_time_is_kept(
    make_node: Any, api: FakeApi, clock: FakeClock
) -> None:
    async with make_node(node_status_report_frequency=seconds(60)).running():
        await clock.advance(15)
        before = condition(api, "Ready")
        await clock.advance(100)
        after = condition(api, "Ready")

    assert after["lastHeartbeatTime"] > before["lastHeartbeatTime"]
    assert after["lastTransitionTime"] == before["lastTransitionTime"]


async def test_restart_keeps_transition_times_and_repeats_no_event(
    make_node: Any, api: FakeApi, clock: FakeClock
) -> None:
    async with make_node().running():
        await clock.advance(15)
    before = condition(api, "Ready")
    again = make_node()
    async with again.running():
        await clock.advance(400)

    assert condition(api, "Ready")["lastTransitionTime"] == before["lastTransitionTime"]
    assert again.context.recorder.events == []


async def test_overwritten_status_is_restored(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(15)
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await api.patch(NODES, "node-1", {"status": {"conditions": [unknown]}}, subresource="status")
        await clock.advance(11)

        assert condition(api, "Ready")["status"] == "True"


async def test_external_conditions_and_resources_are_kept(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(15)
        foreign = {
            "conditions": [{"type": "NetworkUnavailable", "status": "False"}],
            "capacity": {"example.com/dongle": "4"},
        }
        await api.patch(NODES, "node-1", {"status": foreign}, subresource="status")
        await clock.advance(400)

    status = node_of(api)["status"]
    assert condition(api, "NetworkUnavailable")["status"] == "False"
    assert status["capacity"]["example.com/dongle"] == status["allocatable"]["example.com/dongle"] == "4"


async def test_node_info_is_reported(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(node_status_report_frequency=seconds(10)).running():
        await clock.advance(30)

    status = node_of(api)["status"]
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "10.1.2.3"},
        {"type": "Hostname", "address": "node-1"},
    ]
    assert status["nodeInfo"]["containerRuntimeVersion"] == "fake://1.0.0"
    assert status["nodeInfo"]["operatingSystem"] == "linux"
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["capacity"] == {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "110"}
    assert status["allocatable"] == {"cpu": "2", "memory": "3996Mi", "ephemeral-storage": "9Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("selected", "version", "proxy_version"),
    [
        (SelectedRelease(), "v1.29.15", "v1.29.15"),
        (SelectedRelease(Release(1, 36), ReleaseOrigin.API_SERVER, "v1.36.7"), "v1.36.7", ""),
        (SelectedRelease(Release(1, 32), ReleaseOrigin.API_SERVER, "v1.32.1+k3s1"), "v1.32.1", "v1.32.1"),
    ],
)
async def test_reported_versions_follow_the_release(
    make_node: Any, api: FakeApi, clock: FakeClock, selected: SelectedRelease, version: str, proxy_version: str
) -> None:
    async with make_node(release=selected).running():
        await clock.advance(30)

    info, build = node_of(api)["status"]["nodeInfo"], f"+nodeagent-{__version__}"
    assert info["kubeletVersion"] == f"{version}{build}"
    assert info.get("kubeProxyVersion", "") == (f"{proxy_version}{build}" if proxy_version else "")


async def test_node_without_capacity_is_not_ready(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node()
    node.plugin.report = NodeReport(capacity={"cpu": "1"}, not_ready=["node is shutting down"])
    async with node.running():
        await clock.advance(5)

    assert condition(api, "Ready")["message"] == (
        "[node is shutting down, missing node capacity for resources: memory, ephemeral-storage]"
    )


@pytest.mark.row("config.nodeStatusMaxImages")
@pytest.mark.parametrize(("most", "shown"), [(2, ["c", "b"]), (-1, ["c", "b", "a"]), (0, [])])
async def test_reports_the_largest_images(
    make_node: Any, api: FakeApi, clock: FakeClock, most: int, shown: list[str]
) -> None:
    node = make_node(node_status_max_images=most)
    for size, name in enumerate(("a", "b", "c"), start=1):
        node.context.images.add(f"registry.test/{name}:1", size_bytes=size)
    async with node.running():
        await clock.advance(5)

    images = node_of(api)["status"].get("images") or []
    assert [image["names"][-1].removeprefix("registry.test/").removesuffix(":1") for image in images] == shown


# --- the runtime ----------------------------------------------------------------------------------------------


async def test_unresponsive_runtime_makes_the_node_not_ready(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node()
    async with node.running() as manager:
        await clock.advance(10)
        node.context.runtime.fail("status", RuntimeUnavailable("gone"), times=None)
        await clock.advance(25)
        early = manager.ready
        await clock.advance(20)
        late = condition(api, "Ready")
        node.context.runtime.recover("status")
        await clock.advance(6)

        assert (early, late["status"], late["message"]) == (True, "False", "container runtime is down")
        assert condition(api, "Ready")["status"] == "True"
    assert node.context.recorder.reasons()[-2:] == ["NodeNotReady", "NodeReady"]
    assert [ready for ready, _ in node.plugin.ready_changes][-3:] == [True, False, True]


async def test_network_not_ready_is_reported(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    from nodeagent.contracts.runtime import RuntimeCondition

    node = make_node()
    node.context.runtime.conditions = [
        RuntimeCondition("RuntimeReady", True),
        RuntimeCondition("NetworkReady", False, "NetworkPluginNotReady", "no CNI"),
    ]
    async with node.running() as manager:
        await clock.advance(5)

        assert manager.network_problem == condition(api, "Ready")["message"]
    assert manager.network_problem == (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no CNI"
    )


async def test_runtime_that_is_not_ready_is_checked_more_often(make_node: Any, clock: FakeClock) -> None:
    from nodeagent.contracts.runtime import RuntimeCondition

    node = make_node()
    runtime = node.context.runtime

    async def checks_per_minute() -> int:
        await clock.advance(20)
        before = len(runtime.called("status"))
        await clock.advance(60)
        return len(runtime.called("status")) - before

    async with node.running():
        ready = await checks_per_minute()
        runtime.conditions = [RuntimeCondition("RuntimeReady", True), RuntimeCondition("NetworkReady", False)]
        without_network = await checks_per_minute()
        runtime.fail("status", RuntimeUnavailable("gone"), times=None)
        failing = await checks_per_minute()

    assert (ready, without_network, failing) == (6, 12, 12)


async def test_startup_records_events(make_node: Any, clock: FakeClock) -> None:
    node = make_node()
    async with node.running():
        await clock.advance(5)

    assert sorted(node.context.recorder.reasons()) == [
        "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory",
        "NodeHasSufficientPID",
        "NodeReady",
    ]
    assert "Node node-1 status is now: NodeReady" in [event.note for event in node.context.recorder.events]


async def test_reboot_records_one_event(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    api.put(NODES, {"metadata": {"name": "node-1"}, "status": {"nodeInfo": {"bootID": "another"}}})
    node = make_node()
    async with node.running():
        await clock.advance(60)

    assert len(node.context.recorder.of("Rebooted")) == 1


async def test_cordon_and_uncordon_record_events(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node()
    async with node.running():
        await clock.advance(15)
        await api.patch(NODES, "node-1", {"spec": {"unschedulable": True}})
        await clock.advance(15)

    assert node.context.recorder.reasons()[-1] == "NodeNotSchedulable"


# --- pod addresses --------------------------------------------------------------------------------------------


@pytest.mark.row("config.podCIDR")
async def test_standalone_node_passes_configured_pod_cidr_to_runtime(make_node: Any, clock: FakeClock) -> None:
    node = make_node(standalone=True, pod_cidr="10.9.0.0/24")
    async with node.running():
        await clock.advance(5)

    assert node.context.runtime.pod_cidr == "10.9.0.0/24"


async def test_pod_cidr_of_node_object_is_passed_to_runtime(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node(pod_cidr="10.9.0.0/24")
    async with node.running():
        await clock.advance(15)
        before = node.context.runtime.pod_cidr
        await api.patch(NODES, "node-1", {"spec": {"podCIDRs": ["10.8.0.0/24", "fd00::/64"]}})
        await clock.advance(15)

    assert (before, node.context.runtime.pod_cidr) == ("", "10.8.0.0/24,fd00::/64")


# --- lease ----------------------------------------------------------------------------------------------------


@pytest.mark.row("config.nodeLeaseDurationSeconds")
async def test_lease_is_renewed_four_times_per_duration(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(node_lease_duration_seconds=80).running():
        await clock.advance(2)
        lease = api.find(LEASES, "node-1", "kube-node-lease")
        before = len(api.made("update", LEASES))
        await clock.advance(210)
        renewals = len(api.made("update", LEASES)) - before
        last = api.find(LEASES, "node-1", "kube-node-lease")

    assert lease is not None
    assert last is not None
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("node-1", 80)
    assert renewals == 10
    assert last["spec"]["renewTime"] > lease["spec"]["renewTime"]
    assert last["metadata"]["ownerReferences"][0]["uid"] == node_of(api)["metadata"]["uid"]


async def test_lease_conflict_is_resolved_by_reading_it_again(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(2)
        api.fail("update", ApiConflict("changed", code=409))
        await clock.advance(11)

    assert len(api.made("get", LEASES)) == 2


async def test_lease_is_renewed_soon_after_an_outage(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(2)
        api.outage = True
        await clock.advance(30)
        api.outage = False
        await clock.advance(11)
        lease = api.find(LEASES, "node-1", "kube-node-lease")

    assert lease is not None
    assert lease["spec"]["renewTime"] > "2024-01-02T15:04:35"


async def test_failed_lease_renewal_is_retried_immediately(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(2)
        before = len(api.made("update", LEASES))
        api.fail("update", ApiUnavailable("update leases: no answer within 10 s"), times=4)
        await clock.advance(11)

    assert len(api.made("update", LEASES)) - before == 5


@pytest.mark.parametrize(("frequency", "duration", "limit"), [(10, 40, 10), (60, 40, 40), (0.2, 40, 1)])
async def test_heartbeat_deadline_leaves_time_for_another_attempt(
    make_node: Any, api: FakeApi, clock: FakeClock, frequency: float, duration: int, limit: float
) -> None:
    requested: list[tuple[float, int, float | None]] = []
    node = make_node(node_status_update_frequency=seconds(frequency), node_lease_duration_seconds=duration)
    node.context.new_api = lambda qps, burst, *, deadline_seconds=None: (
        requested.append((qps, burst, deadline_seconds)) or api
    )

    async with node.running():
        await clock.advance(2)

    assert requested == [(0, 0, limit)]


# --- addresses ------------------------------------------------------------------------------------------------


ADDRESSES = [
    {"type": "Hostname", "address": "n"},
    {"type": "ExternalIP", "address": "203.0.113.5"},
    {"type": "InternalIP", "address": "10.0.0.1"},
    {"type": "InternalIP", "address": "10.0.0.2"},
    {"type": "InternalIP", "address": "fd00::1"},
]


async def test_external_cloud_provider_sets_the_addresses(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    settings = {"cloud_provider": "external", "node_ips": ("10.1.2.3", "::")}
    async with make_node(settings=settings).running() as manager:
        await clock.advance(2)
        found = node_of(api)["status"]["addresses"]
        api.put(NODES, {**node_of(api), "status": {**node_of(api)["status"], "addresses": ADDRESSES}})
        await clock.advance(15)

        assert found == [{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": "node-1"}]
        assert node_of(api)["status"]["addresses"] == ADDRESSES
        assert manager.host_ips == ["10.0.0.1", "fd00::1"]


async def test_addresses_are_set_without_an_external_cloud_provider(
    make_node: Any, api: FakeApi, clock: FakeClock
) -> None:
    api.put(NODES, {"metadata": {"name": "node-1"}, "status": {"addresses": ADDRESSES}})
    async with make_node().running() as manager:
        await clock.advance(2)

        assert [each["address"] for each in node_of(api)["status"]["addresses"]] == ["10.1.2.3", "node-1"]
        assert manager.host_ips == ["10.1.2.3"]


def test_node_without_status_has_no_addresses(make_node: Any) -> None:
    for standalone in (True, False):
        manager = make_node(standalone=standalone).manager

        assert manager.host_ips == []
        assert manager.allocatable() == {}
        assert manager.owner_reference().uid == ""
        assert (manager.runtime_name, manager.runtime_version) == ("containerd", "")


# --- log messages ---------------------------------------------------------------------------------------------


async def test_changes_of_readiness_are_logged(
    make_node: Any, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nodeagent.node.reporter")
    node = make_node()
    not_ready, first = "Node became not ready", "Fast updating node status as it just became ready"

    def logged() -> list[str]:
        return [message for message in caplog.messages if message in (not_ready, first)]

    async with node.running():
        await clock.advance(2)
        assert logged() == [first]
        node.problems.append("pleg was last seen active 200s ago")
        await clock.advance(30)
        assert logged() == [first, not_ready]
        node.problems.clear()
        await clock.advance(30)
        assert logged() == [first, not_ready]


async def test_node_that_starts_as_not_ready_is_not_logged(
    make_node: Any, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nodeagent.node.reporter")
    node = make_node()
    node.problems.append("pleg was last seen active 200s ago")
    async with node.running():
        await clock.advance(2)

    assert "Node became not ready" not in caplog.messages
    assert "Fast updating node status as it just became ready" not in caplog.messages


async def test_failed_status_updates_are_logged_once(
    make_node: Any, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nodeagent.node.reporter")
    failed, recovered = "Error updating node status, will retry", "Node status updates recovered"
    async with make_node(node_status_report_frequency=seconds(10)).running() as manager:
        await clock.advance(2)
        assert manager.report_problem == ""
        api.fail("patch", ApiUnavailable("no answer"), times=2)
        await clock.advance(25)
        assert manager.report_problem == "no answer"
        await clock.advance(30)

        assert manager.report_problem == ""
    assert [message for message in caplog.messages if message in (failed, recovered)] == [failed, recovered]


async def test_node_is_that_of_the_api_once_it_was_read(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    node = make_node()
    assert node.manager.node is None

    async with node.running() as manager:
        await clock.advance(2)

        assert manager.node is not None and manager.node["metadata"]["uid"] == node_of(api)["metadata"]["uid"]
        assert manager.owner_reference().uid == node_of(api)["metadata"]["uid"]


# --- standalone -----------------------------------------------------------------------------------------------


async def test_standalone_node_returns_its_own_node_object(make_node: Any, clock: FakeClock) -> None:
    node = make_node(standalone=True)
    async with node.running() as manager:
        await clock.advance(5)

        assert manager.node is not None
        assert manager.node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1"
        assert manager.ready
        assert manager.host_ips == ["10.1.2.3"]
        assert manager.allocatable()["pods"].value() == 110
        assert manager.owner_reference().uid == ""


async def test_hook_node_ready_changed(make_node, clock):
    node = make_node()
    async with node.running():
        await clock.advance(10)
        node.problems.append("pleg was last seen active 200s ago")
        await clock.advance(15)

    assert [ready for ready, _ in node.plugin.ready_changes][-2:] == [True, False]
    assert "pleg was last seen active" in node.plugin.ready_changes[-1][1]


async def test_runtime_status_waits_for_the_first_response(make_node: Any, clock: FakeClock) -> None:
    from nodeagent.contracts.runtime import RuntimeFeatures
    from nodeagent.errors import RuntimeUnavailable

    node = make_node()
    runtime = node.context.runtime
    runtime.features = RuntimeFeatures(supplemental_groups_policy=True)
    runtime.fail("status", RuntimeUnavailable("starting"), times=None)
    async with node.running() as manager:
        waiting = asyncio.ensure_future(manager.runtime_status())
        await clock.advance(6)
        early = waiting.done()
        runtime.recover("status")
        await clock.advance(6)

        assert (early, waiting.done() and (await waiting).features) == (False, runtime.features)
