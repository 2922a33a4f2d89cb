"""Tests for secrets: only ``reveal`` returns the value."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from nodeagent.base.secret import Secret


def test_every_text_form_is_masked():
    secret = Secret("hunter2")

    assert {str(secret), repr(secret), f"{secret}", f"{secret:>9}"} == {"***"}
    assert str({"a": secret}) == "{'a': ***}"


def test_reveal_returns_the_value():
    assert Secret("hunter2").reveal() == "hunter2"
    assert Secret(b"\x00key").reveal() == b"\x00key"


def test_equality_and_hash_follow_the_value():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")


def test_secret_cannot_be_serialized():
    with pytest.raises(TypeError):
        pickle.dumps(Secret("a"))
    with pytest.raises(TypeError):
        msgspec.json.encode({"password": Secret("a")})
    with pytest.raises(TypeError):
        "".join([Secret("a")])  # type: ignore[list-item]
