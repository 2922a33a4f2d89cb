"""Tests for the ResourceQuota admission plugin: charges, scopes and required quotas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.plugins.resource_quota import ResourceQuota
from apiserver_stub.admission.quota.usage_tracker import QuotaUsageTracker
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Api, Object, config_map
from tests.unit.apiserver_stub.authz.conftest import Memory

PATH = "/api/v1/namespaces/default"
REGISTRY = build_registry(parse([]))
CONFIG = {"kind": "ResourceQuotaConfiguration", "apiVersion": "apiserver.config.k8s.io/v1"}


def plugin(store: Any, **config: Any) -> ResourceQuota:
    tracker = QuotaUsageTracker(store, REGISTRY, Identity())
    return ResourceQuota(tracker, {**CONFIG, **config} if config else {}, Identity())


def limited_by(hard: Object | None = None, config: Object | None = None, **spec: Any) -> Api:
    """Return a server with a quota in the namespace default, if *hard* is set."""
    store = Memory()
    if hard is not None:
        metadata = {"name": "q", "namespace": "default", "uid": "q"}
        store.put("core/resourcequotas", {"metadata": metadata, "spec": {"hard": hard, **spec}})
    return Api(store=store, plugins=[plugin(store, **(config or {}))])


def used(api: Api) -> Object:
    found: Object = (api.store.read("core/resourcequotas", "default/q").get("status") or {}).get("used")
    return found


def pod(name: str, cpu: str | None = None, **spec: Any) -> Object:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
    }


async def test_new_objects_are_charged_until_the_limit() -> None:
    api = limited_by({"configmaps": "2", "secrets": "5"})
    for name, code in (("a", 201), ("b", 201), ("c", 403)):
        response = await api.request("POST", f"{PATH}/configmaps", config_map(name))
        assert response.code == code, name
    assert response.message.endswith(
        "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    )
    assert used(api) == {"configmaps": "2", "secrets": "0"}
    await api.create("/api/v1/namespaces/other/configmaps", config_map("c"))
    await api.request("DELETE", f"{PATH}/configmaps/a")
    assert (await api.request("POST", f"{PATH}/configmaps", config_map("c"))).code == 201
    assert (await api.request("POST", f"{PATH}/configmaps", config_map("d"))).code == 403


async def test_dry_run_is_checked_and_not_charged() -> None:
    api = limited_by({"configmaps": "1"})
    for _ in range(2):
        assert (await api.request("POST", f"{PATH}/configmaps?dryRun=All", config_map("a"))).code == 201
    assert used(api) is None
    await api.create(f"{PATH}/configmaps", config_map("a"))
    assert (await api.request("POST", f"{PATH}/configmaps?dryRun=All", config_map("b"))).code == 403


async def test_pods_must_specify_limited_resources() -> None:
    api = limited_by({"requests.cpu": "1"})
    for name, cpu, code, message in (
        ("a", None, 403, "failed quota: q: must specify requests.cpu for: c"),
        ("b", "600m", 201, ""),
        (
            "c",
            "600m",
            403,
            "exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests",
        ),
        ("d", "400m", 201, ""),
    ):
        response = await api.request("POST", f"{PATH}/pods", pod(name, cpu))
        assert (response.code, message in response.message) == (code, True), (name, response.body)
    assert used(api) == {"requests.cpu": "1"}


async def test_updates_are_charged_the_difference() -> None:
    api = limited_by({"requests.storage": "3Gi"})

    def claim(size: str) -> Object:
        spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": {"requests": {"storage": size}}}
        return {"metadata": {"name": "c"}, "spec": spec}

    created = await api.create(f"{PATH}/persistentvolumeclaims", claim("1Gi"))
    api.store.put("core/persistentvolumeclaims", {**created, "status": {"phase": "Bound"}})
    for size, code, total in (("2Gi", 200, "2Gi"), ("4Gi", 403, "2Gi"), ("3Gi", 200, "3Gi")):
        response = await api.request("PUT", f"{PATH}/persistentvolumeclaims/c", claim(size))
        assert (response.code, used(api)) == (code, {"requests.storage": total}), (size, response.body)


async def test_scopes_restrict_a_quota_to_some_pods() -> None:
    api = limited_by({"pods": "1"}, scopes=["Terminating"])
    for name, spec, code in (
        ("a", {"activeDeadlineSeconds": 5}, 201),
        ("b", {"activeDeadlineSeconds": 5}, 403),
        ("c", {}, 201),
        ("d", {}, 201),
    ):
        assert (await api.request("POST", f"{PATH}/pods", pod(name, **spec))).code == code, name
    assert used(api) == {"pods": "1"}


async def test_limited_resources_require_a_quota() -> None:
    config = {"limitedResources": [{"resource": "pods", "matchContains": ["cpu"]}]}
    for hard, cpu, code, message in (
        (None, "1", 403, "insufficient quota to consume: cpu,requests.cpu"),
        (None, None, 201, ""),
        ({"cpu": "1"}, "1", 403, "insufficient quota to consume: requests.cpu"),
        ({"cpu": "1", "requests.cpu": "1"}, "1", 201, ""),
    ):
        api = limited_by(hard, config)
        response = await api.request("POST", f"{PATH}/pods", pod("a", cpu))
        assert (response.code, message in response.message) == (code, True), (hard, cpu, response.body)


async def test_limited_scopes_require_a_quota_with_them() -> None:
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    config = {"limitedResources": [{"resource": "pods", "matchScopes": [high]}]}
    for hard, spec, name, code in (
        (None, {}, "high", 403),
        (None, {}, "low", 201),
        ({"pods": "9"}, {}, "high", 403),
        ({"pods": "9"}, {"scopeSelector": {"matchExpressions": [high]}}, "high", 201),
    ):
        api = limited_by(hard, config, **spec)
        response = await api.request("POST", f"{PATH}/pods", pod("a", priorityClassName=name))
        assert response.code == code, (hard, spec, name, response.body)
        if code == 403:
            text = "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
            assert text in response.message, (hard, spec, name)


async def test_subresources_and_other_namespaces_are_not_charged() -> None:
    api = limited_by({"pods": "1", "count/deployments.apps": "0"})
    created = await api.create(f"{PATH}/pods", pod("a"))
    running = {**created, "status": {"phase": "Running"}}
    assert (await api.request("PUT", f"{PATH}/pods/a/status", running)).code == 200
    assert (await api.request("POST", f"{PATH}/pods", pod("b"))).code == 403
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    response = await api.request("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)
    assert (response.code, "count/deployments.apps=1" in response.message) == (403, True)


def test_invalid_configuration_is_rejected() -> None:
    for config, problem in (
        ({"kind": "X"}, "ResourceQuota: "),
        ({"unknown": 1}, "unknown"),
        ({"limitedResources": [{"unknown": 1}]}, "unknown"),
    ):
        with pytest.raises(AdmissionError, match=problem):
            plugin(Memory(), **config)
    plugin(Memory(), limitedResources=[{"resource": "pods"}])


@pytest.mark.parametrize(
    ("label", "operation", "subresource", "expected"),
    [
        ("pods", "CREATE", "", True),
        ("pods", "UPDATE", "", False),
        ("pods", "UPDATE", "resize", True),
        ("pods", "CREATE", "resize", False),
        ("pods", "UPDATE", "status", False),
        ("services", "UPDATE", "", True),
        ("services", "UPDATE", "status", False),
        ("persistentvolumeclaims", "UPDATE", "", True),
        ("configmaps", "UPDATE", "", False),
        ("services", "DELETE", "", False),
        ("events", "CREATE", "", False),
        ("nodes", "CREATE", "", False),
        ("replicationcontrollers", "UPDATE", "resize", False),
    ],
)
def test_quotas_concern_creations_and_some_updates(
    label: str, operation: Any, subresource: str, *, expected: bool
) -> None:
    resource = REGISTRY.find("", "v1", label)
    assert resource is not None

    assert plugin(Memory()).concerns(resource, operation, subresource) is expected


@pytest.mark.parametrize(
    ("status", "total"),
    [
        ({"hard": {"configmaps": "9", "secrets": "9"}, "used": {"configmaps": "5", "secrets": "2"}}, "6"),
        ({"hard": {"configmaps": "9"}, "used": {"configmaps": "5", "secrets": "2"}}, "1"),
        ({"hard": {"configmaps": "9", "secrets": "9"}, "used": {"configmaps": "5"}}, "1"),
        ({"hard": {"configmaps": "9", "secrets": "9"}, "used": {"configmaps": "9", "secrets": "2"}}, "1"),
        ({}, "1"),
        (None, "1"),
    ],
    ids=["current", "other limits", "missing usage", "exceeded", "empty", "none"],
)
async def test_outdated_usage_is_counted_again(status: Any, total: str) -> None:
    api = limited_by()
    spec = {"hard": {"configmaps": "9", "secrets": "9"}}
    metadata = {"name": "q", "namespace": "default", "uid": "q"}
    api.store.put("core/resourcequotas", {"metadata": metadata, "spec": spec, "status": status})

    await api.create(f"{PATH}/configmaps", config_map("a"))

    assert used(api)["configmaps"] == total


async def test_update_that_uses_no_more_is_admitted_in_an_exceeded_quota() -> None:
    store, services = Memory(), REGISTRY.find("", "v1", "services")

    def service(*ports: int) -> Object:
        spec = {"type": "NodePort", "ports": [{"port": port} for port in ports]}
        return {"metadata": {"name": "s", "namespace": "default"}, "spec": spec}

    metadata = {"name": "q", "namespace": "default"}
    store.put("core/resourcequotas", {"metadata": metadata, "spec": {"hard": {"services.nodeports": "0"}}})
    store.put("core/services", service(80))

    attributes: Any = {"operation": "UPDATE", "resource": services}
    await plugin(store).validate(make_call(service(80), service(80), **attributes))
    with pytest.raises(ApiError, match=r"requested: services\.nodeports=1, used: services\.nodeports=1, limited"):
        await plugin(store).validate(make_call(service(80, 81), service(80), **attributes))


async def test_limited_resources_of_other_groups_require_a_quota() -> None:
    item = {"apiGroup": "apps", "resource": "deployments", "matchContains": ["count"]}
    api = limited_by(None, {"limitedResources": [item]})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}

    response = await api.request("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)

    assert "insufficient quota to consume: count/deployments.apps" in response.message


class Several(QuotaUsageTracker):
    """Tracker of a server that is not the only one."""

    def __init__(self, store: Any, *, frees: bool) -> None:
        super().__init__(store, REGISTRY, Identity())
        self.steps: list[str] = []
        self._frees = frees

    async def refresh(self) -> bool:
        self.steps.append("refresh")
        return True

    async def may_fit_later(self, quotas: Any, requested: Any, seconds: float) -> bool:
        self.steps.append("wait")
        if self._frees:
            self.store.remove("core/configmaps", "default/a")  # type: ignore[attr-defined]
        return self._frees


@pytest.mark.parametrize(("frees", "code"), [(True, 201), (False, 403)])
async def test_exceeded_quota_is_read_again_if_there_are_other_servers(*, frees: bool, code: int) -> None:
    store: Any = Memory()
    for name, spec in (("q", {"hard": {"configmaps": "1"}}), ("other", {"hard": {"secrets": "0"}})):
        store.put(
            "core/resourcequotas", {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
        )
    store.put("core/configmaps", {"metadata": {"name": "a", "namespace": "default"}})
    tracker = Several(store, frees=frees)
    api = Api(store=store, plugins=[ResourceQuota(tracker, {}, Identity())])

    response = await api.request("POST", f"{PATH}/configmaps", config_map("b"))

    assert (response.code, tracker.steps) == (code, ["refresh", "wait"])
    assert "status" not in store.read("core/resourcequotas", "default/other")
