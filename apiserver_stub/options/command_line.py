"""Complete command line: all groups of options, and checks of their combinations."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from apiserver_stub.options import (
    admission,
    aggregation,
    audit,
    authentication,
    authorization,
    controllers,
    features,
    limits,
    logs,
    metrics,
    names,
    node_agents,
    oidc,
    server_specific,
    service_accounts,
    services,
    serving,
    storage,
    tls,
)
from apiserver_stub.options.admission import AdmissionOptions
from apiserver_stub.options.aggregation import AggregationOptions
from apiserver_stub.options.audit import AuditOptions
from apiserver_stub.options.authentication import AuthenticationOptions
from apiserver_stub.options.authorization import AuthorizationOptions
from apiserver_stub.options.controllers import ControllerOptions
from apiserver_stub.options.features import FeatureOptions
from apiserver_stub.options.limits import LimitOptions
from apiserver_stub.options.logs import LogOptions
from apiserver_stub.options.metrics import MetricOptions
from apiserver_stub.options.node_agents import NodeAgentOptions
from apiserver_stub.options.oidc import OidcOptions
from apiserver_stub.options.parser import OptionsError, Parser
from apiserver_stub.options.server_specific import ServerOptions
from apiserver_stub.options.service_accounts import ServiceAccountOptions
from apiserver_stub.options.services import ServiceOptions
from apiserver_stub.options.serving import ServingOptions
from apiserver_stub.options.storage import StorageOptions
from apiserver_stub.options.tls import TlsOptions
from nodeagent.base.names import is_ip

_GROUPS: tuple[Any, ...] = (
    server_specific,
    serving,
    tls,
    node_agents,
    services,
    aggregation,
    authentication,
    oidc,
    service_accounts,
    authorization,
    admission,
    controllers,
    storage,
    audit,
    limits,
    features,
    metrics,
    logs,
    names,
)
"""Modules with ``TITLE``, ``declare`` and optionally ``check`` and ``warnings``, in the order of ``--help``."""


@dataclass(frozen=True, init=False, repr=False)
class Options(
    ServerOptions,
    ServingOptions,
    TlsOptions,
    NodeAgentOptions,
    ServiceOptions,
    AggregationOptions,
    AuthenticationOptions,
    OidcOptions,
    ServiceAccountOptions,
    AuthorizationOptions,
    AdmissionOptions,
    ControllerOptions,
    StorageOptions,
    AuditOptions,
    LimitOptions,
    FeatureOptions,
    MetricOptions,
    LogOptions,
):
    """Parsed options: the fields of all groups, with their defaults unless *given*."""

    def __init__(self, **given: Any) -> None:  # A generated one, of hundreds of fields, costs memory and time.
        for item in fields(self):
            if item.name in given:
                value = given.pop(item.name)
            else:
                value = item.default if item.default_factory is MISSING else item.default_factory()
            object.__setattr__(self, item.name, value)
        if given:
            raise TypeError(f"unknown options: {', '.join(given)}")

    @property
    def certificates(self) -> Path:
        """Directory of the generated serving certificate.

        Servers on the same host that have separate data directories must not overwrite each other's certificate.
        """
        if self.cert_dir is not None:
            return self.cert_dir
        if self.data_dir_given is None and os.geteuid() == 0:
            return Path("/var/run") / self.platform_dir
        return self.authorities

    @property
    def generated_token_key(self) -> Path | None:
        """File of the generated key that signs service account tokens; ``None`` if another signer is configured."""
        if self.service_account_signing_endpoint or self.service_account_signing_key_file is not None:
            return None
        return self.data_dir / "service-account.key"


def parse(arguments: Sequence[str]) -> Options:
    """Parse and validate the command line *arguments*.

    :raises OptionsError: options, values or their combinations are invalid; contains all errors.
    """
    given, problems = _parser().parse(arguments)
    options = Options(**{item.name: given[item.name] for item in fields(Options) if item.name in given})
    problems += check(options)
    if problems:
        raise OptionsError(problems)
    return options


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, for documentation."""
    return _parser().arguments


def _parser() -> Parser:
    parser = Parser()
    for module in _GROUPS:
        module.declare(parser.group(module.TITLE))
    return parser


def check(options: Options) -> list[str]:
    """Return the errors in the values of *options* and their combination."""
    found = [problem for module in _GROUPS if hasattr(module, "check") for problem in module.check(options)]
    found += _check_combinations(options)
    key = options.identity.group("flowcontrol.apiserver") + "/v1"
    disabled = options.runtime_config.get(key) in ("false", "False", "FALSE", "f", "F", "0")
    if options.enable_priority_and_fairness and disabled:
        found.append(f"--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true")
    return found


def _check_combinations(options: Options) -> Iterator[str]:
    if options.authentication_config is not None:
        if not _is_enabled(options, authentication.CONFIG_GATE):
            yield f"set --feature-gates={authentication.CONFIG_GATE}=true to use authentication-config file"
        if options.oidc_configured:
            yield "authentication-config file and oidc-* flags are mutually exclusive"
    if options.service_account_signing_endpoint and not _is_enabled(options, service_accounts.SIGNER_GATE):
        gate = service_accounts.SIGNER_GATE
        yield f"setting `--service-account-signing-endpoint` requires enabling {gate} feature gate"
    if options.requestheader_uid_headers and not _is_enabled(options, authentication.UID_GATE):
        yield f"--requestheader-uid-headers cannot be used without enabling {authentication.UID_GATE} feature flag"
    if options.authorization_config is not None:
        if not _is_enabled(options, authorization.CONFIG_GATE):
            yield f"--authorization-config cannot be used without enabling {authorization.CONFIG_GATE} feature flag"
        elif any(getattr(options, name) is not None for name in authorization.SPECIFIED):
            yield (
                "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* "
                "flags are defined"
            )
    yield from _check_address_family(options)


def _is_enabled(options: Options, gate: str) -> bool:
    return not features.gate_errors(options) and options.gates.enabled(gate)


def _check_address_family(options: Options) -> Iterator[str]:
    address = options.advertise_address
    if address in serving.EVERYWHERE or not is_ip(address) or options.endpoint_reconciler_type == "none":
        return
    try:
        networks = options.service_networks
    except ValueError:
        return  # Reported by the rule of the option.
    if networks[0].version != (6 if ":" in address else 4):
        yield f'service IP family "{networks[0]}" must match public address family "{address}"'


def warnings(options: Options) -> list[str]:
    """Return warnings about valid but problematic values."""
    found = [warning for module in _GROUPS if hasattr(module, "warnings") for warning in module.warnings(options)]
    if "AlwaysAllow" in options.authorization_mode and options.anonymous_auth is not False:
        found.append("AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false.")
    return found
