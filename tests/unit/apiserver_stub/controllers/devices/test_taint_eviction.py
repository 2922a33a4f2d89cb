"""Tests for the eviction of pods with tainted devices, and the status of taint rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.devices.eviction_status import eviction_condition
from apiserver_stub.controllers.devices.taint_eviction import DeviceTaintEviction
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running

Object = dict[str, Any]
PODS, GROUP = "core/pods", "resource.k8s.io"
ARGUMENTS = [
    "--compatibility-version=1.36",
    "--feature-gates=DRADeviceTaintRules=true",
    "--runtime-config=api/all=true",
]
REGISTRY = build_registry(parse(ARGUMENTS))


class Cluster:
    """A store with the running controller, one device and a pod that uses it."""

    def __init__(self) -> None:
        self.store, self.clock = MeteredStore(), FakeClock()

    def at(self, seconds: float) -> str:
        return objects.format_time(self.clock.wall() + timedelta(seconds=seconds))

    def taint(self, effect: str = "NoExecute", added: float = -10, **fields: Any) -> Object:
        return {"key": "broken", "effect": effect, "timeAdded": self.at(added), **fields}

    def publish(self, *taints: Object) -> None:
        spec = {
            "driver": "d",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "gpu", "taints": list(taints)}, {"name": "other"}],
        }
        self.store.put(
            f"{GROUP}/resourceslices", {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "s"}, "spec": spec}
        )

    def allocate(self, *tolerations: Object, device: str = "gpu", users: tuple[str, ...] = ("p",)) -> None:
        result = {"driver": "d", "pool": "n", "device": device, "request": "r", "tolerations": list(tolerations)}
        reserved = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in users]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        metadata = {"name": "c", "namespace": "n", "uid": "c"}
        claim = {"apiVersion": f"{GROUP}/v1", "metadata": metadata, "spec": {}, "status": status}
        self.store.put(f"{GROUP}/resourceclaims", claim)
        for name in users:
            self.store.put(PODS, pod(name))

    def rule(self, effect: str = "NoExecute", *, conditions: list[Object] | None = None, **selector: str) -> None:
        version = next(item.api_version for item in REGISTRY if item.plural == "devicetaintrules")
        spec = {"deviceSelector": selector or {"driver": "d"}, "taint": self.taint(effect)}
        metadata = {"name": "rule", "uid": "rule", "generation": 1}
        self.store.put(
            f"{GROUP}/devicetaintrules",
            {
                "apiVersion": version,
                "kind": "DeviceTaintRule",
                "metadata": metadata,
                "spec": spec,
                **({"status": {"conditions": conditions}} if conditions else {}),
            },
        )

    def rule_changed(self, generation: int = 1) -> None:
        obj = self.store.read(f"{GROUP}/devicetaintrules", "rule")
        obj["metadata"] |= {"generation": generation, "labels": {"changed": "yes"}}
        self.store.put(f"{GROUP}/devicetaintrules", obj)

    async def rest(self) -> None:
        await rest(self.store)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.rest()

    @property
    def evicted(self) -> list[str]:
        found = [self.store.read(PODS, record.key) for record in self.store.collection(PODS).select()]
        return [item["metadata"]["name"] for item in found if "deletionTimestamp" in item["metadata"]]

    @property
    def condition(self) -> Object:
        (found,) = self.store.read(f"{GROUP}/devicetaintrules", "rule")["status"]["conditions"]
        return dict(found)


@asynccontextmanager
async def controller() -> AsyncIterator[Cluster]:
    found = Cluster()
    run = DeviceTaintEviction(context(found.store), REGISTRY, Identity(), 60, found.clock).run()
    async with running(found.store, run):
        await found.rest()
        yield found


def pod(name: str, **metadata: Any) -> Object:
    fields = {"name": name, "namespace": "n", "uid": f"uid-{name}", **metadata}
    spec = {"nodeName": "n", "containers": [], "terminationGracePeriodSeconds": 30}
    return {"kind": "Pod", "metadata": fields, "spec": spec, "status": {"phase": "Running"}}


async def test_pods_leave_tainted_devices_unless_they_tolerate_the_taint() -> None:
    exists: Object = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    for title, effect, device, tolerations, expected in (
        ("no execute", "NoExecute", "gpu", [], ["p"]),
        ("no schedule", "NoSchedule", "gpu", [], []),
        ("none", "None", "gpu", [], []),
        ("another device", "NoExecute", "other", [], []),
        ("missing device", "NoExecute", "missing", [], []),
        ("tolerated", "NoExecute", "gpu", [exists], []),
        ("tolerated for a time that is over", "NoExecute", "gpu", [{**exists, "tolerationSeconds": 10}], ["p"]),
        ("tolerated for a time", "NoExecute", "gpu", [{**exists, "tolerationSeconds": 60}], []),
        ("tolerated for a time and forever", "NoExecute", "gpu", [{**exists, "tolerationSeconds": 1}, exists], []),
        ("another effect is tolerated", "NoExecute", "gpu", [{**exists, "effect": "NoSchedule"}], ["p"]),
        ("another key is tolerated", "NoExecute", "gpu", [{**exists, "key": "x"}], ["p"]),
        ("a negative time", "NoExecute", "gpu", [{**exists, "tolerationSeconds": -5}], ["p"]),
    ):
        async with controller() as found:
            found.allocate(*tolerations, device=device)
            found.publish(found.taint(effect))
            await found.rest()
            assert found.evicted == expected, title


async def test_pod_is_marked_and_deleted_at_the_end_of_its_toleration() -> None:
    async with controller() as found:
        toleration = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
        found.publish(found.taint(added=0))
        found.allocate(toleration)
        await found.rest()
        await found.advance(29)
        before = found.evicted
        await found.advance(2)
        after, status = found.evicted, found.store.read(PODS, "n/p")["status"]
        notes = [
            found.store.read("core/events", record.key)["note"]
            for record in found.store.collection("core/events").select()
        ]
    assert (before, after, notes) == ([], ["p"], ["Marking for deletion"])
    (condition,) = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByDeviceTaintManager")


async def test_only_the_pods_that_reserve_the_claim_are_deleted() -> None:
    async with controller() as found:
        found.allocate(users=("a", "b", "c", "missing"))
        found.store.remove(PODS, "n/missing")
        found.store.put(PODS, pod("b", uid="another"))
        found.store.put(PODS, pod("d"))
        found.publish(found.taint())
        await found.rest()
        assert found.evicted == ["a", "c"]


async def test_rule_evicts_the_pods_of_selected_devices_and_reports_it() -> None:
    for selector, expected, reason in (
        ({"driver": "d"}, ["p"], "Completed"),
        ({"driver": "d", "pool": "n", "device": "gpu"}, ["p"], "Completed"),
        ({"driver": "x"}, [], "NotStarted"),
        ({"device": "other"}, [], "NotStarted"),
    ):
        async with controller() as found:
            found.publish()
            found.allocate()
            found.rule(**selector)
            await found.rest()
            condition = found.condition
            assert (found.evicted, condition["reason"], condition["observedGeneration"]) == (expected, reason, 1), (
                selector
            )
            assert ("1 pod evicted since" in condition["message"]) is bool(expected), selector


async def test_rule_without_effect_reports_pods_it_would_evict() -> None:
    async with controller() as found:
        found.publish()
        found.allocate(users=("p", "q"))
        found.rule("None", driver="d")
        await found.rest()
        evicted, condition = found.evicted, found.condition
        found.store.remove(f"{GROUP}/devicetaintrules", "rule")
        await found.advance(20)
    assert (evicted, condition["reason"], condition["status"]) == ([], "NoEffect", "False")
    start = "2 published devices selected. 1 allocated device selected. 2 pods would be evicted in 1 namespace if"
    assert condition["message"].startswith(start)


async def test_deleted_rule_has_no_status() -> None:
    async with controller() as found:
        found.rule()
        found.store.remove(f"{GROUP}/devicetaintrules", "rule")
        await found.rest()
        assert found.store.read(f"{GROUP}/devicetaintrules", "rule") is None


def test_condition_counts_pods_and_namespaces() -> None:
    def of(effect: str, pending: dict[str, str], evicted: int = 0) -> tuple[str, str, str]:
        rule = {"metadata": {}, "spec": {"taint": {"effect": effect}}}
        found = eviction_condition(rule, pending, evicted, 1, 2)
        return found["status"], found["reason"], found["message"]

    assert of("NoExecute", {}) == ("False", "NotStarted", "")
    assert of("NoExecute", {}, 1) == ("False", "Completed", "1 pod evicted since starting the controller.")
    assert of("NoExecute", {"a": "n"})[2] == "1 pod needs to be evicted in 1 namespace."
    several = of("NoExecute", {"a": "n", "b": "m"}, 2)
    assert several[:2] == ("True", "PodsPendingEviction")
    assert several[2].startswith("2 pods need to be evicted in 2 different namespaces. 2 pods evicted since")
    assert of("NoSchedule", {})[1:] == ("OtherEffect", "Eviction only happens for the NoExecute effect.")
    assert of("None", {})[2].startswith("1 published device selected. 2 allocated devices selected. 0 pods would")


async def test_condition_of_a_rule_is_updated_at_most_every_ten_seconds() -> None:
    messages = []
    async with controller() as found:
        found.publish()
        found.allocate()
        found.rule(driver="d")
        await found.rest()
        messages.append(found.condition["message"])
        await found.advance(5)
        found.allocate(users=("q", "r"))
        await found.rest()
        messages.append(found.condition["message"])
        await found.advance(5)
        messages.append(found.condition["message"])
    assert [message.partition(" since")[0] for message in messages] == ["1 pod evicted"] * 2 + ["3 pods evicted"]


async def test_information_about_a_rule_without_effect_is_not_updated() -> None:
    async with controller() as found:
        found.publish()
        found.rule("None", driver="d")
        await found.rest()
        first = found.condition
        found.allocate()
        await found.advance(20)
        found.rule_changed()
        await found.rest()
        assert found.condition == first


async def test_condition_of_a_changed_rule_is_updated_immediately() -> None:
    async with controller() as found:
        found.publish()
        found.allocate()
        found.rule("None", driver="d")
        await found.rest()
        await found.advance(1)
        found.rule_changed(2)
        await found.rest()
        condition = found.condition
    assert condition["observedGeneration"] == 2


async def test_other_conditions_of_a_rule_remain() -> None:
    async with controller() as found:
        found.publish()
        own = {"type": "Own", "status": "True", "lastTransitionTime": found.at(0), "reason": "R", "message": ""}
        found.rule("None", conditions=[own], driver="d")
        await found.rest()
        rule = found.store.read(f"{GROUP}/devicetaintrules", "rule")
    assert [item["type"] for item in rule["status"]["conditions"]] == ["Own", "EvictionInProgress"]


async def test_rule_that_is_created_again_has_evicted_no_pods() -> None:
    async with controller() as found:
        found.publish()
        found.allocate()
        found.rule(driver="d")
        await found.rest()
        first = found.condition["message"]
        found.store.remove(f"{GROUP}/devicetaintrules", "rule")
        found.store.remove(PODS, "n/p")
        await found.rest()
        found.rule(driver="d")
        await found.rest()
        second = found.condition["message"]
    assert first.startswith("1 pod evicted since")
    assert second == ""


async def test_other_objects_of_claims_are_not_evicted() -> None:
    async with controller() as found:
        found.allocate()
        claim = found.store.read(f"{GROUP}/resourceclaims", "n/c")
        claim["status"]["reservedFor"] = [
            {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "uid-p"},
            {"resource": "pods", "name": "missing", "uid": "m"},
        ]
        found.store.put(f"{GROUP}/resourceclaims", claim)
        found.publish(found.taint())
        await found.rest()
        assert found.evicted == []
