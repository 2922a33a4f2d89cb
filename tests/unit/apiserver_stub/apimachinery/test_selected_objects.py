"""Tests for the selectors of requests in the form of access reviews."""

from __future__ import annotations

from apiserver_stub.apimachinery.selected_objects import ALL, reviewed_objects, selected_objects


def test_selectors_become_requirements() -> None:
    found = selected_objects("spec.nodeName=a,status.phase!=Failed", "app=a,tier in (x,y),!old,new,env!=b")

    assert found.encode() == {
        "fieldSelector": {
            "requirements": [
                {"key": "spec.nodeName", "operator": "In", "values": ["a"]},
                {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]},
            ]
        },
        "labelSelector": {
            "requirements": [
                {"key": "app", "operator": "In", "values": ["a"]},
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"},
                {"key": "env", "operator": "NotIn", "values": ["b"]},
            ]
        },
    }


def test_invalid_and_unsupported_selectors_restrict_nothing() -> None:
    assert selected_objects("a", "=") == ALL
    assert selected_objects("", "n>1") == ALL
    assert ALL.encode() == {}


def test_requirements_and_raw_selectors_of_reviews_are_read() -> None:
    requirements = [{"key": "spec.nodeName", "operator": "In", "values": ["a"]}]

    found = reviewed_objects({"fieldSelector": {"requirements": requirements}, "labelSelector": {"rawSelector": "a=b"}})

    assert found == selected_objects("spec.nodeName=a", "a=b")
    assert reviewed_objects({}) == ALL
