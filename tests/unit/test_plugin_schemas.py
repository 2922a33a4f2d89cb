"""Tests for the schema validation of plugin settings."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from nodeagent.plugin_schemas import Mismatch, validate, validate_in_subprocess

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"rules": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}}},
}


@pytest.mark.parametrize("validator", [validate, validate_in_subprocess])
def test_each_mismatch_has_plugin_and_path(validator: Any) -> None:
    settings = {"one": {"rules": [{"n": 1}, {"n": "x"}]}, "two": {"other": 1}, "three": {"rules": []}}

    mismatches = validator(dict.fromkeys(settings, SCHEMA), settings)

    assert [(each.plugin, each.path) for each in mismatches] == [("one", ".rules[1].n"), ("two", "")]
    assert mismatches[0] == Mismatch("one", ".rules[1].n", "'x' is not of type 'number'")


def test_unknown_setting_has_the_similar_one() -> None:
    (mismatch,) = validate({"one": SCHEMA}, {"one": {"rulse": []}})

    assert mismatch.message.endswith("'rulse' was unexpected); did you mean rules?")


def test_no_settings_start_no_subprocess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)

    assert validate_in_subprocess({"one": SCHEMA}, {}) == []


def test_plainly_valid_settings_start_no_subprocess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)

    assert validate_in_subprocess({"one": SCHEMA}, {"one": {"rules": []}}) == []


def test_failed_subprocess_raises_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(OSError, match="exit code 1"):
        validate_in_subprocess({"one": SCHEMA}, {"one": {"other": 1}})


def test_validation_library_is_not_loaded_in_the_agent() -> None:
    code = "import sys; from nodeagent.plugin_schemas import validate_in_subprocess as validate"
    code += "; validate({'a': {'type': 'string'}}, {'a': 1})"
    code += "; sys.exit('jsonschema' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
