"""Tests for the options of authorization."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from apiserver_stub.authz.abac import Abac
from apiserver_stub.options import parse
from apiserver_stub.options.parser import OptionsError
from apiserver_stub.server.authorization import build_authorization

GATE = "--feature-gates=StructuredAuthorizationConfiguration=true"
CONFLICT = (
    "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are "
    "defined"
)


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        pytest.param(
            ["--authorization-mode=Foo"],
            ['authorization-mode "Foo" is not a valid mode'],
            marks=pytest.mark.row("opt.authorization-mode"),
        ),
        pytest.param(
            ["--authorization-mode=RBAC", "--authorization-mode=RBAC"],
            ['authorization-mode ["RBAC" "RBAC"] has mode specified more than once'],
            marks=pytest.mark.row("opt.authorization-mode"),
        ),
        pytest.param(
            ["--authorization-mode=ABAC,Webhook"],
            [
                "authorization-mode ABAC's authorization policy file not passed",
                "authorization-mode Webhook's authorization config file not passed",
            ],
            marks=pytest.mark.row("opt.authorization-policy-file", "opt.authorization-webhook-config-file"),
        ),
        pytest.param(
            ["--authorization-policy-file=x", "--authorization-webhook-config-file=y"],
            [
                "cannot specify --authorization-policy-file without mode ABAC",
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ],
            marks=pytest.mark.row("opt.authorization-policy-file", "opt.authorization-webhook-config-file"),
        ),
        pytest.param(
            ["--authorization-webhook-version=v2"],
            ['authorization-webhook-version "v2" is not supported: must be one of v1, v1beta1'],
            marks=pytest.mark.row("opt.authorization-webhook-version"),
        ),
        pytest.param(
            ["--authorization-webhook-cache-authorized-ttl=-1s", "--authorization-webhook-cache-unauthorized-ttl=x"],
            [
                'invalid argument "x" for "--authorization-webhook-cache-unauthorized-ttl" flag: '
                'time: invalid duration "x"',
            ],
            marks=pytest.mark.row("opt.authorization-webhook-cache-unauthorized-ttl"),
        ),
        pytest.param(
            ["--authorization-webhook-cache-authorized-ttl=-1s"],
            ["--authorization-webhook-cache-authorized-ttl must not be negative"],
            marks=pytest.mark.row("opt.authorization-webhook-cache-authorized-ttl"),
        ),
        pytest.param(
            ["--authorization-config=x"],
            [
                "--authorization-config cannot be used without enabling StructuredAuthorizationConfiguration "
                "feature flag"
            ],
            marks=pytest.mark.row("opt.authorization-config"),
        ),
        *(
            pytest.param(
                [GATE, "--authorization-config=x", argument],
                [CONFLICT],
                marks=pytest.mark.row("opt.authorization-config"),
            )
            for argument in (
                "--authorization-mode=RBAC",
                "--authorization-webhook-config-file=y",
                "--authorization-webhook-version=v1",
                "--authorization-webhook-cache-authorized-ttl=5m",
                "--authorization-webhook-cache-unauthorized-ttl=30s",
            )
        ),
    ],
)
def test_conflicting_options_are_rejected(arguments: list[str], problems: list[str]) -> None:
    with pytest.raises(OptionsError) as caught:
        parse(arguments)

    assert caught.value.problems == problems


@pytest.mark.row(
    "opt.authorization-webhook-version",
    "opt.authorization-webhook-cache-authorized-ttl",
    "opt.authorization-webhook-cache-unauthorized-ttl",
)
def test_webhook_options_have_defaults() -> None:
    options = parse([])

    assert options.authorization_webhook_version == "v1beta1"
    assert options.authorization_webhook_cache_authorized_ttl_seconds == 300
    assert options.authorization_webhook_cache_unauthorized_ttl_seconds == 30


@pytest.mark.row("opt.authorization-mode")
async def test_authorizers_have_the_order_of_modes(store: Any, tmp_path: Any) -> None:
    policy = tmp_path / "policy"
    policy.write_text("")

    async def modes(*arguments: str) -> list[str]:
        async with AsyncExitStack() as stack:
            built = await build_authorization(parse(arguments), store, stack)
            return [type(authorizer).__name__ for authorizer in built.chain._authorizers]

    assert await modes() == ["AlwaysAllow"]
    assert await modes("--authorization-mode=") == ["AlwaysAllow"]
    assert await modes("--authorization-mode=Node,RBAC", "--authorization-mode=AlwaysDeny") == [
        "NodeAuthorizer",
        "Rbac",
        "AlwaysDeny",
    ]
    assert await modes("--authorization-mode=ABAC", f"--authorization-policy-file={policy}") == [Abac.__name__]
