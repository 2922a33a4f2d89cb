"""Tests for the list of volumes in use in the node status, and for listeners of the node object."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.node import NodeReport
from nodeagent.node.status import merge_reports
from nodeagent.testing import FakeApi, FakeClock
from tests.unit.node.conftest import CAPACITY, MakeNode


def in_use(api: FakeApi) -> Any:
    node = api.find(NODES, "node-1", "")
    assert node is not None
    return node["status"].get("volumesInUse")


async def test_list_is_sent_completely_and_kept_while_unknown(
    make_node: MakeNode, api: FakeApi, clock: FakeClock
) -> None:
    node = make_node()
    seen: list[Any] = []
    async with node.running() as manager:
        manager.on_change(lambda: seen.append(((manager.node or {}).get("status") or {}).get("volumesInUse")))
        for names in (["b", "a"], None, ["a"], []):
            node.plugin.report = NodeReport(capacity=CAPACITY, volumes_in_use=names)
            manager.wake()
            await clock.advance(1)
            seen.append(("stored", in_use(api) or []))

    stored = [each[1] for each in seen if isinstance(each, tuple)]
    assert stored == [["a", "b"], ["a", "b"], ["a"], []]
    assert ["a", "b"] in seen and ["a"] in seen


@pytest.mark.parametrize(
    ("lists", "merged"), [(((), ("b",)), ["b"]), ((None, ("b",), ("a",)), ["b", "a"]), ((None, None), None)]
)
def test_lists_of_all_reports_are_combined(lists: Any, merged: list[str] | None) -> None:
    report = merge_reports(
        NodeReport(volumes_in_use=names, labels={"a": "1"}, declared_features=["F"]) for names in lists
    )
    assert report.volumes_in_use == merged
    assert (report.labels, report.declared_features) == ({"a": "1"}, ["F"] * len(lists))
