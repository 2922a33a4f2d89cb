"""Tests of the parameters of reads, lists and watches of Events on a running server."""

from __future__ import annotations

import base64
import json

from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.events_api.events import (
    CORE,
    MERGE,
    NEW,
    create,
    event,
    names,
    row,
    verify_pretty,
)


@row("param.get.pretty")
def test_getverify_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    verify_pretty(api, "GET", f"{events}/e")


@row("param.list-or-watch.pretty")
def test_listverify_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    verify_pretty(api, "GET", events)


@row("param.list-or-watch.limit", "param.list-or-watch.continue")
def test_list_in_pages(api: Api, events: str) -> None:
    create(api, events, "a", "b", "c", "d")

    first = api.ok("GET", f"{events}?limit=2")
    create(api, events, "bb")
    second = api.ok("GET", f"{events}?limit=2&continue={first['metadata']['continue']}")

    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 2)
    assert names(second) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    assert api.call("GET", f"{events}?limit=many")[0] == 400
    assert api.call("GET", f"{events}?continue=nonsense")[0] == 400
    token = first["metadata"]["continue"]
    assert api.call("GET", f"{events}?continue={token}&resourceVersion=7")[0] == 400


@row("param.list-or-watch.continue")
def test_continue_token_survives_changes(server: Server, api: Api, events: str) -> None:
    create(api, events, "a", "b")
    token = _token(1, "a\0")

    code, gone = api.call("GET", f"{events}?limit=1&continue={token}")
    assert (code, gone["reason"]) == (410, "Expired")
    rest = api.ok("GET", f"{events}?limit=1&continue={gone['metadata']['continue']}")
    assert names(rest) == ["b"]


def _token(revision: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@row("param.list-or-watch.fieldSelector")
def test_list_by_fields(api: Api, events: str) -> None:
    create(api, events, "a", reason="One", regarding={"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"})
    create(api, events, "b", reason="Two", type="Warning", reportingController="x.example/y")

    for selector, expected in {
        "metadata.name=a": ["a"],
        "metadata.name!=a": ["b"],
        "reason=Two": ["b"],
        "type=Normal": ["a"],
        "reportingController=x.example/y": ["b"],
        "regarding.kind=Pod,regarding.name=p,regarding.namespace=default": ["a", "b"],
        "regarding.uid=u": ["a"],
        "regarding.uid=": ["b"],
        "regarding.fieldPath=,reason==One": ["a"],
    }.items():
        assert names(api.ok("GET", f"{events}?fieldSelector={selector.replace('=', '%3D')}")) == expected, selector
    core = events.replace(NEW, CORE)
    assert names(api.ok("GET", f"{core}?fieldSelector=involvedObject.uid%3Du")) == ["a"]
    for unknown in ("involvedObject.name", "source", "note"):
        code, rejection = api.call("GET", f"{events}?fieldSelector={unknown}%3Dx")
        assert (code, rejection["message"]) == (400, f"field label not supported: {unknown}")
    assert api.call("GET", f"{events}?fieldSelector=foo")[0] == 400


@row("param.list-or-watch.labelSelector")
def test_list_by_labels(api: Api, events: str) -> None:
    create(api, events, "a", metadata={"name": "a", "labels": {"x": "1"}})
    create(api, events, "b", metadata={"name": "b", "labels": {"x": "2", "y": ""}})

    for selector, expected in {
        "x=1": ["a"],
        "x!=1": ["b"],
        "x in (1,2)": ["a", "b"],
        "x notin (2)": ["a"],
        "y": ["b"],
        "!y": ["a"],
        "x>1": ["b"],
    }.items():
        query = selector.replace(" ", "%20").replace("=", "%3D").replace(">", "%3E").replace("!", "%21")
        assert names(api.ok("GET", f"{events}?labelSelector={query}")) == expected, selector
    assert api.call("GET", f"{events}?labelSelector=-bad")[0] == 400


@row("param.list-or-watch.resourceVersion", "param.list-or-watch.resourceVersionMatch")
def test_list_at_a_revision(api: Api, events: str) -> None:
    then = create(api, events, "a")[0]["metadata"]["resourceVersion"]
    create(api, events, "b")

    def listed(query: str) -> list[str]:
        return names(api.ok("GET", f"{events}?{query}"))

    assert listed(f"resourceVersion={then}&resourceVersionMatch=Exact") == ["a"]
    assert listed(f"resourceVersion={then}&resourceVersionMatch=NotOlderThan") == ["a", "b"]
    assert listed(f"resourceVersion={then}") == ["a", "b"]
    assert listed(f"resourceVersion={then}&limit=5") == ["a"]
    assert listed("resourceVersion=0") == ["a", "b"]
    code, future = api.call("GET", f"{events}?resourceVersion=99999999")
    assert (code, future["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert api.call("GET", f"{events}?resourceVersion=abc")[0] == 400
    code, gone = api.call("GET", f"{events}?resourceVersion=1&resourceVersionMatch=Exact")
    assert (code, gone["reason"]) == (410, "Expired")
    for query in (
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Foo&resourceVersion=5",
        "resourceVersionMatch=Exact&resourceVersion=0",
    ):
        code, rejection = api.call("GET", f"{events}?{query}")
        assert (code, rejection["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")


@row(
    "op.list-or-watch-one-namespace",
    "param.list-or-watch.watch",
    "param.list-or-watch.resourceVersion",
    "param.list-or-watch.labelSelector",
    "param.list-or-watch.fieldSelector",
)
def test_watch(api: Api, events: str) -> None:
    start = create(api, events, "e", metadata={"name": "e", "labels": {"x": "1"}})[0]["metadata"]["resourceVersion"]
    selected = f"{events}?watch=true&labelSelector=x%3D1&fieldSelector=metadata.name%3De&resourceVersion={start}"
    elsewhere = f"{NEW}/namespaces/default/events"

    with api.watch(f"{events}?watch=1&resourceVersion={start}") as every, api.watch(selected) as some:
        api.ok("POST", elsewhere, event("e", metadata={"name": "e", "labels": {"x": "1"}}))  # not received by either
        api.ok("DELETE", f"{elsewhere}/e")
        create(api, events, "other", metadata={"name": "other", "labels": {"x": "1"}})
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"y": "1"}}}, content_type=MERGE)
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"x": "2"}}}, content_type=MERGE)
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"x": "1"}}}, content_type=MERGE)
        last = api.ok("DELETE", f"{events}/e")
        seen = [next(every) for _ in range(5)]
        chosen = [next(some) for _ in range(4)]

    assert last["status"] == "Success"
    assert [(item["type"], item["object"]["metadata"]["name"]) for item in seen] == [
        ("ADDED", "other"),
        ("MODIFIED", "e"),
        ("MODIFIED", "e"),
        ("MODIFIED", "e"),
        ("DELETED", "e"),
    ]
    assert [item["type"] for item in chosen] == ["MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert chosen[1]["object"]["metadata"]["labels"]["x"] == "1"
    revisions = [int(item["object"]["metadata"]["resourceVersion"]) for item in seen]
    assert revisions == sorted(set(revisions))
    assert all(item["object"]["kind"] == "Event" for item in seen)
    assert api.ok("GET", f"{events}?watch=false")["kind"] == "EventList"


@row("param.list-or-watch.resourceVersion")
def test_watch_from_a_compacted_revision_is_gone(api: Api, events: str) -> None:
    with api.watch(f"{events}?watch=1&resourceVersion=1") as watched:
        (error,) = list(watched)
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")


@row("param.list-or-watch.timeoutSeconds")
def test_watch_ends_after_timeout_seconds(api: Api, events: str) -> None:
    with api.watch(f"{events}?watch=1&timeoutSeconds=1", seconds=60) as watched:  # fails without an event in this time
        assert list(watched) == []
    assert api.call("GET", f"{events}?watch=1&timeoutSeconds=soon")[0] == 400


@row("param.list-or-watch.timeoutSeconds")
def test_list_accepts_timeout_seconds(api: Api, events: str) -> None:
    assert api.ok("GET", f"{events}?timeoutSeconds=5")["items"] == []
    code, rejection = api.call("GET", f"{events}?timeoutSeconds=soon")
    assert (code, rejection["message"]) == (400, 'strconv.ParseInt: parsing "soon": invalid syntax')


@row(
    "param.list-or-watch.sendInitialEvents",
    "param.list-or-watch.allowWatchBookmarks",
    "param.list-or-watch.resourceVersionMatch",
)
def test_watch_can_send_initial_events(api: Api, events: str) -> None:
    create(api, events, "a", "b")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"

    with api.watch(f"{events}?{query}&allowWatchBookmarks=true") as watched:
        marked = [next(watched) for _ in range(3)]
    with api.watch(f"{events}?{query}") as watched:
        unmarked = list(watched)
    with api.watch(f"{events}?{query.replace('=true', '=false')}&allowWatchBookmarks=true") as watched:
        assert [item["type"] for item in watched if item["type"] == "ADDED"] == []

    assert [item["type"] for item in marked] == ["ADDED", "ADDED", "BOOKMARK"]
    assert marked[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert [item["type"] for item in unmarked] == ["ADDED", "ADDED"]
    code, rejection = api.call("GET", f"{events}?watch=1&sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")
    code, rejection = api.call("GET", f"{events}?sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["message"]) == (
        422,
        "Forbidden: sendInitialEvents is forbidden for list",
    )
    assert api.call("GET", f"{events}?watch=1&resourceVersionMatch=Exact")[0] == 422


@row("param.list-or-watch.allowWatchBookmarks")
def test_bookmark_precedes_the_end_of_a_watch_after_changes(api: Api, namespace: str, events: str) -> None:
    start = api.ok("GET", events)["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={start}&timeoutSeconds=3"

    with (
        api.watch(f"{events}?{query}&allowWatchBookmarks=true", seconds=60) as marked,
        api.watch(f"{events}?{query}", seconds=60) as unmarked,
    ):
        api.ok("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "elsewhere"}})
        *_, bookmark = list(marked)
        assert list(unmarked) == []

    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(start)
