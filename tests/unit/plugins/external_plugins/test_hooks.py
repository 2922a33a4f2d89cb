"""Tests for the hooks of the capabilities: requests, responses and invalid responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.plugin_rpc import RpcError
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.base.release import NEWEST
from nodeagent.config.features import build_gates
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import ContainerConfig, Device, Mount
from nodeagent.contracts.stats import MemoryStats, PodUsage
from nodeagent.errors import ConfigError, PluginError, VolumeError
from nodeagent.model.pod import FlexVolume, PodStatus, Volume
from nodeagent.testing import FakeClock, make_container, make_context, make_pod
from nodeagent_plugins.external_plugins import pod_source
from nodeagent_plugins.external_plugins.admission import Admission
from nodeagent_plugins.external_plugins.container_mutation import ContainerMutation
from nodeagent_plugins.external_plugins.credentials import ExternalCredentials
from nodeagent_plugins.external_plugins.eviction import Eviction
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.node_report import NodeReporter
from nodeagent_plugins.external_plugins.notifications import Notifications
from nodeagent_plugins.external_plugins.pod_source import ExternalPodSource, PodSourceHooks
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.volumes import ExternalVolumeKind
from tests.unit.plugins.external_plugins.conftest import FakePlugin

# --- admission ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"decision": api.ADMIT}, None),
        ({"decision": api.REJECT, "reason": "No", "message": "never"}, Rejection("No", "never")),
        ({"decision": api.WAIT, "reason": "Later", "message": "busy"}, Rejection("Later", "busy", retry=True)),
    ],
)
async def test_admission_decision_is_translated(
    plugin: FakePlugin, call: HookCalls, response: dict[str, Any], result: Rejection | None
) -> None:
    plugin.responses["AdmitPod"] = api.AdmitPodResponse(**response)

    assert await Admission(call).nodeagent_admit_pod(make_pod("web")) == result

    assert json.loads(plugin.last("AdmitPod").pod)["metadata"]["name"] == "web"
    assert plugin.timeouts[-1] == pytest.approx(9.95)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({}, "returned decision 0"),
        ({"decision": 99}, "returned decision 99"),
        ({"decision": api.REJECT}, "returned reason '', expected CamelCase"),
        ({"decision": api.REJECT, "reason": "not camel"}, "returned reason 'not camel'"),
    ],
)
async def test_invalid_admission_response_is_an_error(
    plugin: FakePlugin, call: HookCalls, response: dict[str, Any], error: str
) -> None:
    plugin.responses["AdmitPod"] = api.AdmitPodResponse(**response)

    with pytest.raises(PluginError, match=f"plugin shelf: nodeagent_admit_pod {error}"):
        await Admission(call).nodeagent_admit_pod(make_pod())


# --- eviction -------------------------------------------------------------------------------------------------


async def test_eviction_order_of_the_plugin_is_used(plugin: FakePlugin, call: HookCalls) -> None:
    candidates = [EvictionCandidate(make_pod(name, uid=name), None) for name in ("a", "b")]
    plugin.responses["RankPods"] = api.RankPodsResponse(uids=["b", "a"])

    ranked = await Eviction(call).nodeagent_rank_pods_for_eviction("memory.available", candidates)

    assert ranked == candidates[::-1]


@pytest.mark.parametrize(
    ("memory", "expected"), [(None, 0), (MemoryStats(0), 0), (MemoryStats(0, working_set_bytes=4096), 4096)]
)
async def test_memory_of_a_candidate_is_passed(
    plugin: FakePlugin, call: HookCalls, memory: MemoryStats | None, expected: int
) -> None:
    plugin.responses["RankPods"] = api.RankPodsResponse()
    candidate = EvictionCandidate(make_pod("a"), PodUsage("a", "default", "a", 0, memory=memory))

    assert await Eviction(call).nodeagent_rank_pods_for_eviction("memory.available", [candidate]) is None
    assert [each.memory_bytes for each in plugin.last("RankPods").candidates] == [expected]


@pytest.mark.parametrize("uids", [["a"], ["a", "a"], ["a", "b", "c"]])
async def test_eviction_order_with_other_pods_is_an_error(plugin: FakePlugin, call: HookCalls, uids: list[str]) -> None:
    candidates = [EvictionCandidate(make_pod(name, uid=name), None) for name in ("a", "b")]
    plugin.responses["RankPods"] = api.RankPodsResponse(uids=uids)

    with pytest.raises(PluginError, match="UIDs that are not those of the candidates"):
        await Eviction(call).nodeagent_rank_pods_for_eviction("memory.available", candidates)


async def test_veto_of_an_eviction_has_a_reason(plugin: FakePlugin, call: HookCalls) -> None:
    plugin.responses["PermitEviction"] = api.PermitEvictionResponse(vetoed=True, reason="Busy", message="wait")
    assert await Eviction(call).nodeagent_permit_eviction(make_pod(), "memory.available") == Rejection("Busy", "wait")

    plugin.responses["PermitEviction"] = api.PermitEvictionResponse()
    assert await Eviction(call).nodeagent_permit_eviction(make_pod(), "memory.available") is None


# --- containers -----------------------------------------------------------------------------------------------

CONFIG = ContainerConfig(
    name="web",
    attempt=0,
    image="sha256:1",
    args=["-v"],
    envs=[("A", "1"), ("B", "2")],
    mounts=[Mount("/data", "/srv/old")],
    annotations={"x": "1"},
)


async def test_container_changes_are_merged(plugin: FakePlugin, call: HookCalls) -> None:
    plugin.responses["MutateContainer"] = api.MutateContainerResponse(
        set_env=[api.EnvVar(name="B", value="3"), api.EnvVar(name="C", value="4")],
        remove_env=["A"],
        add_mounts=[api.Mount(container_path="/data", host_path="/srv/new", readonly=True)],
        add_devices=[api.Device(container_path="/dev/gpu", host_path="/dev/gpu0")],
        add_cdi_devices=["vendor.example/gpu=0"],
        set_annotations={"y": "2"},
        args=api.StringList(),
    )

    changed = await ContainerMutation(call).nodeagent_mutate_container(make_pod(), make_container("web"), CONFIG)

    assert changed is not None
    assert list(changed.envs) == [("B", "3"), ("C", "4")]
    assert list(changed.mounts) == [Mount("/data", "/srv/new", readonly=True)]
    assert list(changed.devices) == [Device("/dev/gpu", "/dev/gpu0", "mrw")]
    assert (list(changed.cdi_devices), dict(changed.annotations)) == (["vendor.example/gpu=0"], {"x": "1", "y": "2"})
    assert list(changed.args) == []
    assert [each.name for each in plugin.last("MutateContainer").config.env] == ["A", "B"]


async def test_empty_mutation_leaves_the_container_unchanged(plugin: FakePlugin, call: HookCalls) -> None:
    plugin.responses["MutateContainer"] = api.MutateContainerResponse()

    assert await ContainerMutation(call).nodeagent_mutate_container(make_pod(), make_container(), CONFIG) is None


@pytest.mark.parametrize(
    "response",
    [
        {"set_env": [api.EnvVar(name="A=B")]},
        {"add_mounts": [api.Mount(container_path="data", host_path="/srv")]},
        {"add_devices": [api.Device(container_path="/dev/a", host_path="/dev/a", permissions="x")]},
    ],
)
async def test_invalid_mutation_is_an_error(plugin: FakePlugin, call: HookCalls, response: dict[str, Any]) -> None:
    plugin.responses["MutateContainer"] = api.MutateContainerResponse(**response)

    with pytest.raises(PluginError, match="plugin shelf: nodeagent_mutate_container returned"):
        await ContainerMutation(call).nodeagent_mutate_container(make_pod(), make_container(), CONFIG)


# --- notifications --------------------------------------------------------------------------------------------


async def test_each_event_is_sent(plugin: FakePlugin, call: HookCalls) -> None:
    plugin.responses["Notify"] = api.NotifyResponse()
    hooks, pod = Notifications(call), make_pod("web")

    await hooks.nodeagent_pod_admitted(pod)
    await hooks.nodeagent_pod_status_changed(pod, PodStatus())
    await hooks.nodeagent_container_started(pod, make_container("web"), "id1")
    await hooks.nodeagent_container_stopped(pod, "web", "id1")
    await hooks.nodeagent_pod_terminated(pod)
    await hooks.nodeagent_node_ready_changed(True, "fine")

    events = [request.WhichOneof("event") for method, request in plugin.requests if method == "Notify"]
    assert events == [
        *("pod_admitted", "pod_status_changed", "container_started", "container_stopped", "pod_terminated"),
        "node_ready_changed",
    ]
    assert set(events) == {field.name for field in api.NotifyRequest.DESCRIPTOR.oneofs[0].fields}


# --- node -----------------------------------------------------------------------------------------------------


async def test_node_report_is_translated(plugin: FakePlugin, call: HookCalls) -> None:
    plugin.responses["ReportNode"] = api.ReportNodeResponse(
        labels={"example.com/rack": "r1"},
        taints=[api.Taint(key="example.com/hot", effect="NoSchedule")],
        conditions=[api.NodeCondition(type="Hot", status=True, reason="TooHot", message="90 degrees")],
        extended_resources={"example.com/gpu": "2", "example.com/nic": "0"},
        not_ready=["no license"],
    )

    report = await NodeReporter(call).nodeagent_report_node()

    assert report is not None
    resources = {"example.com/gpu": "2", "example.com/nic": "0"}
    assert (report.capacity, report.allocatable) == (resources, resources)
    assert report.labels == {"example.com/rack": "r1"}
    assert [(each.key, each.effect) for each in report.taints] == [("example.com/hot", "NoSchedule")]
    assert [(each.type, each.status) for each in report.conditions] == [("Hot", True)]
    assert report.not_ready == ["no license"]


@pytest.mark.parametrize(
    "response",
    [
        {"labels": {"bad key": "x"}},
        {"taints": [api.Taint(key="a", effect="Never")]},
        {"taints": [api.Taint(key="a", value="b c", effect="NoSchedule")]},
        {"taints": [api.Taint(key="a b", effect="NoSchedule")]},
        {"conditions": [api.NodeCondition(type="Ready", reason="Fine")]},
        {"extended_resources": {"cpu": "2"}},
        {"extended_resources": {"example.com/gpu": "1.5"}},
        {"extended_resources": {"example.com/gpu": "-1"}},
        {"conditions": [api.NodeCondition(type="Hot")]},
        {"extended_resources": {"example.com/gpu": "many"}},
    ],
)
async def test_invalid_node_report_is_an_error(plugin: FakePlugin, call: HookCalls, response: dict[str, Any]) -> None:
    plugin.responses["ReportNode"] = api.ReportNodeResponse(**response)

    with pytest.raises(PluginError, match="plugin shelf: nodeagent_report_node returned"):
        await NodeReporter(call).nodeagent_report_node()


async def test_node_report_does_not_wait_for_a_plugin_that_starts(plugin: FakePlugin, session: Session) -> None:
    assert await NodeReporter(HookCalls(session, lambda _hook: 10.0)).nodeagent_report_node() is None


# --- volumes and images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volume", "supported"),
    [
        (Volume(name="v", csi={"driver": "shelf.example"}), True),
        (Volume(name="v", flex_volume=FlexVolume(driver="shelf.example")), True),
        (Volume(name="v", csi={"driver": "other.example"}), False),
        (Volume(name="v"), False),
    ],
)
async def test_volumes_of_the_configured_drivers_are_supported(
    session: Session, volume: Volume, supported: bool
) -> None:
    assert ExternalVolumeKind(session).supports(volume) is supported


async def test_volume_is_set_up_and_torn_down(plugin: FakePlugin, connected: Session, tmp_path: Path) -> None:
    plugin.responses |= {
        "SetUpVolume": api.SetUpVolumeResponse(readonly=True),
        "TearDownVolume": api.TearDownVolumeResponse(),
    }
    kind, volume = ExternalVolumeKind(connected), Volume(name="v", csi={"driver": "shelf.example"})

    mounted = await kind.setup(make_pod(), volume, tmp_path)
    await kind.teardown("uid", tmp_path)

    assert (mounted.host_path, mounted.readonly) == (str(tmp_path), True)
    assert json.loads(plugin.last("SetUpVolume").volume)["csi"] == {"driver": "shelf.example"}
    assert plugin.last("TearDownVolume").pod_uid == "uid"


@pytest.mark.parametrize("response", [RpcError("Internal", "no space"), api.SetUpVolumeResponse(host_path="relative")])
async def test_failed_volume_is_retried(
    plugin: FakePlugin, connected: Session, tmp_path: Path, response: object
) -> None:
    plugin.responses["SetUpVolume"] = response

    with pytest.raises(VolumeError, match="plugin shelf: SetUpVolume"):
        await ExternalVolumeKind(connected).setup(make_pod(), Volume(name="v"), tmp_path)


async def test_credentials_have_the_plugin_as_source(plugin: FakePlugin, connected: Session) -> None:
    plugin.responses["GetCredentials"] = api.GetCredentialsResponse(
        credentials=[api.RegistryCredentials(username="me", password="secret")]
    )

    (found,) = await ExternalCredentials(connected).credentials("registry.example/app")

    assert (found.username, found.password, found.source) == ("me", "secret", "shelf")


async def test_failed_credentials_name_the_plugin(plugin: FakePlugin, connected: Session) -> None:
    plugin.responses["GetCredentials"] = RpcError("Internal", "vault is down")

    with pytest.raises(PluginError, match=r"plugin shelf: GetCredentials failed: .*vault is down"):
        await ExternalCredentials(connected).credentials("registry.example/app")


# --- pods -----------------------------------------------------------------------------------------------------

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}


async def _published(
    source: ExternalPodSource, clock: FakeClock, done: Callable[[list[list[str]]], bool]
) -> list[list[str]]:
    sets: list[list[str]] = []
    task = asyncio.create_task(source.run(lambda pods: sets.append([pod.name for pod in pods])))
    for _ in range(5000):
        await clock.advance(0)
        await asyncio.sleep(0.002)  # The pods are read in a thread.
        if done(sets):
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return sets


async def test_sets_of_the_pod_source_are_published(plugin: FakePlugin, connected: Session, clock: FakeClock) -> None:
    plugin.responses["WatchPods"] = lambda _request: [
        api.PodSet(pods=[json.dumps(POD).encode()]),
        api.PodSet(),
    ]

    source = ExternalPodSource(connected, "node-1", clock)
    assert await _published(source, clock, lambda sets: len(sets) > 1) == [["web-node-1"], []]


@pytest.mark.parametrize(("number", "permitted"), [(2, True), (3, False)])
async def test_number_of_pods_is_limited(
    plugin: FakePlugin,
    connected: Session,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    permitted: bool,
) -> None:
    monkeypatch.setattr(pod_source, "_MAX_PODS", 2)
    pods = [json.dumps({**POD, "metadata": {"name": f"web-{index}"}}).encode() for index in range(number)]
    plugin.responses["WatchPods"] = lambda _request: [api.PodSet(pods=pods)]
    source = ExternalPodSource(connected, "node-1", clock)

    if permitted:
        assert [len(found) async for found in source.sets()] == [number]
    else:
        with pytest.raises(PluginError, match="WatchPods returned 3 pods, more than 2"):
            await anext(source.sets())


@pytest.mark.parametrize("prevented", [True, False])
async def test_static_pod_may_refer_to_objects_unless_the_gate_prevents_it(
    plugin: FakePlugin, connected: Session, tmp_path: Path, prevented: bool
) -> None:
    spec = {**POD["spec"], "volumes": [{"name": "v", "configMap": {"name": "settings"}}]}
    plugin.responses["WatchPods"] = lambda _request: [api.PodSet(pods=[json.dumps({**POD, "spec": spec}).encode()])]
    gates = build_gates({"PreventStaticPodAPIReferences": prevented}, NEWEST)
    (source,) = PodSourceHooks(connected).nodeagent_provide_pod_sources(make_context(tmp_path, gates=gates))
    assert isinstance(source, ExternalPodSource)

    if prevented:
        with pytest.raises(ConfigError):
            await anext(source.sets())
    else:
        assert len(await anext(source.sets())) == 1


@pytest.mark.parametrize("content", [b"{", json.dumps({**POD, "kind": "Node"}).encode()])
async def test_invalid_set_of_pods_is_not_published(
    plugin: FakePlugin, connected: Session, clock: FakeClock, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.responses["WatchPods"] = lambda _request: [api.PodSet(pods=[content])]

    source = ExternalPodSource(connected, "node-1", clock)
    assert await _published(source, clock, lambda _: "Failed to watch pods of plugin" in caplog.text) == []
    assert "Failed to watch pods of plugin" in caplog.text


async def test_credentials_are_requested_for_the_pod(plugin: FakePlugin, connected: Session) -> None:
    plugin.responses["GetCredentials"] = api.GetCredentialsResponse()
    credentials = ExternalCredentials(connected)

    await credentials.credentials("registry.example/app", make_pod("web"))
    assert json.loads(plugin.last("GetCredentials").pod)["metadata"]["name"] == "web"
    await credentials.credentials("registry.example/app")
    assert plugin.last("GetCredentials").pod == b""


async def test_added_device_replaces_the_one_at_its_path(plugin: FakePlugin, call: HookCalls) -> None:
    device = api.Device(container_path="/dev/a", host_path="/dev/new", permissions="r")
    plugin.responses["MutateContainer"] = api.MutateContainerResponse(add_devices=[device])
    before = [Device("/dev/a", "/dev/old", "mrw"), Device("/dev/b", "/dev/b", "mrw")]
    config = replace(CONFIG, devices=before, user_image="app:1", image="sha256:1")

    changed = await ContainerMutation(call).nodeagent_mutate_container(make_pod(), make_container(), config)

    assert changed is not None
    assert changed.devices == [before[1], Device("/dev/a", "/dev/new", "r")]
    assert plugin.last("MutateContainer").config.image == "app:1"
