"""Tests for the admission configuration file and the fields of configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.admission.config import AdmissionError, check_kind, load, unknown_members
from nodeagent.base.identity import Identity

HEAD = "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"


def loaded(path: Path, text: str) -> Any:
    """Return the configurations in a file with *text*, or the problems."""
    file = path / "admission.yaml"
    file.write_text(text)
    try:
        return load(file, Identity())
    except AdmissionError as error:
        return [problem.replace(str(file), "FILE").replace(str(path), "DIR") for problem in error.problems]


def plugins(text: str) -> str:
    return f"{HEAD}plugins: {text}\n"


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_configuration_is_inline_or_in_another_file(tmp_path: Path, version: str) -> None:
    (tmp_path / "b.yaml").write_text("x: y")
    text = plugins("[{name: A, configuration: {a: 1}}, {name: B, path: b.yaml}, {name: C}, {name: D, path: ''}]")

    found = loaded(tmp_path, text.replace("/v1\n", f"/{version}\n"))

    assert found == {"A": {"a": 1}, "B": {"x": "y"}}
    assert loaded(tmp_path, HEAD) == {}
    assert load(None, Identity()) == {}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (HEAD.replace("/v1", "/v2"), ['"FILE": no kind "AdmissionConfiguration" is registered for version']),
        (HEAD.replace("kind: Admission", "kind: "), ['"FILE": no kind "Configuration" is registered for version']),
        ("apiVersion: v1", ["Object 'Kind' is missing in 'FILE'"]),
        ("[]", ['"FILE": must be an object']),
        ("{", ['"FILE": ']),
        (plugins("{}"), []),
        (plugins("{a: b}"), ['"FILE": plugins must be a list']),
        (plugins("[5]"), ['"FILE": plugins[0].name: Required value']),
        (plugins("[{name: 5}]"), ['"FILE": plugins[0].name: Required value']),
        (plugins("[{name: ''}]"), ['"FILE": plugins[0].name: Required value']),
        (plugins("[{name: A, other: b}]"), ['"FILE": plugins[0]: unknown field "other"']),
        (plugins("[{name: A, configuration: []}]"), ['"FILE": plugins[0].configuration: must be an object']),
        (plugins("[{name: A, configuration: {}, path: none}]"), []),
        (
            plugins("[{name: A, path: none}, {name: ''}]"),
            ['unable to read admission control configuration from "DIR/none"', '"FILE": plugins[1].name'],
        ),
    ],
)
def test_problems_of_the_file_are_reported(tmp_path: Path, text: str, problems: list[str]) -> None:
    found = loaded(tmp_path, text)

    assert len(found if isinstance(found, list) else []) == len(problems)
    for given, expected in zip(found, problems, strict=False):
        assert given.startswith(f"failed to read plugin config: {expected}")


@pytest.mark.parametrize(
    ("kind", "version", "is_known"),
    [("K", "g/v1", True), ("K", "g/v2", True), ("K", "g/v3", False), ("L", "g/v1", False), ("K", "h/v1", False)],
)
def test_kind_and_version_must_be_known(kind: str, version: str, *, is_known: bool) -> None:
    found = list(check_kind({"kind": kind, "apiVersion": version}, "g", "K", ("v1", "v2")))

    expected = f'no kind "{kind}" is registered for version "{version}", expected K of g/v1'
    assert found == ([] if is_known else [expected])


SHAPE: dict[str, Any] = {"text": "", "count": 0, "flag": True, "items": [{"name": ""}], "by": {"*": 0}}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (None, ""),
        ({"text": "a", "count": 1, "flag": False, "items": [{"name": "x"}], "by": {"a": 1}}, ""),
        ({"text": None, "items": None}, ""),
        ([], "<root>: must be an object"),
        ({"other": 1}, 'unknown field "other"'),
        ({"items": [{"name": "x"}, {"other": 1}]}, 'unknown field "items[1].other"'),
        ({"items": {}}, "items: must be a list"),
        ({"items": [1]}, "items[0]: must be an object"),
        ({"by": {"a": "x"}}, "by.a: must be an integer"),
        ({"text": 1}, "text: must be a string"),
        ({"count": True}, "count: must be an integer"),
        ({"flag": 1}, "flag: must be a boolean"),
    ],
)
def test_fields_must_have_the_expected_types(given: Any, problem: str) -> None:
    assert list(unknown_members(given, SHAPE)) == ([problem] if problem else [])
