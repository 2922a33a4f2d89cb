"""A secret gives itself away only when it is asked to."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from nodeagent.base.secret import Secret


def test_prints_stars_in_every_form():
    secret = Secret("hunter2")

    assert {str(secret), repr(secret), f"{secret}", f"{secret:>9}"} == {"***"}
    assert str({"a": secret}) == "{'a': ***}"


def test_reveals_the_value_it_was_given():
    assert Secret("hunter2").reveal() == "hunter2"
    assert Secret(b"\x00key").reveal() == b"\x00key"


def test_compares_and_hashes_by_value():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")


def test_refuses_to_be_written():
    with pytest.raises(TypeError):
        pickle.dumps(Secret("a"))
    with pytest.raises(TypeError):
        msgspec.json.encode({"password": Secret("a")})
    with pytest.raises(TypeError):
        "".join([Secret("a")])  # type: ignore[list-item]
