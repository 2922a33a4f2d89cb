"""Command-line options for authorization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.authz import MODES
from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Authorization"
WEBHOOK_VERSIONS = ("v1", "v1beta1")
_EVERYTHING = "AlwaysAllow"
_ADVICE = "--authorization-mode=Node,RBAC"
CONFIG_GATE = "StructuredAuthorizationConfiguration"
SPECIFIED = (
    "authorization_mode_given",
    "authorization_webhook_config_file",
    "authorization_webhook_version_given",
    "authorization_webhook_authorized_ttl_given",
    "authorization_webhook_unauthorized_ttl_given",
)


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class AuthorizationOptions:
    """Values of the command-line options for authorization."""

    authorization_mode_given: tuple[str, ...] | None = None
    authorization_config: Path | None = None
    authorization_policy_file: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_version_given: str | None = None
    authorization_webhook_authorized_ttl_given: float | None = None
    authorization_webhook_unauthorized_ttl_given: float | None = None

    @property
    def authorization_mode(self) -> tuple[str, ...]:
        """Authorization modes in order; empty with ``--authorization-config``, and ``AlwaysAllow`` by default."""
        if self.authorization_config is not None:
            return ()
        return self.authorization_mode_given or (_EVERYTHING,)

    @property
    def authorization_webhook_version(self) -> str:
        return self.authorization_webhook_version_given or "v1beta1"

    @property
    def authorization_webhook_cache_authorized_ttl_seconds(self) -> float:
        given = self.authorization_webhook_authorized_ttl_given
        return 300.0 if given is None else given

    @property
    def authorization_webhook_cache_unauthorized_ttl_seconds(self) -> float:
        given = self.authorization_webhook_unauthorized_ttl_given
        return 30.0 if given is None else given


def declare(group: Group) -> None:
    group.add(
        "authorization-mode",
        values.strings,
        f"Ordered authorizers: {', '.join(MODES)}. Default without --authorization-config: {_EVERYTHING}, for any "
        f"authenticated user; recommended: {_ADVICE}.",
        dest="authorization_mode_given",
        action=Extend,
    )
    group.add("authorization-config", Path, f"AuthorizationConfiguration file; requires feature gate {CONFIG_GATE}.")
    group.add("authorization-policy-file", Path, "Policy file of mode ABAC, one JSON object per line.")
    group.add("authorization-webhook-config-file", Path, "Kubeconfig file of the webhook of mode Webhook.")
    group.add(
        "authorization-webhook-version",
        str,
        "SubjectAccessReview version sent to the webhook: v1beta1 (default) or v1.",
        dest="authorization_webhook_version_given",
    )
    for name, default in (("authorized", "5m"), ("unauthorized", "30s")):
        group.add(
            f"authorization-webhook-cache-{name}-ttl",
            values.duration,
            f"Time for which {name} responses of the webhook are cached; 0 disables this. Default {default}.",
            dest=f"authorization_webhook_{name}_ttl_given",
        )


def check(options: AuthorizationOptions) -> Iterator[str]:
    if options.authorization_config is not None:
        return
    modes = options.authorization_mode
    for mode in modes:
        if mode not in MODES:
            yield f'authorization-mode "{mode}" is not a valid mode'
    for mode, kind, name in (
        ("ABAC", "policy", "authorization_policy_file"),
        ("Webhook", "config", "authorization_webhook_config_file"),
    ):
        given = getattr(options, name) is not None
        if mode in modes and not given:
            yield f"authorization-mode {mode}'s authorization {kind} file not passed"
        elif given and mode not in modes:
            yield f"cannot specify --{name.replace('_', '-')} without mode {mode}"
    if len(set(modes)) != len(modes):
        shown = " ".join(f'"{mode}"' for mode in modes)
        yield f"authorization-mode [{shown}] has mode specified more than once"
    if options.authorization_webhook_version not in WEBHOOK_VERSIONS:
        rule = f"must be one of {', '.join(WEBHOOK_VERSIONS)}"
        yield f'authorization-webhook-version "{options.authorization_webhook_version}" is not supported: {rule}'
    for name in ("authorized", "unauthorized"):
        if getattr(options, f"authorization_webhook_cache_{name}_ttl_seconds") < 0:
            yield f"--authorization-webhook-cache-{name}-ttl must not be negative"


def warnings(options: AuthorizationOptions) -> Iterator[str]:
    if _EVERYTHING in options.authorization_mode:
        yield f"All authenticated users have full access; to authorize nodes and roles, start with {_ADVICE}"
