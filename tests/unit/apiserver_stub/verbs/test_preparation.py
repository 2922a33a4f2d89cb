"""Tests for the order of the steps of a write: admission plugins receive the object as sent by the client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.objects import encode
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.kinds import Registry
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.kinds.registry import Resource, Strategy, Subresource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Record
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import check_types
from apiserver_stub.verbs.context import VerbContext, VerbSettings
from apiserver_stub.verbs.preparation import DryRun, finished, plan_update, precondition_failed, prepare_new
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import Api, Object, Response, config_map
from tests.unit.apiserver_stub.kinds.test_custom_resources import established, version, widget
from tests.unit.apiserver_stub.validation.pods import pod
from tests.unit.apiserver_stub.validation.test_certificate_requests import request as signing_request


class Limits(AdmissionPlugin):
    """Admission plugin that sets equal requests and limits, and records the received objects."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.names: list[str] = []

    async def admit(self, call: AdmissionRequest) -> None:
        self.seen.append({**call.obj, "status": dict(call.obj.get("status") or {})})
        self.names.append(call.target)
        amounts = {"cpu": "1", "memory": "1Gi"}
        for container in call.obj["spec"]["containers"]:
            container["resources"] = {"limits": dict(amounts), "requests": dict(amounts)}


@pytest.fixture
def limits() -> Limits:
    return Limits()


def server(plugin: AdmissionPlugin) -> Any:
    options = parse([])
    context = VerbContext(SimpleNamespace(), AdmissionChain([plugin]))  # type: ignore[arg-type]
    return SimpleNamespace(context=context, registry=build_registry(options))


def pods(found: Any) -> Resource:
    resource: Resource = found.registry.find("", "v1", "pods")
    return resource


def request(verb: str, subresource: str = "") -> Request:
    info = RequestInfo(verb, "", "", "v1", "pods", subresource, "default", "web")
    return Request("POST", info, Query("dryRun=All"), {}, b"", User("u"), PLAIN, Identity())


async def test_qos_class_follows_requests_set_by_admission(limits: Limits) -> None:
    made = server(limits)
    new = pod(serviceAccountName="default")
    new["status"] = {"phase": "Running"}

    found = await prepare_new(made.context, request("create"), pods(made), new)

    assert found["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert limits.seen[0]["status"] == {"phase": "Running"}


async def test_mutating_admission_precedes_the_generated_name(limits: Limits) -> None:
    made = server(limits)
    new = pod(serviceAccountName="default")
    new["metadata"] = {"generateName": "web-", "namespace": "default"}

    found = await prepare_new(made.context, request("create"), pods(made), new)

    assert found["metadata"]["name"].startswith("web-")
    assert limits.names == [""]


async def test_status_update_drops_spec_changes_of_admission(limits: Limits) -> None:
    made = server(limits)
    old = pod(serviceAccountName="default", metadata={"uid": "u", "resourceVersion": "5"})
    new = pod(serviceAccountName="default", nodeName="node-2")
    check_types(new, pods(made).schema_in("k8s.io"))

    with pytest.raises(DryRun) as dry_run:
        await plan_update(made.context, request("update", "status"), pods(made), new, record(old))

    assert limits.seen[0]["spec"]["nodeName"] == "node-2"
    assert dry_run.value.obj["spec"] == old["spec"]


def record(obj: dict[str, Any]) -> Record:
    return Record("default/web", 5, encode(obj))


@pytest.mark.parametrize("shows_null", [True, False])
async def test_embedded_metadata_has_a_null_creation_time_in_early_releases(limits: Limits, shows_null: bool) -> None:
    found = server(limits)
    context = VerbContext(found.context.store, found.context.admission, VerbSettings(shows_null_times=shows_null))
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    new = pod(volumes=[volume])
    check_types(new, pods(found).schema_in("k8s.io"))

    done = await prepare_new(context, request("create"), pods(found), new)

    metadata = done["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"]
    assert metadata == ({"creationTimestamp": None} if shows_null else {})
    owned = done["metadata"].get("managedFields") or [{"fieldsV1": {}}]
    assert ("f:creationTimestamp" in str(owned[0]["fieldsV1"])) is shows_null


@pytest.mark.parametrize(
    ("metadata", "before", "removed"),
    [
        ({"deletionTimestamp": "t"}, ["x"], True),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, ["x"], True),
        ({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, ["x"], False),
        ({"deletionTimestamp": "t", "finalizers": ["y"]}, ["x"], False),
        ({"deletionTimestamp": "t"}, [], False),
        ({}, ["x"], False),
    ],
)
def test_write_removes_an_object_without_its_last_finalizer(
    limits: Limits, metadata: dict[str, Any], before: list[str], removed: bool
) -> None:
    strategy = server(limits).registry.find("", "v1", "configmaps").strategy

    assert finished(strategy, {"metadata": metadata}, {"metadata": {"finalizers": before}}) is removed


@pytest.mark.parametrize(
    ("group", "plural", "dry_run", "key"),
    [
        ("", "pods", "", "/registry/pods/a/b"),
        ("", "services", "", "/registry/services/specs/a/b"),
        ("", "pods", "dryRun=All", "/pods/a/b"),
    ],
)
def test_failed_precondition_names_the_key(limits: Limits, group: str, plural: str, dry_run: str, key: str) -> None:
    resource = server(limits).registry.find(group, "v1", plural)
    sent = Request("PUT", request("update").info, Query(dry_run), {}, b"", User("u"), PLAIN, Identity())

    error = precondition_failed(sent, resource, "a/b", "b", "UID", "x", "y")

    assert f"Key: {key}, " in str(error)


MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def causes(response: Response) -> list[str]:
    """Return the invalid fields."""
    return [cause["field"] for cause in response.obj["details"]["causes"]]


async def test_error_of_a_new_object_contains_its_name() -> None:
    response = await Api().request("POST", MAPS, {**config_map("a"), "data": {"/": ""}})

    assert response.message.startswith('ConfigMap "a" is invalid: data[/]: ')


class Names(AdmissionPlugin):
    """Admission plugin that records the names of requests and can repeat the owners of objects."""

    def __init__(self, repeats: int = 1) -> None:
        self.names: list[str] = []
        self._repeats = repeats

    async def admit(self, call: AdmissionRequest) -> None:
        self.names.append(call.name)
        if owners := call.obj["metadata"].get("ownerReferences"):
            call.obj["metadata"]["ownerReferences"] = owners * self._repeats


async def test_plugins_get_the_name_of_a_new_object() -> None:
    plugin = Names()
    api = Api(plugins=[plugin])

    await api.create(MAPS, config_map("a"))
    await api.create(MAPS, {"metadata": {"generateName": "b"}})

    assert plugin.names == ["a", ""]


class Metadata(AdmissionPlugin):
    """Admission plugin that changes metadata, as a webhook can."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    async def admit(self, call: AdmissionRequest) -> None:
        call.obj["metadata"].update(self._changes)


NAMESPACE_PROBLEM = "the namespace of the provided object does not match the namespace sent on the request"


@pytest.mark.parametrize(
    ("changes", "method", "code", "message"),
    [
        ({"namespace": "other"}, "POST", 400, NAMESPACE_PROBLEM),
        ({"namespace": "other"}, "PATCH", 400, NAMESPACE_PROBLEM),
        ({"namespace": ""}, "POST", 201, None),
        ({"name": "b"}, "POST", 201, None),
        ({"name": "b"}, "PATCH", 400, "the name of the object (b) does not match the name on the URL (a)"),
    ],
)
async def test_admission_does_not_move_a_new_object(
    changes: Object, method: str, code: int, message: str | None
) -> None:
    api = Api(plugins=[Metadata(**changes)])
    path, apply = (MAPS, "application/json") if method == "POST" else (f"{MAPS}/a?fieldManager=m", APPLY_PATCH)
    body = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")}

    response = await api.request(method, path, body, content_type=apply)

    assert (response.code, response.obj.get("message")) == (code, message)
    stored = [record.key for record in api.store.collection("core/configmaps").select()]
    assert stored == ([f"default/{changes.get('name', 'a')}"] if code == 201 else [])


async def test_admission_does_not_set_fields_of_the_server() -> None:
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "selfLink": "x"}
    api = Api(plugins=[Metadata(**deletion, uid="u")])

    metadata = (await api.create(MAPS, config_map("a")))["metadata"]

    assert (metadata.keys() & deletion.keys(), metadata["uid"] == "u") == (set(), False)


@pytest.mark.parametrize(
    ("path", "spec", "labels", "fields"),
    [
        (BUDGETS, {"minAvailable": -1, "selector": {}}, {"-": ""}, ["spec.minAvailable"]),
        (BUDGETS, {"minAvailable": 1, "selector": {}}, {"-": ""}, ["metadata.labels"]),
        (MAPS, {"/": ""}, {"-": ""}, ["metadata.labels", "data[/]"]),
    ],
)
async def test_metadata_of_some_kinds_is_validated_after_the_rest(
    path: str, spec: Object, labels: Object, fields: list[str]
) -> None:
    content = "data" if path == MAPS else "spec"

    response = await Api().request("POST", path, {"metadata": {"name": "a", "labels": labels}, content: spec})

    assert (response.code, causes(response)) == (422, fields)


@pytest.mark.parametrize(
    ("name", "usages", "fields"),
    [
        ("a:b", ["client auth"], []),
        ("a%b", ["client auth"], ["metadata.name"]),
        ("a%b", ["x"], ["spec.usages[0]"]),
        ("a:b", ["x"], ["spec.usages[0]"]),
    ],
)
async def test_kind_with_any_name_has_names_for_paths(name: str, usages: list[str], fields: list[str]) -> None:
    spec = signing_request(usages=usages)["spec"]

    response = await Api().request("POST", REQUESTS, {"metadata": {"name": name}, "spec": spec})

    assert (causes(response) if response.code == 422 else []) == fields, response.body
    assert response.code == (422 if fields else 201)


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize(("method", "before"), [("POST", True), ("PUT", True), ("PATCH", False)])
async def test_repeated_owners_are_dropped_before_and_after_admission(method: str, before: bool, repeats: int) -> None:
    api = Api(plugins=[Names(repeats)])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}
    obj = config_map("a")
    obj["metadata"]["ownerReferences"] = [owner, owner]
    if method != "POST":
        await api.create(MAPS, config_map("a"))

    path, content_type = (MAPS, "application/json") if method == "POST" else (f"{MAPS}/a", MERGE_PATCH)
    response = await api.request(
        method, path, obj, content_type="application/json" if method == "PUT" else content_type
    )

    assert response.obj["metadata"]["ownerReferences"] == [owner]
    texts = ["contains duplicate entries after mutating" in text for text in response.warnings]
    assert texts == [*([False] if before else []), *([True] if repeats == 2 or not before else [])]


@pytest.mark.parametrize("shows", [True, False])
async def test_null_times_of_an_update_follow_the_release(shows: bool) -> None:
    early, api = Api(settings=VerbSettings(shows_null_times=True)), Api(settings=VerbSettings(shows_null_times=shows))
    template = {"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}, "spec": {"containers": [CONTAINER]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    created = await early.create(DEPLOYMENTS, deployment)
    later = Api(settings=VerbSettings(shows_null_times=shows), store=early.store)

    response = await later.request("PUT", f"{DEPLOYMENTS}/d", {**created, "spec": {**created["spec"], "replicas": 3}})
    new = await api.create(DEPLOYMENTS, deployment)

    assert response.code == 200
    for obj in (response.obj, new):
        assert ("creationTimestamp" in obj["spec"]["template"]["metadata"]) is shows


@pytest.mark.parametrize("shows", [True, False])
async def test_immutable_null_times_of_an_earlier_release_are_unchanged(shows: bool) -> None:
    early, jobs = Api(), "/apis/batch/v1/namespaces/default/jobs"
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    created = await early.create(jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    later = Api(settings=VerbSettings(shows_null_times=shows), store=early.store)

    patched = await later.request("PATCH", f"{jobs}/j", {"spec": {"suspend": True}}, content_type=MERGE_PATCH)

    assert "creationTimestamp" in created["spec"]["template"]["metadata"]
    assert (patched.code, "creationTimestamp" in patched.obj["spec"]["template"]["metadata"]) == (200, shows)


CONTAINER = {"name": "c", "image": "i"}


class Clock:
    """Replaces the time of managed fields; each call is a second later."""

    def __init__(self) -> None:
        self.seconds = 0

    def now(self) -> str:
        self.seconds += 1
        return f"2026-01-01T00:00:{self.seconds:02}Z"


@pytest.mark.parametrize(
    ("method", "content_type"), [("PUT", "application/json"), ("PATCH", "application/apply-patch+yaml")]
)
async def test_time_of_a_manager_changes_only_with_its_fields(
    monkeypatch: pytest.MonkeyPatch, method: str, content_type: str
) -> None:
    monkeypatch.setattr(objects, "now", Clock().now)
    api = Api()
    if method == "PUT":
        await api.create(f"{MAPS}?fieldManager=m", config_map("a", {"k": "1"}))

    async def write(value: str) -> tuple[str, str]:
        path, obj = f"{MAPS}/a?fieldManager=m", config_map("a", {"k": value})
        metadata = (await api.request(method, path, obj, content_type=content_type)).obj["metadata"]
        (entry,) = metadata["managedFields"]
        return metadata["resourceVersion"], entry["time"]

    first, same, changed = [await write(value) for value in "112"]

    assert (same, changed[0], changed[1] > first[1]) == (first, "2", True)


class Reverts(AdmissionPlugin):
    """Admission plugin that restores the data of changed objects."""

    operations = ("UPDATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        assert call.old is not None
        call.obj["data"] = dict(call.old["data"])


async def test_change_that_admission_reverts_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "now", Clock().now)
    api = Api(plugins=[Reverts()])
    created = await api.create(f"{MAPS}?fieldManager=m", config_map("a", {"k": "1"}))

    written = (await api.request("PUT", f"{MAPS}/a?fieldManager=m", config_map("a", {"k": "2"}))).obj

    assert written["metadata"] == created["metadata"]
    assert api.store.writes == 1


@pytest.mark.parametrize("owned", [True, False])
async def test_owners_after_a_write_of_the_status_of_a_custom_object(owned: bool) -> None:
    api = Api(registry=Registry(resources_of(established(version(subresources={"status": {}})))))
    created = await api.create(f"{WIDGETS}?fieldManager=m", widget({"size": 1}, metadata={"name": "a"}))
    if not owned:
        cleared = {**created, "metadata": {**created["metadata"], "managedFields": [{}]}}
        created = (await api.request("PUT", f"{WIDGETS}/a", cleared)).obj

    written = await api.request("PUT", f"{WIDGETS}/a/status?fieldManager=n", {**created, "status": {"x": 1}})

    entries = written.obj["metadata"].get("managedFields") or []
    managers = sorted((entry["manager"], entry.get("subresource", "")) for entry in entries)
    assert (written.code, managers) == (200, [("m", ""), ("n", "status")] if owned else [])


@pytest.mark.parametrize(
    ("subresource", "managers"),
    [
        ("resize", [("m", ""), ("n", "resize")]),
        ("ephemeralcontainers", [("m", "")]),
        ("status", [("m", ""), ("n", "status")]),
    ],
)
@pytest.mark.parametrize("owned", [True, False])
async def test_owners_after_writes_of_pod_subresources(
    subresource: str, managers: list[tuple[str, str]], owned: bool
) -> None:
    api = Api("--feature-gates=InPlacePodVerticalScaling=true", release="1.33")
    pods = "/api/v1/namespaces/default/pods"
    container = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    created = await api.create(f"{pods}?fieldManager=m", pod)
    if not owned:
        cleared = {**created, "metadata": {**created["metadata"], "managedFields": [{}]}}
        created = (await api.request("PUT", f"{pods}/p", cleared)).obj
    resized = {**created["spec"]["containers"][0], "resources": {"requests": {"cpu": "2"}}}
    changes = {
        "resize": {"spec": {**created["spec"], "containers": [resized]}},
        "ephemeralcontainers": {"spec": {**created["spec"], "ephemeralContainers": [{"name": "e", "image": "i"}]}},
        "status": {"status": {"phase": "Running"}},
    }

    response = await api.request("PUT", f"{pods}/p/{subresource}?fieldManager=n", {**created, **changes[subresource]})

    assert response.code == 200, response.body
    entries = response.obj["metadata"].get("managedFields") or []
    found = sorted((entry["manager"], entry.get("subresource", "")) for entry in entries)
    assert found == (managers if owned else [])


class Recorded(Strategy):
    """Rules that record allocations, and warn about each write."""

    reserves = True

    def __init__(self) -> None:
        self.reserved: list[tuple[bool, bool]] = []

    async def reserve(self, store: Any, new: Object | None, old: Object | None, *, dry_run: bool = False) -> Any:
        self.reserved.append((new is not None, old is not None))
        return NoReservation()

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return ["object"]

    def status_warnings(self, new: Object) -> list[str]:
        return ["status"]


class NoReservation:
    async def keep(self) -> None:
        pass

    async def release(self) -> None:
        pass


async def test_subresources_allocate_nothing_and_have_their_own_warnings() -> None:
    strategy = Recorded()
    subresources = (Subresource("status"), Subresource("other"))
    kind = Resource("example.com", "v1", "Widget", "widgets", strategy=strategy, subresources=subresources)
    api = Api(registry=Registry([kind]))
    created = await api.create(WIDGETS, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})

    warnings = []
    for path in ("a", "a/status", "a"):
        labels = {"n": str(len(warnings))}
        obj = {**created, "metadata": {**created["metadata"], "resourceVersion": "", "labels": labels}}
        response = await api.request("PUT", f"{WIDGETS}/{path}", obj)
        assert response.code == 200, response.body
        warnings.append(response.warnings)

    assert warnings == [["object"], ["status"], ["object"]]
    assert strategy.reserved == [(True, False), (True, True), (True, True)]


async def test_last_finalizer_in_the_status_releases_allocations() -> None:
    strategy = Recorded()
    kind = Resource("example.com", "v1", "Widget", "widgets", strategy=strategy, subresources=(Subresource("status"),))
    api = Api(registry=Registry([kind]))
    await api.create(WIDGETS, {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
    await api.request("DELETE", f"{WIDGETS}/a")
    strategy.reserved.clear()

    response = await api.request(
        "PATCH", f"{WIDGETS}/a/status", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH
    )

    assert (response.code, strategy.reserved) == (200, [(False, True)])
    assert (await api.get(f"{WIDGETS}/a")).code == 404


@pytest.mark.parametrize("shows", [True, False])
async def test_kind_without_a_schema_can_be_written(shows: bool) -> None:
    registry = Registry([Resource("example.com", "v1", "Widget", "widgets")])
    api = Api(registry=registry, settings=VerbSettings(shows_null_times=shows))

    created = await api.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"x": 1}})
    updated = await api.request("PUT", f"{WIDGETS}/a", {"metadata": {"name": "a"}, "spec": {"x": 2}})
    patched = await api.request("PATCH", f"{WIDGETS}/a", {"spec": {"y": 3}}, content_type=MERGE_PATCH)

    assert [obj["spec"] for obj in (created, updated.obj, patched.obj)] == [{"x": 1}, {"x": 2}, {"x": 2, "y": 3}]
