"""Tests for the LimitRanger admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.limit_ranger import LimitRanger, _check_claim, _check_pod, _fill
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Api, Object
from tests.unit.apiserver_stub.authz.conftest import Memory


def test_limit_request_ratio_is_enforced():
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}}}
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"cpu": "200m"}}]

    assert list(_check_pod({"containers": [container]}, limits)) == [
        "minimum cpu usage per Container is 200m, but request is 100m",
        "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
    ]


def test_only_missing_requests_and_limits_are_set():
    given = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": given}, {"name": "b"}]}}
    limits = [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "3", "memory": "2Gi"}}]

    _fill(pod, limits, "example.com/limits")

    assert [container["resources"] for container in pod["spec"]["containers"]] == [
        {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "1Gi"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "3", "memory": "2Gi"}},
    ]
    assert pod["metadata"]["annotations"] == {
        "example.com/limits": "LimitRanger plugin set: cpu limit for container a; cpu request for container b; "
        "cpu, memory limit for container b"
    }


def container(name: str = "c", *, requests: Any = None, limits: Any = None) -> Object:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def limits_of(kind: str, **bounds: Any) -> list[Object]:
    return [{"type": kind, **{name: {"cpu": amount} for name, amount in bounds.items()}}]


def test_bounds_of_containers_are_inclusive() -> None:
    maximum, minimum = "maximum cpu usage per Container is 2", "minimum cpu usage per Container is 1"
    ratio = "cpu max limit to request ratio per Container is 2"
    for bounds, requests, limits, expected in (
        ({"max": "2"}, {"cpu": "2"}, {"cpu": "2"}, []),
        ({"max": "2"}, {}, {}, [f"{maximum}.  No limit is specified"]),
        ({"max": "2"}, {"cpu": "2"}, {}, [f"{maximum}.  No limit is specified"]),
        ({"max": "2"}, {}, {"cpu": "3"}, [f"{maximum}, but limit is 3"]),
        ({"max": "2"}, {"cpu": "3"}, {"cpu": "2"}, [f"{maximum}, but request is 3"]),
        ({"max": "2"}, {}, {"cpu": "2"}, []),
        ({"min": "1"}, {"cpu": "1"}, {"cpu": "1"}, []),
        ({"min": "1"}, {"cpu": "1"}, {}, []),
        ({"min": "1"}, {}, {"cpu": "1"}, [f"{minimum}.  No request is specified"]),
        ({"min": "1"}, {"cpu": "500m"}, {"cpu": "1"}, [f"{minimum}, but request is 500m"]),
        ({"min": "1"}, {"cpu": "1"}, {"cpu": "500m"}, [f"{minimum}, but limit is 500m"]),
        ({"maxLimitRequestRatio": "2"}, {"cpu": "1"}, {"cpu": "2"}, []),
        ({"maxLimitRequestRatio": "2"}, {"cpu": "1"}, {"cpu": "3"}, [f"{ratio}, but provided ratio is 3.000000"]),
        ({"maxLimitRequestRatio": "2"}, {}, {"cpu": "2"}, [f"{ratio}, but no request is specified or request is 0"]),
        ({"maxLimitRequestRatio": "2"}, {"cpu": "1"}, {}, [f"{ratio}, but no limit is specified or limit is 0"]),
    ):
        spec = {"containers": [container(requests=requests, limits=limits)]}
        assert list(_check_pod(spec, limits_of("Container", **bounds))) == expected, (bounds, requests, limits)


def test_bounds_apply_to_init_containers_and_to_pods_as_a_whole() -> None:
    half, one = {"cpu": "500m"}, {"cpu": "1"}
    spec = {"containers": [container(requests=one, limits=one)] * 2, "initContainers": [container(limits=half)]}
    for kind, bounds, expected in (
        ("Container", {"min": "1"}, ["minimum cpu usage per Container is 1.  No request is specified"]),
        ("Pod", {"max": "1"}, ["maximum cpu usage per Pod is 1, but limit is 2"]),
        ("Pod", {"max": "2", "min": "2"}, []),
        ("PersistentVolumeClaim", {"max": "1"}, []),
        ("", {"max": "1"}, []),
    ):
        assert list(_check_pod(spec, limits_of(kind, **bounds))) == expected, (kind, bounds)


def test_bounds_of_claims() -> None:
    maximum, minimum = (f"{word} storage usage per PersistentVolumeClaim is " for word in ("maximum", "minimum"))
    for bounds, size, expected in (
        ({"max": {"storage": "2Gi"}}, "2Gi", []),
        ({"max": {"storage": "2Gi"}}, "3Gi", [f"{maximum}2Gi, but request is 3Gi"]),
        ({"max": {"storage": "2Gi"}}, None, [f"{maximum}2Gi.  No request is specified"]),
        ({"min": {"storage": "2Gi"}}, "2Gi", []),
        ({"min": {"storage": "2Gi"}}, "1Gi", [f"{minimum}2Gi, but request is 1Gi"]),
        ({"type": "Pod", "max": {"storage": "1Gi"}}, "2Gi", []),
    ):
        spec = {"resources": {"requests": {"storage": size} if size else None}}
        found = list(_check_claim(spec, [{"type": "PersistentVolumeClaim", **bounds}]))
        assert found == expected, (bounds, size)
    assert list(_check_claim({}, limits_of("PersistentVolumeClaim"))) == []


def test_defaults_of_other_types_are_ignored_and_notes_are_added() -> None:
    pod = {"metadata": {"annotations": {"a": "b"}}, "spec": {"initContainers": [{"name": "i"}], "containers": []}}
    _fill(pod, limits_of("Pod", default="1"), "x")
    assert pod["metadata"] == {"annotations": {"a": "b"}}
    _fill(pod, limits_of("Container", defaultRequest="1"), "x")
    assert pod["spec"]["initContainers"] == [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]
    assert pod["metadata"]["annotations"] == {"a": "b", "x": "LimitRanger plugin set: cpu request for init container i"}


async def test_limits_apply_to_new_and_resized_pods_and_to_claims() -> None:
    store: Any = Memory()
    storage = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    limits = [*limits_of("Container", max="2", default="1", defaultRequest="1"), storage]
    store.put("core/limitranges", {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": limits}})
    store.put("core/limitranges", {"metadata": {"name": "e", "namespace": "default"}})
    api = Api(store=store, plugins=[LimitRanger(Lister(store), Identity())])
    pods, claims = (f"/api/v1/namespaces/default/{name}" for name in ("pods", "persistentvolumeclaims"))

    def pod(name: str, limit: str | None = None) -> Object:
        resources = {"limits": {"cpu": limit}} if limit else {}
        return {
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }

    created = await api.create(pods, pod("p"))
    assert created["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    large = await api.request("POST", pods, pod("q", "3"))
    assert (large.code, "maximum cpu usage per Container is 2, but limit is 3" in large.message) == (403, True)
    await api.create("/api/v1/namespaces/other/pods", pod("q", "3"))
    store.put(
        "core/limitranges",
        {"metadata": {"name": "l", "namespace": "default"}, "spec": {"limits": limits_of("Container", max="500m")}},
    )
    labeled = {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
    assert (await api.request("PUT", f"{pods}/p", labeled)).code == 200
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    assert (await api.request("POST", claims, {"metadata": {"name": "c"}, "spec": spec})).code == 201


@pytest.mark.parametrize(
    ("operation", "subresource", "expected"),
    [("CREATE", "", {"limits": {"cpu": "1"}}), ("UPDATE", "resize", None), ("UPDATE", "", None)],
)
async def test_defaults_are_set_only_in_new_pods(operation: str, subresource: str, expected: Any) -> None:
    store: Any = Memory()
    limits = {
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": limits_of("Container", default="1")},
    }
    store.put("core/limitranges", limits)
    pod: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}

    call = make_call(pod, pod, operation=operation, subresource=subresource)
    await LimitRanger(Lister(store), Identity()).admit(call)

    assert pod["spec"]["containers"][0].get("resources") == expected
