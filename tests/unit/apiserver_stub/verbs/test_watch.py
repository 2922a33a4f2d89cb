"""Tests for watches: start, selectors, bookmarks, representations and rejected options."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN, Format
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.context import VerbSettings
from apiserver_stub.verbs.watch import Watch
from nodeagent.base.identity import Identity
from nodeagent.base.simulation.loop import SimulatedLoop
from tests.unit.apiserver_stub.api import ADMIN, Api, Object, Response, config_map

MAPS, ALL = "/api/v1/namespaces/default/configmaps", "/api/v1/configmaps"
OTHER = "/api/v1/namespaces/other/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def filled(*names: str, **settings: Any) -> Api:
    api = Api(settings=VerbSettings(**settings))
    for name in names:
        await api.create(MAPS, config_map(name, app=name))
    return api


def summary(response: Response) -> list[tuple[str, str]]:
    """Return type and name of each event."""
    return [(kind, (obj.get("metadata") or {}).get("name", "")) for kind, obj in response.events]


def labeled(name: str, **labels: str) -> Object:
    return config_map(name, **labels)


async def test_watch_starts_with_the_present_objects_or_after_a_revision() -> None:
    api = await filled("a", "b")
    for query, expected in (
        ("", [("ADDED", "a"), ("ADDED", "b")]),
        ("&resourceVersion=0", [("ADDED", "a"), ("ADDED", "b")]),
        ("&resourceVersion=1", [("ADDED", "b")]),
        ("&resourceVersion=2", []),
        ("&resourceVersion=0&fieldSelector=metadata.name=b", [("ADDED", "b")]),
        ("&resourceVersion=0&labelSelector=app=b", [("ADDED", "b")]),
        ("&resourceVersion=1&labelSelector=app=a", []),
    ):
        response = await api.watch(f"{MAPS}?watch=1{query}")
        assert (response.code, summary(response)) == (200, expected), query
    named = await api.watch("/api/v1/watch/namespaces/default/configmaps/b")
    assert summary(named) == [("ADDED", "b")]


async def test_changes_follow_in_their_order() -> None:
    api = await filled("a")
    changed = config_map("a", {"k": "v"}, app="a")
    other = config_map("x")
    response = await api.watch(
        f"{MAPS}?watch=1&resourceVersion=1",
        ("POST", MAPS, config_map("b")),
        ("PUT", f"{MAPS}/a", changed),
        ("POST", "/api/v1/namespaces/other/configmaps", other),
        ("DELETE", f"{MAPS}/b", None),
    )
    assert summary(response) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert response.events[1][1]["data"] == {"k": "v"}
    everywhere = await api.watch(f"{ALL}?watch=1&resourceVersion=1")
    assert summary(everywhere) == [("ADDED", "b"), ("MODIFIED", "a"), ("ADDED", "x"), ("DELETED", "b")]


async def test_objects_enter_and_leave_the_selection() -> None:
    api = await filled()
    actions = (
        ("POST", MAPS, labeled("m", app="db")),
        ("PUT", f"{MAPS}/m", labeled("m", app="web")),
        ("PUT", f"{MAPS}/m", labeled("m", app="web", more="x")),
        ("PUT", f"{MAPS}/m", labeled("m", app="db")),
        ("PUT", f"{MAPS}/m", labeled("m", app="web")),
        ("DELETE", f"{MAPS}/m", None),
        ("POST", MAPS, labeled("n", app="db")),
        ("DELETE", f"{MAPS}/n", None),
    )
    response = await api.watch(f"{MAPS}?watch=1&labelSelector=app=web", *actions)
    assert [kind for kind, _ in summary(response)] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    left = response.events[2][1]["metadata"]
    assert (left["labels"], left["resourceVersion"]) == ({"app": "web", "more": "x"}, "4")


async def test_compacted_revision_is_an_error_event() -> None:
    api = await filled("a", "b", "c")
    api.store.collection("core/configmaps").compact(3)
    response = await api.watch(f"{MAPS}?watch=1&resourceVersion=1")
    ((kind, status),) = response.events
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")
    uncached = Api(settings=VerbSettings(is_cached=lambda plural, group: False), store=api.store)
    ((_, status),) = (await uncached.watch(f"{MAPS}?watch=1&resourceVersion=1")).events
    assert status["message"] == "The resourceVersion for the provided watch is too old."


async def test_watch_lists_end_with_a_bookmark() -> None:
    api = await filled("a", watch_lists=True)
    query = "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents="
    for rest, expected in (
        ("true&allowWatchBookmarks=true", [("ADDED", "a"), ("BOOKMARK", "")]),
        ("true", [("ADDED", "a")]),
        ("false&allowWatchBookmarks=true", []),
        ("true&allowWatchBookmarks=true&resourceVersion=1", [("ADDED", "a"), ("BOOKMARK", "")]),
    ):
        response = await api.watch(f"{MAPS}{query}{rest}")
        assert summary(response) == expected, rest
        for kind, obj in response.events:
            if kind == "BOOKMARK":
                assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
                assert (obj["kind"], obj["metadata"]["resourceVersion"]) == ("ConfigMap", "1")


async def test_times_of_bookmarks_are_null_in_early_releases() -> None:
    query = "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"
    for shows, expected in ((True, {"creationTimestamp": None}), (False, {})):
        api = await filled(watch_lists=True, shows_null_times=shows)
        for path in (MAPS, "/api/v1/namespaces/default/pods"):
            ((_, obj),) = (await api.watch(f"{path}{query}")).events
            metadata = {name: obj["metadata"][name] for name in obj["metadata"] if name == "creationTimestamp"}
            assert metadata == expected, (path, shows)


async def test_options_that_exclude_each_other_are_rejected() -> None:
    match = "resourceVersionMatch"
    for enabled, query, messages in (
        (True, "sendInitialEvents=true", ["requires setting resourceVersionMatch to NotOlderThan"]),
        (
            False,
            f"sendInitialEvents=true&{match}=NotOlderThan",
            ["forbidden for watch unless the WatchList feature gate is enabled"],
        ),
        (True, f"{match}=NotOlderThan", ["forbidden for watch unless sendInitialEvents is provided"]),
        (
            True,
            f"sendInitialEvents=true&{match}=Exact",
            ["requires setting", 'Unsupported value: "Exact": supported values: "NotOlderThan"'],
        ),
        (
            True,
            f"sendInitialEvents=true&{match}=NotOlderThan&continue=x",
            ["resourceVersionMatch is forbidden when continue is provided"],
        ),
    ):
        api = await filled(watch_lists=enabled)
        response = await api.get(f"{MAPS}?watch=1&{query}")
        assert (response.code, len(response.obj["details"]["causes"])) == (422, len(messages)), query
        for message in messages:
            assert message in response.message, query
    api = await filled()
    for query, code in (
        ("limit=x", 400),
        ("timeoutSeconds=x", 400),
        ("resourceVersion=x", 500),
        ("fieldSelector=x", 400),
    ):
        assert (await api.get(f"{MAPS}?watch=1&{query}")).code == code, query


async def test_watch_ends_after_its_timeout() -> None:
    api = await filled("a", min_watch_seconds=0)
    response = await api.get(f"{MAPS}?watch=1")
    assert (response.code, summary(response)) == (200, [("ADDED", "a")])


async def test_first_table_has_the_columns() -> None:
    for query, rows in (("", ["a", "b", "c"]), ("&resourceVersion=1", ["b", "c"])):
        api = await filled("a", "b")
        response = await api.watch(f"{MAPS}?watch=1{query}", ("POST", MAPS, config_map("c")), Accept=TABLE)
        tables = [obj for _, obj in response.events]
        assert [table["rows"][0]["cells"][0] for table in tables] == rows
        assert [bool(table.get("columnDefinitions")) for table in tables] == [True, *[False] * (len(rows) - 1)]


async def test_metadata_only_watches_omit_the_rest() -> None:
    api = await filled("a")
    response = await api.watch(f"{MAPS}?watch=1", ("PUT", f"{MAPS}/a", config_map("a", {"k": "v"})), Accept=PARTIAL)
    assert [(kind, obj["kind"], "data" in obj) for kind, obj in response.events] == [
        ("ADDED", "PartialObjectMetadata", False),
        ("MODIFIED", "PartialObjectMetadata", False),
    ]


async def test_protobuf_watch_has_frames_with_their_length() -> None:
    api = await filled("a")
    protobuf = "application/vnd.kubernetes.protobuf;stream=watch"
    response = await api.watch(f"{MAPS}?watch=1", ("POST", MAPS, config_map("b")), Accept=protobuf)
    length = int.from_bytes(response.body[:4], "big")
    assert response.headers["Content-Type"] == protobuf
    assert b"ADDED" in response.body[4 : 4 + length]
    assert len(response.body) > 4 + length
    assert int.from_bytes(response.body[4 + length : 8 + length], "big") == len(response.body) - 8 - length


async def test_changes_in_other_shards_are_not_sent() -> None:
    nothing = "shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000001')"
    everything = "shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')"
    for selector, names, filtered in ((nothing, [], 1), (everything, ["a", "b"], 0)):
        api = await filled("a", selects_shards=True)
        response = await api.watch(f"{MAPS}?watch=1&shardSelector={selector}", ("POST", MAPS, config_map("b")))
        assert [name for _, name in summary(response)] == names, selector
        assert api.context.shard_counts.filtered["", "configmaps"] == filtered, selector
        assert api.context.shard_counts.watches["", "configmaps"] == 0, selector


async def test_kinds_without_watches_and_named_paths_are_rejected() -> None:
    api = await filled()
    for path, code in (
        ("/api/v1/componentstatuses?watch=1", 405),
        ("/api/v1/namespaces/default/nodes?watch=1", 404),
        ("/api/v1/watch/namespaces/default/pods/p/status", 404),
    ):
        assert (await api.get(path)).code == code, path


RunSimulated = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> RunSimulated:
    """Return a function that runs a coroutine in simulated time, which starts at 0."""

    def run(work: Coroutine[Any, Any, None]) -> None:
        loop = SimulatedLoop(0)
        monkeypatch.setattr(time, "monotonic", loop.time)
        try:
            loop.run_until_complete(work)
        finally:
            loop.close()

    return run


def watch_of(api: Api, query: str, resource: Resource | None = None, format_: Format = PLAIN) -> Watch:
    """Return a watch of ConfigMaps in the namespace ``default``."""
    resource = resource or api.registry.find("", "v1", "configmaps")
    assert resource is not None
    info = RequestInfo("watch", MAPS, resource.group, resource.version, resource.plural, "", "default", "")
    return Watch(api.context, Request("GET", info, Query(query), {}, b"", ADMIN, format_, Identity()), resource)


async def timed(frames: AsyncIterator[bytes], pauses: Sequence[float] = ()) -> list[tuple[float, str, str]]:
    """Return time, type and resource version of each event, and the end of the watch.

    :param pauses: seconds for which the client reads nothing, after each of the first frames.
    """
    seen, waits = [], iter(pauses)
    async for frame in frames:
        for line in frame.splitlines():
            event = json.loads(line)
            seen.append((round(time.monotonic(), 3), event["type"], event["object"]["metadata"]["resourceVersion"]))
        await asyncio.sleep(next(waits, 0))
    return [*seen, (round(time.monotonic(), 3), "end", "")]


async def create_at(api: Api, *writes: tuple[float, str, str]) -> None:
    """Create ConfigMaps at times, with a path and a name each."""
    for at, path, name in writes:
        await asyncio.sleep(at - time.monotonic())
        await api.create(path, config_map(name))


@pytest.mark.parametrize(
    ("query", "writes", "expected"),
    [
        ("timeoutSeconds=7", [], [(7, "end", "")]),
        ("timeoutSeconds=7&allowWatchBookmarks=true", [], [(7, "end", "")]),
        (
            "timeoutSeconds=200&allowWatchBookmarks=true",
            [(10, MAPS, "a"), (20, OTHER, "b"), (130, OTHER, "c"), (185, OTHER, "d"), (198.5, OTHER, "e")],
            [
                (10, "ADDED", "1"),
                (60, "BOOKMARK", "2"),
                (180, "BOOKMARK", "3"),
                (198, "BOOKMARK", "4"),
                (200, "BOOKMARK", "5"),
                (200, "end", ""),
            ],
        ),
        ("timeoutSeconds=70", [(10, MAPS, "a"), (20, OTHER, "b")], [(10, "ADDED", "1"), (70, "end", "")]),
        ("timeoutSeconds=2&allowWatchBookmarks=true", [(1, OTHER, "b")], [(2, "BOOKMARK", "1"), (2, "end", "")]),
        (
            "timeoutSeconds=200&allowWatchBookmarks=true&resourceVersion=2",  # Another server has reached it.
            [(10, OTHER, "a"), (70, OTHER, "b"), (130, MAPS, "c")],
            [(120, "BOOKMARK", "2"), (130, "ADDED", "3"), (180, "BOOKMARK", "3"), (200, "end", "")],
        ),
    ],
)
def test_bookmarks_are_sent_each_minute_and_before_the_end_after_changes(
    simulated: RunSimulated, query: str, writes: list[tuple[float, str, str]], expected: list[tuple[float, str, str]]
) -> None:
    async def work() -> None:
        api = Api()
        writer = asyncio.ensure_future(create_at(api, *writes))
        assert await timed(watch_of(api, query).frames()) == expected
        await writer

    simulated(work())


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        (30, [(10, "ADDED", "1"), (60, "BOOKMARK", "1"), (300, "end", "")]),
        (90, [(10, "ADDED", "1"), (100, "BOOKMARK", "1"), (300, "end", "")]),
        (400, [(10, "ADDED", "1"), (410, "end", "")]),
    ],
)
def test_client_that_reads_late_gets_the_bookmark_late(
    simulated: RunSimulated, pause: float, expected: list[tuple[float, str, str]]
) -> None:
    async def work() -> None:
        api = Api()
        writer = asyncio.ensure_future(create_at(api, (10, MAPS, "a")))
        frames = watch_of(api, "timeoutSeconds=300&allowWatchBookmarks=true").frames()
        assert await timed(frames, [pause]) == expected
        await writer

    simulated(work())


@pytest.mark.parametrize(("format_", "is_text"), [(PLAIN, True), (Format(encoding=PROTOBUF), False)])
async def test_frames_of_several_events_are_split_into_messages(format_: Format, is_text: bool) -> None:
    api = await filled("a", "b")
    watch = watch_of(api, "", format_=format_)

    frames = await anext(watch.frames())

    assert watch.is_text is is_text
    messages = list(watch.messages(frames))
    assert [b'"a"' in message or b"\x01a" in message for message in messages] == [True, False]
    delimited = [message + b"\n" if is_text else len(message).to_bytes(4, "big") + message for message in messages]
    assert b"".join(delimited) == frames


class Versions:
    """Converter that moves the text in ``spec`` to the field of the version; ``bad`` cannot be converted."""

    async def convert(self, found: Sequence[Object], api_version: str) -> list[Object]:
        texts = [next(iter(obj["spec"].values())) for obj in found]
        if "bad" in texts:
            raise ApiError(500, "", "conversion failed")
        field = api_version.rpartition("/")[2]
        return [
            {**obj, "apiVersion": api_version, "spec": {field: text}} for obj, text in zip(found, texts, strict=True)
        ]


WIDGETS = Resource(
    "g", "v2", "Widget", "widgets", converter=Versions(), hashed_version="v1", fields={"spec.v2": ("spec", "v2")}
)


def put_widget(api: Api, name: str, text: str, namespace: str = "default") -> None:
    """Store a widget in the storage version."""
    metadata = {"name": name, "namespace": namespace}
    api.store.put(WIDGETS.storage, {"kind": "Widget", "apiVersion": "g/v1", "metadata": metadata, "spec": {"v1": text}})


async def widget_events(api: Api, query: str, *later: tuple[str, str]) -> list[tuple[str, Any]]:
    """Return type and text, or the message of an error, of the events after initial and *later* changes."""
    watch = watch_of(api, f"timeoutSeconds=5&{query}", WIDGETS)
    for name, text in later:
        put_widget(api, name, text)
    put_widget(api, "last", "last")
    seen: list[tuple[str, Any]] = []
    async for frame in watch.frames():
        for event in map(json.loads, frame.splitlines()):
            obj = event["object"]
            seen.append((event["type"], obj["spec"] if "spec" in obj else obj["message"]))
        if seen[-1][1] == {"v2": "last"} or seen[-1][0] == "ERROR":
            break
    return seen


@pytest.mark.parametrize("query", ["", "fieldSelector=spec.v2!=other"])
async def test_events_have_the_version_of_the_watch(query: str) -> None:
    api = Api()
    put_widget(api, "a", "one")
    put_widget(api, "b", "elsewhere", "other")

    assert await widget_events(api, query, ("a", "two"), ("c", "three")) == [
        ("ADDED", {"v2": "one"}),
        ("MODIFIED", {"v2": "two"}),
        ("ADDED", {"v2": "three"}),
        ("ADDED", {"v2": "last"}),
    ]


async def test_selectors_apply_to_the_version_of_the_watch() -> None:
    api = Api()
    put_widget(api, "a", "one")
    put_widget(api, "b", "other")

    assert await widget_events(api, "fieldSelector=spec.v2!=other", ("a", "other"), ("b", "two")) == [
        ("ADDED", {"v2": "one"}),
        ("DELETED", {"v2": "one"}),
        ("ADDED", {"v2": "two"}),
        ("ADDED", {"v2": "last"}),
    ]


@pytest.mark.parametrize(("initial", "changes", "types"), [("bad", [], []), ("one", [("b", "bad")], ["ADDED"])])
async def test_failed_conversion_ends_the_watch_with_an_error(
    initial: str, changes: list[tuple[str, str]], types: list[str]
) -> None:
    api = Api()
    put_widget(api, "a", initial)

    events = await widget_events(api, "", *changes)

    assert [kind for kind, _ in events] == [*types, "ERROR"]
    assert events[-1][1] == "conversion failed"


async def test_watches_of_shards_are_counted_while_they_run() -> None:
    everything = "shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')"
    api = await filled("a", selects_shards=True)
    counts = []
    for query in (f"shardSelector={everything}", ""):
        frames = watch_of(api, query).frames()
        await anext(frames)
        pending = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
        counts.append(api.context.shard_counts.watches["", "configmaps"])
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)

    assert counts == [1, 0]
    assert api.context.shard_counts.watches["", "configmaps"] == 0


DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BOOKMARK = "?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"


@pytest.mark.parametrize(
    ("enabled", "query", "types"),
    [
        (True, "allowWatchBookmarks=true", ["ADDED", "BOOKMARK"]),
        (True, "allowWatchBookmarks=true&resourceVersion=0", ["ADDED", "BOOKMARK"]),
        (True, "allowWatchBookmarks=true&resourceVersion=1", []),
        (True, "", ["ADDED"]),
        (False, "allowWatchBookmarks=true", ["ADDED"]),
    ],
)
async def test_initial_events_of_other_watches_end_with_a_bookmark_if_enabled(
    enabled: bool, query: str, types: list[str]
) -> None:
    api = await filled("a", watch_lists=enabled)

    response = await api.watch(f"{MAPS}?watch=1&{query}")

    assert [kind for kind, _ in response.events] == types
    for kind, obj in response.events:
        assert kind != "BOOKMARK" or obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", []),
        ("&resourceVersion=0", []),
        ("&resourceVersion=1", [("ADDED", "b")]),
        ("&resourceVersion=2", []),
    ],
)
async def test_watch_without_initial_events_starts_after_its_revision(
    query: str, expected: list[tuple[str, str]]
) -> None:
    api, options = await filled("a", "b", watch_lists=True), "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"

    response = await api.watch(f"{MAPS}?watch=1&{options}{query}", ("POST", MAPS, config_map("c")))

    assert summary(response) == [*expected, ("ADDED", "c")]


async def test_watch_without_initial_events_expires_at_a_compacted_revision() -> None:
    api = await filled("a", "b", "c", watch_lists=True)
    api.store.collection("core/configmaps").compact(3)
    options = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=1"

    ((kind, status),) = (await api.watch(f"{MAPS}?watch=1&{options}")).events

    assert (kind, status["code"]) == ("ERROR", 410)


@pytest.mark.parametrize("shows", [True, False])
async def test_bookmarks_contain_the_required_fields_of_the_kind(shows: bool) -> None:
    api = await filled(watch_lists=True, shows_null_times=shows)

    ((_, pod),) = (await api.watch(f"/api/v1/namespaces/default/pods{BOOKMARK}")).events
    ((_, deployment),) = (await api.watch(f"{DEPLOYMENTS}{BOOKMARK}")).events
    response = await api.watch(f"{DEPLOYMENTS}{BOOKMARK}", Accept=f"{PROTOBUF};stream=watch")

    assert (pod["spec"], pod["status"]) == ({"containers": None}, {})
    assert ("creationTimestamp" in deployment["spec"]["template"]["metadata"]) is shows
    assert b"BOOKMARK" in response.body


async def test_bookmark_of_a_kind_without_a_schema_has_only_metadata() -> None:
    api = await filled(watch_lists=True)
    query = BOOKMARK.replace("?watch=1&", "")

    frame = await anext(watch_of(api, query, Resource("g", "v1", "Plain", "plains")).frames())

    assert json.loads(frame)["object"].keys() == {"kind", "apiVersion", "metadata"}
