"""Tests for updates: preconditions, immutable fields, subresources and deletion of objects that wait for it."""

from __future__ import annotations

from typing import Any

from tests.unit.apiserver_stub.api import Api, Object, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


def changed(obj: Object, **metadata: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def deployment(replicas: int) -> Object:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": "b"}, "spec": spec}


async def test_preconditions_of_an_update() -> None:
    api = Api()
    stored = await api.create(MAPS, config_map("a"))
    await api.create(MAPS, config_map("b"))
    key = "Precondition failed: UID in precondition: x, UID in object meta: "
    for title, target, obj, code, message in (
        ("as stored", "a", stored, 200, ""),
        ("without version", "a", config_map("a"), 200, ""),
        (
            "another name",
            "a",
            config_map("b"),
            400,
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        ("no name", "a", {"metadata": {}}, 400, "was undeterminable"),
        ("another namespace", "a", changed(stored, namespace="x"), 400, "does not match the namespace"),
        ("another UID", "a", changed(stored, uid="x"), 409, key),
        ("old version", "a", changed(stored, resourceVersion="9"), 409, "the object has been modified"),
        ("invalid version", "a", changed(stored, resourceVersion="x"), 500, 'parsing "x": invalid syntax'),
        ("no name in the path", "", config_map("a"), 405, ""),
        ("missing", "c", config_map("c"), 404, 'configmaps "c" not found'),
    ):
        response = await api.request("PUT", f"{MAPS}/{target}".rstrip("/"), obj)
        assert (response.code, message in response.message) == (code, True), (title, response.body)


async def test_update_of_some_kinds_creates_or_requires_a_version() -> None:
    api = Api()
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}}
    for obj, code in (
        (changed(lease, uid="x"), 409),
        (changed(lease, resourceVersion="x"), 500),
        (changed(lease, namespace="x"), 400),
        (lease, 201),
        (lease, 422),
    ):
        response = await api.request("PUT", f"{LEASES}/l", obj)
        assert response.code == code, (obj, response.body)
    assert response.message.endswith("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")
    dry = await api.request("PUT", f"{LEASES}/m?dryRun=All", {**lease, "metadata": {"name": "m"}})
    assert (dry.code, (await api.get(LEASES)).names) == (201, ["l"])


async def test_update_without_effect_writes_nothing() -> None:
    api = Api()
    stored = await api.create(MAPS, config_map("a", {"k": "v"}))
    same = await api.request("PUT", f"{MAPS}/a", config_map("a", {"k": "v"}))
    dry = await api.request("PUT", f"{MAPS}/a?dryRun=All", config_map("a", {"k": "w"}))
    assert (same.obj["metadata"]["resourceVersion"], api.store.writes) == (stored["metadata"]["resourceVersion"], 1)
    assert (dry.obj["data"], api.store.writes) == ({"k": "w"}, 1)
    written = await api.request("PUT", f"{MAPS}/a", config_map("a", {"k": "w"}))
    assert (written.obj["metadata"]["resourceVersion"], api.store.writes) == ("2", 2)


async def test_system_fields_are_those_of_the_stored_object() -> None:
    api = Api()
    stored = (await api.create(DEPLOYMENTS, deployment(1)))["metadata"]
    sent = changed(
        deployment(1), creationTimestamp="2000-01-01T00:00:00Z", generation=9, deletionTimestamp=None, labels={}
    )
    found = (await api.request("PUT", f"{DEPLOYMENTS}/b", sent)).obj["metadata"]
    assert (found["creationTimestamp"], found["generation"]) == (stored["creationTimestamp"], 1)
    assert (found["uid"], "labels" in found) == (stored["uid"], False)


async def test_generation_counts_changes_of_the_spec() -> None:
    api = Api()
    await api.create(DEPLOYMENTS, deployment(1))
    counts = []
    for path, obj in (
        ("b", deployment(2)),
        ("b", deployment(2)),
        ("b", changed(deployment(2), labels={"x": "y"})),
        ("b/status", {**changed(deployment(3)), "status": {"replicas": 1, "readyReplicas": 1}}),
    ):
        response = await api.request("PUT", f"{DEPLOYMENTS}/{path}", obj)
        counts.append((response.obj["metadata"]["generation"], response.obj["spec"]["replicas"]))
    assert counts == [(2, 2), (2, 2), (2, 2), (2, 2)]
    assert response.obj["status"]["readyReplicas"] == 1


async def test_last_finalizer_removes_an_object_that_is_being_deleted() -> None:
    api = Api()
    await api.create(MAPS, changed(config_map("a"), finalizers=["example.com/x", "example.com/y"]))
    pending = (await api.request("DELETE", f"{MAPS}/a")).obj
    assert pending["metadata"]["deletionGracePeriodSeconds"] == 0
    fewer = await api.request("PUT", f"{MAPS}/a", changed(config_map("a"), finalizers=["example.com/x"]))
    assert fewer.obj["metadata"]["deletionTimestamp"] == pending["metadata"]["deletionTimestamp"]
    more = await api.request(
        "PUT", f"{MAPS}/a", changed(config_map("a"), finalizers=["example.com/x", "example.com/z"])
    )
    left = (await api.get(MAPS)).names
    await api.request("PUT", f"{MAPS}/a", config_map("a"))
    assert (more.code, left) == (422, ["a"])
    assert (await api.get(MAPS)).names == []

    await api.create(MAPS, changed(config_map("b"), finalizers=["example.com/x"]))
    await api.request("PUT", f"{MAPS}/b", config_map("b"))
    assert (await api.get(MAPS)).names == ["b"]  # It is not being deleted.


async def test_invalid_changes_are_rejected() -> None:
    api = Api()
    await api.create(MAPS, {**config_map("a"), "immutable": True})
    response = await api.request("PUT", f"{MAPS}/a", {**config_map("a", {"k": "v"}), "immutable": True})
    assert (response.code, "field is immutable when `immutable` is set" in response.message) == (422, True)
    assert response.obj["details"]["kind"] == "ConfigMap"


async def test_repeated_owners_are_dropped_with_a_warning() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
    response = await api.request("PUT", f"{MAPS}/a", changed(config_map("a"), ownerReferences=[owner, owner]))
    assert (len(response.obj["metadata"]["ownerReferences"]), len(response.warnings)) == (1, 1)


async def test_status_is_written_by_its_subresource() -> None:
    api = Api()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    running = {**pod, "status": {"phase": "Running"}}
    ignored = await api.request("PUT", f"{PODS}/p", running)
    written = await api.request("PUT", f"{PODS}/p/status", running)
    missing = await api.request("PUT", f"{PODS}/q/status", changed(running, name="q"))
    assert [item.obj["status"]["phase"] for item in (ignored, written)] == ["Pending", "Running"]
    assert (missing.code, missing.message) == (404, 'pods "q" not found')


async def test_update_that_ends_a_deletion_returns_the_previous_revision() -> None:
    api = Api()
    await api.create(MAPS, changed(config_map("a"), finalizers=["example.com/x"]))
    pending = (await api.request("DELETE", f"{MAPS}/a")).obj

    removed = await api.request(
        "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
    )

    assert (removed.code, "finalizers" in removed.obj["metadata"]) == (200, False)
    assert removed.obj["metadata"]["resourceVersion"] == pending["metadata"]["resourceVersion"]
    assert (await api.get(f"{MAPS}/a")).code == 404


async def test_object_without_finalizers_is_removed_only_if_its_deletion_is_due() -> None:
    api, merge = Api(), "application/merge-patch+json"
    held = {"finalizers": ["example.com/x"]}
    pod = {"metadata": {"name": "p", **held}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
    await api.create(MAPS, changed(config_map("a"), **held))
    await api.create(PODS, pod)
    await api.request("DELETE", f"{PODS}/p")

    for path in (f"{MAPS}/a", f"{PODS}/p"):
        patched = await api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=merge)
        assert (patched.code, "finalizers" in patched.obj["metadata"]) == (200, False), path
        assert (await api.get(path)).code == 200, path


async def test_warnings_about_fields_are_sent_only_for_writes_of_the_object() -> None:
    api, services = Api(), "/api/v1/namespaces/default/services"
    spec, annotations = {"clusterIP": "None"}, {"service.kubernetes.io/topology-aware-hints": "auto"}
    created = await api.create(services, {"metadata": {"name": "s", "annotations": annotations}, "spec": spec})

    whole = await api.request("PUT", f"{services}/s", changed(created, labels={"a": "b"}))
    status = await api.request("PUT", f"{services}/s/status", changed(whole.obj, labels={"c": "d"}))

    assert (whole.code, status.code) == (200, 200)
    assert len(whole.warnings) == 1
    assert status.warnings == []
