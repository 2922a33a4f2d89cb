"""Tests for the resources of the versions of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.custom_resources import resources_of
from tests.unit.apiserver_stub.kinds.test_custom_resources import NAMES, established, only, version, widget


@pytest.mark.parametrize(("names", "singular", "list_kind"), [(NAMES, "widget", "WidgetList"), ({}, "w", "WList")])
def test_resource_has_the_accepted_names(names: dict[str, str], singular: str, list_kind: str) -> None:
    found = established(scope="Cluster")
    accepted = {"plural": "ws", "kind": "W", "shortNames": ["a"], "categories": ["all"], **names}
    found["status"]["acceptedNames"] = accepted

    resource = only(resources_of(found))

    assert (resource.singular, resource.list_kind, resource.namespaced) == (singular, list_kind, False)
    assert (resource.short_names, resource.categories) == (("a",), ("all",))
    assert only(resources_of(established())).namespaced


def test_scale_has_the_paths_of_the_definition() -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    plain, selecting = (
        only(resources_of(established(version(subresources={"scale": {**paths, **selector}}))))
        for selector in ({}, {"labelSelectorPath": ".status.selector"})
    )
    obj = widget(status={"selector": "a=b"})

    assert plain.scale is not None
    assert selecting.scale is not None
    assert (plain.scale.replicas, plain.scale.observed) == (("spec", "size"), ("status", "size"))
    assert (plain.scale.selector(obj), selecting.scale.selector(obj), selecting.scale.selector(widget())) == (
        "",
        "a=b",
        "",
    )
    assert [item.name for item in plain.subresources] == ["scale"]
    assert only(resources_of(established())).scale is None


@pytest.mark.parametrize(("preserve", "expected"), [(None, {}), (False, {}), (True, {"other": 1})])
def test_unknown_fields_are_pruned_unless_they_are_preserved(preserve: bool | None, expected: dict[str, Any]) -> None:
    schema = only(resources_of(established(preserveUnknownFields=preserve))).schema
    obj = widget({"other": 1})
    assert schema is not None

    schema.check(obj)

    assert obj["spec"] == expected


def test_several_versions_are_converted_by_the_webhook() -> None:
    webhook = {"clientConfig": {"url": "https://x"}}
    versions = version(), version("v2", storage=False)
    given: list[Any] = []

    def convert_by(config: Any) -> Any:
        given.append(config)
        return converter

    converter: Any = object()
    for found, conversion, is_called in (
        (versions, {"strategy": "Webhook", "webhook": webhook}, True),
        (versions, {"strategy": "None", "webhook": webhook}, False),
        (versions[:1], {"strategy": "Webhook", "webhook": webhook}, False),
        (versions, None, False),
    ):
        given.clear()
        first, *_ = resources_of(established(*found, conversion=conversion), convert_by=convert_by)
        assert given == ([webhook] if is_called else [])
        assert (first.converter is converter, first.convert is None) == (is_called, is_called)
    first, second = resources_of(established(*versions))
    assert (first.renamed_fields, second.renamed_fields) == ({"example.com/v2": {}}, {"example.com/v1": {}})
    assert (first.hashed_version, second.hashed_version) == ("v1", "v1")
    assert first.convert is not None


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("", 0, False, "Custom resource definition column (in JSONPath format): .spec.size")),
        ({"format": "int32", "priority": 1, "description": "d"}, ("int32", 1, True, "d")),
    ],
)
def test_columns_have_the_properties_of_the_definition(more: dict[str, Any], expected: Any) -> None:
    declared = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", **more}
    found = only(resources_of(established(version(additionalPrinterColumns=[declared])))).columns[1]

    assert (found.format, found.priority, found.wide, found.description) == expected


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([version("v2")], "; use example.com/v2 Widget"),
        ([version("v2", deprecated=True)], ""),
        ([{**version("v2"), "served": False}], ""),
        ([version("v1beta1")], ""),
        ([version("v2"), version("v3")], "; use example.com/v3 Widget"),
    ],
)
def test_deprecated_version_names_the_latest_one(others: list[Any], text: str) -> None:
    first, *_ = resources_of(established(version("v1", deprecated=True), *others))

    assert first.deprecation is not None
    assert first.deprecation.warning == f"example.com/v1 Widget is deprecated{text}"
