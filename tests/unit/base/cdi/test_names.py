"""Tests for names of CDI devices."""

from __future__ import annotations

import pytest

from nodeagent.base.cdi.names import qualified_error, requested_names


@pytest.mark.parametrize("name", ["example.com/gpu=0", "v/c=a", "a.b-c_1/x.y=gpu:0-1.2_3"])
def test_valid_name_is_accepted(name: str) -> None:
    assert qualified_error(name) == ""


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("gpu", "must have the form vendor/class=device"),
        ("example.com=0", "must have the form vendor/class"),
        ("example.com/gpu=", "must consist of letters, digits and _-.:, and start and end with a letter or digit"),
        ("example.com-/gpu=0", "vendor must consist of"),
        ("example.com/0gpu=0", "class must consist of"),
    ],
)
def test_invalid_name_has_a_reason(name: str, error: str) -> None:
    assert qualified_error(name).startswith(error)


def test_names_in_annotations_follow_those_of_the_request() -> None:
    annotations = {"cdi.k8s.io/vendor_b": "a/b=2, a/b=3", "cdi.k8s.io/vendor_a": "a/b=1", "other": "a/b=9"}

    assert requested_names(["a/b=3"], annotations) == ["a/b=3", "a/b=1", "a/b=2"]


@pytest.mark.parametrize(("vendor", "kind", "error"), [(253, 63, ""), (254, 63, "vendor"), (253, 64, "class")])
def test_length_of_vendor_and_class_is_limited(vendor: int, kind: int, error: str) -> None:
    reason = qualified_error(f"{'v' * vendor}/{'c' * kind}=0")

    assert reason == (f"{error} must have at most {253 if error == 'vendor' else 63} characters" if error else "")
