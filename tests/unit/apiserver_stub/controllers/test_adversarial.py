"""Tests for every controller against objects that cause excessive work.

The store never waits, so a controller that does not yield on its own keeps the event loop from all requests,
which the harness detects. The clock is advanced manually, so the number of writes per interval is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.quota.usage_tracker import QuotaUsageTracker
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers import allocator_repair, kubernetes_service
from apiserver_stub.controllers.allocator_repair import Repair
from apiserver_stub.controllers.api_services import Registration
from apiserver_stub.controllers.cluster_role_aggregation import keep_aggregated
from apiserver_stub.controllers.garbage_collector import FOREGROUND, ORPHAN, GarbageCollector
from apiserver_stub.controllers.kubernetes_service import KubernetesService, KubernetesServiceSettings
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.controllers.legacy_token_tracking import LegacyTokenTracking
from apiserver_stub.controllers.manager import ControllerManager, bundled_controllers, served
from apiserver_stub.controllers.namespace_contents import NamespaceContents
from apiserver_stub.controllers.namespace_deletion import NamespaceDeletion
from apiserver_stub.controllers.node_certificates import NodeCertificates
from apiserver_stub.controllers.node_taints import NodeTaints
from apiserver_stub.controllers.quotas import ResourceQuotas
from apiserver_stub.controllers.scheduler import Scheduler
from apiserver_stub.controllers.volume_attributes_protection import AttributesClassProtection
from apiserver_stub.controllers.volume_protection import VolumeProtection
from apiserver_stub.controllers.volumes.binder import VolumeBinder
from apiserver_stub.controllers.volumes.ephemeral_claims import EphemeralClaims
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.service_allocators import ServiceAllocators
from apiserver_stub.lifecycle import Lifecycle
from nodeagent.base.identity import Identity
from nodeagent.base.tls import KeyPair
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, running, store

__all__ = ["store"]

Make = Callable[[MeteredStore, FakeClock], Coroutine[Any, Any, None]]
MAPS, PODS, NODES, NAMESPACES = "core/configmaps", "core/pods", "core/nodes", "core/namespaces"
QUOTAS, CLAIMS, VOLUMES = "core/resourcequotas", "core/persistentvolumeclaims", "core/persistentvolumes"
ATTRIBUTES_CLASSES = "storage.k8s.io/volumeattributesclasses"
BUDGETS, ROLES = "policy/poddisruptionbudgets", "rbac.authorization.k8s.io/clusterroles"
REQUESTS, SERVICES = "certificates.k8s.io/certificatesigningrequests", "apiregistration.k8s.io/apiservices"
MANY = 1500
DELETED: dict[str, Any] = {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
HUGE = "x" * 200_000
ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "w"}}, "namespaceSelector": {}}
        ]
    }
}


def quotas(store: MeteredStore, clock: FakeClock) -> Coroutine[Any, Any, None]:
    leadership = Leadership(store, Identity(), clock)
    return ResourceQuotas(store, QuotaUsageTracker(store, REGISTRY, Identity()), leadership, clock).run()


def certificates(store: MeteredStore, clock: FakeClock) -> Coroutine[Any, Any, None]:
    async def authorize(*_: Any) -> Any:
        return SimpleNamespace(allowed=False)

    authorizer: Any = SimpleNamespace(authorize=authorize)
    authority = KeyPair(b"", b"")
    return NodeCertificates(
        store, Identity(), authorizer, authority, timedelta(days=1), signs_clients=True, clock=clock
    ).run()


CONTROLLERS: dict[str, Make] = {
    "api services": lambda store, clock: Registration(store, REGISTRY, clock=clock, identity=Identity()).keep(),
    "certificates": certificates,
    "claims": lambda store, clock: VolumeBinder(store, Identity(), 3600, clock).run(),
    "ephemeral claims": lambda store, clock: EphemeralClaims(context(store), REGISTRY, Identity(), 3600, clock).run(),
    "garbage": lambda store, clock: GarbageCollector(context(store), REGISTRY, Identity(), clock).run(),
    "legacy tokens": lambda store, clock: LegacyTokenTracking(store, Identity(), clock).run(),
    "namespace contents": lambda store, clock: NamespaceContents(store, Identity(), "CA", clock=clock).run(),
    "namespace deletion": lambda store, clock: NamespaceDeletion(context(store), REGISTRY, Identity(), clock).run(),
    "quotas": quotas,
    "scheduler": lambda store, clock: Scheduler(store, Identity(), 3600, build_gates({}), clock).run(),
    "roles": lambda store, clock: keep_aggregated(store, clock=clock, identity=Identity()),
    "taints": lambda store, clock: NodeTaints(store, Identity(), clock).run(),
    "volume attributes classes": lambda store, clock: AttributesClassProtection(store, Identity(), clock).run(),
    "volumes": lambda store, clock: VolumeProtection(store, Identity(), clock).run(),
    "workloads": lambda store, clock: ControllerManager(
        served(bundled_controllers(), REGISTRY, Identity()),
        context(store),
        REGISTRY,
        Identity(),
        build_gates({}),
        clock,
        3600,
    ).run(),
}
every_controller = pytest.mark.parametrize("make", CONTROLLERS.values(), ids=CONTROLLERS.keys())


def named(name: str, namespace: str = "", **metadata: Any) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "uid": f"{namespace}-{name}", **metadata}


def owned_by(*uids: str, kind: str = "ConfigMap", version: str = "v1") -> list[dict[str, Any]]:
    return [
        {"apiVersion": version, "kind": kind, "name": uid.partition("-")[2], "uid": uid, "blockOwnerDeletion": True}
        for uid in uids
    ]


def put_cycles(store: MeteredStore) -> None:
    """Store objects that own each other and themselves, roles that aggregate each other, and so on."""
    for number in range(300):
        after = owned_by(f"n-o{(number + 1) % 300}", "n-o0", f"n-o{number}")
        deleting = DELETED | {"finalizers": [FOREGROUND, ORPHAN][: number % 3]} if number % 2 else {}
        store.put(MAPS, {"metadata": named(f"o{number}", "n", ownerReferences=after, **deleting)})
    for number in range(40):
        labels, selector = {f"l{number}": "x"}, {"matchLabels": {f"l{(number + 1) % 40}": "x"}}
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": [f"r{number}"]}
        role = {"aggregationRule": {"clusterRoleSelectors": [selector, {}]}, "rules": [rule]}
        store.put(ROLES, {"metadata": named(f"r{number:02}", labels=labels), **role})


def put_thousands(store: MeteredStore) -> None:
    """Store one object that thousands of others depend on, of every kind that controllers read."""
    store.put(MAPS, {"metadata": named("owner", "gone", finalizers=[ORPHAN], **DELETED)})
    store.put(NAMESPACES, {"metadata": named("gone", **DELETED), "spec": {"finalizers": ["kubernetes"]}})
    store.put(QUOTAS, {"metadata": named("q", "n"), "spec": {"hard": {"pods": "5", "cpu": "1", "configmaps": "1"}}})
    store.put(BUDGETS, {"metadata": named("b", "n"), "spec": {"selector": {}, "minAvailable": "50%"}})
    store.put(CLAIMS, {"metadata": named("c", "n", finalizers=["kubernetes.io/pvc-protection"], **DELETED)})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    request = {"signerName": "kubernetes.io/kubelet-serving", "request": "eA==", "usages": []}
    for number in range(MANY):
        store.put(MAPS, {"metadata": named(f"d{number}", "gone", ownerReferences=owned_by("gone-owner"))})
        store.put(PODS, {"metadata": named(f"p{number}", "n"), "spec": {"nodeName": "node", "volumes": volumes}})
        waiting = {"schedulerName": "default-scheduler", "affinity": ANTI_AFFINITY}
        store.put(PODS, {"metadata": named(f"w{number}", "n", labels={"app": "w"}), "spec": waiting})
    for number in range(MANY // 5):
        store.put(NAMESPACES, {"metadata": named(f"ns{number}")})
        store.put(NODES, {"metadata": named(f"node{number}"), "spec": {"unschedulable": True}})
        store.put(
            REQUESTS, {"metadata": named(f"r{number}", creationTimestamp="2024-01-02T15:00:00Z"), "spec": request}
        )
        spec = {"group": f"g{number}", "version": "v1"}
        labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        store.put(SERVICES, {"metadata": named(f"v1.g{number}", labels=labels), "spec": spec})


def put_malformed(store: MeteredStore) -> None:
    """Store objects that no client can create, as another server of a shared store might."""
    for collection in (MAPS, PODS, NODES, NAMESPACES, QUOTAS, CLAIMS, VOLUMES, BUDGETS, ROLES, REQUESTS, SERVICES):
        namespace = "" if collection in (NODES, NAMESPACES, VOLUMES, ROLES, REQUESTS, SERVICES) else "n"
        for number, spec in enumerate(([], "text", 5, {"selector": 5, "hard": 5, "volumes": 5, "taints": 5}, None)):
            odd = {"ownerReferences": 5, "finalizers": 5, "labels": 5, **DELETED} if number % 2 else {}
            odd["creationTimestamp"] = "yesterday"
            rule = {"clusterRoleSelectors": 5}
            full = {"spec": spec, "status": spec, "data": spec, "rules": 5, "aggregationRule": rule}
            store.put(collection, {"metadata": named(f"odd{number}", namespace, **odd), **full})
        huge = {"metadata": named("huge", namespace, annotations={"a": HUGE, "b": '"deletionTimestamp":'})}
        store.put(collection, {**huge, "spec": {}})


def put_unrelated_objects(store: MeteredStore) -> None:
    """Store objects with owners of unknown kinds, of other namespaces, or of the same name."""
    store.put(MAPS, {"metadata": named("owner", "other")})
    owners = [
        *owned_by("n-owner", kind="Nobody", version="example.com/v1"),
        *owned_by("other-owner"),
        *owned_by("n-owner", kind="", version=""),
        *owned_by("n-owner", version="a/b/c/d"),
    ]
    for number in range(200):
        held = ["example.com/never-removed"]
        references = [owners[number % len(owners)]]
        store.put(MAPS, {"metadata": named(f"m{number}", "n", ownerReferences=references, finalizers=held)})
        store.put(NODES, {"metadata": named(f"n{number}", ownerReferences=owned_by("n-owner"), finalizers=held)})
        store.put(PODS, {"metadata": named(f"p{number}", "gone", finalizers=held, **DELETED), "spec": {}})
    store.put(NAMESPACES, {"metadata": named("gone", **DELETED), "spec": {"finalizers": ["kubernetes"]}})


@every_controller
@pytest.mark.parametrize("put", [put_cycles, put_thousands, put_malformed, put_unrelated_objects])
async def test_controller_yields_and_becomes_idle(
    store: MeteredStore, clock: FakeClock, make: Make, put: Callable[[MeteredStore], None]
) -> None:
    put(store)
    written = store.writes

    async with running(store, make(store, clock)):
        for _ in range(60):
            await clock.advance(5)
        writes = store.writes
        for _ in range(60):
            await clock.advance(5)

    assert store.writes - written <= 6 * MANY
    events = sum(record.revision > writes for record in store.collection("core/events").select())
    assert events <= MANY  # The event series of an unschedulable pod is updated after minutes.
    assert store.writes - writes - events <= 5


@every_controller
async def test_conflicting_writer_causes_back_off(store: MeteredStore, clock: FakeClock, make: Make) -> None:
    before = {
        NODES: {"metadata": named("node"), "spec": {"unschedulable": True}},
        MAPS: {"metadata": named("kube-root-ca.crt", "n"), "data": {"ca.crt": "other"}},
        NAMESPACES: {"metadata": named("n"), "spec": {"finalizers": ["kubernetes"]}},
        BUDGETS: {"metadata": named("b", "n"), "spec": {"selector": {}, "minAvailable": 1}, "status": {"odd": 1}},
        QUOTAS: {"metadata": named("q", "n"), "spec": {"hard": {"pods": "5"}}, "status": {"used": {"pods": "99"}}},
        ROLES: {
            "metadata": named("r"),
            "aggregationRule": {"clusterRoleSelectors": [{}]},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["odd"]}],
        },
        SERVICES: {
            "metadata": named("v1.policy", labels={"kube-aggregator.kubernetes.io/automanaged": "onstart"}),
            "spec": {"group": "policy", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1},
        },
    }
    reverted = 0
    for collection, obj in before.items():
        store.put(collection, obj)

    async with running(store, make(store, clock)):
        for _ in range(400):
            await clock.advance(0.05)
            for collection, obj in before.items():
                metadata = obj["metadata"]
                key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
                current = store.read(collection, key)
                changed = {k: v for k, v in (current or {}).items() if k not in ("kind", "apiVersion", "metadata")}
                if changed != {k: v for k, v in obj.items() if k != "metadata"}:
                    reverted += 1
                    store.put(collection, obj)

    # In 20 seconds; a controller makes at most five status updates per second.
    assert reverted <= 2 * 5 * 20


@every_controller
async def test_conflicting_object_is_retried_with_back_off(store: MeteredStore, clock: FakeClock, make: Make) -> None:
    attempts = 0

    def conflict(name: str, key: str) -> None:
        nonlocal attempts
        attempts += 1
        raise ApiError(409, "Conflict", "the object has been modified")

    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}
    store.put(NODES, {"metadata": named("ready"), "spec": {}, "status": ready})
    for name in ("a", "b", "c"):
        store.put(PODS, {"metadata": named(name, "n"), "spec": {"schedulerName": "default-scheduler"}})
        store.put(NODES, {"metadata": named(name), "spec": {"unschedulable": True}})
        store.put(NAMESPACES, {"metadata": named(name)})
        store.put(QUOTAS, {"metadata": named(name, "n"), "spec": {"hard": {"pods": "5"}}})
        store.put(BUDGETS, {"metadata": named(name, "n"), "spec": {"selector": {}, "minAvailable": 1}})
        store.put(MAPS, {"metadata": named(name, "n", ownerReferences=owned_by("n-missing"))})
        store.put(MAPS, {"metadata": named(name, "gone")})
        rule = {"clusterRoleSelectors": [{}]}
        store.put(ROLES, {"metadata": named(name), "aggregationRule": rule, "rules": [{"verbs": [name]}]})
        for collection, namespace in ((VOLUMES, ""), (CLAIMS, "n")):
            held = {"finalizers": ["kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"], **DELETED}
            store.put(collection, {"metadata": named(name, namespace, **held)})
        held = {"finalizers": ["kubernetes.io/vac-protection"], **DELETED}
        store.put(ATTRIBUTES_CLASSES, {"metadata": named(name, **held)})
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    store.put(PODS, {"metadata": named("with-claim", "n"), "spec": {"volumes": [ephemeral]}})
    store.put(NAMESPACES, {"metadata": named("gone", **DELETED), "spec": {"finalizers": ["kubernetes"]}})
    request = {"signerName": "kubernetes.io/kubelet-serving", "request": "eA==", "usages": []}
    store.put(REQUESTS, {"metadata": named("r", creationTimestamp="2020-01-01T00:00:00Z"), "spec": request})
    objects_processed = 60

    store.before_update = conflict
    async with running(store, make(store, clock)):
        for _ in range(300):
            await clock.advance(1)

    assert 0 < attempts <= 25 * objects_processed


async def test_repair_of_many_conflicting_services_yields_and_bounds_its_events(store: MeteredStore) -> None:
    addresses = ServiceAllocators([ip_network("10.0.0.0/24")], range(30000, 30100))
    for number in range(2 * MANY):
        spec = {"type": "NodePort", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 1, "nodePort": 30001}]}
        store.put("core/services", {"metadata": named(f"s{number}", "n"), "spec": spec})
    written = store.writes

    await Repair(store, addresses, 3600).once()

    assert len(store.collection("core/events")) <= 2 * 200
    assert store.writes - written <= 2 * 200 + 2


async def test_repair_continues_after_a_malformed_service(
    store: MeteredStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(allocator_repair, "REPAIR_SECONDS", 0)
    repair = Repair(store, ServiceAllocators([ip_network("10.0.0.0/24")], range(30000, 30100)), 3600)
    store.put("core/services", {"metadata": named("odd", "n"), "spec": 5})

    async with running(store, repair.run()):
        while len(caplog.records) < 2:
            await asyncio.sleep(0)

    assert {record.message for record in caplog.records} == {"Failed to repair Service ranges"}


async def test_malformed_kubernetes_service_does_not_stop_its_controller(
    store: MeteredStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kubernetes_service, "_RENEW_SECONDS", 0)
    settings = KubernetesServiceSettings([ip_network("10.0.0.0/24")])
    service = KubernetesService(store, REGISTRY, Lifecycle(), lambda: "127.0.0.1:6443", settings, Identity())
    await allocator_repair.repair_service_ranges(store, REGISTRY, 3600)
    odd = {"metadata": named("kubernetes", "default"), "spec": 5}
    store.put("core/services", odd)

    async with running(store, service.run()):
        while not caplog.records:
            await asyncio.sleep(0)
        store.remove("core/services", "default/kubernetes")
        while store.read("core/services", "default/kubernetes") is None:
            await asyncio.sleep(0)

    assert store.read("core/services", "default/kubernetes")["spec"]["ports"][0]["targetPort"] == 6443
