"""Tests for deletions: options, preconditions, finalizers and grace periods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.media import JSON, PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Outcome, Record
from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.layout import Layout
from apiserver_stub.verbs import unreadable
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.context import UnsafeDeletions, VerbSettings
from apiserver_stub.verbs.delete import _later, read_options
from nodeagent.base.identity import Identity
from nodeagent.base.simulation.loop import SimulatedLoop
from tests.unit.apiserver_stub.api import Api, Object, config_map
from tests.unit.apiserver_stub.authz.conftest import Memory


def deletion(body: Any = None, query: str = "") -> Request:
    info = RequestInfo("delete", "/api/v1/namespaces/d/pods/p", "", "v1", "pods", "", "d", "p")
    data = b"" if body is None else json.dumps(body).encode()
    return Request("DELETE", info, Query(query), {"Content-Type": JSON}, data, User("u"), PLAIN, Identity())


def test_body_overrides_the_query() -> None:
    found = read_options(deletion({"gracePeriodSeconds": -1, "preconditions": {"uid": "1"}}, "dryRun=All"))

    assert found == {
        "gracePeriodSeconds": -1,
        "preconditions": {"uid": "1"},
        "dryRun": False,
        "propagationPolicy": None,
        "orphanDependents": None,
    }


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"preconditions": 5}, "preconditions"),
        ({"preconditions": {"uid": 5}}, "preconditions.uid"),
        ({"dryRun": "All"}, "dryRun"),
        ({"dryRun": 5}, "dryRun"),
        ({"propagationPolicy": 5}, "propagationPolicy"),
        ({"orphanDependents": "yes"}, "orphanDependents"),
        ({"gracePeriodSeconds": True}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": 1 << 63}, "gracePeriodSeconds"),
        ({"kind": 5}, "kind"),
    ],
)
def test_values_of_the_wrong_type_are_rejected(body: Any, member: str) -> None:
    with pytest.raises(ApiError) as error:
        read_options(deletion(body))

    assert error.value.code == 400
    assert f".{member} of type" in error.value.message


@pytest.mark.parametrize("seconds", [2**40, 2**63 - 1])
def test_end_of_a_huge_grace_period_is_the_latest_time(seconds: int) -> None:
    assert _later(datetime.now(UTC), seconds).year == 9999


MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"


def pod(name: str = "p", node: str = "", **metadata: Any) -> Object:
    spec: Object = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def held(name: str = "a", *finalizers: str) -> Object:
    obj = config_map(name)
    obj["metadata"]["finalizers"] = list(finalizers or ("example.com/x",))
    return obj


async def test_deleted_object_is_reported_as_a_status_or_as_it_was() -> None:
    api = Api()
    created = await api.create(MAPS, config_map("a"))
    await api.create(PODS, pod())
    await api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "s"}})
    status = await api.request("DELETE", f"{MAPS}/a")
    assert status.obj == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
    }
    missing = await api.request("DELETE", f"{MAPS}/a")
    assert (missing.code, missing.message) == (404, 'configmaps "a" not found')
    for path, kind in ((f"{PODS}/p", "Pod"), ("/api/v1/namespaces/default/serviceaccounts/s", "ServiceAccount")):
        found = (await api.request("DELETE", path)).obj
        assert (found["kind"], "deletionTimestamp" in found["metadata"]) == (kind, kind == "Pod"), path


async def test_finalizers_delay_the_deletion() -> None:
    api = Api()
    for index, (options, code) in enumerate((({}, 200), ({"orphanDependents": False}, 202))):
        name = f"a{index}"
        await api.create(MAPS, held(name))
        first = await api.request("DELETE", f"{MAPS}/{name}", options)
        again = await api.request("DELETE", f"{MAPS}/{name}", options)
        metadata = first.obj["metadata"]
        assert (first.code, metadata["deletionGracePeriodSeconds"]) == (code, 0), options
        assert (again.code, again.obj["metadata"]["resourceVersion"]) == (code, metadata["resourceVersion"]), options
    assert (await api.get(MAPS)).names == ["a0", "a1"]


async def test_pods_on_nodes_have_a_grace_period_that_can_only_shrink() -> None:
    api = Api()
    await api.create(PODS, pod(node="n"))
    seen = []
    for seconds in (None, 60, 30, 10, 20, 10, 0):
        response = await api.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds})
        metadata = response.obj["metadata"]
        seen.append((metadata["deletionGracePeriodSeconds"], metadata["resourceVersion"]))
        assert "deletionTimestamp" in metadata
    assert [grace for grace, _ in seen] == [30, 30, 30, 10, 10, 10, 0]
    assert seen[0][1] == seen[1][1] == seen[2][1] != seen[3][1] == seen[4][1]
    assert (await api.get(PODS)).names == []


async def test_shorter_grace_period_moves_the_deletion_time() -> None:
    api = Api()
    await api.create(PODS, pod(node="n"))
    times = []
    for seconds in (100, 40):
        found = await api.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds})
        times.append(datetime.fromisoformat(found.obj["metadata"]["deletionTimestamp"]))
    assert (times[0] - times[1]).total_seconds() == 60


async def test_propagation_policy_sets_the_finalizer_of_the_garbage_collector() -> None:
    own = "example.com/x"
    for before, options, expected in (
        ([], {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ([], {"propagationPolicy": "Orphan"}, ["orphan"]),
        ([], {"orphanDependents": True}, ["orphan"]),
        ([own], {}, [own]),
        ([own], {"propagationPolicy": "Background"}, [own]),
        ([own], {"propagationPolicy": "Orphan"}, [own, "orphan"]),
        ([own, "orphan"], {}, [own, "orphan"]),
        ([own, "orphan"], {"propagationPolicy": "Background"}, [own]),
        ([own, "orphan"], {"orphanDependents": False}, [own]),
        (["foregroundDeletion"], {"propagationPolicy": "Orphan"}, ["orphan"]),
        (["foregroundDeletion"], {"propagationPolicy": "Background"}, None),
        ([], {}, None),
    ):
        api = Api()
        await api.create(MAPS, held("a", *before) if before else config_map("a"))
        found = (await api.request("DELETE", f"{MAPS}/a", options)).obj
        finalizers = found["metadata"].get("finalizers") if found["kind"] == "ConfigMap" else None
        assert finalizers == expected, (before, options)
        assert (await api.get(MAPS)).names == (["a"] if expected else []), (before, options)
    without = Api(settings=VerbSettings(collects_garbage=False))
    await without.create(MAPS, config_map("a"))
    await without.request("DELETE", f"{MAPS}/a", {"propagationPolicy": "Foreground"})
    assert (await without.get(MAPS)).names == []


async def test_events_are_deleted_without_the_garbage_collector() -> None:
    api, events = Api(), "/api/v1/namespaces/default/events"
    await api.create(events, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}})
    await api.request("DELETE", f"{events}/e", {"propagationPolicy": "Foreground"})
    assert (await api.get(events)).names == []


async def test_jobs_of_old_clients_orphan_their_pods_with_a_warning() -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    for options, warned, names in (
        ({}, True, ["j"]),
        ({"propagationPolicy": "Background"}, False, []),
        ({"orphanDependents": False}, False, []),
    ):
        api = Api()
        await api.create(jobs, {"metadata": {"name": "j"}, "spec": spec})
        response = await api.request("DELETE", f"{jobs}/j", options)
        assert (len(response.warnings) == 1, (await api.get(jobs)).names) == (warned, names), options


async def test_preconditions_are_checked() -> None:
    api = Api()
    metadata = (await api.create(MAPS, config_map("a")))["metadata"]
    for preconditions, message in (
        ({"uid": "x"}, "the UID in the precondition (x) does not match the UID in record"),
        ({"resourceVersion": "9"}, "the ResourceVersion in the precondition (9) does not match the ResourceVersion"),
        ({"uid": metadata["uid"], "resourceVersion": "9"}, "The object might have been modified"),
        ({"uid": "x", "resourceVersion": "1"}, "The object might have been deleted and then recreated"),
    ):
        response = await api.request("DELETE", f"{MAPS}/a", {"preconditions": preconditions})
        assert (response.code, message in response.message) == (409, True), preconditions
    valid = {"uid": metadata["uid"], "resourceVersion": "1"}
    assert (await api.request("DELETE", f"{MAPS}/a", {"preconditions": valid})).code == 200


async def test_dry_run_deletes_nothing() -> None:
    api = Api()
    await api.create(MAPS, held("a"))
    await api.create(MAPS, config_map("b"))
    one = await api.request("DELETE", f"{MAPS}/a?dryRun=All")
    await api.request("DELETE", f"{MAPS}/b?dryRun=All")
    await api.request("DELETE", f"{MAPS}?dryRun=All")
    assert "deletionTimestamp" in one.obj["metadata"]
    assert (await api.get(MAPS)).names == ["a", "b"]
    assert api.store.writes == 2


async def test_collections_are_deleted_by_selectors() -> None:
    for workers in (1, 3):
        api = Api(settings=VerbSettings(delete_collection_workers=workers))
        for name in "abc":
            await api.create(MAPS, config_map(name, tier="x" if name < "c" else "y"))
        response = await api.request("DELETE", f"{MAPS}?labelSelector=tier=x")
        assert (response.names, (await api.get(MAPS)).names) == (["a", "b"], ["c"]), workers
        await api.request("DELETE", MAPS)
        assert (await api.get(MAPS)).names == [], workers


async def test_invalid_options_are_rejected() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))
    for options, message in (
        ({"dryRun": ["x"]}, 'Unsupported value: []string{"x"}: supported values: "All"'),
        ({"dryRun": ["All", "x"]}, 'Unsupported value: []string{"All", "x"}'),
        ({"propagationPolicy": "x"}, 'Unsupported value: "x": supported values: "Foreground", "Background", "Orphan"'),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "cannot be both set"),
    ):
        response = await api.request("DELETE", f"{MAPS}/a", options)
        assert (response.code, message in response.message) == (422, True), (options, response.message)
    response = await api.request("DELETE", f"{MAPS}/a", {"kind": "Pod", "apiVersion": "v1"})
    assert (response.code, response.message.startswith('no kind "Pod" is registered')) == (500, True)
    for options in ({"kind": "DeleteOptions", "apiVersion": "v1"}, {"dryRun": ["All"], "propagationPolicy": "Orphan"}):
        assert (await api.request("DELETE", f"{MAPS}/a?dryRun=All", {**options, "dryRun": ["All"]})).code == 200, (
            options
        )


def test_query_has_the_options_without_a_body() -> None:
    for query, changes in (
        ("", {}),
        ("gracePeriodSeconds=5", {"gracePeriodSeconds": 5}),
        ("gracePeriodSeconds=-5", {"gracePeriodSeconds": -5}),
        ("gracePeriodSeconds=0", {"gracePeriodSeconds": 0}),
        ("dryRun=All", {"dryRun": True}),
        ("propagationPolicy=Orphan", {"propagationPolicy": "Orphan"}),
        ("uid=u", {"preconditions": {"uid": "u"}}),
        ("resourceVersion=7&uid=", {"preconditions": {"resourceVersion": "7"}}),
        ("orphanDependents=true", {"orphanDependents": True, "propagationPolicy": "Orphan"}),
        ("orphanDependents=false", {"orphanDependents": False, "propagationPolicy": "Background"}),
    ):
        default = {
            "gracePeriodSeconds": None,
            "preconditions": {},
            "dryRun": False,
            "propagationPolicy": "",
            "orphanDependents": None,
        }
        assert read_options(deletion(query=query)) == {**default, **changes}, query


class Deletions(AdmissionPlugin):
    """Records the options of deletions, and calls a function before each."""

    operations = ("DELETE",)

    def __init__(self, before: Any = lambda name: None) -> None:
        self.options: list[Object] = []
        self._before = before

    async def validate(self, call: AdmissionRequest) -> None:
        self.options.append(call.options)
        self._before(call.name)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {}),
        ({"gracePeriodSeconds": 5, "dryRun": ["All"]}, {"gracePeriodSeconds": 5, "dryRun": ["All"]}),
        ({"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 0}),
        ({"gracePeriodSeconds": -5}, {"gracePeriodSeconds": 1}),
        ({"orphanDependents": True}, {"orphanDependents": True}),
        ({"orphanDependents": False}, {"orphanDependents": False}),
        ({"propagationPolicy": "Foreground"}, {"propagationPolicy": "Foreground"}),
        ({"preconditions": {"resourceVersion": "1"}}, {"preconditions": {"resourceVersion": "1"}}),
        ({"preconditions": {}}, {}),
    ],
)
async def test_plugins_get_the_options_of_a_deletion(body: Object, expected: Object) -> None:
    plugin = Deletions()
    api = Api(plugins=[plugin])
    await api.create(MAPS, config_map("a"))

    await api.request("DELETE", f"{MAPS}/a", body)

    assert plugin.options == [expected]


@pytest.mark.parametrize(
    ("node", "requests", "expected"),
    [
        ("n", [None], [30]),
        ("n", [60], [60]),
        ("", [None], [0]),
        ("", [60], [0]),
        ("n", [30, 10, 0], [30, 10, 0]),
        ("n", [30, 40, None], [30]),
    ],
)
async def test_plugins_get_the_grace_period_unless_the_deletion_is_pending(
    node: str, requests: list[int | None], expected: list[int]
) -> None:
    plugin = Deletions()
    api = Api(plugins=[plugin])
    await api.create(PODS, pod(node=node))

    for seconds in requests:
        assert (await api.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds})).code == 200

    assert [options["gracePeriodSeconds"] for options in plugin.options] == expected


async def test_deletion_that_cannot_be_made_is_not_admitted() -> None:
    plugin = Deletions()
    api = Api(plugins=[plugin])
    await api.create(MAPS, config_map("a"))

    missing = await api.request("DELETE", f"{MAPS}/b")
    changed = await api.request("DELETE", f"{MAPS}/a?resourceVersion=9")

    assert (missing.code, changed.code, plugin.options) == (404, 409, [])


class Protects(AdmissionPlugin):
    """Rejects the deletion of objects with a label, and lets another client change the first one before its deletion.

    :ivar change: is called once, after the first decision.
    """

    operations = ("DELETE",)

    def __init__(self) -> None:
        self.change: Callable[[], Coroutine[Any, Any, object]] | None = None
        self.uids: list[str] = []

    async def validate(self, call: AdmissionRequest) -> None:
        assert call.old is not None
        self.uids.append(call.old["metadata"]["uid"])
        if call.old["metadata"].get("labels"):
            raise call.forbidden("it is protected")
        if self.change is not None:
            change, self.change = self.change, None
            await change()


@pytest.mark.parametrize("collection", [False, True])
@pytest.mark.parametrize("recreated", [False, True])
async def test_object_that_changes_after_admission_is_admitted_again(*, recreated: bool, collection: bool) -> None:
    plugin = Protects()
    api = Api(plugins=[plugin])
    first = await api.create(MAPS, config_map("a"))
    protected = config_map("a")
    protected["metadata"]["labels"] = {"protected": "true"}

    async def change() -> None:
        if recreated:
            await api.request("DELETE", f"{MAPS}/a")
            await api.create(MAPS, protected)
        else:
            await api.request("PUT", f"{MAPS}/a", protected)

    plugin.change = change
    response = await api.request("DELETE", MAPS if collection else f"{MAPS}/a")

    assert (response.code, response.message.partition(": ")[2]) == (403, "it is protected")
    stored = (await api.request("GET", f"{MAPS}/a")).obj["metadata"]
    assert stored["labels"] == {"protected": "true"}
    assert plugin.uids == [first["metadata"]["uid"]] * (2 if recreated else 1) + [stored["uid"]]


class Lagging(Memory):
    """Store with another writer, whose latest changes are not visible before the next write."""

    lags = False

    def collection(self, name: str) -> Collection:
        return Collection(name, 0) if self.lags else super().collection(name)

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        self.lags = False
        return await super().update(name, key, decide)


async def test_plugins_get_an_object_that_another_server_created() -> None:
    plugin, store = Deletions(), Lagging()
    api = Api(plugins=[plugin], store=store)
    await api.create(MAPS, config_map("a"))
    store.lags = True

    assert (await api.request("DELETE", f"{MAPS}/a")).code == 200
    assert plugin.options == [{}]


async def test_dry_run_of_a_collection_is_admitted_and_deletes_nothing() -> None:
    def before(name: str) -> None:
        if name == "b":
            raise ApiError(403, "Forbidden", "no")

    plugin = Deletions(before)
    api = Api(plugins=[plugin])
    for name in "ab":
        await api.create(MAPS, config_map(name))

    rejected = await api.request("DELETE", f"{MAPS}?dryRun=All")
    accepted = await api.request("DELETE", f"{MAPS}?dryRun=All&fieldSelector=metadata.name=a")

    assert (rejected.code, accepted.code, accepted.names) == (403, 200, ["a"])
    assert plugin.options == [{"dryRun": ["All"]}] * 3
    assert (await api.get(MAPS)).names == ["a", "b"]


async def test_collection_is_deleted_although_others_delete_its_objects() -> None:
    def before(name: str) -> None:
        if name == "a":
            api.store.remove("core/configmaps", "default/b")

    api = Api(plugins=[Deletions(before)], settings=VerbSettings(delete_collection_workers=1))
    for name in "abc":
        await api.create(MAPS, config_map(name))

    response = await api.request("DELETE", MAPS)

    assert (response.code, response.names) == (200, ["a", "b", "c"])
    assert (await api.get(MAPS)).names == []


async def test_rejection_ends_the_deletion_of_a_collection() -> None:
    def before(name: str) -> None:
        if name == "b":
            raise ApiError(403, "Forbidden", "no")

    api = Api(plugins=[Deletions(before)], settings=VerbSettings(delete_collection_workers=1))
    for name in "abc":
        await api.create(MAPS, config_map(name))

    assert (await api.request("DELETE", MAPS)).code == 403
    assert (await api.get(MAPS)).names == ["b", "c"]


async def test_deletion_counts_as_a_change_of_the_desired_state() -> None:
    api = Api()
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    metadata = {"name": "d", "finalizers": ["example.com/x"]}
    await api.create(
        path, {"metadata": metadata, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    )
    await api.create(MAPS, held())

    generations = [(await api.request("DELETE", f"{path}/d")).obj["metadata"]["generation"] for _ in range(2)]

    assert generations == [2, 2]
    assert "generation" not in (await api.request("DELETE", f"{MAPS}/a")).obj["metadata"]


@pytest.mark.parametrize(("version", "shown"), [(None, "v1"), ("v2", "v2")])
def test_other_kind_of_options_is_an_error(version: str | None, shown: str) -> None:
    with pytest.raises(ApiError, match=f'no kind "Pod" is registered for version "{shown}" in scheme'):
        read_options(deletion({"kind": "Pod", **({"apiVersion": version} if version else {})}))


@pytest.mark.parametrize(
    ("unsafe", "given", "expected"), [(True, True, True), (True, False, None), (False, True, None)]
)
def test_read_errors_are_ignored_only_where_this_is_enabled(unsafe: bool, given: bool, expected: bool | None) -> None:
    name = unreadable.OPTION
    body, query = read_options(deletion({name: given}), unsafe=unsafe), deletion(query=f"{name}={str(given).lower()}")

    assert (body.get(name), read_options(query, unsafe=unsafe).get(name)) == (expected, expected)


@pytest.mark.parametrize(("enabled", "one", "all_"), [(True, 422, 422), (False, 200, 200)])
async def test_option_to_ignore_read_errors_is_ignored_unless_enabled(enabled: bool, one: int, all_: int) -> None:
    async def authorize(user: User, info: RequestInfo) -> tuple[bool, str]:
        return True, ""

    class Readable(Memory):
        async def remove_unreadable(self, name: str, key: str) -> None:
            raise KeyError(key)

    layout = Layout.of("/registry", build_registry(Options()))
    unsafe = UnsafeDeletions(layout, authorize) if enabled else None
    api = Api(store=Readable(), unsafe_deletions=unsafe)
    for name in "ab":
        await api.create(MAPS, config_map(name))

    options = {unreadable.OPTION: True}
    assert (await api.request("DELETE", f"{MAPS}/a", options)).code == one
    assert (await api.request("DELETE", MAPS, options)).code == all_
    assert (await api.get(MAPS)).names == (["a", "b"] if enabled else [])


@pytest.mark.parametrize(
    ("seconds", "kept", "expected"),
    [(30, True, 30), (40, True, 30), (10, False, 1), (1, False, 1), (-1, False, 1), (0, False, None)],
)
async def test_grace_period_that_has_expired_can_only_be_shortened(
    seconds: int, kept: bool, expected: int | None
) -> None:
    api, expired = Api(), "2020-01-01T00:00:00Z"
    created = await api.create(PODS, pod(node="n"))
    created["metadata"] |= {"deletionTimestamp": expired, "deletionGracePeriodSeconds": 30}
    api.store.put("core/pods", created)

    found = (await api.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": seconds})).obj

    stored = api.store.read("core/pods", "default/p")
    assert (stored is not None and stored["metadata"]["deletionGracePeriodSeconds"]) == (expected or False)
    assert (found["metadata"]["deletionTimestamp"] == expired) is kept


class Slow(AdmissionPlugin):
    """Admission plugin that needs ten seconds for a deletion."""

    operations = ("DELETE",)

    async def validate(self, call: AdmissionRequest) -> None:
        await asyncio.sleep(10)


@pytest.mark.parametrize(("query", "code", "left"), [("", 200, []), ("?timeoutSeconds=15", 504, ["b"])])
def test_deletion_of_a_collection_has_the_requested_timeout(query: str, code: int, left: list[str]) -> None:
    async def work() -> None:
        api = Api(plugins=[Slow()])
        for name in "ab":
            await api.create(MAPS, config_map(name))
        assert (await api.request("DELETE", f"{MAPS}{query}")).code == code
        assert (await api.get(MAPS)).names == left

    loop = SimulatedLoop(0)
    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
