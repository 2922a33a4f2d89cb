"""A node keeps what it once was, and shows all of its facts before it has any."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.options import Options
from apiserver_stub.resources.nodes import NodeStrategy, resources


def node(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"metadata": {"name": "n"}, "spec": spec}
    strategy = NodeStrategy()
    strategy.default(made)
    strategy.prepare_create(made)
    return made


def test_facts_that_nobody_told_are_empty_and_others_kept() -> None:
    info = node()["status"]["nodeInfo"]
    assert len(info) == 10
    assert set(info.values()) == {""}

    told = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"osImage": "Debian"}}}
    NodeStrategy().prepare_create(told)
    assert (told["status"]["nodeInfo"]["osImage"], told["status"]["nodeInfo"]["bootID"]) == ("Debian", "")


def test_a_fact_that_is_empty_is_shown_as_unknown() -> None:
    (nodes,) = resources(Options())
    cells = {column.name: column.cell(node()) for column in nodes.columns if column.name != "Age"}
    assert {cells[name] for name in ("OS-Image", "Kernel-Version", "Container-Runtime")} == {"<unknown>"}
    assert cells["Version"] == ""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ({"podCIDR": "10.1.0.0/24"}, {"podCIDR": "10.2.0.0/24"}, "spec.podCIDRs"),
        ({"podCIDR": "10.1.0.0/24"}, {}, "spec.podCIDRs"),
        ({"providerID": "a://1"}, {"providerID": "a://2"}, "spec.providerID"),
    ],
)
def test_its_range_and_provider_stay(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    (cause,) = NodeStrategy().validate_update(node(**new), node(**old), "")
    assert (cause.field, cause.reason) == (field, "FieldValueForbidden")

    assert NodeStrategy().validate_update(node(**old), node(), "") == []
