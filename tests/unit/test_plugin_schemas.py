"""Settings of plugins are compared with what the plugins declare."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from nodeagent.plugin_schemas import Mismatch, check_apart, compare

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"rules": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}}},
}


@pytest.mark.parametrize("how", [compare, check_apart])
def test_each_mismatch_is_told_with_its_place(how: Any) -> None:
    given = {"one": {"rules": [{"n": 1}, {"n": "x"}]}, "two": {"other": 1}, "three": {"rules": []}}

    found = how(dict.fromkeys(given, SCHEMA), given)

    assert [(each.plugin, each.path) for each in found] == [("one", ".rules[1].n"), ("two", "")]
    assert found[0] == Mismatch("one", ".rules[1].n", "'x' is not of type 'number'")


def test_nobody_is_asked_about_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)

    assert check_apart({"one": SCHEMA}, {}) == []


def test_a_check_that_cannot_be_done_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(OSError, match="exit code 1"):
        check_apart({"one": SCHEMA}, {"one": {}})


def test_the_agent_does_not_keep_the_library() -> None:
    code = "import sys; from nodeagent.plugin_schemas import check_apart as c; c({'a': {}}, {'a': {}})"
    code += "; sys.exit('jsonschema' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
