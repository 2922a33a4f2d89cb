"""Tests for the authorization configuration file: order of authorizers and validation."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver_stub.apimachinery.request import ANONYMOUS
from apiserver_stub.authz import config
from apiserver_stub.authz.config import AuthorizationConfigError
from apiserver_stub.options import parse
from apiserver_stub.server.authorization import AuthorizationError, build_authorization
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import to

GATE = "--feature-gates=StructuredAuthorizationConfiguration=true"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "authorization.yaml"


def write(file: Path, *authorizers: Any, **members: Any) -> Path:
    head = {"apiVersion": "apiserver.config.k8s.io/v1alpha1", "kind": "AuthorizationConfiguration"}
    file.write_text(yaml.safe_dump({**head, "authorizers": list(authorizers), **members}))
    return file


def webhook(file: Path, **members: Any) -> Any:
    found = {
        "authorizedTTL": "5m",
        "unauthorizedTTL": "30s",
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(file.parent / "kubeconfig")},
    }
    (file.parent / "kubeconfig").touch()
    return {"type": "Webhook", "name": "mine.example", "webhook": found | members}


@pytest.mark.row("opt.authorization-config")
def test_authorizers_are_read_in_order(file: Path) -> None:
    condition = {"expression": "request.user == 'a'"}
    hook = webhook(file, matchConditions=[condition], matchConditionSubjectAccessReviewVersion="v1")

    deny, mine, rbac = config.load(
        write(file, {"type": "AlwaysDeny", "name": "alwaysdeny"}, hook, {"type": "RBAC", "name": "rbac"}), Identity()
    )

    assert (deny.mode, mine.mode, rbac.mode) == ("AlwaysDeny", "Webhook", "RBAC")
    assert mine.connection == file.parent / "kubeconfig"
    assert mine.timeout_seconds == 3
    settings = mine.webhook
    assert (settings.version, settings.authorized_seconds, settings.unauthorized_seconds) == ("v1", 300, 30)
    assert settings.on_failure == "deny"
    assert [item.text for item in settings.conditions] == ["request.user == 'a'"]


@pytest.mark.row("opt.authorization-config")
@pytest.mark.parametrize(
    ("authorizer", "problems"),
    [
        ({"type": "Foo", "name": "a"}, ['authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", ']),
        ({"name": "a"}, ["authorizers[0].type: Required value"]),
        ({"type": "RBAC"}, ["authorizers[0].name: Required value"]),
        ({"type": "RBAC", "name": "x"}, ["expected name rbac for authorizer RBAC instead of x"]),
        ({"type": "RBAC", "name": "A_B"}, ['authorizers[0].name: Invalid value: "A_B": authorizer name is invalid']),
        ({"type": "RBAC", "name": "rbac", "webhook": {}}, ["authorizers[0].webhook: Invalid value: "]),
        ({"type": "Webhook", "name": "w"}, ["authorizers[0].webhook: Required value: required when type=Webhook"]),
        (
            {"type": "Webhook", "name": "w", "webhook": {}},
            [
                f"authorizers[0].{name}: Required value"
                for name in (
                    "timeout",
                    "authorizedTTL",
                    "unauthorizedTTL",
                    "subjectAccessReviewVersion",
                    "failurePolicy",
                    "connectionInfo.type",
                )
            ],
        ),
    ],
    ids=str,
)
def test_invalid_authorizer_reports_every_error(file: Path, authorizer: Any, problems: list[str]) -> None:
    with pytest.raises(AuthorizationConfigError) as caught:
        config.load(write(file, authorizer), Identity())

    reported = str(caught.value).splitlines()
    assert len(reported) == len(problems)
    assert all(found.startswith(problem) for found, problem in zip(reported, problems, strict=True))


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"timeout": "31s"}, 'timeout: Invalid value: "31s": must be > 0s and <= 30s'),
        ({"timeout": "soon"}, 'timeout: Invalid value: "soon": invalid duration'),
        ({"authorizedTTL": "-1s"}, 'authorizedTTL: Invalid value: "-1s": must be > 0s'),
        ({"subjectAccessReviewVersion": "v2"}, 'subjectAccessReviewVersion: Unsupported value: "v2"'),
        ({"failurePolicy": "Ask"}, 'failurePolicy: Unsupported value: "Ask": supported values: "NoOpinion", "Deny"'),
        ({"connectionInfo": {"type": "X"}}, 'connectionInfo.type: Unsupported value: "X"'),
        (
            {"connectionInfo": {"type": "InClusterConfig"}},
            'connectionInfo.type: Invalid value: "InClusterConfig": the server',
        ),
        ({"connectionInfo": {"type": "KubeConfigFile"}}, "connectionInfo.kubeConfigFile: Required value"),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "a"}},
            'connectionInfo.kubeConfigFile: Invalid value: "a": must be an absolute path',
        ),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/nope"}},
            'connectionInfo.kubeConfigFile: Invalid value: "/nope": error loading file',
        ),
        (
            {"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/tmp"}},
            'connectionInfo.kubeConfigFile: Invalid value: "/tmp": must be a regular file',
        ),
        (
            {"matchConditions": [{"expression": "true"}]},
            "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        ({"matchConditionSubjectAccessReviewVersion": "v1beta1"}, "matchConditionSubjectAccessReviewVersion: Unsupp"),
    ],
    ids=str,
)
def test_invalid_webhook_reports_every_error(file: Path, members: Any, problem: str) -> None:
    with pytest.raises(AuthorizationConfigError) as caught:
        config.load(write(file, webhook(file, **members)), Identity())

    (reported,) = str(caught.value).splitlines()
    assert reported.startswith(f"authorizers[0].{problem}")


@pytest.mark.parametrize(
    ("expressions", "problem"),
    [
        (["request.user =="], "[0].expression: Invalid value: .*compilation failed"),
        (["request.user"], "[0].expression: Invalid value: .*must evaluate to bool"),
        ([" "], "[0].expression: Required value"),
        (["true", "true"], '[1].expression: Duplicate value: "true"'),
        ([f"{n} == 1" for n in range(65)], ": Too many: 65: must have at most 64 items"),
    ],
    ids=["broken", "no boolean", "blank", "twice", "too many"],
)
def test_match_conditions_are_compiled_at_startup(file: Path, expressions: list[str], problem: str) -> None:
    conditions = [{"expression": text} for text in expressions]
    hook = webhook(file, matchConditions=conditions, matchConditionSubjectAccessReviewVersion="v1")

    pattern = r"authorizers\[0\]\.matchConditions" + problem.replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(AuthorizationConfigError, match=pattern):
        config.load(write(file, hook), Identity())


def test_only_webhooks_may_be_repeated_with_unique_names(file: Path) -> None:
    rbac = {"type": "RBAC", "name": "rbac"}
    hook = webhook(file)

    with pytest.raises(AuthorizationConfigError) as caught:
        config.load(write(file, rbac, rbac, hook, hook), Identity())

    assert str(caught.value).splitlines() == [
        'authorizers[1].type: Duplicate value: "RBAC"',
        'authorizers[3].name: Duplicate value: "mine.example"',
    ]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"authorizers": []}, "authorizers: Required value: at least one authorization mode must be defined"),
        ({"kind": "Foo"}, "expected AuthorizationConfiguration of version"),
        ({"apiVersion": "apiserver.config.k8s.io/v1"}, "expected AuthorizationConfiguration of version"),
        ({"extra": 1}, "strict decoding error: .*unknown field `extra`"),
        ({"authorizers": [{"type": "RBAC", "naem": "x"}]}, "strict decoding error: .*unknown field `naem`"),
        ({"authorizers": [{"type": 1}]}, "strict decoding error: "),
    ],
    ids=str,
)
def test_file_of_another_kind_is_rejected(file: Path, members: Any, problem: str) -> None:
    with pytest.raises(AuthorizationConfigError, match=problem):
        config.load(write(file, **members), Identity())


def test_missing_file_is_reported(file: Path) -> None:
    with pytest.raises(AuthorizationConfigError, match="failed to load AuthorizationConfiguration from file: open "):
        config.load(file, Identity())


@pytest.mark.row("opt.authorization-config")
async def test_configuration_file_defines_the_authorizers(file: Path, store: Any) -> None:
    write(file, {"type": "AlwaysDeny", "name": "alwaysdeny"})
    options = parse([GATE, f"--authorization-config={file}"])

    async with AsyncExitStack() as stack:
        built = await build_authorization(options, store, stack)
        decision = await built.chain.authorize(ANONYMOUS, to("get", "pods"))

    assert decision.reason == "Everything is forbidden."


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--authorization-mode=ABAC", "--authorization-policy-file=NOPE"], "invalid authorization config: open "),
        (["--authorization-mode=Webhook", "--authorization-webhook-config-file=NOPE"], "nope: cannot be read"),
        ([GATE, "--authorization-config=NOPE"], "failed to load AuthorizationConfiguration from file: open "),
        (
            [GATE, "--authorization-config=GOOD", "--authorization-policy-file=NOPE"],
            "cannot specify --authorization-policy-file without mode ABAC",
        ),
    ],
    ids=str,
)
async def test_invalid_files_prevent_start(file: Path, store: Any, arguments: list[str], problem: str) -> None:
    words = {"NOPE": file.parent / "nope", "GOOD": write(file, {"type": "RBAC", "name": "rbac"})}
    for word, path in words.items():
        arguments = [argument.replace(word, str(path)) for argument in arguments]

    async with AsyncExitStack() as stack:
        with pytest.raises(AuthorizationError, match=problem):
            await build_authorization(parse(arguments), store, stack)


@pytest.mark.parametrize(("count", "problem"), [(64, ""), (65, "Too many: 65: must have at most 64 items")])
def test_number_of_match_conditions_is_limited(file: Path, count: int, problem: str) -> None:
    conditions = [{"expression": f"request.user == '{number}'"} for number in range(count)]
    hook = webhook(file, matchConditions=conditions, matchConditionSubjectAccessReviewVersion="v1")
    found = ""

    try:
        config.load(write(file, hook), Identity())
    except AuthorizationConfigError as error:
        found = str(error)

    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ("timeout", "30s", ""),
        ("timeout", "30.1s", "must be > 0s and <= 30s"),
        ("timeout", "-1s", "must be > 0s and <= 30s"),
        ("timeout", "0s", "Required value"),
        ("authorizedTTL", "1000h", ""),
        ("authorizedTTL", "-1s", "must be > 0s"),
        ("authorizedTTL", "1ns", ""),
    ],
)
def test_durations_are_positive_and_limited(file: Path, field: str, text: str, problem: str) -> None:
    found = ""

    try:
        config.load(write(file, webhook(file, **{field: text})), Identity())
    except AuthorizationConfigError as error:
        found = str(error)

    assert problem in found
    assert bool(found) == bool(problem)
