"""Tests for create, read, update, watch and delete of common kinds."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from nodeagent.base import apiproto

from .conftest import Api, Server

PROTOBUF = "application/vnd.kubernetes.protobuf"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, "automountServiceAccountToken": False, **spec},
    }


def test_life_cycle_of_an_object(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    created = api.ok("POST", path, config_map("a", k="1"))
    assert created["metadata"]["uid"]
    assert created["metadata"]["creationTimestamp"].endswith("Z")
    assert api.ok("GET", f"{path}/a") == created

    created["data"]["k"] = "2"
    replaced = api.ok("PUT", f"{path}/a", created)
    assert int(replaced["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    code, stale = api.call("PUT", f"{path}/a", created)
    assert (code, stale["reason"]) == (409, "Conflict")
    assert "the object has been modified" in stale["message"]

    unchanged = api.ok("PUT", f"{path}/a", replaced)
    assert unchanged["metadata"]["resourceVersion"] == replaced["metadata"]["resourceVersion"]

    deleted = api.ok("DELETE", f"{path}/a")
    assert (deleted["kind"], deleted["status"]) == ("Status", "Success")
    assert deleted["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    code, missing = api.call("GET", f"{path}/a")
    assert (code, missing["message"]) == (404, 'configmaps "a" not found')


def test_duplicate_or_missing_namespace_is_an_error(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, config_map("a"))

    code, again = api.call("POST", path, config_map("a"))
    assert (code, again["reason"], again["message"]) == (409, "AlreadyExists", 'configmaps "a" already exists')
    code, nowhere = api.call("POST", "/api/v1/namespaces/nope/configmaps", config_map("a"))
    assert (code, nowhere["message"]) == (404, 'namespaces "nope" not found')
    code, nameless = api.call("POST", path, {"metadata": {}})
    assert code == 422
    assert nameless["details"]["causes"][0]["field"] == "metadata.name"


def test_patches_of_every_type(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/a"
    api.ok("POST", path.rpartition("/")[0], config_map("a", k="1", gone="x"))

    merged = api.ok("PATCH", path, {"data": {"gone": None, "m": "2"}}, content_type=MERGE)
    assert merged["data"] == {"k": "1", "m": "2"}
    operations = [{"op": "test", "path": "/data/k", "value": "1"}, {"op": "add", "path": "/data/j", "value": "3"}]
    assert api.ok("PATCH", path, operations, content_type=JSON_PATCH)["data"]["j"] == "3"
    code, failed = api.call("PATCH", path, [{"op": "remove", "path": "/nope"}], content_type=JSON_PATCH)
    assert (code, failed["details"]) == (422, {})
    code, _ = api.call("PATCH", path, {}, content_type="text/plain")
    assert code == 415
    same = api.ok("PATCH", path, {}, content_type=STRATEGIC)
    assert same["metadata"]["resourceVersion"] == api.ok("GET", path)["metadata"]["resourceVersion"]
    stale = {"metadata": {"resourceVersion": merged["metadata"]["resourceVersion"]}, "data": {"z": "1"}}
    assert api.call("PATCH", path, stale, content_type=MERGE)[0] == 409
    dry = api.ok("PATCH", f"{path}?dryRun=All", {"data": {"dry": "1"}}, content_type=MERGE)
    assert dry["data"]["dry"] == "1"
    assert "dry" not in api.ok("GET", path)["data"]


def test_lists_select_page_and_stay_consistent(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for number in range(5):
        labels = {"app": "web" if number % 2 else "db"}
        api.ok("POST", path, {"metadata": {"name": f"s{number}", "labels": labels}, "type": "example.com/t"})

    def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in api.ok("GET", path + query)["items"]]

    assert names("?labelSelector=app%3Dweb") == ["s1", "s3"]
    assert names("?labelSelector=app%20notin%20(web)") == ["s0", "s2", "s4"]
    assert names("?fieldSelector=metadata.name%3Ds2") == ["s2"]
    assert len(names("?fieldSelector=type%3Dexample.com/t,metadata.name!%3Ds2")) == 4
    code, wrong = api.call("GET", f"{path}?fieldSelector=foo%3Dbar")
    assert (code, wrong["message"]) == (400, "field label not supported: foo")

    first = api.ok("GET", f"{path}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    api.ok("DELETE", f"{path}/s3")
    second = api.ok("GET", f"{path}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["s2", "s3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = api.ok("GET", f"{path}?limit=2&continue={second['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in third["items"]] == ["s4"]
    assert "continue" not in third["metadata"]
    assert "kind" not in first["items"][0]

    then = first["metadata"]["resourceVersion"]
    assert names(f"?resourceVersion={then}&resourceVersionMatch=Exact") == ["s0", "s1", "s2", "s3", "s4"]
    assert names(f"?resourceVersion={then}&resourceVersionMatch=NotOlderThan") == ["s0", "s1", "s2", "s4"]
    code, future = api.call("GET", f"{path}?resourceVersion=999999999")
    assert (code, future["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    everything = api.ok("DELETE", f"{path}?labelSelector=app%3Ddb")
    assert everything["kind"] == "SecretList"
    assert names("") == ["s1"]


def test_watch_resumes_and_applies_selectors(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    start = api.ok("GET", path)["metadata"]["resourceVersion"]
    one = config_map("one")
    one["metadata"]["labels"] = {"app": "web"}
    api.ok("POST", path, one)
    api.ok("POST", path, config_map("other"))
    api.ok("PATCH", f"{path}/one", {"metadata": {"labels": {"app": "db"}}}, content_type=MERGE)

    with api.watch(f"{path}?watch=1&resourceVersion={start}&labelSelector=app%3Dweb&timeoutSeconds=5") as events:
        added, deleted = next(events), next(events)
        api.ok("PATCH", f"{path}/other", {"metadata": {"labels": {"app": "web"}}}, content_type=MERGE)
        turned = next(events)
        api.ok("DELETE", f"{path}/other")
        gone = next(events)

    assert [event["type"] for event in (added, deleted, turned, gone)] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    assert deleted["object"]["metadata"]["labels"] == {"app": "web"}
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(added["object"]["metadata"]["resourceVersion"])
    assert turned["object"]["metadata"]["name"] == gone["object"]["metadata"]["name"] == "other"


def test_watch_without_version_starts_with_existing_objects(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    names = {item["metadata"]["name"] for item in api.ok("GET", path)["items"]}
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    with api.watch(f"{path}?watch=1&timeoutSeconds=1") as events:
        assert {event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"} == names
    code, rejection = api.call("GET", f"{path}?watch=1&{query}")
    assert (code, rejection["message"]) == (
        422,
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch '
        "unless the WatchList feature gate is enabled",
    )


def test_watch_before_the_history_is_an_expired_error(api: Api) -> None:
    with api.watch("/api/v1/nodes?watch=1&resourceVersion=1") as events:
        (error,) = list(events)

    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")


def test_pod_has_defaults_and_a_qos_class(api: Api, namespace: str) -> None:
    resources = {"limits": {"cpu": 1, "memory": "1Gi"}}
    containers = [{"name": "c", "image": "busybox", "resources": resources, "livenessProbe": {"httpGet": {"port": 80}}}]
    created = api.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p", containers=containers))

    spec, container = created["spec"], created["spec"]["containers"][0]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert spec["securityContext"] == {}
    assert spec["serviceAccountName"] == "default"
    assert spec["priority"] == 0
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    assert container["livenessProbe"]["periodSeconds"] == 10
    assert created["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}, "spec.containers[1].name"),
        ({"containers": [{"name": "A_b", "image": "x"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        (
            {"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
        ),
    ],
)
def test_invalid_pod_is_rejected(api: Api, namespace: str, spec: Any, field: str) -> None:
    code, response = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p", **spec))

    assert (code, response["reason"]) == (422, "Invalid")
    assert field in [cause["field"] for cause in response["details"]["causes"]]


def test_pod_with_wrong_types_is_rejected(api: Api, namespace: str) -> None:
    containers = [{"name": "a", "image": "x", "command": "sh"}]
    code, response = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod("p", containers=containers))

    assert code == 400
    assert "spec.containers.command" in response["message"]


def test_graceful_deletion(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    created = api.ok("POST", path, pod("p", nodeName="n1", terminationGracePeriodSeconds=30))

    first = api.ok("DELETE", f"{path}/p")
    assert first["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.ok("DELETE", f"{path}/p") == first
    sooner = api.ok("DELETE", f"{path}/p?gracePeriodSeconds=5")
    assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
    assert sooner["metadata"]["deletionTimestamp"] < first["metadata"]["deletionTimestamp"]
    wrong = {"gracePeriodSeconds": 0, "preconditions": {"uid": "another"}}
    assert api.call("DELETE", f"{path}/p", wrong)[0] == 409
    assert api.ok("GET", f"{path}/p")["metadata"]["uid"] == created["metadata"]["uid"]
    api.ok("DELETE", f"{path}/p", {"gracePeriodSeconds": 0, "preconditions": {"uid": created["metadata"]["uid"]}})
    assert api.call("GET", f"{path}/p")[0] == 404

    api.ok("POST", path, pod("unbound"))
    api.ok("DELETE", f"{path}/unbound")
    assert api.call("GET", f"{path}/unbound")[0] == 404


def test_pod_status_is_a_separate_subresource(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.ok("POST", path, pod("p", nodeName="n1"))
    patch = {
        "metadata": {"annotations": {"seen": "yes"}, "deletionTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"nodeName": "n2"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "$setElementOrder/conditions": [{"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }

    updated = api.ok("PATCH", f"{path}/p/status", patch, content_type=STRATEGIC)

    assert updated["spec"]["nodeName"] == "n1"
    assert updated["status"]["phase"] == "Running"
    assert updated["status"]["podIPs"] == [{"ip": "10.0.0.9"}]
    assert updated["metadata"]["annotations"] == {"seen": "yes"}
    assert "deletionTimestamp" not in updated["metadata"]
    main = api.ok("PATCH", f"{path}/p", {"status": {"phase": "Failed"}}, content_type=MERGE)
    assert main["status"]["phase"] == "Running"
    code, rejection = api.call("PATCH", f"{path}/p", {"spec": {"hostNetwork": True}}, content_type=MERGE)
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "spec")
    image = {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}
    changed = api.ok("PATCH", f"{path}/p", image, content_type=STRATEGIC)
    assert changed["spec"]["containers"][0]["image"] == "busybox:2"
    selected = api.ok("GET", f"{path}?fieldSelector=spec.nodeName%3Dn1,status.phase%3DRunning")
    assert len(selected["items"]) == 1


def test_pod_is_bound_by_the_binding_subresource(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.ok("POST", path, pod("p"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n7"},
    }

    assert api.ok("POST", f"{path}/p/binding", binding)["code"] == 201

    assert api.ok("GET", f"{path}/p")["spec"]["nodeName"] == "n7"
    code, again = api.call("POST", f"{path}/p/binding", binding)
    assert (code, again["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n7"',
    )
    api.ok("DELETE", f"{path}/p?gracePeriodSeconds=0")


def test_pending_pods_are_bound_to_the_only_ready_node(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.ok("POST", path, pod("waiting"))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}
    start = api.ok("GET", path)["metadata"]["resourceVersion"]
    with api.watch(f"{path}?watch=1&resourceVersion={start}&fieldSelector=spec.nodeName%3Dsingle") as events:
        api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "single"}, "status": ready})
        assert next(events)["object"]["metadata"]["name"] == "waiting"
    try:
        api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "second"}, "status": ready})
        undecided = api.ok("POST", path, pod("undecided"))
        api.ok("POST", path, pod("after"))
        assert "nodeName" not in api.ok("GET", f"{path}/undecided")["spec"], undecided
    finally:
        api.ok("DELETE", "/api/v1/nodes/single")
        api.ok("DELETE", "/api/v1/nodes/second")
        for name in ("waiting", "undecided", "after"):
            api.ok("DELETE", f"{path}/{name}?gracePeriodSeconds=0")


def test_event_is_served_in_both_groups(api: Api, namespace: str) -> None:
    core, new = f"/api/v1/namespaces/{namespace}/events", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    event = {
        "metadata": {"name": "e1"},
        "eventTime": "2026-11-21T00:00:00.000000Z",
        "action": "Binding",
        "reason": "Scheduled",
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "type": "Normal",
        "note": "hello",
        "regarding": {"kind": "Pod", "namespace": namespace, "name": "p", "uid": "u"},
    }
    created = api.ok("POST", new, event)

    old = api.ok("GET", f"{core}/e1")
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "hello", "p")
    assert old["metadata"] == created["metadata"]
    series = {"series": {"count": 2, "lastObservedTime": "2026-11-21T00:00:01.000000Z"}}
    assert api.ok("PATCH", f"{core}/e1", series, content_type=STRATEGIC)["series"]["count"] == 2
    again = api.ok("GET", f"{new}/e1")
    assert (again["apiVersion"], again["note"], again["series"]["count"]) == ("events.k8s.io/v1", "hello", 2)
    assert len(api.ok("GET", f"{core}?fieldSelector=involvedObject.name%3Dp,involvedObject.uid%3Du")["items"]) == 1
    assert len(api.ok("GET", f"{new}?fieldSelector=regarding.name%3Dq")["items"]) == 0
    code, fixed = api.call("PATCH", f"{new}/e1", {"note": "other"}, content_type=MERGE)
    assert (code, fixed["details"]["causes"][0]["field"]) == (422, "message")
    code, _ = api.call("POST", new, {"metadata": {}})
    assert code == 422
    legacy = {"metadata": {"name": "e2"}, "involvedObject": {"namespace": namespace}, "message": "m", "count": 3}
    api.ok("POST", core, legacy)
    assert api.ok("GET", f"{new}/e2")["deprecatedCount"] == 3


def test_lease_is_created_and_renewed(api: Api) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = api.ok("POST", path, {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}})
    lease["spec"]["renewTime"] = "2026-11-21T00:00:00.000000Z"

    assert api.ok("PUT", f"{path}/n1", lease)["spec"]["renewTime"] == "2026-11-21T00:00:00.000000Z"
    del lease["metadata"]["resourceVersion"]
    code, response = api.call("PUT", f"{path}/n1", lease)
    assert (code, response["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    api.ok("DELETE", f"{path}/n1")


def test_protobuf_requests_and_responses(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    accept = {"Accept": PROTOBUF}
    body = apiproto.encode(pod("p"))

    code, headers, data = api.raw("POST", path, body, content_type=PROTOBUF, headers=accept)
    assert (code, headers["content-type"]) == (201, PROTOBUF)
    assert apiproto.decode(data)["spec"]["restartPolicy"] == "Always"
    _, _, listed = api.raw("GET", path, headers=accept)
    assert [item["metadata"]["name"] for item in apiproto.decode(listed)["items"]] == ["p"]
    code, headers, missing = api.raw("GET", f"{path}/nope", headers=accept)
    assert (code, apiproto.decode(missing)["reason"]) == (404, "NotFound")
    code, _, watched = api.raw("GET", f"{path}?watch=1&timeoutSeconds=1", headers=accept)
    assert int.from_bytes(watched[:4], "big") == len(watched) - 4
    assert b"ADDED" in watched
    code, rejection = api.call("POST", path, b"k8s\0\xff\xff", content_type=PROTOBUF)
    assert (code, rejection["reason"]) == (400, "BadRequest")


def test_service_account_tokens_end_with_the_account(server: Server, api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    holder = api.ok("POST", f"{path}/pods", pod("p"))
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "expirationSeconds": 3607,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": holder["metadata"]["uid"]},
        },
    }
    granted = api.ok("POST", f"{path}/serviceaccounts/default/token", request)
    token = granted["status"]["token"]
    claims = base64.urlsafe_b64decode(token.split(".")[1] + "==")
    assert holder["metadata"]["uid"].encode() in claims

    def review() -> Any:
        return api.ok("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})["status"]

    assert review()["user"]["username"] == f"system:serviceaccount:{namespace}:default"
    bearer = server.api(token)
    code, who = bearer.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert code == 201
    assert f"system:serviceaccounts:{namespace}" in who["status"]["userInfo"]["groups"]
    code, rejection = bearer.call("GET", f"{path}/secrets")
    assert (code, rejection["reason"]) == (403, "Forbidden")
    bearer.close()
    request["spec"] = {"expirationSeconds": 10}
    assert api.call("POST", f"{path}/serviceaccounts/default/token", request)[0] == 422
    api.ok("DELETE", f"{path}/pods/p")


def test_finalizers_delay_deletion(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kept = config_map("a")
    kept["metadata"]["finalizers"] = ["example.com/f"]
    api.ok("POST", path, kept)

    waiting = api.ok("DELETE", f"{path}/a")
    assert waiting["metadata"]["deletionTimestamp"]
    assert api.call("DELETE", f"{path}/a?orphanDependents=false")[0] == 202
    api.ok("PATCH", f"{path}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)

    assert api.call("GET", f"{path}/a")[0] == 404


def test_namespace_deletion_deletes_its_contents(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    api.ok("POST", "/api/v1/namespaces/short-lived/configmaps", config_map("a"))
    api.ok("POST", "/api/v1/namespaces/short-lived/pods", pod("p", nodeName="n1"))

    terminating = api.ok("DELETE", "/api/v1/namespaces/short-lived")
    assert terminating["status"]["phase"] == "Terminating"
    code, rejection = api.call("POST", "/api/v1/namespaces/short-lived/configmaps", config_map("b"))
    assert (code, rejection["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    api.ok("DELETE", "/api/v1/namespaces/short-lived/pods/p", {"gracePeriodSeconds": 0})
    end = time.monotonic() + 20
    while api.call("GET", "/api/v1/namespaces/short-lived")[0] != 404:
        assert time.monotonic() < end
        time.sleep(0.05)

    assert api.ok("GET", "/api/v1/namespaces/short-lived/configmaps")["items"] == []
    code, protected = api.call("DELETE", "/api/v1/namespaces/default")
    assert (code, protected["message"]) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


def test_pod_fields_of_later_releases_are_persisted(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    profile = {"type": "Localhost", "localhostProfile": "strict"}
    container = {
        "name": "c",
        "image": "busybox:1",
        "securityContext": {"appArmorProfile": profile},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}],
        "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {"exec": {"command": ["true"]}}},
    }
    added = {
        "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}},
        "hostnameOverride": "other",
        "schedulingGroup": {"podGroupName": "g"},
        "securityContext": {
            "appArmorProfile": {"type": "RuntimeDefault"},
            "supplementalGroupsPolicy": "Strict",
            "seLinuxChangePolicy": "Recursive",
        },
    }
    sent = pod("p", containers=[container], volumes=[{"name": "v", "emptyDir": {}}], **added)

    created = api.ok("POST", f"{path}?fieldValidation=Strict", sent)
    _, _, data = api.raw("GET", f"{path}/p", headers={"Accept": PROTOBUF})

    spec = api.ok("GET", f"{path}/p")["spec"]
    assert spec == created["spec"] == apiproto.decode(data)["spec"]
    assert {name: spec[name] for name in added} == added
    stored = spec["containers"][0]
    assert {name: stored[name] for name in container} == container
