"""Integration tests for lists, watches and deletions of shards (ShardedListAndWatch)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from .conftest import Api, Server

# Secrets, since controllers create none in the background.
SECRETS = "/api/v1/namespaces/default/secrets"
BOUNDS = ("0x0000000000000000", "0x8000000000000000", "0x10000000000000000")
COUNT = 24


def selector(number: int, field: str = "uid") -> str:
    start, end = BOUNDS[number : number + 2]
    return f"shardRange(object.metadata.{field}, '{start}', '{end}')"


def query(number: int, field: str = "uid") -> str:
    return f"shardSelector={quote(selector(number, field))}"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    arguments = ("--compatibility-version=1.36", "--feature-gates=ShardedListAndWatch=true")
    server = Server(tmp_path_factory.mktemp("shards"), *arguments)
    try:
        api = server.api()
        for number in range(COUNT):
            api.ok("POST", SECRETS, {"metadata": {"name": f"s{number:02}", "labels": {"even": str(number % 2 == 0)}}})
        yield api
    finally:
        server.stop()


def names(listed: Any) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


def test_shards_partition_a_list(api: Api) -> None:
    everything = names(api.ok("GET", SECRETS))

    shards = [api.ok("GET", f"{SECRETS}?{query(number)}") for number in (0, 1)]

    assert names(shards[0]) | names(shards[1]) == everything
    assert names(shards[0]) & names(shards[1]) == set()
    assert all(0 < len(names(shard)) < len(everything) for shard in shards)
    assert [shard["metadata"]["shardInfo"] for shard in shards] == [{"selector": selector(number)} for number in (0, 1)]


def test_shards_combine_with_labels_and_pages(api: Api) -> None:
    shard = names(api.ok("GET", f"{SECRETS}?{query(1)}"))
    labeled = api.ok("GET", f"{SECRETS}?{query(1)}&labelSelector=even=True")
    page = api.ok("GET", f"{SECRETS}?{query(1)}&limit=1")
    rest = api.ok("GET", f"{SECRETS}?{query(1)}&continue={page['metadata']['continue']}")

    assert names(labeled) == {name for name in shard if int(name[1:]) % 2 == 0}
    assert names(page) | names(rest) == shard
    assert len(names(page)) == 1
    assert page["metadata"]["remainingItemCount"] == len(names(api.ok("GET", SECRETS))) - 1


def test_namespaces_can_be_sharded(api: Api) -> None:
    shards = [names(api.ok("GET", f"{SECRETS}?{query(number, 'namespace')}")) for number in (0, 1)]

    assert sorted(map(bool, shards)) == [False, True]


@pytest.mark.parametrize("shape", ["Table", "PartialObjectMetadataList"])
def test_other_forms_of_lists_have_no_shard_information(api: Api, shape: str) -> None:
    accepted = f"application/json;as={shape};v=v1;g=meta.k8s.io"
    listed = api.ok("GET", f"{SECRETS}?{query(0)}", headers={"Accept": accepted})

    assert listed["kind"] == shape
    assert "shardInfo" not in listed["metadata"]
    assert len(listed.get("items") or listed["rows"]) == len(names(api.ok("GET", f"{SECRETS}?{query(0)}")))


def test_watch_sends_only_changes_of_its_shard(api: Api) -> None:
    shard, revision = (
        names(api.ok("GET", f"{SECRETS}?{query(0)}")),
        api.ok("GET", SECRETS)["metadata"]["resourceVersion"],
    )
    inside, outside = min(shard), min(names(api.ok("GET", SECRETS)) - shard)
    merge = "application/merge-patch+json"

    with api.watch(f"{SECRETS}?watch=true&resourceVersion={revision}&{query(0)}") as events:
        for name in (outside, inside):
            api.ok("PATCH", f"{SECRETS}/{name}", {"data": {"a": "Yg=="}}, content_type=merge)
        event = next(events)

    assert (event["type"], event["object"]["metadata"]["name"]) == ("MODIFIED", inside)


def test_watch_starts_with_the_objects_of_its_shard(api: Api) -> None:
    shard = names(api.ok("GET", f"{SECRETS}?{query(1)}"))

    with api.watch(f"{SECRETS}?watch=true&{query(1)}") as events:
        found = {next(events)["object"]["metadata"]["name"] for _ in shard}

    assert found == shard


def test_metrics_count_watches_of_shards_and_filtered_events(api: Api) -> None:
    path, labels, received = "/api/v1/namespaces/default/configmaps", '{group="",resource="configmaps"}', set()

    with api.watch(f"{path}?watch=true&{query(1)}") as events:
        created = {api.ok("POST", path, {"metadata": {"generateName": "m"}})["metadata"]["name"] for _ in range(COUNT)}
        kept = names(api.ok("GET", f"{path}?{query(1)}")) & created
        while not kept <= received:
            received.add(next(events)["object"]["metadata"]["name"])
        page = api.raw("GET", "/metrics")[2].decode()

    assert f"apiserver_watch_shards_total{labels} 1\n" in page
    filtered = re.search(rf"^apiserver_watch_filtered_events_total{re.escape(labels)} (\d+)$", page, re.MULTILINE)
    assert filtered is not None
    assert 0 < int(filtered[1]) <= COUNT - len(kept)


@pytest.mark.parametrize("watch", ["", "&watch=true"])
def test_invalid_selector_is_rejected(api: Api, watch: str) -> None:
    code, response = api.call("GET", f"{SECRETS}?shardSelector=foo(){watch}")

    assert code == 500
    assert response["message"].startswith("invalid shard selector: ")


def test_collection_of_a_shard_is_deleted(api: Api) -> None:
    path = "/api/v1/namespaces/shards/secrets"
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "shards"}})
    for number in range(COUNT):
        api.ok("POST", path, {"metadata": {"name": f"s{number:02}"}})
    other = names(api.ok("GET", f"{path}?{query(1)}"))

    api.ok("DELETE", f"{path}?{query(0)}")

    assert names(api.ok("GET", path)) == other


def test_selector_is_ignored_without_the_gate(tmp_path: Path) -> None:
    server = Server(tmp_path, "--compatibility-version=1.36")
    try:
        api = server.api()
        api.ok("POST", SECRETS, {"metadata": {"name": "a"}})
        lists = [api.ok("GET", f"{SECRETS}?{text}") for text in ("", query(0), query(1), "shardSelector=foo")]
    finally:
        server.stop()

    assert len({json.dumps(sorted(names(listed))) for listed in lists}) == 1
    assert all("shardInfo" not in listed["metadata"] for listed in lists)
