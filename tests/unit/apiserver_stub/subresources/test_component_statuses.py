"""Tests for ComponentStatuses: checks, selectors and missing components."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.subresources.component_statuses import ComponentStatuses, Finding
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.api import ADMIN

PATH = "/api/v1/componentstatuses"
FOUND = {
    "etcd-0": Finding(healthy=True, message="ok"),
    "scheduler": Finding(healthy=False, error="refused"),
    "controller-manager": Finding(healthy=None),
}


async def read(target: str) -> Reply:
    def check(found: Finding) -> Any:
        async def run() -> Finding:
            return found

        return run

    path, _, query = target.partition("?")
    info = parse_path("GET", path, Query(query))
    request = Request("GET", info, Query(query), {}, b"", ADMIN, PLAIN, Identity())
    resource = build_registry(parse([])).find("", "v1", "componentstatuses")
    assert resource is not None
    return await ComponentStatuses(lambda: {name: check(found) for name, found in FOUND.items()}).read(
        request, resource
    )


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("etcd-0", {"status": "True", "message": "ok"}),
        ("scheduler", {"status": "False", "error": "refused"}),
        ("controller-manager", {"status": "Unknown"}),
    ],
)
async def test_condition_states_the_health(name: str, condition: dict[str, str]) -> None:
    reply = await read(f"{PATH}/{name}")

    assert reply.record is not None
    found = objects.decode(reply.record.data)
    assert (found["kind"], found["metadata"]["name"]) == ("ComponentStatus", name)
    assert found["conditions"] == [{"type": "Healthy", **condition}]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", list(FOUND)),
        ("?fieldSelector=metadata.name=scheduler", ["scheduler"]),
        ("?fieldSelector=metadata.name!=scheduler", ["etcd-0", "controller-manager"]),
        ("?labelSelector=a=b", []),
        ("?labelSelector=!a", list(FOUND)),
    ],
)
async def test_components_are_listed_by_selector(query: str, names: list[str]) -> None:
    reply = await read(PATH + query)

    assert reply.page is not None
    assert [record.key for record in reply.page.records] == names


async def test_missing_component_is_not_found() -> None:
    with pytest.raises(ApiError) as error:
        await read(f"{PATH}/x")

    assert error.value.code == 404
