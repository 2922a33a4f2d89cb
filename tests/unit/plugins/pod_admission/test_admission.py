"""Tests for admission by node properties."""

from __future__ import annotations

import pytest

from nodeagent.config.features import build_gates
from nodeagent.testing import admit, load_plugin, make_config, make_container, make_context, make_pod
from nodeagent_plugins import pod_admission

NODE = {
    "metadata": {"labels": {"kubernetes.io/os": "linux", "zone": "a", "rank": "5"}},
    "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}},
}


async def decision(tmp_path, pod, *active, node=NODE, **context):
    made = make_context(tmp_path, node=node, **context)
    rejection = await admit(load_plugin(pod_admission, context=made), pod, *active)
    return rejection and (rejection.reason, rejection.message)


def needing(name="web", **requests):
    return make_pod(name, containers=[make_container(resources={"requests": requests})])


def gpu(name="web", amount="1"):
    return make_pod(name, containers=[make_container(resources={"requests": {"example.com/gpu": amount}})])


async def test_fitting_pod_is_admitted(tmp_path):
    assert await decision(tmp_path, needing(cpu="1", memory="512Mi"), needing("b", cpu="1", memory="512Mi")) is None


async def test_cpu_of_active_pods_is_subtracted(tmp_path):
    assert await decision(tmp_path, needing(cpu="1600m"), needing("b", cpu="500m")) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 1600, used: 500, capacity: 2000",
    )


async def test_memory_is_counted_in_bytes(tmp_path):
    assert await decision(tmp_path, needing(memory="2Gi")) == (
        "OutOfmemory",
        f"Node didn't have enough resource: memory, requested: {2 << 30}, used: 0, capacity: {1 << 30}",
    )


async def test_extended_resources_of_the_node_are_checked(tmp_path):
    assert (await decision(tmp_path, gpu(), gpu("b")))[0] == "OutOfexample.com/gpu"
    other = make_pod(containers=[make_container(resources={"requests": {"example.com/other": "9"}})])
    assert await decision(tmp_path, other) is None


async def test_pod_itself_is_not_counted_twice(tmp_path):
    assert await decision(tmp_path, needing(cpu="1500m"), needing(cpu="1500m")) is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"node_selector": {"zone": "a"}}, None),
        ({"node_selector": {"zone": "b"}}, "NodeAffinity"),
        ({"node_selector": {"kubernetes.io/os": "windows"}}, "PodOSSelectorNodeLabelDoesNotMatch"),
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
        ({"node_name": "node-1"}, None),
        ({"node_name": "node-2"}, "NodeName"),
        ({"node_name": "node-2", "node_selector": {"zone": "b"}}, "NodeAffinity"),
    ],
)
async def test_labels_name_and_system(tmp_path, spec, reason):
    found = await decision(tmp_path, make_pod(**spec))
    assert (found and found[0]) == reason
    if reason in ("NodeAffinity", "NodeName"):
        assert found[1] == f"Predicate {reason} failed"


def affinity(*terms):
    required = {"nodeSelectorTerms": list(terms)}
    return make_pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([expression("zone", "In", "a", "b")], True),
        ([expression("zone", "NotIn", "a")], False),
        ([expression("none", "NotIn", "a")], True),
        ([expression("zone", "Exists")], True),
        ([expression("zone", "DoesNotExist")], False),
        ([expression("rank", "Gt", "4")], True),
        ([expression("rank", "Lt", "4")], False),
        ([expression("zone", "Gt", "4")], False),
        ([expression("zone", "NotIn")], False),
        ([expression("none", "DoesNotExist", "a")], False),
        ([expression("rank", "Gt", "1_0")], False),
        ([expression("zone", "In", "x"), expression("rank", "Exists")], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}], False),
        ([{}], False),
        ([], False),
    ],
)
async def test_required_affinity(tmp_path, terms, fits):
    assert (await decision(tmp_path, affinity(*terms)) is None) is fits


def on_port(name, host_ip="", protocol="TCP", port=80):
    ports = [{"containerPort": 1, "hostPort": port, "hostIP": host_ip, "protocol": protocol}]
    return make_pod(name, containers=[make_container(ports=ports)])


@pytest.mark.parametrize(
    ("other", "taken"),
    [
        (on_port("b"), True),
        (on_port("b", host_ip="127.0.0.1"), True),
        (on_port("b", protocol="UDP"), False),
        (on_port("b", port=81), False),
    ],
)
async def test_host_port_is_exclusive(tmp_path, other, taken):
    found = await decision(tmp_path, on_port("web"), other)
    assert (found and found[0]) == ("NodePorts" if taken else None)


async def test_one_port_on_two_addresses(tmp_path):
    assert await decision(tmp_path, on_port("web", "10.0.0.1"), on_port("b", "10.0.0.2")) is None


TAINTED = {**NODE, "spec": {"taints": [{"key": "broken", "value": "yes", "effect": "NoExecute"}]}}


@pytest.mark.parametrize(
    ("toleration", "passes"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoExecute"}, True),
        ({"key": "broken", "value": "no"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
async def test_no_execute_taints_must_be_tolerated(tmp_path, toleration, passes):
    pod = make_pod(tolerations=[toleration] if toleration else None)
    found = await decision(tmp_path, pod, node=TAINTED)
    assert (found and found[0]) == (None if passes else "TaintToleration")


async def test_static_pods_and_other_effects_are_exempt_from_taints(tmp_path):
    static = make_pod(annotations={"kubernetes.io/config.source": "file"})
    assert await decision(tmp_path, static, node=TAINTED) is None
    soft = {**NODE, "spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}}
    assert await decision(tmp_path, make_pod(), node=soft) is None


async def test_host_resources_are_used_before_the_node_is_available(tmp_path, monkeypatch):
    monkeypatch.setattr(pod_admission.os, "cpu_count", lambda: 2)
    config = make_config(system_reserved={"cpu": "500m"})
    assert await decision(tmp_path, needing(cpu="1500m"), node=None, config=config) is None
    assert (await decision(tmp_path, needing(cpu="1501m"), node=None, config=config))[0] == "OutOfcpu"
    assert await decision(tmp_path, make_pod(node_selector={"kubernetes.io/hostname": "node-1"}), node=None) is None


async def test_sidecars_require_their_gate(tmp_path):
    pod = make_pod(init_containers=[make_container("proxy", restart_policy="Always")])
    assert await decision(tmp_path, pod) is None
    off = build_gates({"SidecarContainers": False})
    assert (await decision(tmp_path, pod, gates=off))[0] == "InitContainerRestartPolicyForbidden"


async def test_mismatching_critical_pod_is_rejected_without_preemption(tmp_path):
    lost = make_pod(
        priority=2_000_000_000,
        node_selector={"zone": "b"},
        containers=[make_container(resources={"requests": {"cpu": "9"}})],
    )
    assert (await decision(tmp_path, lost))[0] == "NodeAffinity"
