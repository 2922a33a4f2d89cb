"""Tests of the parameters of deletions of Events on a running server."""

from __future__ import annotations

from tests.integration.apiserver.conftest import Api
from tests.integration.apiserver.events_api.events import create, event, names, row


@row("param.delete.dryRun")
def test_dry_run_deletes_nothing(api: Api, events: str) -> None:
    create(api, events, "e")

    assert api.ok("DELETE", f"{events}/e?dryRun=All")["status"] == "Success"
    assert api.ok("DELETE", f"{events}/e", {"dryRun": ["All"]})["status"] == "Success"
    api.ok("GET", f"{events}/e")
    code, rejection = api.call("DELETE", f"{events}/e?dryRun=no")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "dryRun")
    api.ok("DELETE", f"{events}/e?dryRun=All", {"gracePeriodSeconds": 0})  # a body overrides the query
    assert api.call("GET", f"{events}/e")[0] == 404


@row("param.delete.gracePeriodSeconds")
def test_grace_period_is_a_number_without_effect_on_events(api: Api, events: str) -> None:
    create(api, events, "e", "f")

    assert api.call("DELETE", f"{events}/e?gracePeriodSeconds=soon")[0] == 400
    api.ok("GET", f"{events}/e")
    api.ok("DELETE", f"{events}/e?gracePeriodSeconds=30")
    api.ok("DELETE", f"{events}/f?gracePeriodSeconds=-1")
    assert api.ok("GET", events)["items"] == []


@row("param.delete.propagationPolicy")
def test_propagation_policy_is_validated(api: Api, events: str) -> None:
    for policy in ("Foreground", "Background", "Orphan"):
        create(api, events, "e")
        assert api.ok("DELETE", f"{events}/e?propagationPolicy={policy}")["status"] == "Success"
        assert api.call("GET", f"{events}/e")[0] == 404
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}/e?propagationPolicy=Foo")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "propagationPolicy")
    api.ok("GET", f"{events}/e")


@row("param.delete.pretty")
def test_deleteverify_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _, _, data = api.raw("DELETE", f"{events}/e?pretty=1&dryRun=All")
    assert data.startswith(b'{\n  "kind": "Status"')
    _, _, data = api.raw("DELETE", f"{events}/e")
    assert data.startswith(b'{"kind":"Status"')


@row("param.delete-collection.pretty")
def test_delete_collectionverify_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _, _, data = api.raw("DELETE", f"{events}?pretty=1&dryRun=All")
    assert data.startswith(b'{\n  "kind": "EventList"')
    _, _, data = api.raw("DELETE", events)
    assert data.startswith(b'{"kind":"EventList"')


@row("param.delete-collection.dryRun")
def test_dry_run_of_a_collection_returns_the_selected_events(api: Api, events: str) -> None:
    create(api, events, "a", "b")

    assert names(api.ok("DELETE", f"{events}?dryRun=All")) == ["a", "b"]
    assert names(api.ok("GET", events)) == ["a", "b"]
    assert api.call("DELETE", f"{events}?dryRun=no")[0] == 422


@row("param.delete-collection.fieldSelector", "param.delete-collection.labelSelector")
def test_only_selected_events_are_deleted(api: Api, events: str) -> None:
    for name in ("a", "b", "c"):
        create(api, events, name, metadata={"name": name, "labels": {"x": name}})

    assert names(api.ok("DELETE", f"{events}?labelSelector=x%3Da")) == ["a"]
    assert names(api.ok("DELETE", f"{events}?fieldSelector=metadata.name%3Db")) == ["b"]
    assert names(api.ok("GET", events)) == ["c"]
    assert api.call("DELETE", f"{events}?fieldSelector=foo%3Dx")[0] == 400
    assert api.call("DELETE", f"{events}?labelSelector=-x")[0] == 400
    assert names(api.ok("GET", events)) == ["c"]


@row("param.delete-collection.limit", "param.delete-collection.continue")
def test_collection_is_deleted_in_pages(api: Api, events: str) -> None:
    create(api, events, "a", "b", "c")

    first = api.ok("DELETE", f"{events}?limit=1")
    assert names(first) == ["a"]
    second = api.ok("DELETE", f"{events}?limit=1&continue={first['metadata']['continue']}")
    assert names(second) == ["b"]
    assert names(api.ok("GET", events)) == ["c"]
    assert api.call("DELETE", f"{events}?continue=nonsense")[0] == 400


@row("param.delete-collection.resourceVersion", "param.delete-collection.resourceVersionMatch")
def test_collection_deletion_respects_the_resource_version(api: Api, events: str) -> None:
    then = create(api, events, "a")[0]["metadata"]["resourceVersion"]
    create(api, events, "b")

    gone = api.ok("DELETE", f"{events}?resourceVersion={then}&resourceVersionMatch=Exact")

    assert names(gone) == ["a"]
    assert names(api.ok("GET", events)) == ["b"]
    assert api.call("DELETE", f"{events}?resourceVersionMatch=Exact")[0] == 422
    assert api.call("DELETE", f"{events}?resourceVersion=abc")[0] == 400
    assert api.call("DELETE", f"{events}?resourceVersion=99999999")[0] == 504
    assert names(api.ok("GET", events)) == ["b"]


@row("param.delete-collection.sendInitialEvents")
def test_collection_deletion_rejects_initial_events(api: Api, events: str) -> None:
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}?sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "sendInitialEvents")
    assert names(api.ok("GET", events)) == ["e"]


@row("param.delete-collection.timeoutSeconds", "param.delete-collection.gracePeriodSeconds")
def test_collection_deletion_accepts_timeout_seconds(api: Api, events: str) -> None:
    create(api, events, "e")
    for name in ("timeoutSeconds", "gracePeriodSeconds"):
        code, rejection = api.call("DELETE", f"{events}?{name}=soon")
        assert (code, rejection["message"]) == (400, 'strconv.ParseInt: parsing "soon": invalid syntax')
    assert names(api.ok("GET", events)) == ["e"]
    code, rejection = api.call("DELETE", f"{events}?timeoutSeconds=-1")  # the timeout had expired before it started
    assert (code, rejection["reason"]) == (504, "Timeout")
    api.call("PUT", f"{events}/e", event())
    assert names(api.ok("DELETE", f"{events}?timeoutSeconds=5&gracePeriodSeconds=7")) == ["e"]
    assert api.ok("GET", events)["items"] == []


@row("param.delete-collection.propagationPolicy")
def test_collection_deletion_validates_the_propagation_policy(api: Api, events: str) -> None:
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}?propagationPolicy=Foo")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "propagationPolicy")
    assert names(api.ok("DELETE", f"{events}?propagationPolicy=Background")) == ["e"]
