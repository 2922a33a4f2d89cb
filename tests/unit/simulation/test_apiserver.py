"""Tests for the simulated API server."""

import msgspec
import pytest

from nodeagent.apiclient.transport import Request
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.trace import Trace
from nodeagent.simulation.apiserver import CONFIG_MAPS, NODES, PODS, Rejection, SimulatedApiServer, parse_target

from .host import Loop

POD = "/api/v1/namespaces/default/pods/a"


@pytest.fixture
def server():
    loop = Loop(now=1.0)
    server = SimulatedApiServer(1, SimulatedClock(loop), Trace(loop.time))
    for name, labels in (("a", {"app": "web"}), ("b", {})):
        server.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": "n"}}, "default")
    return server


def send(server, method, target, body=None, content_type="application/merge-patch+json"):
    content = b"" if body is None else msgspec.json.encode(body)
    response = server.handle(Request(method, target, {"Content-Type": content_type}, content))
    return response.status, msgspec.json.decode(response.body)


def names(result):
    return [item["metadata"]["name"] for item in result[1]["items"]]


def test_status_and_labels_are_changed_by_the_subresource(server):
    change = {"metadata": {"labels": {"x": "y"}}, "spec": {"nodeName": "m"}, "status": {"phase": "Running"}}

    code, pod = send(server, "PATCH", f"{POD}/status", change)
    assert (code, pod["status"], pod["spec"]) == (200, {"phase": "Running"}, {"nodeName": "n"})
    assert pod["metadata"]["labels"] == {"app": "web", "x": "y"}
    assert "annotations" not in pod["metadata"]

    code, pod = send(server, "PATCH", POD, {"spec": {"nodeName": "m"}, "status": {"phase": "Failed"}})
    assert (code, pod["status"], pod["spec"]) == (200, {"phase": "Running"}, {"nodeName": "m"})


def test_metadata_that_is_not_sent_with_a_status_is_kept(server):
    pod = server.find(PODS, "default", "a")
    code, changed = send(server, "PUT", f"{POD}/status", {"metadata": {"name": "a"}, "status": {"phase": "Running"}})

    assert (code, changed["status"]) == (200, {"phase": "Running"})
    assert changed["metadata"]["labels"] == pod["metadata"]["labels"] == {"app": "web"}


def test_other_objects_have_no_separate_status(server):
    server.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {}}, "default")
    _, changed = send(server, "PATCH", "/api/v1/namespaces/default/configmaps/c", {"status": "x", "data": {"a": "b"}})
    assert (changed["status"], changed["data"]) == ("x", {"a": "b"})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/api/v1/pods", ["a", "b"]),
        ("/api/v1/namespaces/default/pods", ["a", "b"]),
        ("/api/v1/namespaces/other/pods", []),
        ("/api/v1/pods?labelSelector=app%3Dweb", ["a"]),
        ("/api/v1/pods?fieldSelector=metadata.name%3Db", ["b"]),
        ("/api/v1/pods?fieldSelector=metadata.name!%3Db", ["a"]),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Dn", ["a", "b"]),
        ("/api/v1/pods?fieldSelector=spec.nodeName.x%3Dn", []),
        ("/api/v1/nodes", []),
    ],
)
def test_lists_contain_the_selected_objects(server, target, expected):
    assert names(send(server, "GET", target)) == expected


def test_missing_and_existing_objects_are_rejected(server):
    assert send(server, "GET", "/api/v1/namespaces/default/pods/c")[0] == 404
    with pytest.raises(Rejection) as raised:
        server.create(PODS, {"metadata": {"name": "a"}}, "default")
    assert (raised.value.code, raised.value.reason) == (409, "AlreadyExists")
    assert server.find(NODES, "", "n") is None


def events(watch):
    found = []
    while not watch.queue.empty():
        kind, obj, _ = watch.queue.get_nowait()
        found.append((kind, obj["metadata"]["name"]))
    return found


async def test_watch_reports_objects_that_start_and_cease_to_match(server):
    version = send(server, "GET", "/api/v1/pods")[1]["metadata"]["resourceVersion"]
    target = f"/api/v1/pods?watch=true&labelSelector=app%3Dweb&resourceVersion={version}"
    watch = server.open(Request("GET", target))

    def label(name, value):
        server.modify(PODS, "default", name, lambda pod: pod["metadata"].update(labels={"app": value}))

    server.modify(PODS, "default", "a", lambda pod: pod["metadata"].update(annotations={"x": "y"}))
    label("a", "db")
    label("b", "db")
    label("b", "web")
    server.create(CONFIG_MAPS, {"metadata": {"name": "c", "labels": {"app": "web"}}}, "default")
    server.delete(PODS, "default", "b", 0)
    server.delete(PODS, "default", "a", 0)

    found = events(watch)
    assert [each for each in found if each[1] == "a"] == [("MODIFIED", "a"), ("DELETED", "a")]
    assert next(kind for kind, name in found if name == "b") == "ADDED"
    assert found[-1] == ("DELETED", "b")
    assert "c" not in {name for _, name in found}


def test_changes_of_another_version_or_uid_are_rejected(server):
    pod = server.find(PODS, "default", "a")
    version, uid = pod["metadata"]["resourceVersion"], pod["metadata"]["uid"]

    assert send(server, "PATCH", POD, {"metadata": {"resourceVersion": "0"}, "x": 1})[0] == 409
    assert send(server, "PATCH", POD, {"metadata": {"uid": "0"}, "x": 1})[0] == 409
    assert send(server, "PATCH", POD, {"metadata": {"uid": uid, "resourceVersion": version}, "x": 1})[0] == 200
    assert send(server, "PUT", POD, {"metadata": {"name": "a", "resourceVersion": version}})[0] == 409
    assert send(server, "PUT", POD, {"metadata": {"name": "a"}, "x": 2})[0] == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [(None, 200), ({}, 200), ({"preconditions": {"uid": "other"}}, 409), ({"preconditions": None}, 200)],
)
def test_deletion_has_a_precondition(server, body, code):
    server.create(CONFIG_MAPS, {"metadata": {"name": "c"}}, "default")
    assert send(server, "DELETE", "/api/v1/namespaces/default/configmaps/c", body)[0] == code


@pytest.mark.parametrize(
    ("target", "stored"),
    [
        ("/apis/authentication.k8s.io/v1/tokenreviews", False),
        ("/api/v1/namespaces/default/pods/a/eviction", False),
        ("/api/v1/namespaces/default/configmaps", True),
        ("/api/v1/nodes", True),
    ],
)
def test_reviews_and_subresources_are_not_stored(server, target, stored):
    before = sum(map(len, server.objects.values()))
    assert send(server, "POST", target, {"metadata": {"name": "new"}})[0] == 201
    assert sum(map(len, server.objects.values())) - before == stored


def test_token_has_the_requested_expiration(server):
    target = "/api/v1/namespaces/default/serviceaccounts/sa/token"
    first, second = (send(server, "POST", target, {"spec": {"expirationSeconds": 600}})[1]["status"] for _ in "12")
    assert first["token"] != second["token"] and first["expirationTimestamp"] == second["expirationTimestamp"]


def test_other_requests_are_rejected(server):
    assert send(server, "DELETE", "/api/v1/pods")[0] == 405
    assert send(server, "GET", "/version")[1]["gitVersion"] == "v1.34.0"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/api/v1/pods", ("/api/v1/pods", "", "", "")),
        ("/api/v1/namespaces/x/pods/a/status?a=b", ("/api/v1/pods", "x", "a", "status")),
        ("/api/v1/namespaces/x", ("/api/v1/namespaces", "", "x", "")),
        ("/apis/g/v1/things/a%2Fb", ("/apis/g/v1/things", "", "a/b", "")),
    ],
)
def test_target_has_its_parts(text, parts):
    target = parse_target(text)
    assert (target.collection, target.namespace, target.name, target.subresource) == parts
    assert target.query == ({"a": "b"} if "?" in text else {})


def test_unchanged_object_keeps_its_version(server):
    pod = server.find(PODS, "default", "a")
    server.modify(PODS, "default", "a", lambda _pod: None)
    server.modify(PODS, "default", "missing", lambda _pod: None)
    assert server.find(PODS, "default", "a") is pod


def test_name_is_generated(server):
    created = server.create(CONFIG_MAPS, {"metadata": {"generateName": "c-"}}, "default")
    assert created["metadata"]["name"].startswith("c-")
    named = server.create(CONFIG_MAPS, {"metadata": {"generateName": "c-", "name": "own"}}, "default")
    assert named["metadata"]["name"] == "own"


def test_json_patch_that_cannot_be_applied_is_invalid(server):
    patch = [{"op": "remove", "path": "/metadata/labels/missing"}]

    code, status = send(server, "PATCH", POD, patch, "application/json-patch+json")

    assert (code, status["reason"]) == (422, "Invalid")


def test_deletion_of_a_pod_only_shortens_its_grace_period(server):
    def deleted(grace):
        server.delete(PODS, "default", "a", grace)
        pod = server.find(PODS, "default", "a")
        return pod and pod["metadata"]["deletionGracePeriodSeconds"]

    assert [deleted(grace) for grace in (20, 30, 10, 0)] == [20, 20, 10, None]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"kubernetes.io/config.mirror": "hash"}}},
        {"status": {"phase": "Failed"}},
        {"spec": {}},
    ],
    ids=["mirror", "finished", "unscheduled"],
)
def test_pod_that_no_agent_terminates_is_deleted_immediately(server, change):
    pod = {"metadata": {"name": "c"}, "spec": {"nodeName": "n"}} | change
    server.create(PODS, pod | {"metadata": {"name": "c", **pod["metadata"]}}, "default")

    server.delete(PODS, "default", "c", None)

    assert server.find(PODS, "default", "c") is None


def test_repeated_deletion_does_not_change_the_time_of_the_end(server):
    server.delete(PODS, "default", "a", 20)
    before = server.find(PODS, "default", "a")
    server._clock._loop.now += 5.0

    server.delete(PODS, "default", "a", 20)

    assert server.find(PODS, "default", "a") == before


def test_watch_resumes_after_its_version(server):
    a, b = (server.find(PODS, "default", name)["metadata"]["resourceVersion"] for name in "ab")

    def delivered(version):
        query = f"?watch=true&resourceVersion={version}" if version else "?watch=true"
        return server.open(Request("GET", f"/api/v1/namespaces/default/pods{query}")).queue.qsize()

    assert [delivered(version) for version in ("1", a, b, "")] == [2, 1, 0, 0]
    server.compact()
    with pytest.raises(Rejection, match="too old resource version"):
        delivered(b)
    assert delivered(str(server._version)) == 0


def test_only_events_expire(server):
    events = "/api/v1/events"
    for number in range(201):
        server.create(events, {"metadata": {"name": f"e-{number}", "uid": f"u-{number}"}}, "default")
        server.create(CONFIG_MAPS, {"metadata": {"name": f"c-{number}"}, "data": {}}, "default")

    assert (len(server.objects[events]), len(server.objects[CONFIG_MAPS])) == (200, 201)
    assert server.find(events, "default", "e-0") is None
    assert server.find(events, "default", "e-1")["metadata"]["uid"] == "u-1"
