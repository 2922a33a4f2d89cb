"""Tests for lists: selectors, paging, resource versions and rejected options."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from apiserver_stub.kinds import Registry
from apiserver_stub.verbs.context import VerbSettings
from tests.unit.apiserver_stub.api import Api, config_map
from tests.unit.apiserver_stub.verbs.test_get import Delayed
from tests.unit.apiserver_stub.verbs.test_watch import WIDGETS, put_widget

MAPS, ALL = "/api/v1/namespaces/default/configmaps", "/api/v1/configmaps"
PODS = "/api/v1/namespaces/default/pods"
FUTURE = "Too large resource version"


async def filled(*names: str, **settings: Any) -> Api:
    """Return a server with the ConfigMaps *names*, one per revision."""
    api = Api(settings=VerbSettings(**settings))
    for name in names:
        await api.create(MAPS, config_map(name, tier="front" if name < "c" else "back"))
    return api


def token(**fields: Any) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", **fields})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


async def test_selectors_choose_objects() -> None:
    api = await filled("a", "b", "c")
    await api.create("/api/v1/namespaces/other/configmaps", config_map("a", tier="front"))
    for query, expected in (
        ("", ["a", "b", "c"]),
        ("?labelSelector=tier=front", ["a", "b"]),
        ("?labelSelector=tier!=front", ["c"]),
        ("?labelSelector=tier in (back,x)", ["c"]),
        ("?labelSelector=tier", ["a", "b", "c"]),
        ("?labelSelector=!tier", []),
        ("?labelSelector=none", []),
        ("?fieldSelector=metadata.name=b", ["b"]),
        ("?fieldSelector=metadata.name=x", []),
        ("?fieldSelector=metadata.name!=b", ["a", "c"]),
        ("?fieldSelector=metadata.name=b&labelSelector=tier=back", []),
        ("?fieldSelector=metadata.namespace=other", []),
    ):
        assert (await api.get(MAPS + quote(query, safe="?=&!"))).names == expected, query
    assert (await api.get(ALL)).names == ["a", "b", "c", "a"]
    assert (await api.get(f"{ALL}?fieldSelector=metadata.name=a")).names == ["a", "a"]
    assert (await api.get(f"{ALL}?fieldSelector=metadata.name=a,metadata.namespace=other")).names == ["a"]


async def test_fields_that_json_omits_are_selected() -> None:
    api = Api()
    for name, spec in (("cordoned", {"unschedulable": True}), ("free", {})):
        await api.create("/api/v1/nodes", {"metadata": {"name": name}, "spec": spec})
    for query, expected in (("false", ["free"]), ("true", ["cordoned"])):
        response = await api.get(f"/api/v1/nodes?fieldSelector=spec.unschedulable={query}")
        assert response.names == expected, query
    await api.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert (await api.get(f"{PODS}?fieldSelector=spec.nodeName=")).names == ["p"]
    assert (await api.get(f"{PODS}?fieldSelector=spec.nodeName=n")).names == []
    assert (await api.get(f"{PODS}?fieldSelector=spec.restartPolicy=Always")).names == ["p"]


async def test_values_with_escapes_are_selected() -> None:
    api = Api()
    for name in ("a\\b", "ü"):
        await api.create(
            "/api/v1/namespaces/default/events",
            {
                "metadata": {"name": f"e{len(name)}", "namespace": "default"},
                "involvedObject": {"name": name, "namespace": "default"},
            },
        )
        path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={quote(name)}"
        assert (await api.get(path.replace("%5C", "%5C%5C"))).names == [f"e{len(name)}"], name


async def test_invalid_selectors_are_rejected() -> None:
    api = await filled()
    for path, message in (
        (f"{MAPS}?labelSelector=a==b==c", "found '==', expected: ',' or 'end of string'"),
        (f"{MAPS}?fieldSelector=a", "invalid selector"),
        (f"{MAPS}?fieldSelector=data.x=1", 'only "metadata.name", "metadata.namespace"'),
        (f"{PODS}?fieldSelector=spec.x=1", "field label not supported: spec.x"),
    ):
        response = await api.get(path)
        assert (response.code, message in response.message) == (400, True), (path, response.message)


async def test_pages_continue_until_all_objects_were_sent() -> None:
    api = await filled("a", "b", "c", "d")
    first = await api.get(f"{MAPS}?limit=2")
    metadata = first.obj["metadata"]
    second = await api.get(f"{MAPS}?limit=2&continue={metadata['continue']}")
    assert (first.names, second.names) == (["a", "b"], ["c", "d"])
    assert (metadata["remainingItemCount"], "continue" in second.obj["metadata"]) == (2, False)
    for query, names, continues in (
        ("?limit=4", ["a", "b", "c", "d"], False),
        ("?limit=3", ["a", "b", "c"], True),
        ("?limit=0", ["a", "b", "c", "d"], False),
        ("?limit=-1", ["a", "b", "c", "d"], False),
        ("?limit=1&labelSelector=tier=back", ["c"], True),
        ("?limit=2&labelSelector=tier=back", ["c", "d"], False),
        ("?limit=3&labelSelector=tier=back", ["c", "d"], False),
        ("?limit=2&labelSelector=tier=front", ["a", "b"], True),
        ("?limit=1&resourceVersion=0", ["a", "b", "c", "d"], False),
        ("?limit=1&resourceVersion=4", ["a"], True),
    ):
        response = await api.get(MAPS + query)
        found = response.obj["metadata"]
        assert (response.names, "continue" in found) == (names, continues), query
        assert ("remainingItemCount" in found) is (continues and "Selector" not in query), query
    response = await api.get(f"{MAPS}?limit=x")
    assert response.code == 400


async def test_all_pages_show_the_revision_of_the_first() -> None:
    api = await filled("a", "b", "c")
    first = (await api.get(f"{MAPS}?limit=1")).obj["metadata"]
    await api.create(MAPS, config_map("bb"))
    response = await api.get(f"{MAPS}?limit=5&continue={first['continue']}")
    assert response.names == ["b", "c"]
    assert response.obj["metadata"]["resourceVersion"] == first["resourceVersion"] == "3"
    inconsistent = await api.get(f"{MAPS}?limit=5&continue={token(rv=-1, start='b')}")
    assert inconsistent.names == ["b", "bb", "c"]
    assert inconsistent.obj["metadata"]["resourceVersion"] == "4"


async def test_invalid_continue_tokens_are_rejected() -> None:
    api = await filled("a")
    prefix = "invalid continue token: continue key is not valid"
    for text, message in (
        ("!", f"{prefix}: "),
        (token(v="v9", rv=1, start="a"), f"{prefix}: server does not recognize this encoded version v9"),
        (token(start="a"), f"{prefix}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (token(rv=1), f"{prefix}: encoded start key empty (version meta.k8s.io/v1)"),
        (token(rv=1, start="../x"), f"{prefix}: ../x"),
        (token(rv=1, start="//x"), f"{prefix}: //x"),
    ):
        response = await api.get(f"{MAPS}?continue={text}")
        assert (response.code, response.message.startswith(message)) == (400, True), (text, response.message)
    valid = token(rv=1, start="a")
    assert (await api.get(f"{MAPS}?continue={valid}")).names == ["a"]
    assert (await api.get(f"{MAPS}?continue={valid}&resourceVersion=0")).code == 200
    response = await api.get(f"{MAPS}?continue={valid}&resourceVersion=1")
    assert response.message == "specifying resource version is not allowed when using continue"


async def test_compacted_revisions_have_expired() -> None:
    api = await filled("a", "b", "c")
    api.store.collection("core/configmaps").compact(3)
    old = await api.get(f"{MAPS}?continue={token(rv=1, start='b')}")
    assert (old.code, old.obj["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in old.message
    assert (await api.get(f"{MAPS}?continue={old.obj['metadata']['continue']}")).names == ["b", "c"]
    exact = await api.get(f"{MAPS}?resourceVersion=1&resourceVersionMatch=Exact")
    assert (exact.code, exact.message) == (410, "The resourceVersion for the provided list is too old.")


async def test_exact_revisions_show_the_past() -> None:
    api = await filled("a", "b", "c")
    for query, names in (
        ("resourceVersion=2&resourceVersionMatch=Exact", ["a", "b"]),
        ("resourceVersion=3&resourceVersionMatch=Exact", ["a", "b", "c"]),
        ("resourceVersion=2&resourceVersionMatch=NotOlderThan", ["a", "b", "c"]),
        ("resourceVersion=2", ["a", "b", "c"]),
        ("resourceVersion=2&limit=9", ["a", "b"]),
        ("resourceVersion=2&limit=9&resourceVersionMatch=NotOlderThan", ["a", "b", "c"]),
        ("resourceVersion=2&limit=9&fieldSelector=metadata.name=c", ["c"]),
        ("resourceVersion=2&resourceVersionMatch=Exact&fieldSelector=metadata.name=c", []),
        ("resourceVersion=0", ["a", "b", "c"]),
    ):
        assert (await api.get(f"{MAPS}?{query}")).names == names, query


async def test_future_revisions_are_too_large() -> None:
    for settings, query, code, message in (
        ({}, "resourceVersion=9", 504, FUTURE),
        ({}, "resourceVersion=9&limit=1", 500, "etcdserver: mvcc: required revision is a future revision"),
        ({"times_out_future_lists": True}, "resourceVersion=9&limit=1", 504, FUTURE),
        ({}, f"resourceVersion={1 << 63}&limit=1", 504, FUTURE),
        ({}, "resourceVersion=3&resourceVersionMatch=NotOlderThan", 504, FUTURE),
        ({}, "resourceVersion=2", 200, ""),
        ({}, "resourceVersion=x", 500, 'resourceVersion: Invalid value: "x"'),
        ({"checks_list_versions": True}, "resourceVersion=x", 400, 'resourceVersion: Invalid value: "x"'),
    ):
        api = await filled("a", "b", **settings)
        response = await api.get(f"{MAPS}?{query}")
        assert (response.code, message in response.message) == (code, True), (query, response.code, response.message)


async def test_options_that_exclude_each_other_are_rejected() -> None:
    api = await filled("a")
    match = "resourceVersionMatch"
    for query, messages in (
        ("sendInitialEvents=true", ["sendInitialEvents is forbidden for list"]),
        (f"{match}=Exact", [f"{match} is forbidden unless resourceVersion is provided"]),
        (
            f"{match}=NotOlderThan&resourceVersion=1&continue={token(rv=1, start='a')}",
            [f"{match} is forbidden when continue is provided"],
        ),
        (f"{match}=Other&resourceVersion=1", ['Unsupported value: "Other": supported values: "Exact"']),
        (f"{match}=Exact&resourceVersion=0", ['"exact" is forbidden for resourceVersion "0"']),
        (f"{match}=NotOlderThan&resourceVersion=0", []),
        (f"{match}=Exact&resourceVersion=1", []),
    ):
        response = await api.get(f"{MAPS}?{query}")
        assert response.code == (422 if messages else 200), query
        for message in messages:
            assert message in response.message, (query, response.message)
        if messages:
            assert len(response.obj["details"]["causes"]) == len(messages), query


async def test_shards_are_selected_if_enabled() -> None:
    everything = "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"
    nothing = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')"
    for enabled, selector, names in (
        (True, everything, ["a", "b"]),
        (True, nothing, []),
        (False, nothing, ["a", "b"]),
    ):
        api = await filled("a", "b", selects_shards=enabled)
        response = await api.get(f"{MAPS}?shardSelector={quote(selector)}")
        assert response.names == names, selector
        assert ("shardInfo" in response.obj["metadata"]) is enabled, selector


async def test_fields_that_are_false_are_omitted_from_objects() -> None:
    api = Api()
    for name, spec in (("open", {}), ("closed", {"unschedulable": True})):
        await api.create("/api/v1/nodes", {"metadata": {"name": name}, "spec": spec})
    for query, expected in (
        ("spec.unschedulable=false", ["open"]),
        ("spec.unschedulable=true", ["closed"]),
        ("spec.unschedulable!=true", ["open"]),
        ("metadata.name=closed,spec.unschedulable=false", []),
    ):
        assert (await api.get(f"/api/v1/nodes?fieldSelector={quote(query)}")).names == expected, query


async def test_label_selectors_match_objects_without_the_label() -> None:
    api = await filled("a", "c")
    await api.create(MAPS, config_map("plain"))
    for query, expected in (
        ("tier", ["a", "c"]),
        ("!tier", ["plain"]),
        ("tier!=front", ["c", "plain"]),
        ("tier notin (front,back)", ["plain"]),
        ("tier in (front,back)", ["a", "c"]),
    ):
        assert (await api.get(f"{MAPS}?labelSelector={quote(query)}")).names == expected, query


async def test_object_is_read_at_the_current_revision() -> None:
    api = await filled("a", "b")

    assert (await api.get(f"{MAPS}/a?resourceVersion=2")).code == 200
    future = await api.get(f"{MAPS}/a?resourceVersion=3")
    assert (future.code, FUTURE in future.message) == (504, True)


async def test_token_of_the_latest_revision_continues_with_later_objects() -> None:
    api = await filled("a", "b")
    latest, exact = (token(rv=revision, start="a\u0000") for revision in (-1, 2))
    await api.create(MAPS, config_map("c"))

    assert (await api.get(f"{MAPS}?continue={latest}")).names == ["b", "c"]
    assert (await api.get(f"{MAPS}?continue={exact}")).names == ["b"]
    single = "fieldSelector=metadata.name%3Da"
    assert (await api.get(f"{MAPS}?{single}&continue={latest}")).names == []
    assert (await api.get(f"{MAPS}?{single}")).names == ["a"]


@pytest.mark.parametrize(
    ("query", "awaited"),
    [
        ("", [0]),
        ("?resourceVersion=0", []),
        ("?resourceVersion=1", []),
        ("?resourceVersion=2", [2]),
        (f"?resourceVersion={10**18}", [10**18]),
        (f"?resourceVersion={10**19}", []),
        ("?resourceVersion=x", []),
    ],
)
async def test_list_waits_for_the_requested_revision(query: str, awaited: list[int]) -> None:
    store = Delayed()
    api = Api(store=store)
    for name in "ab":
        await api.create(MAPS, config_map(name))
    store.lag = 1

    await api.get(f"{MAPS}{query}")

    assert store.awaited == awaited


@pytest.mark.parametrize(
    ("query", "cached", "code"),
    [
        ("resourceVersion=x", True, 500),
        ("resourceVersion=x", False, 400),
        ("resourceVersion=x&resourceVersionMatch=NotOlderThan", True, 500),
        ("resourceVersion=x&resourceVersionMatch=Exact", True, 400),
        ("resourceVersion=x&limit=0", True, 500),
        ("resourceVersion=x&limit=1", True, 400),
    ],
)
async def test_error_of_an_invalid_revision_is_that_of_cache_or_store(query: str, cached: bool, code: int) -> None:
    api = await filled("a", is_cached=lambda plural, group: cached)

    response = await api.get(f"{MAPS}?{query}")

    assert (response.code, 'Invalid value: "x"' in response.message) == (code, True)


@pytest.mark.parametrize(("cached", "names"), [(True, ["a", "b"]), (False, ["a"])])
async def test_cache_ignores_limits_at_revision_0(cached: bool, names: list[str]) -> None:
    api = await filled("a", "b", is_cached=lambda plural, group: cached)

    assert (await api.get(f"{MAPS}?resourceVersion=0&limit=1")).names == names
    assert (await api.get(f"{MAPS}?limit=1")).names == ["a"]


@pytest.mark.parametrize(
    ("query", "snapshots", "cached", "retries"),
    [
        ("resourceVersion=9", False, True, True),
        ("resourceVersion=9", False, False, False),
        ("resourceVersion=9&limit=1", False, True, False),
        ("resourceVersion=9&limit=1", True, True, True),
        ("resourceVersion=9&limit=1", True, False, False),
    ],
)
async def test_cache_suggests_to_retry_lists_of_future_revisions(
    query: str, snapshots: bool, cached: bool, retries: bool
) -> None:
    api = await filled(
        "a", caches_snapshots=snapshots, is_cached=lambda plural, group: cached, times_out_future_lists=True
    )

    response = await api.get(f"{MAPS}?{query}")

    assert (response.code, "retryAfterSeconds" in response.obj["details"]) == (504, retries)


@pytest.mark.parametrize("value", ['a"b', "a'b", "a b"])
async def test_values_with_quotes_are_selected(value: str) -> None:
    api, events = Api(), "/api/v1/namespaces/default/events"
    involved = {"name": value, "namespace": "default"}
    await api.create(events, {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": involved})

    assert (await api.get(f"{events}?fieldSelector=involvedObject.name={quote(value)}")).names == ["e"]
    assert (await api.get(f"{events}?fieldSelector=involvedObject.name={quote(value[:2])}")).names == []


@pytest.mark.parametrize(
    ("query", "names"), [("", ["a", "b"]), ("fieldSelector=spec.v2=one", ["a"]), ("fieldSelector=spec.v1=one", None)]
)
async def test_selectors_apply_to_the_requested_version(query: str, names: list[str] | None) -> None:
    api = Api(registry=Registry([WIDGETS]))
    for name, text in (("a", "one"), ("b", "two")):
        put_widget(api, name, text)

    response = await api.get(f"/apis/g/v2/namespaces/default/widgets?{query}")

    assert response.code == (400 if names is None else 200)
    if names is not None:
        assert response.names == names
        assert [list(item["spec"]) for item in response.obj["items"]] == [["v2"]] * len(names)
