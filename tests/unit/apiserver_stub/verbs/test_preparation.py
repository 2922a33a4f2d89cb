"""Tests for the order of the steps of a write: admission plugins receive the object as sent by the client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.objects import encode
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Record
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import check_types
from apiserver_stub.verbs.context import VerbContext, VerbSettings
from apiserver_stub.verbs.preparation import DryRun, finished, plan_update, precondition_failed, prepare_new
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import pod


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
