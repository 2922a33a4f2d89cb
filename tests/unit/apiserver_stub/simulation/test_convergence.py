"""Tests for the converged state of the simulated controllers: each deviation is found."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.simulation.collections import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    SLICES,
    STATEFUL_SETS,
    VOLUMES,
    WIDGETS,
    WIDGETS_DEFINITION,
)
from tests.unit.apiserver_stub.simulation.stored import Object, Stored, owned

TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.fixture
def stored() -> Stored:
    found = Stored()
    found.put(NAMESPACES, "ns")
    return found


def put_pod(
    stored: Stored,
    name: str,
    *owners: str,
    image: str = "v1",
    ready: str = "True",
    phase: str = "Running",
    key: str = "",
    **metadata: Any,
) -> None:
    status = {"phase": phase, "podIP": f"192.0.2.{ord(name)}", "conditions": [{"type": "Ready", "status": ready}]}
    stored.put(PODS, key or f"ns/{name}", {**owned(*owners), **metadata}, spec=template(image)["spec"], status=status)


def template(image: str) -> Object:
    return {"spec": {"containers": [{"image": image}]}}


def deviation(stored: Stored) -> str:
    return stored.invariants.unconverged()


def test_empty_namespace_has_converged(stored: Stored) -> None:
    assert deviation(stored) == ""


# --- nodes


@pytest.mark.parametrize(
    ("conditions", "taints", "text"),
    [
        ([{"type": "Ready", "status": "True"}], [], ""),
        ([{"type": "Ready", "status": "Unknown"}], [], "is not ready"),
        ([{"type": "MemoryPressure", "status": "True"}], [], "is not ready"),
        ([{"type": "Ready", "status": "True"}], [{"key": "a"}], "has the taints ['a']"),
    ],
)
def test_node_is_ready_without_taints(
    stored: Stored, conditions: list[Object], taints: list[Object], text: str
) -> None:
    stored.put(NODES, "n", spec={"taints": taints}, status={"conditions": conditions})

    assert deviation(stored) == (f"node n {text}" if text else "")


# --- all objects


def test_terminating_namespace_deviates(stored: Stored) -> None:
    stored.put(NAMESPACES, "ns", TERMINATING)

    assert deviation(stored) == "namespace ns is still being deleted"


def test_object_in_a_missing_namespace_deviates(stored: Stored) -> None:
    stored.put("core/resourcequotas-charges", "gone/q")
    stored.put(EVENTS, "gone/e")
    assert deviation(stored) == "", "internal values and events expire"

    stored.put(CONFIG_MAPS, "gone/a")

    assert deviation(stored) == "core/configmaps gone/a is in a namespace that does not exist"


def test_dependent_without_owners_deviates(stored: Stored) -> None:
    stored.put(CONFIG_MAPS, "ns/o")
    stored.put(CONFIG_MAPS, "ns/a", owned("ns/gone", "ns/o"))
    assert deviation(stored) == "", "one owner is sufficient"

    stored.put(CONFIG_MAPS, "ns/b", owned("ns/gone"))

    assert deviation(stored) == "core/configmaps ns/b was not collected after its owners"


def test_deletion_that_does_not_end_deviates(stored: Stored) -> None:
    stored.put(CONFIG_MAPS, "ns/a", {**TERMINATING, "finalizers": ["x"]})
    assert deviation(stored) == ""

    stored.put(CONFIG_MAPS, "ns/a", TERMINATING)

    assert deviation(stored) == "core/configmaps ns/a is still being deleted"


# --- deployments


def put_deployment(stored: Stored, *, replicas: int = 2, generation: int = 1, **status: int) -> None:
    stored.put(
        DEPLOYMENTS,
        "ns/d",
        {"generation": generation},
        spec={"replicas": replicas},
        status={"readyReplicas": replicas, "updatedReplicas": replicas, "observedGeneration": 1} | status,
    )
    stored.put(REPLICA_SETS, "ns/rs", owned("ns/d"))


def test_deployment_with_its_pods_has_converged(stored: Stored) -> None:
    put_deployment(stored)
    for name in "ab":
        put_pod(stored, name, "ns/rs")

    assert deviation(stored) == ""


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"replicas": 3}, "has 2 pods, 3 ready, desired 3"),
        ({"readyReplicas": 1}, "has 2 pods, 1 ready, desired 2"),
        ({"updatedReplicas": 1}, "has 1 updated pods, desired 2"),
        ({"generation": 2}, "has the status of an earlier generation"),
    ],
)
def test_deployment_that_is_not_complete_deviates(stored: Stored, fields: dict[str, int], text: str) -> None:
    put_deployment(stored, **fields)
    stored.put(REPLICA_SETS, "ns/other")
    for name in "ab":
        put_pod(stored, name, "ns/rs")
    put_pod(stored, "c", "ns/other")
    assert deviation(stored) == f"deployment ns/d {text}"

    stored.put(QUOTAS, "ns/q", spec={"hard": {}})
    assert deviation(stored) == "", "a quota may prevent pods"


# --- stateful sets and daemon sets


@pytest.mark.parametrize(
    ("collection", "spec", "status"),
    [
        (STATEFUL_SETS, {"replicas": 1}, {"readyReplicas": 1}),
        (DAEMON_SETS, {}, {"numberReady": 1}),
    ],
)
def test_set_has_one_ready_pod_with_the_latest_image(
    stored: Stored, collection: str, spec: Object, status: Object
) -> None:
    stored.put(collection, "ns/s", spec={**spec, "template": template("v1")}, status={})
    put_pod(stored, "a", "ns/s")
    assert deviation(stored) == f"{collection} ns/s has 1 pods, 0 ready, desired 1"

    stored.put(collection, "ns/s", spec={**spec, "template": template("v1")}, status=status)
    assert deviation(stored) == ""

    put_pod(stored, "a", "ns/s", image="v0")
    assert deviation(stored) == f"{collection} ns/s has pods with an earlier image"

    put_pod(stored, "a", "ns/s")
    put_pod(stored, "b", "ns/s")
    assert deviation(stored) == f"{collection} ns/s has 2 pods, 1 ready, desired 1"


# --- jobs


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "is not complete"),
        ({"conditions": [{"type": "Complete", "status": "False"}]}, "is not complete"),
        ({"conditions": [{"type": "Suspended", "status": "True"}]}, "is not complete"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, ""),
        ({"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 2}, ""),
        ({"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}, "is complete with 1 of 2"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "is complete with None of 2"),
    ],
)
def test_job_ends_with_all_completions(stored: Stored, status: Object, text: str) -> None:
    stored.put(JOBS, "ns/j", spec={"completions": 2}, status=status)
    assert deviation(stored) == (f"job ns/j {text}" if text else "")

    stored.put(QUOTAS, "ns/q", spec={"hard": {}})
    assert (deviation(stored) == "") == (text in ("", "is not complete"))


def test_jobs_of_a_cron_job_may_be_active_and_are_limited(stored: Stored) -> None:
    stored.put(CRON_JOBS, "ns/c", spec={"successfulJobsHistoryLimit": 2})
    stored.put(JOBS, "ns/active", owned("ns/c"), spec={"completions": 1}, status={})
    complete = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    for name in ("one", "two"):
        stored.put(JOBS, f"ns/{name}", owned("ns/c"), spec={"completions": 1}, status=complete)
    stored.put(JOBS, "ns/other", spec={"completions": 1}, status=complete)
    assert deviation(stored) == ""

    stored.put(JOBS, "ns/three", owned("ns/c"), spec={"completions": 1}, status=complete)
    assert deviation(stored) == "cron job ns/c retains 3 jobs that are complete"


# --- volumes


def put_volume(stored: Stored, phase: str, claim: str = "", name: str = "v", **metadata: Any) -> None:
    spec = {"claimRef": {"uid": claim}} if claim else {}
    stored.put(VOLUMES, name, metadata, spec=spec, status={"phase": phase})


def put_claim(stored: Stored, phase: str, volume: str = "", **metadata: Any) -> None:
    stored.put(CLAIMS, "ns/c", metadata, spec={"volumeName": volume} if volume else {}, status={"phase": phase})


@pytest.mark.parametrize(
    ("phase", "volume", "holder", "text"),
    [
        ("Bound", "v", "ns/c", ""),
        ("Bound", "v", "ns/d", "is bound to volume v, which has the claim ns/d"),
        ("Bound", "w", "ns/c", "is bound to volume w, which has the claim None"),
        ("Lost", "v", "", ""),
        ("Pending", "", "", "is not bound, but ['v'] are free"),
        ("Pending", "v", "", "is not bound, but v are free"),
        ("Pending", "w", "", ""),
        ("Pending", "v", "ns/d", ""),
        ("Pending", "v", "ns/c", "is not bound, but v are free"),
    ],
)
def test_claim_is_bound_to_the_volume_that_has_it(
    stored: Stored, phase: str, volume: str, holder: str, text: str
) -> None:
    put_claim(stored, phase, volume)
    put_volume(stored, "Bound" if holder == "ns/c" else "Released" if holder else "Available", holder)

    assert deviation(stored) == (f"claim ns/c {text}" if text else "")


@pytest.mark.parametrize(
    ("phase", "claim", "text"),
    [
        ("Available", "", ""),
        ("Bound", "", "is Bound, expected Available"),
        ("Released", "ns/gone", ""),
        ("Bound", "ns/gone", "is Bound, expected Released"),
        ("Available", "ns/c", "is Available, expected Bound"),
    ],
)
def test_phase_of_a_volume_follows_its_claim(stored: Stored, phase: str, claim: str, text: str) -> None:
    put_claim(stored, "Lost")
    put_volume(stored, phase, claim)

    assert deviation(stored) == (f"volume v {text}" if text else "")


def test_claims_and_volumes_in_use_remain(stored: Stored) -> None:
    held = TERMINATING | {"finalizers": ["x"]}
    put_claim(stored, "Bound", "v", **held)
    put_volume(stored, "Bound", "ns/c", **held)
    volumes = [{"name": "cache"}, {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    stored.put(PODS, "ns/c", spec={"containers": [], "volumes": volumes}, status={"phase": "Running"})
    assert deviation(stored) == ""

    stored.delete(PODS, "ns/c")
    assert deviation(stored) == "claim ns/c is still being deleted, but no pod uses it"

    stored.delete(CLAIMS, "ns/c")
    put_volume(stored, "Released", "ns/c", **held)
    assert deviation(stored) == "volume v is still being deleted"


def test_pod_runs_with_its_claim(stored: Stored) -> None:
    put_claim(stored, "Bound", "v")
    put_volume(stored, "Bound", "ns/c")
    spec = {"containers": [], "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}
    stored.put(PODS, "ns/c", spec=spec, status={"phase": "Pending"})

    assert deviation(stored) == "pod ns/c does not run with its claim"


# --- budgets and services


@pytest.mark.parametrize(
    "other",
    [
        {"ready": "False"},
        {"phase": "Pending"},
        {"labels": {"app": "db"}},
        {"labels": {}},
        {"key": "other/b"},
        TERMINATING | {"finalizers": ["x"]},
    ],
)
def test_budget_and_endpoints_contain_the_ready_pods_that_are_selected(stored: Stored, other: Object) -> None:
    stored.put(NAMESPACES, "other")
    stored.put(SERVICES, "ns/web", spec={"selector": {"app": "web"}})
    put_pod(stored, "a", labels={"app": "web", "tier": "x"})
    put_pod(stored, "b", **{"labels": {"app": "web"}, **other})

    def publish(healthy: int, *addresses: str) -> None:
        stored.put(
            BUDGETS, "ns/b", spec={"selector": {"matchLabels": {"app": "web"}}}, status={"currentHealthy": healthy}
        )
        put_slice(stored, "ns/web-1", *addresses)

    publish(1, "192.0.2.97")
    assert deviation(stored) == ""

    publish(2, "192.0.2.97")
    assert deviation(stored) == "budget ns/b has {'currentHealthy': 2}, but 1 pods are healthy"

    publish(1)
    assert deviation(stored) == "endpoint slices of ns/web contain [], ready pods are ['192.0.2.97']"

    publish(1, "192.0.2.97", "192.0.2.98")
    assert deviation(stored).startswith("endpoint slices of ns/web contain ['192.0.2.97', '192.0.2.98']")


def put_slice(stored: Stored, key: str, *addresses: str, ready: bool = True, service: str = "web") -> None:
    endpoints = [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses]
    stored.put(SLICES, key, {"labels": {"kubernetes.io/service-name": service}}, endpoints=endpoints)


def test_slices_of_other_services_and_unready_endpoints_do_not_count(stored: Stored) -> None:
    stored.put(NAMESPACES, "other")
    stored.put(SERVICES, "ns/web", spec={"selector": {"app": "web"}})
    stored.put(SERVICES, "ns/external", spec={})
    put_slice(stored, "ns/1", "192.0.2.1", ready=False)
    put_slice(stored, "ns/2", "192.0.2.2", service="db")
    put_slice(stored, "other/3", "192.0.2.3")
    stored.put(SLICES, "ns/4", endpoints=[{"addresses": ["192.0.2.4"], "conditions": {"ready": True}}])
    stored.put(SLICES, "ns/5", {"labels": {"kubernetes.io/service-name": "web"}}, endpoints=None)

    assert deviation(stored) == ""


# --- custom objects


def test_custom_object_without_its_definition_deviates(stored: Stored) -> None:
    stored.put(DEFINITIONS, WIDGETS_DEFINITION)
    stored.put(WIDGETS, "ns/w")
    assert deviation(stored) == ""

    stored.delete(DEFINITIONS, WIDGETS_DEFINITION)

    assert deviation(stored) == "simulated.test/widgets ns/w exists without its definition"
