"""Tests for the invariants of the simulated store: each violation is reported, permitted changes are not."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.simulation.collections import CLAIMS, CONFIG_MAPS, EVENTS, JOBS, NAMESPACES, PODS, QUOTAS, SERVICES
from tests.unit.apiserver_stub.simulation.stored import Stored, owned

TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.fixture
def stored() -> Stored:
    found = Stored()
    found.put(NAMESPACES, "ns")
    return found


def test_changes_are_verified_and_traced(stored: Stored) -> None:
    stored.put(CONFIG_MAPS, "ns/a")
    stored.put(EVENTS, "ns/e")

    assert stored.violations.checked == 3
    assert stored.trace.entries[1:] == [("change", "ADDED core/configmaps ns/a 2")], "events are not traced"


def test_second_creation_is_a_violation(stored: Stored) -> None:
    stored.put(PODS, "ns/a")
    stored.create_again(PODS, "ns/a")

    assert stored.violation == "core/pods ns/a was created twice at 3"


def test_changed_uid_is_a_violation(stored: Stored) -> None:
    stored.put(PODS, "ns/a")
    stored.put(PODS, "ns/a", spec={})
    assert stored.violation == ""

    stored.put(PODS, "ns/a", {"uid": "other"})

    assert stored.violation == "core/pods ns/a changed its UID at 4"


def test_deletion_with_finalizers_is_a_violation(stored: Stored) -> None:
    stored.put(PODS, "ns/a", {"finalizers": []})
    stored.put(PODS, "ns/b", {"finalizers": ["x"]})
    stored.delete(PODS, "ns/a")
    assert stored.violation == ""

    stored.delete(PODS, "ns/b")

    assert stored.violation == "core/pods ns/b was deleted with finalizers ['x'] at 5"


def test_deletion_of_a_namespace_before_its_contents_is_a_violation(stored: Stored) -> None:
    stored.put(NAMESPACES, "ns-2")
    stored.put(PODS, "ns-2/a")
    stored.put(EVENTS, "ns/e")
    stored.put("core/resourcequotas-charges", "ns/q")
    stored.delete(NAMESPACES, "ns")
    assert stored.violation == ""

    stored.delete(NAMESPACES, "ns-2")

    assert stored.violation == "core/namespaces ns-2 was deleted before core/pods ns-2/a at 7"


# --- deletion of config maps, which only clients and the garbage collector delete


UNREQUESTED = "core/configmaps ns/a was deleted without a request, and not because of its owners at"


def test_deletion_without_a_request_is_a_violation(stored: Stored) -> None:
    stored.put(CONFIG_MAPS, "ns/a")

    stored.delete(CONFIG_MAPS, "ns/a")

    assert stored.violation == f"{UNREQUESTED} 3"


@pytest.mark.parametrize("key", ["ns/a", "ns/"])
def test_requested_deletion_is_permitted_for_ten_minutes(stored: Stored, key: str) -> None:
    for name in "ab":
        stored.put(CONFIG_MAPS, f"ns/{name}")
    stored.invariants.request_deletion(key)
    stored.now = 600.0
    stored.delete(CONFIG_MAPS, "ns/a")
    assert stored.violation == ""

    stored.put(CONFIG_MAPS, "ns/a")
    stored.now = 600.1
    stored.delete(CONFIG_MAPS, "ns/a")

    assert stored.violation.startswith(UNREQUESTED)


def test_deletion_in_a_terminating_namespace_is_permitted(stored: Stored) -> None:
    stored.put(CONFIG_MAPS, "ns/a")
    stored.put(CONFIG_MAPS, "gone/a")
    stored.put(NAMESPACES, "ns", TERMINATING)

    stored.delete(CONFIG_MAPS, "ns/a")
    stored.delete(CONFIG_MAPS, "gone/a")

    assert stored.violation == ""


@pytest.mark.parametrize(
    ("owner", "permitted"), [("absent", True), ("another UID", True), ("terminating", True), ("existing", False)]
)
def test_dependents_are_deleted_only_after_their_owners(stored: Stored, owner: str, permitted: bool) -> None:
    if owner != "absent":
        metadata = {"another UID": {"uid": "new"}, "terminating": TERMINATING}.get(owner)
        stored.put(CONFIG_MAPS, "ns/o", metadata)
    stored.put(CONFIG_MAPS, "ns/a", owned("ns/o"))

    stored.delete(CONFIG_MAPS, "ns/a")

    assert stored.violation.startswith(UNREQUESTED) != permitted


# --- quotas


def limit_pods(stored: Stored, count: int, key: str = "ns/q", resource: str = "pods") -> None:
    stored.put(QUOTAS, key, spec={"hard": {resource: str(count)}})


def fill(stored: Stored) -> None:
    """Add changes until requests that were admitted before the quota have ended."""
    for _ in range(40):
        stored.put("core/secrets", "ns/s")


def test_more_objects_than_the_quota_are_a_violation(stored: Stored) -> None:
    limit_pods(stored, 1)
    fill(stored)
    stored.put(PODS, "ns/a")
    stored.put(CONFIG_MAPS, "ns/a")
    stored.put(PODS, "ns-2/a")
    assert stored.violation == ""

    stored.put(PODS, "ns/b")

    assert stored.violation == "core/pods ns/b exceeds the quota: 2 of 1 at 46"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_do_not_count(stored: Stored, phase: str) -> None:
    limit_pods(stored, 1)
    fill(stored)

    stored.put(PODS, "ns/a", status={"phase": phase})
    stored.put(PODS, "ns/b", status={"phase": "Running"})

    assert stored.violation == ""


def test_time_of_a_quota_starts_again_with_another_one_of_its_name(stored: Stored) -> None:
    limit_pods(stored, 1)
    fill(stored)
    stored.delete(QUOTAS, "ns/q")
    stored.put(QUOTAS, "ns/q", {"uid": "second"}, spec={"hard": {"pods": "0"}})

    stored.put(PODS, "ns/a")

    assert stored.violation == ""


def test_requests_that_were_admitted_before_the_quota_are_permitted(stored: Stored) -> None:
    limit_pods(stored, 0)
    stored.put(PODS, "ns/a")
    limit_pods(stored, 0)  # A change of the quota does not start it again.
    fill(stored)
    assert stored.violation == ""

    stored.put(PODS, "ns/b")

    assert stored.violation.startswith("core/pods ns/b exceeds the quota: 2 of 0")


@pytest.mark.parametrize(("key", "resource"), [("other/q", "pods"), ("ns/q", "count/configmaps")])
def test_quota_of_another_namespace_or_resource_does_not_apply(stored: Stored, key: str, resource: str) -> None:
    limit_pods(stored, 0, key, resource)
    fill(stored)

    stored.put(PODS, "ns/a")

    assert stored.violation == ""


# --- allocated values of services


def service(address: str, port: int = 0, protocol: str = "TCP") -> dict[str, Any]:
    ports = [{"protocol": protocol, "port": 80, **({"nodePort": port} if port else {})}]
    return {"clusterIPs": [address], "ports": ports}


@pytest.mark.parametrize(
    ("spec", "shared"),
    [
        (service("10.0.0.1"), "10.0.0.1"),
        (service("10.0.0.2", 30000), "('TCP', 30000)"),
        (service("10.0.0.2", 30000, "UDP"), ""),
        (service("10.0.0.2"), ""),
        ({}, ""),
    ],
)
def test_value_of_two_services_is_a_violation(stored: Stored, spec: dict[str, Any], shared: str) -> None:
    stored.put(SERVICES, "ns/a", spec=service("10.0.0.1", 30000))

    stored.put(SERVICES, "ns/b", spec=spec)

    assert stored.violation == (f"core/services ns/b shares {shared} with ns/a at 3" if shared else "")


def test_headless_services_and_a_change_of_the_same_service_share_nothing(stored: Stored) -> None:
    stored.put(SERVICES, "ns/a", spec=service("None"))
    stored.put(SERVICES, "ns/b", spec=service("None"))
    stored.put(SERVICES, "ns/c", spec=service("10.0.0.1", 30000))
    stored.put(SERVICES, "ns/c", spec=service("10.0.0.1", 30000))
    stored.delete(SERVICES, "ns/c")
    stored.put(SERVICES, "ns/d", spec=service("10.0.0.1", 30000))

    assert stored.violation == ""


# --- cron jobs and claims


def test_job_that_is_created_again_for_the_same_time_is_a_violation(stored: Stored) -> None:
    for owner in ("ns/allow", "ns/other"):
        stored.put(JOBS, "ns/j", owned(owner))
        stored.delete(JOBS, "ns/j")
    assert stored.violation == "", "the cron jobs differ"

    stored.put(JOBS, "ns/j", owned("ns/allow"))

    assert stored.violation == "batch/jobs ns/j was created again for the same time at 6"


@pytest.mark.parametrize(
    ("owner", "condition", "permitted"),
    [
        ("ns/forbid", {"type": "Suspended", "status": "True"}, False),
        ("ns/forbid", {"type": "Complete", "status": "False"}, False),
        ("ns/forbid", {"type": "Complete", "status": "True"}, True),
        ("ns/forbid", {"type": "Failed", "status": "True"}, True),
        ("ns/allow", {"type": "Suspended", "status": "True"}, True),
    ],
)
def test_second_job_of_a_cron_job_that_forbids_it_is_a_violation(
    stored: Stored, owner: str, condition: dict[str, str], permitted: bool
) -> None:
    stored.put(JOBS, "ns/a", owned(owner), status={"conditions": [condition]})
    stored.put(JOBS, "ns/other", owned("ns/x"))

    stored.put(JOBS, "ns/b", owned(owner))

    assert stored.violation == ("" if permitted else "batch/jobs ns/b was created while ns/a is active at 4")


@pytest.mark.parametrize(
    ("pod", "permitted"),
    [
        ({}, False),
        ({"claim": "other"}, True),
        ({"node": ""}, True),
        ({"phase": "Succeeded"}, True),
        ({"key": "ns-2/p"}, True),
        ({"late": True}, True),
    ],
)
def test_deletion_of_a_claim_in_use_is_a_violation(stored: Stored, pod: dict[str, Any], permitted: bool) -> None:
    def put_pod() -> None:
        volumes = [{"name": "cache"}, {"persistentVolumeClaim": {"claimName": pod.get("claim", "c")}}]
        spec = {"nodeName": pod.get("node", "n"), "volumes": volumes}
        stored.put(PODS, pod.get("key", "ns/p"), spec=spec, status={"phase": pod.get("phase", "Running")})

    stored.put(CLAIMS, "ns/c")
    if "late" not in pod:
        put_pod()
    stored.put(CLAIMS, "ns/c", TERMINATING)
    if "late" in pod:
        put_pod()

    stored.delete(CLAIMS, "ns/c")

    text = "core/persistentvolumeclaims ns/c was deleted while pod ns/p uses it at 5"
    assert stored.violation == ("" if permitted else text)
