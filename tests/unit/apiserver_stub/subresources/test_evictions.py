"""Tests for evictions: disruption budgets, preconditions and dry runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.disruption import BUDGETS
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Record
from apiserver_stub.subresources import evictions as module
from apiserver_stub.subresources.evictions import Evictions, EvictionSettings
from apiserver_stub.verbs.context import VerbContext
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import Memory

PODS = "core/pods"


@pytest.fixture
def store() -> Memory:
    found = Memory()
    found.put(PODS, pod())
    return found


def pod(*, ready: bool = True, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "a"}, **metadata},
        "spec": {"nodeName": "node", "terminationGracePeriodSeconds": 30},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def budget(allowed: int, *, name: str = "b", healthy: int = 1, desired: int = 1, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
        },
    }


async def eviction(
    store: Memory,
    *arguments: str,
    query: str = "",
    version: str = "policy/v1",
    options: Any = None,
    name: str | None = "p",
) -> int:
    """Evict the pod and return the status code."""
    chosen = parse(list(arguments))
    registry = build_registry(chosen)
    settings = EvictionSettings(
        chosen.gates.enabled("PodDisruptionConditions"), chosen.gates.enabled("PDBUnhealthyPodEvictionPolicy")
    )
    evictions = Evictions(VerbContext(store, AdmissionChain()), registry, settings)  # type: ignore[arg-type]
    metadata = {} if name is None else {"name": name}
    body = {"apiVersion": version, "kind": "Eviction", "metadata": metadata, "deleteOptions": options or {}}
    info = RequestInfo("create", "", "", "v1", "pods", "eviction", "n", "p")
    headers = {"Content-Type": "application/json"}
    request = Request("POST", info, Query(query), headers, json.dumps(body).encode(), User("u"), PLAIN, Identity())
    pods = registry.find("", "v1", "pods")
    assert pods is not None
    reply = await evictions.create(request, pods)
    return reply.code


def is_leaving(store: Memory) -> bool:
    found = store.read(PODS, "n/p")
    return found is None or "deletionTimestamp" in found["metadata"]


def disrupted(store: Memory) -> list[Any]:
    conditions = store.read(PODS, "n/p")["status"]["conditions"]
    return [item["reason"] for item in conditions if item["type"] == "DisruptionTarget"]


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
async def test_pod_without_a_budget_is_deleted_gracefully(store: Memory, version: str) -> None:
    assert await eviction(store, version=version, options={"gracePeriodSeconds": 7}) == 201
    assert store.read(PODS, "n/p")["metadata"]["deletionGracePeriodSeconds"] == 7
    assert disrupted(store) == ["EvictionByEvictionAPI"]


@pytest.mark.row("gate.PodDisruptionConditions")
async def test_disabled_gate_sets_no_condition(store: Memory) -> None:
    assert await eviction(store, "--feature-gates=PodDisruptionConditions=false") == 201
    assert is_leaving(store)
    assert disrupted(store) == []


async def test_budget_allows_a_disruption_and_records_the_pod(store: Memory) -> None:
    store.put(BUDGETS, budget(1, healthy=2))

    assert await eviction(store) == 201

    status = store.read(BUDGETS, "n/b")["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    assert status["conditions"][0]["reason"] == "InsufficientPods"
    assert is_leaving(store)


async def test_exhausted_budget_rejects_the_eviction(store: Memory) -> None:
    store.put(BUDGETS, budget(0, desired=2))

    with pytest.raises(ApiError) as rejection:
        await eviction(store)

    assert rejection.value.body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b needs 2 healthy pods and has 1 currently",
                }
            ]
        },
        "code": 429,
    }
    assert rejection.value.headers == {}
    assert not is_leaving(store)
    assert disrupted(store) == []


async def test_budget_with_outdated_status_requests_a_retry(store: Memory) -> None:
    new = budget(1)
    new["metadata"]["generation"] = 2
    store.put(BUDGETS, new)

    with pytest.raises(ApiError) as rejection:
        await eviction(store)

    (cause,) = (rejection.value.details or {})["causes"]
    assert cause["message"] == "The disruption budget b is still being processed by the server."
    assert (rejection.value.details or {})["retryAfterSeconds"] == 10


async def test_pod_with_two_budgets_is_not_evicted(store: Memory) -> None:
    store.put(BUDGETS, budget(1))
    store.put(BUDGETS, budget(1, name="c"))

    with pytest.raises(ApiError, match="more than one PodDisruptionBudget") as rejection:
        await eviction(store)

    assert rejection.value.code == 500


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_pending_or_terminated_pod_ignores_budgets(store: Memory, phase: str) -> None:
    store.put(PODS, pod(phase=phase))
    store.put(BUDGETS, budget(0))

    assert await eviction(store) == 201
    assert is_leaving(store)


@pytest.mark.parametrize(
    ("found", "goes"),
    [
        (budget(0, healthy=2, desired=2), True),
        (budget(0, healthy=1, desired=2), False),
        (budget(0, healthy=0, desired=0), False),
        (budget(0, healthy=1, desired=2, unhealthyPodEvictionPolicy="IfHealthyBudget"), False),
        (budget(0, healthy=1, desired=2, unhealthyPodEvictionPolicy="AlwaysAllow"), True),
    ],
)
async def test_unready_pod_is_evicted_if_the_budget_is_healthy(store: Memory, found: Any, goes: bool) -> None:
    store.put(PODS, pod(ready=False))
    store.put(BUDGETS, found)

    if goes:
        assert await eviction(store) == 201
    else:
        with pytest.raises(ApiError, match="disruption budget"):
            await eviction(store)

    assert is_leaving(store) is goes
    assert store.read(BUDGETS, "n/b")["status"] == found["status"]


@pytest.mark.row("gate.PDBUnhealthyPodEvictionPolicy")
async def test_disabled_gate_ignores_the_unhealthy_pod_policy(store: Memory) -> None:
    store.put(PODS, pod(ready=False))
    store.put(BUDGETS, budget(0, healthy=1, desired=2, unhealthyPodEvictionPolicy="AlwaysAllow"))

    with pytest.raises(ApiError, match="disruption budget"):
        await eviction(store, "--feature-gates=PDBUnhealthyPodEvictionPolicy=false")


@pytest.mark.parametrize("requested", [{"query": "dryRun=All"}, {"options": {"dryRun": ["All"]}}])
async def test_dry_run_changes_nothing(store: Memory, requested: Any) -> None:
    store.put(BUDGETS, budget(1, healthy=2))
    writes = store.writes

    assert await eviction(store, **requested) == 201
    assert store.writes == writes

    store.put(BUDGETS, budget(0))
    with pytest.raises(ApiError, match="disruption budget"):
        await eviction(store, **requested)


@pytest.mark.parametrize("name", ["uid", "resourceVersion"])
async def test_failed_precondition_leaves_the_pod_unchanged(store: Memory, name: str) -> None:
    with pytest.raises(ApiError, match="precondition") as rejection:
        await eviction(store, options={"preconditions": {name: "999"}})

    assert rejection.value.code == 409
    assert not is_leaving(store)
    assert disrupted(store) == []


async def test_met_preconditions_allow_the_eviction(store: Memory) -> None:
    version = store.read(PODS, "n/p")["metadata"]["resourceVersion"]
    assert await eviction(store, options={"preconditions": {"uid": "u", "resourceVersion": version}}) == 201
    assert is_leaving(store)


async def test_second_eviction_keeps_the_deletion_time(store: Memory) -> None:
    await eviction(store)
    conditions = store.read(PODS, "n/p")["status"]["conditions"]

    assert await eviction(store) == 201
    assert store.read(PODS, "n/p")["status"]["conditions"] == conditions


async def test_eviction_of_a_missing_pod_is_not_found(store: Memory) -> None:
    store.remove(PODS, "n/p")
    with pytest.raises(ApiError) as rejection:
        await eviction(store)
    assert rejection.value.code == 404


@pytest.mark.parametrize("options", [{"dryRun": ["Some"]}, {"propagationPolicy": "Sideways"}])
async def test_invalid_deletion_options_leave_the_pod_unchanged(store: Memory, options: Any) -> None:
    with pytest.raises(ApiError) as rejected:
        await eviction(store, options=options)

    assert rejected.value.code == 422
    assert not is_leaving(store)
    assert disrupted(store) == []


async def test_negative_grace_period_is_one_second(store: Memory) -> None:
    earliest = datetime.now(UTC).replace(microsecond=0)
    for seconds in (None, -(2**31), -1):
        assert await eviction(store, options={"gracePeriodSeconds": seconds}) == 201
        assert store.read(PODS, "n/p")["metadata"]["deletionGracePeriodSeconds"] == (30 if seconds is None else 1)

    assert objects.parse_time(store.read(PODS, "n/p")["metadata"]["deletionTimestamp"]) >= earliest


async def test_pod_with_a_negative_grace_period_is_deleted_on_request(store: Memory) -> None:
    store.put(PODS, pod(deletionTimestamp="1958-11-10T14:43:00Z", deletionGracePeriodSeconds=-(2**31)))

    assert await eviction(store, options={"gracePeriodSeconds": 5}) == 201
    assert store.read(PODS, "n/p") is not None
    assert await eviction(store, options={"gracePeriodSeconds": 0}) == 201
    assert store.read(PODS, "n/p") is None


@pytest.mark.parametrize("seconds", [20, 0])
async def test_shorter_grace_period_ends_now_at_the_earliest(store: Memory, seconds: int) -> None:
    store.put(PODS, pod(deletionTimestamp="2024-01-01T00:01:00Z", deletionGracePeriodSeconds=60))
    earliest = datetime.now(UTC).replace(microsecond=0)

    assert await eviction(store, options={"gracePeriodSeconds": seconds}) == 201

    found = store.read(PODS, "n/p")
    if seconds:
        assert found["metadata"]["deletionGracePeriodSeconds"] == 1
        assert objects.parse_time(found["metadata"]["deletionTimestamp"]) >= earliest
    else:
        assert found is None


class Contended(Memory):
    """Store in which another client changes the pod before each of the next *changes* updates of pods."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.changes, self.updates = changes, 0

    async def update(self, name: str, key: str, decide: Any) -> Record:
        if name == PODS:
            self.updates += 1
            if self.changes:
                self.changes -= 1
                self.put(PODS, self.read(PODS, key))
        return await super().update(name, key, decide)


@pytest.mark.parametrize(
    ("found", "changes", "options", "code", "updates"),
    [
        (pod(phase="Pending"), 2, {}, 201, 4),
        (pod(phase="Pending"), 99, {}, 409, 20),
        (pod(phase="Pending"), 1, {"preconditions": {"resourceVersion": "1"}}, 409, 1),
        (pod(phase="Pending", deletionTimestamp="2024-01-01T00:00:00Z", deletionGracePeriodSeconds=1), 1, {}, 201, 2),
        (pod(phase="Succeeded"), 1, {}, 201, 2),
        (pod(), 1, {}, 201, 2),
        (pod(ready=False), 1, {}, 429, 1),
        (pod(ready=False), 1, {"preconditions": {"resourceVersion": "1"}}, 409, 1),
        (pod(phase="Pending"), 0, {"preconditions": {"uid": "x"}}, 409, 20),
    ],
)
async def test_eviction_of_a_changing_pod(
    monkeypatch: pytest.MonkeyPatch, found: Any, changes: int, options: Any, code: int, updates: int
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    contended = Contended(changes)
    contended.put(PODS, found)
    contended.put(BUDGETS, budget(1, healthy=2))

    try:
        assert await eviction(contended, options=options) == code
    except ApiError as error:
        assert error.code == code

    assert contended.updates == updates


async def test_changed_pod_that_is_not_counted_may_be_evicted_later(store: Memory) -> None:
    contended = Contended(1)
    contended.put(PODS, pod(ready=False))
    contended.put(BUDGETS, budget(0, healthy=1))

    with pytest.raises(ApiError) as rejection:
        await eviction(contended)

    assert (rejection.value.code, (rejection.value.details or {})["retryAfterSeconds"]) == (429, 10)
    assert not is_leaving(contended)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"disruptionsAllowed": -1}, 403, "pdb disruptions allowed is negative"),
        ({"disruptedPods": {f"p{number}": "" for number in range(2001)}}, 403, "DisruptedPods map too big"),
        ({"disruptedPods": {f"p{number}": "" for number in range(2000)}}, 201, ""),
    ],
)
async def test_unusual_budgets_reject_evictions(store: Memory, status: Any, code: int, message: str) -> None:
    found = budget(1)
    found["status"] |= status
    store.put(BUDGETS, found)

    if not message:
        assert await eviction(store) == code
        return
    with pytest.raises(ApiError, match=message) as rejection:
        await eviction(store)
    assert rejection.value.code == code


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({}, None),
        ({"orphanDependents": False}, None),
        ({"orphanDependents": True}, ["orphan"]),
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
    ],
)
async def test_dependents_are_deleted_by_the_policy(store: Memory, options: Any, finalizers: Any) -> None:
    assert await eviction(store, options=options) == 201
    assert store.read(PODS, "n/p")["metadata"].get("finalizers") == finalizers


@pytest.mark.parametrize(("status", "kept"), [("True", True), ("False", False)])
async def test_time_of_the_condition_is_that_of_its_last_change(store: Memory, status: str, *, kept: bool) -> None:
    since = "2024-01-01T00:00:00Z"
    found = pod()
    found["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": status, "reason": "x", "lastTransitionTime": since}
    ]
    store.put(PODS, found)

    await eviction(store)

    assert disrupted(store) == ["EvictionByEvictionAPI"]
    (condition,) = store.read(PODS, "n/p")["status"]["conditions"]
    assert (condition["lastTransitionTime"] == since) is kept


@pytest.mark.parametrize("status", [{"phase": "Running"}, None])
async def test_pod_without_conditions_is_marked(store: Memory, status: Any) -> None:
    store.put(PODS, pod() | {"status": status} if status else {k: v for k, v in pod().items() if k != "status"})

    await eviction(store)

    assert disrupted(store) == ["EvictionByEvictionAPI"]


async def test_budgets_are_not_read_if_their_kind_is_not_served(store: Memory) -> None:
    store.put(BUDGETS, budget(0))

    assert await eviction(store, "--runtime-config=policy/v1=false") == 201


@pytest.mark.parametrize("name", ["other", None])
async def test_eviction_names_its_pod(store: Memory, name: str | None) -> None:
    with pytest.raises(ApiError, match="name in URL does not match name in Eviction object"):
        await eviction(store, name=name)
