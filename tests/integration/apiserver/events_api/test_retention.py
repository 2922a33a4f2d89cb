"""Tests of the time for which Events are stored."""

from __future__ import annotations

import time

import pytest

from tests.integration.apiserver.conftest import Server
from tests.integration.apiserver.events_api.events import MERGE, NEW, create, names, row


@row("retention")
def test_events_expire_after_the_ttl_since_the_last_write(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = Server(tmp_path_factory.mktemp("ttl"), "--event-ttl=4s")
    events = f"{NEW}/namespaces/default/events"
    try:
        api = server.api()
        start = create(api, events, "untouched", "touched")[1]["metadata"]["resourceVersion"]
        time.sleep(2)
        api.ok("PATCH", f"{events}/touched", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        with api.watch(f"{events}?watch=1&resourceVersion={start}", seconds=30) as watched:
            seen = [next(watched) for _ in range(3)]
            assert names(api.ok("GET", events)) == []
    finally:
        server.stop()
    assert [(item["type"], item["object"]["metadata"]["name"]) for item in seen] == [
        ("MODIFIED", "touched"),
        ("DELETED", "untouched"),
        ("DELETED", "touched"),
    ]
