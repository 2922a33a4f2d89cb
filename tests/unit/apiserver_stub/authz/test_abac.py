"""Tests for ABAC policy files: matching of lines, and errors with line numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import ANONYMOUS, RequestInfo, User
from apiserver_stub.authz import abac
from apiserver_stub.authz.abac import Abac, PolicyError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import ALICE, to


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy.jsonl"


def line(**spec: Any) -> str:
    return json.dumps({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})


EVERYWHERE = {"namespace": "*", "resource": "*", "apiGroup": "*"}


@pytest.mark.row("opt.authorization-policy-file")
@pytest.mark.parametrize(
    ("spec", "info", "allowed"),
    [
        ({"user": "alice", **EVERYWHERE}, to("delete", "pods", "a"), True),
        ({"user": "bob", **EVERYWHERE}, to("delete", "pods", "a"), False),
        ({"group": "dev", **EVERYWHERE}, to("delete", "pods", "a"), True),
        ({"user": "alice", "group": "ops", **EVERYWHERE}, to("delete", "pods", "a"), False),
        ({"user": "*", **EVERYWHERE}, to("delete", "pods", "a"), True),
        (EVERYWHERE, to("delete", "pods", "a"), False),
        ({"user": "alice", "readonly": True, **EVERYWHERE}, to("watch", "pods", "a"), True),
        ({"user": "alice", "readonly": True, **EVERYWHERE}, to("create", "pods", "a"), False),
        ({"user": "alice", **EVERYWHERE, "namespace": "b"}, to("get", "pods", "a"), False),
        ({"user": "alice", **EVERYWHERE, "namespace": ""}, to("get", "nodes"), True),
        ({"user": "alice", **EVERYWHERE, "resource": "pods"}, to("get", "nodes"), False),
        ({"user": "alice", **EVERYWHERE, "apiGroup": "apps"}, to("get", "pods", "a"), False),
        ({"user": "alice", **EVERYWHERE}, RequestInfo("get", "/metrics"), False),
        ({"user": "alice", "nonResourcePath": "*"}, RequestInfo("get", "/metrics"), True),
        ({"user": "alice", "nonResourcePath": "/met*"}, RequestInfo("get", "/metrics"), True),
        ({"user": "alice", "nonResourcePath": "/metrics"}, RequestInfo("get", "/metrics/slis"), False),
        ({"user": "alice", "nonResourcePath": "/*", "readonly": True}, RequestInfo("put", "/debug/flags/v"), False),
        ({"user": "alice", "nonResourcePath": "*"}, to("get", "pods"), False),
    ],
)
async def test_policy_line_allows_matching_requests(
    file: Path, spec: dict[str, Any], info: RequestInfo, allowed: bool
) -> None:
    file.write_text(f"# who may what\n\n{line(**spec)}\n")

    decision = await Abac.load(file, Identity()).authorize(ALICE, info)

    assert decision == (("allow", "", "") if allowed else ("no-opinion", "No policy matched.", ""))


async def test_any_line_may_match_and_wildcard_means_authenticated(file: Path) -> None:
    file.write_text(line(user="bob", **EVERYWHERE) + "\n" + line(user="*", **EVERYWHERE))
    policies = Abac.load(file, Identity())

    assert (await policies.authorize(ALICE, to("get", "pods"))).allowed
    assert not (await policies.authorize(ANONYMOUS, to("get", "pods"))).allowed


async def test_unversioned_lines_match_any_unset_property(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text('{"user":"alice","readonly":true}\n{"user":"bob","resource":"pods"}\n')
    policies, bob = Abac.load(file, Identity()), User("bob")

    assert (await policies.authorize(ALICE, RequestInfo("get", "/metrics"))).allowed
    assert not (await policies.authorize(ALICE, to("create", "pods"))).allowed
    assert (await policies.authorize(bob, to("create", "pods", "x", group="any"))).allowed
    assert not (await policies.authorize(bob, RequestInfo("get", "/metrics"))).allowed
    assert "without a version" in caplog.text


@pytest.mark.row("opt.authorization-policy-file")
def test_invalid_lines_are_reported_with_their_numbers(file: Path) -> None:
    wrong = [
        '{"kind":"Foo"}',
        "not json",
        "[]",
        line(user="alice", namespce="*"),
        line(user="alice", readonly="yes"),
        line(user=1),
        '{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy"}',
        '{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}',
    ]
    file.write_text("\n".join(["# comment", line(user="alice"), *wrong]))

    with pytest.raises(PolicyError) as caught:
        Abac.load(file, Identity())

    reported = str(caught.value).splitlines()
    assert [text.split(": ", 1)[0] for text in reported] == [
        f"error reading policy file {file}, line {n}" for n in range(3, 11)
    ]
    expected = [
        'no kind "Foo" is registered for version "abac.authorization.kubernetes.io/v0"',
        "couldn't get version/kind; json parse error: ",
        "couldn't get version/kind; json parse error: ",
        "unknown field spec.namespce",
        "spec.readonly: must be a boolean",
        "spec.user: must be text",
        "spec: must be an object",
        'no kind "Policy" is registered for version "abac.authorization.kubernetes.io/v2"',
    ]
    assert all(text in found for text, found in zip(expected, reported, strict=True))


@pytest.mark.parametrize("content", [None, b"\xff\n"], ids=["missing", "binary"])
def test_unreadable_file_is_reported(file: Path, content: bytes | None) -> None:
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(PolicyError, match=r"policy\.jsonl"):
        Abac.load(file, Identity())


def test_rules_of_a_user_are_listed(file: Path) -> None:
    file.write_text(
        "\n".join(
            [
                line(user="alice", namespace="a", resource="pods", readonly=True),
                line(user="alice", namespace="*", resource="nodes", nonResourcePath="/x"),
                line(user="bob", namespace="*", resource="*"),
            ]
        )
    )

    rules = Abac.load(file, Identity()).rules(ALICE, "b")

    assert rules.resources == [{"verbs": ["*"], "apiGroups": [""], "resources": ["nodes"]}]
    assert rules.paths == [{"verbs": ["*"], "nonResourceURLs": ["/x"]}]
    assert Abac.load(file, Identity()).rules(ALICE, "a").resources[0]["verbs"] == ["get", "list", "watch"]


@pytest.mark.parametrize(
    ("fields", "info", "allowed"),
    [
        ({"user": "alice"}, to("get", "pods", "a"), True),
        ({"user": "alice", "resource": "pods"}, to("get", "pods", "a"), True),
        ({"user": "alice", "resource": "pods"}, to("get", "secrets", "a"), False),
        ({"user": "alice", "namespace": "a"}, to("get", "secrets", "a"), True),
        ({"user": "alice", "namespace": "a"}, to("get", "secrets", "b"), False),
        ({"user": "bob"}, to("get", "pods", "a"), False),
    ],
)
async def test_line_of_version_0_has_the_unversioned_fields(
    file: Path, fields: Any, info: Any, *, allowed: bool
) -> None:
    head = {"apiVersion": "abac.authorization.kubernetes.io/v0", "kind": "Policy"}
    file.write_text(json.dumps({**head, **fields}))

    assert (await Abac.load(file, Identity()).authorize(ALICE, info)).allowed is allowed


@pytest.mark.parametrize(("more", "is_valid"), [(0, True), (1, False)])
def test_large_file_is_rejected(file: Path, monkeypatch: pytest.MonkeyPatch, more: int, *, is_valid: bool) -> None:
    text = line(user="alice", **EVERYWHERE)
    file.write_text(text + " " * more)
    monkeypatch.setattr(abac, "_MAX_BYTES", len(text))

    if is_valid:
        assert len(abac.load_policies(file, Identity())) == 1
    else:
        with pytest.raises(PolicyError, match=f"larger than {len(text)} bytes"):
            abac.load_policies(file, Identity())
