"""Tests for the content of downward API volumes."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.errors import VolumeError
from nodeagent.model.pod import ObjectFieldSelector
from nodeagent.testing import make_pod
from nodeagent_plugins.volumes.downward import field_value, format_map


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("a b", '"a b"'),
        ('"\\', r'"\"\\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("\x80\xa0\u2028\uffff", r'"\u0080\u00a0\u2028\uffff"'),
        ("\U000e0001\U0010ffff", r'"\U000e0001\U0010ffff"'),
        ("äö€😀", '"äö€😀"'),
    ],
)
def test_values_of_labels_and_annotations_are_quoted_as_in_go(value: str, quoted: str) -> None:
    assert format_map({"k": value}) == f"k={quoted}"


def test_entries_are_lines_sorted_by_key() -> None:
    assert format_map({"b": "2", "a": "1"}) == 'a="1"\nb="2"' and format_map({}) == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.labels", 'a="1"'),
        ("metadata.annotations", 'b="2"'),
        ("metadata.labels['a']", "1"),
        ("metadata.name", "web"),
    ],
)
def test_fields_of_the_metadata(path: str, text: str) -> None:
    pod = make_pod("web", labels={"a": "1"}, annotations={"b": "2"})

    assert field_value(pod, ObjectFieldSelector(field_path=path)) == text


@pytest.mark.parametrize("path", ["metadata.labels", "metadata.annotations"])
def test_missing_map_is_empty(path: str) -> None:
    pod = make_pod("web")
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=None, annotations=None))

    assert field_value(pod, ObjectFieldSelector(field_path=path)) == ""


def test_unsupported_field_is_an_error() -> None:
    with pytest.raises(VolumeError, match=r"unsupported fieldPath: spec\.unknown"):
        field_value(make_pod(), ObjectFieldSelector(field_path="spec.unknown"))
