"""Construction of the configured authenticators, once at startup."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from apiserver_stub.authn import config_file
from apiserver_stub.authn.anonymous import AnonymousAccess
from apiserver_stub.authn.authenticators import ApiAudienceAuthenticator, TokenAuthenticator
from apiserver_stub.authn.bootstrap import BootstrapTokens
from apiserver_stub.authn.certificates import CaBundle, ClientCertificates
from apiserver_stub.authn.chain import Authenticator
from apiserver_stub.authn.config_file import AuthenticationConfig, ConfigRules
from apiserver_stub.authn.jwt_config import IssuerRules, JwtConfig, JwtConfigError, Mapped
from apiserver_stub.authn.key_set import HttpsFetcher
from apiserver_stub.authn.keys import KeyFileError
from apiserver_stub.authn.legacy_account import LegacyTokens
from apiserver_stub.authn.oidc import OidcTokens
from apiserver_stub.authn.request_header import RequestHeaders
from apiserver_stub.authn.service_account import ServiceAccountTokens
from apiserver_stub.authn.token_file import TokenFile, TokenFileError
from apiserver_stub.authn.token_keys import SigningError
from apiserver_stub.authn.tokens import Tokens
from apiserver_stub.authn.webhook import WebhookTokens
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.options import Options
from apiserver_stub.options.oidc import SIGNING_ALGORITHMS
from apiserver_stub.schema.null_times import OMITTED_SINCE
from apiserver_stub.server.service_account_tokens import build_service_account_tokens
from apiserver_stub.storage import Store
from apiserver_stub.webhook import Webhook
from nodeagent.base.aio import TaskOwner
from nodeagent.base.kubeconfig import KubeconfigError
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct
from nodeagent.base.tls import TlsError

_ANY_ALGORITHM = Release(1, 30)
"""First release whose file permits any signing algorithm, and no issuer of service account tokens."""


class AuthenticationError(ValueError):
    """Invalid file of an authentication option."""


class Authentication(Struct, frozen=True):
    """The request authenticator, the issuers of tokens, and the CA bundles for client certificates."""

    authenticator: Authenticator
    service_accounts: ServiceAccountTokens
    issuers: Sequence[OidcTokens]
    client_authorities: CaBundle | None
    proxy_authorities: CaBundle | None


async def build_authentication(
    options: Options, store: Store, own_tokens: Path, stack: AsyncExitStack, egress: EgressSelector = DIRECT
) -> Authentication:
    """Return the configured authentication; its tasks and clients are closed with *stack*.

    :param own_tokens: the file with the tokens that this server generated for the administrator and the node.
    :raises AuthenticationError: a file is invalid, or the external signer fails; the message can have several lines,
        one per problem.
    """
    tasks = await stack.enter_async_context(TaskOwner("authentication"))
    try:
        client_authorities = await _authorities(options.client_ca_file, "client-ca-bundle", tasks)
        proxy_authorities = await _authorities(options.requestheader_client_ca_file, "request-header", tasks)
        service_accounts = await build_service_account_tokens(options, store, tasks, stack)
        config = await asyncio.to_thread(configuration_of, options)
        issuers = [await _issuer(item, egress, tasks) for item in config.issuers]
        authenticators = await _token_authenticators(
            options, store, own_tokens, service_accounts, issuers, tasks, stack, egress
        )
    except (
        TlsError,
        KeyFileError,
        SigningError,
        TokenFileError,
        JwtConfigError,
        KubeconfigError,
        ssl.SSLError,
    ) as error:
        raise AuthenticationError(str(error)) from error
    authenticator = Authenticator(
        Tokens(authenticators, service_accounts.api_audiences),
        options.identity,
        anonymous=_anonymous_access(options, config),
        certificates=ClientCertificates(
            client_authorities, reads_uids=options.gates.enabled("AllowParsingUserUIDFromCertAuth")
        )
        if client_authorities
        else None,
        headers=RequestHeaders(
            proxy_authorities,
            allowed=options.requestheader_allowed_names,
            users=options.requestheader_username_headers,
            groups=options.requestheader_group_headers,
            uids=options.requestheader_uid_headers,
            extra=options.requestheader_extra_headers_prefix,
        )
        if proxy_authorities
        else None,
    )
    return Authentication(authenticator, service_accounts, issuers, client_authorities, proxy_authorities)


def _anonymous_access(options: Options, config: AuthenticationConfig) -> AnonymousAccess:
    if "AlwaysAllow" in options.authorization_mode:
        return AnonymousAccess(enabled=False)
    return config.anonymous or AnonymousAccess(options.anonymous_auth is not False)


async def _authorities(path: Path | None, label: str, tasks: TaskOwner) -> CaBundle | None:
    if path is None:
        return None
    authorities = await asyncio.to_thread(CaBundle, path, label)
    tasks.start(authorities.keep_current(), label)
    return authorities


async def _issuer(config: JwtConfig, egress: EgressSelector, tasks: TaskOwner) -> OidcTokens:
    dialer = getattr(egress, config.egress) if config.egress else None
    tokens = OidcTokens(config, await asyncio.to_thread(HttpsFetcher, config.authority, dialer), tasks)
    tokens.start()
    return tokens


async def _token_authenticators(
    options: Options,
    store: Store,
    own_tokens: Path,
    service_accounts: ServiceAccountTokens,
    issuers: Sequence[OidcTokens],
    tasks: TaskOwner,
    stack: AsyncExitStack,
    egress: EgressSelector,
) -> list[TokenAuthenticator]:
    audiences = service_accounts.api_audiences
    authenticators: list[TokenAuthenticator] = []
    for path in (options.token_auth_file, own_tokens):
        if path is not None:
            authenticators.append(ApiAudienceAuthenticator(await asyncio.to_thread(TokenFile, path), audiences))
    legacy = LegacyTokens(
        store, service_accounts.keys, options.identity, lookup=options.service_account_lookup, gates=options.gates
    )
    authenticators += [ApiAudienceAuthenticator(legacy, audiences), service_accounts]
    if options.enable_bootstrap_token_auth:
        authenticators.append(ApiAudienceAuthenticator(BootstrapTokens(store, options.identity), audiences))
    authenticators += [ApiAudienceAuthenticator(issuer, audiences) for issuer in issuers]
    if options.authentication_token_webhook_config_file is not None:
        webhook = await asyncio.to_thread(
            Webhook, options.authentication_token_webhook_config_file, dialer=egress.controlplane
        )
        service = await stack.enter_async_context(webhook)
        authenticators.append(
            WebhookTokens(
                service,
                audiences,
                tasks,
                options.identity,
                version=options.authentication_token_webhook_version,
                ttl_seconds=options.authentication_token_webhook_cache_ttl_seconds,
                shows_null_times=options.compatibility_version < OMITTED_SINCE,
            )
        )
    return authenticators


def configuration_of(options: Options) -> AuthenticationConfig:
    """Return the configured issuers of JSON Web Tokens and anonymous access. Reads the disk.

    :raises JwtConfigError: a file is invalid.
    """
    path, release = options.authentication_config, options.compatibility_version
    if path is None:
        issuer = _issuer_of(options)
        return AuthenticationConfig((issuer,) if issuer is not None else ())
    later = release >= _ANY_ALGORITHM
    rules = ConfigRules(
        release,
        options.gates.enabled("AnonymousAuthConfigurableEndpoints"),
        IssuerRules(
            SIGNING_ALGORITHMS if later else ("RS256",),
            options.gates.enabled("StructuredAuthenticationConfigurationEgressSelector"),
            options.service_account_issuer if later else (),
        ),
    )
    config = config_file.load(path, options.identity, rules)
    if config.anonymous is not None and options.anonymous_auth is not None:
        text = "--anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration"
        raise JwtConfigError(f"{path}: {text} file")
    return config


def _issuer_of(options: Options) -> JwtConfig | None:
    """Return the issuer that the ``oidc-*`` options configure, or ``None``. Reads the disk."""
    if not options.oidc_issuer_url:
        return None
    prefix = options.oidc_username_prefix
    if not prefix and options.oidc_username_claim != "email":
        prefix = f"{options.oidc_issuer_url}#"
    try:
        authority = options.oidc_ca_file.read_text() if options.oidc_ca_file is not None else ""
    except (OSError, ValueError) as error:
        raise JwtConfigError(f"oidc-ca-file: {error}") from error
    return JwtConfig(
        issuer=options.oidc_issuer_url,
        audiences=(options.oidc_client_id,),
        username=Mapped(options.oidc_username_claim, "" if prefix == "-" else prefix),
        groups=Mapped(options.oidc_groups_claim, options.oidc_groups_prefix),
        required=tuple(options.oidc_required_claim.items()),
        authority=authority,
        algorithms=options.oidc_signing_algs,
    )
