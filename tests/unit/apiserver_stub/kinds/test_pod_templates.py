"""Tests for the rules of pod templates in the kinds that contain them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import pod_templates, replication_controllers
from apiserver_stub.kinds.deployments import ready_of_desired
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def of(module: Any, *arguments: str) -> Resource:
    (found,) = module.resources(kind_settings(parse(list(arguments))))
    return found  # type: ignore[no-any-return]


SPEC = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}


def template(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "t", "generation": 1}, "template": fields}


@pytest.mark.parametrize("stored", [{"spec": SPEC}, {"metadata": {"labels": {"a": "b"}}}, {}, None])
def test_stored_template_may_lack_parts(stored: Any) -> None:
    old, new = {**template(), "template": stored}, template(spec=SPEC)

    of(pod_templates).strategy.validate_update(new, old, "")

    assert of(pod_templates).strategy.warnings(new, None) == []


@pytest.mark.parametrize(
    ("name", "old_generation", "expected"),
    [("a.b", None, True), ("a", None, False), ("a.b", 1, False), ("a.b", 2, False)],
)
def test_name_of_pods_is_checked_only_on_creation(name: str, old_generation: int | None, *, expected: bool) -> None:
    new: Any = {"metadata": {"name": name, "generation": 1}, "spec": {"template": {"spec": SPEC}}}
    old: Any = None if old_generation is None else {"metadata": {"name": name, "generation": old_generation}}

    warnings = of(replication_controllers).strategy.warnings(new, old)

    assert any("DNS label" in text for text in warnings) is expected


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({}, ["", "", "<none>"]),
        (
            {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]}},
            ["c,d", "i,", "a=b"],
        ),
    ],
)
def test_columns_of_templates(fields: Any, cells: list[str]) -> None:
    assert [column.cell(template(**fields)) for column in of(pod_templates).columns[1:4]] == cells


@pytest.mark.parametrize(("selector", "text"), [(None, "<none>"), ({"a": "b"}, "a=b")])
def test_selector_of_a_controller_is_shown(selector: Any, text: str) -> None:
    column = next(item for item in of(replication_controllers).columns if item.name == "Selector")

    assert column.cell({"metadata": {"name": "r"}, "spec": {"selector": selector}}) == text


@pytest.mark.parametrize(("release", "generated"), [("1.35", True), ("1.36", False)])
def test_generated_names_of_controllers_are_validated_before_1_36(release: str, *, generated: bool) -> None:
    found = of(replication_controllers, f"--compatibility-version={release}")

    assert found.metadata_rules.generated_names is generated


def test_replicas_are_zero_without_a_status() -> None:
    assert ready_of_desired({}) == "0/0"
    assert ready_of_desired({"spec": {"replicas": 3}, "status": {"readyReplicas": 2}}) == "2/3"
