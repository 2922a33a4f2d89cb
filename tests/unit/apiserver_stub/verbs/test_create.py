"""Tests for the creation of objects: names, namespaces, fields of the server, and options."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs import create, preparation
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.context import VerbSettings
from tests.unit.apiserver_stub.api import Api, Object, config_map

MAPS = "/api/v1/namespaces/default/configmaps"


def with_metadata(name: str = "a", **metadata: Any) -> Object:
    obj = config_map(name)
    obj["metadata"] |= metadata
    return obj


def owner(name: str = "o", uid: str = "u") -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}


async def test_server_sets_its_fields_and_ignores_those_of_the_client() -> None:
    api = Api()
    sent = with_metadata(
        uid="x",
        creationTimestamp="2000-01-01T00:00:00Z",
        deletionTimestamp="2000-01-01T00:00:00Z",
        deletionGracePeriodSeconds=5,
        selfLink="/x",
        resourceVersion="",
        labels={},
        annotations={},
        finalizers=[],
        ownerReferences=[],
    )
    metadata = (await api.create(MAPS, sent))["metadata"]
    assert metadata["uid"] != "x"
    assert metadata["creationTimestamp"] > "2020"
    assert set(metadata) == {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}
    assert (metadata["namespace"], metadata["resourceVersion"]) == ("default", "1")


async def test_generation_starts_with_1_for_kinds_that_count() -> None:
    api = Api()
    assert "generation" not in (await api.create(MAPS, config_map("a")))["metadata"]
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    await api.create("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease)
    budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {}}}
    found = await api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    assert found["metadata"]["generation"] == 1


async def test_names_and_namespaces_have_to_match_the_path() -> None:
    api = Api()
    for obj, target, code, message in (
        (with_metadata(namespace="default"), MAPS, 201, ""),
        (with_metadata("b", namespace=""), MAPS, 201, ""),
        (with_metadata(namespace="other"), MAPS, 400, "does not match the namespace sent on the request"),
        ({"metadata": {}}, MAPS, 422, "name or generateName is required"),
        (with_metadata("A"), MAPS, 422, "Invalid value"),
        (config_map("a"), MAPS, 409, 'configmaps "a" already exists'),
        (with_metadata("c", resourceVersion="1"), MAPS, 500, "resourceVersion should not be set"),
        (config_map("d"), f"{MAPS}/d", 405, ""),
        (config_map("d"), f"{MAPS}?dryRun=x", 422, "Unsupported value"),
        (config_map("d"), "/api/v1/configmaps", 405, ""),
        ({"metadata": {"name": "n", "namespace": "x"}}, "/api/v1/nodes", 201, ""),
    ):
        response = await api.request("POST", target, obj)
        assert (response.code, message in response.message) == (code, True), (obj, target, response.body)
    assert "namespace" not in (await api.get("/api/v1/nodes/n")).obj["metadata"]


async def test_generated_names_are_unique_and_limited() -> None:
    api = Api()
    names = [
        (await api.create(MAPS, {"metadata": {"generateName": prefix}}))["metadata"]["name"]
        for prefix in ("a-", "a-", "x" * 70)
    ]
    assert [name[:2] for name in names] == ["a-", "a-", "xx"]
    assert (len(set(names)), len(names[2])) == (3, 63)
    named = await api.create(MAPS, {"metadata": {"name": "own", "generateName": "a-"}})
    assert named["metadata"]["name"] == "own"


async def test_dry_run_stores_nothing() -> None:
    api = Api()
    response = await api.request("POST", f"{MAPS}?dryRun=All", with_metadata(resourceVersion="1"))
    assert (response.code, response.obj["metadata"]["name"]) == (201, "a")
    assert (await api.get(MAPS)).names == []
    assert api.store.writes == 0


async def test_repeated_owners_are_dropped_with_a_warning() -> None:
    api = Api()
    for owners, kept, warned in (
        ([owner(), owner()], 1, "duplicate UID(s) observed: u"),
        ([owner("a", "1"), owner("a", "1"), owner("b", "2"), owner("b", "2")], 2, "duplicate UID(s) observed: 1, 2"),
        ([owner("a", "1"), owner("b", "2")], 2, ""),
        ([owner()], 1, ""),
    ):
        response = await api.request("POST", f"{MAPS}?dryRun=All", with_metadata(ownerReferences=owners))
        assert len(response.obj["metadata"]["ownerReferences"]) == kept, owners
        assert len(response.warnings) == bool(warned), owners
        for text in response.warnings:
            assert text.startswith(".metadata.ownerReferences contains duplicate entries; "), owners
            assert text.endswith(warned), owners


class AddsOwners(AdmissionPlugin):
    """Admission plugin that repeats owner references."""

    async def admit(self, call: AdmissionRequest) -> None:
        call.obj["metadata"]["ownerReferences"] *= 2


async def test_owners_that_admission_repeats_are_dropped() -> None:
    api = Api(plugins=[AddsOwners()])
    response = await api.request("POST", MAPS, with_metadata(ownerReferences=[owner()]))
    assert len(response.obj["metadata"]["ownerReferences"]) == 1
    (text,) = response.warnings
    assert "duplicate entries after mutating admission happens; " in text


async def test_unset_times_are_null_in_early_releases() -> None:
    for shows in (True, False):
        api = Api(settings=VerbSettings(shows_null_times=shows))
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        template = {"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}, "spec": pod["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        found = await api.create(
            "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec}
        )
        assert ("creationTimestamp" in found["spec"]["template"]["metadata"]) is shows


async def test_created_namespace_is_filled() -> None:
    api = Api()
    await api.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.request("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "m"}})
    await api.create("/api/v1/namespaces/n/configmaps", config_map("c"))
    assert api.filled == ["n"]


async def test_events_expire_unless_their_lifetime_is_unlimited() -> None:
    for seconds, expected in ((60, 60), (0, None)):
        api = Api(settings=VerbSettings(event_ttl_seconds=seconds))
        events, maps = api.registry.find("", "v1", "events"), api.registry.find("", "v1", "configmaps")
        assert events is not None
        assert maps is not None
        assert (api.context.ttl_of(events), api.context.ttl_of(maps)) == (expected, None)


@pytest.mark.parametrize(("taken", "code"), [(1, 201), (99, 409)])
async def test_generated_name_that_exists_is_replaced(monkeypatch: pytest.MonkeyPatch, taken: int, code: int) -> None:
    names = iter([*["a-x"] * taken, "a-y"])
    for module in (create, preparation):
        monkeypatch.setattr(module, "generate_name", lambda metadata: next(names))
    api = Api()
    await api.create(MAPS, config_map("a-x"))
    sent = with_metadata(generateName="a-")
    del sent["metadata"]["name"]

    response = await api.request("POST", MAPS, sent)

    assert response.code == code
    if code == 409:
        ending = "already exists, the server was not able to generate a unique name for the object"
        assert response.message == f'configmaps "a-x" {ending}'
        assert response.obj["details"] == {"name": "a-x", "kind": "configmaps", "retryAfterSeconds": 1}
    else:
        assert response.obj["metadata"]["name"] == "a-y"


async def test_rejected_object_with_a_generated_name_is_sent_once() -> None:
    class Rejecting(AdmissionPlugin):
        async def validate(self, call: AdmissionRequest) -> None:
            calls.append(call.target)
            raise call.forbidden("no")

    calls: list[str] = []
    sent = with_metadata(generateName="a-")
    del sent["metadata"]["name"]

    response = await Api(plugins=[Rejecting()]).request("POST", MAPS, sent)

    assert (response.code, len(calls)) == (403, 1)


async def test_existing_object_is_reported_without_another_name() -> None:
    api = Api()
    await api.create(MAPS, config_map("a"))

    response = await api.request("POST", MAPS, config_map("a"))

    assert (response.code, response.message) == (409, 'configmaps "a" already exists')
