"""Construction of the configured authorizers, once at startup."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace

from apiserver_stub.authz import AlwaysAllow, AlwaysDeny, Authorizer, Chain
from apiserver_stub.authz import config as authorization_config
from apiserver_stub.authz.abac import Abac, PolicyError
from apiserver_stub.authz.config import AuthorizationConfigError, AuthorizerConfig
from apiserver_stub.authz.node import NodeAuthorizer
from apiserver_stub.authz.rbac import Rbac
from apiserver_stub.authz.webhook import WebhookAuthorizer, WebhookSettings
from apiserver_stub.egress.dialing import Dialer
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.options import Options
from apiserver_stub.schema.null_times import OMITTED_SINCE
from apiserver_stub.storage import Store
from apiserver_stub.webhook import Webhook
from nodeagent.base.aio import TaskOwner
from nodeagent.base.kubeconfig import KubeconfigError
from nodeagent.base.structs import Struct
from nodeagent.base.tls import TlsError


class AuthorizationError(ValueError):
    """Invalid file of an authorization option."""


class Authorization(Struct, frozen=True):
    """The chain of authorizers, and the RBAC roles for the escalation check."""

    chain: Chain
    rbac: Rbac


async def build_authorization(
    options: Options, store: Store, stack: AsyncExitStack, egress: EgressSelector = DIRECT
) -> Authorization:
    """Return the configured authorization; its tasks and clients are closed with *stack*.

    :raises AuthorizationError: a file is invalid; the message can have several lines, one per problem.
    """
    tasks = await stack.enter_async_context(TaskOwner("authorization"))
    rbac = Rbac(store, options.identity)
    builder = _Builder(options, store, rbac, tasks, stack, egress.controlplane)
    try:
        configs = await asyncio.to_thread(_configs, options)
        authorizers = [await builder.build(config) for config in configs]
    except (AuthorizationConfigError, PolicyError, KubeconfigError, TlsError, ssl.SSLError) as error:
        raise AuthorizationError(f"invalid authorization config: {error}") from error
    return Authorization(Chain(authorizers), rbac)


def _configs(options: Options) -> list[AuthorizerConfig]:
    if options.authorization_config is not None:
        configs = authorization_config.load(options.authorization_config, options.identity)
        if options.authorization_policy_file is not None and all(item.mode != "ABAC" for item in configs):
            raise PolicyError("cannot specify --authorization-policy-file without mode ABAC")
        return configs
    settings = WebhookSettings(
        options.authorization_webhook_version,
        options.authorization_webhook_cache_authorized_ttl_seconds,
        options.authorization_webhook_cache_unauthorized_ttl_seconds,
    )
    connection = options.authorization_webhook_config_file
    return [AuthorizerConfig(mode, connection, webhook=settings) for mode in options.authorization_mode]


class _Builder:
    def __init__(
        self,
        options: Options,
        store: Store,
        rbac: Rbac,
        tasks: TaskOwner,
        stack: AsyncExitStack,
        dialer: Dialer | None,
    ) -> None:
        self._options, self._store, self._rbac, self._tasks, self._stack = options, store, rbac, tasks, stack
        self._dialer = dialer

    async def build(self, config: AuthorizerConfig) -> Authorizer:
        match config.mode:
            case "AlwaysAllow":
                return AlwaysAllow()
            case "AlwaysDeny":
                return AlwaysDeny()
            case "ABAC":
                if self._options.authorization_policy_file is None:
                    raise PolicyError("authorization-mode ABAC's authorization policy file not passed")
                return await asyncio.to_thread(
                    Abac.load, self._options.authorization_policy_file, self._options.identity
                )
            case "RBAC":
                self._tasks.start(self._rbac.follower.keep_current(), "follow-roles")
                return self._rbac
            case "Node":
                options = self._options
                nodes = NodeAuthorizer(self._store, options.identity, options.gates, options.compatibility_version)
                self._tasks.start(nodes.follower.keep_current(), "follow-nodes")
                return nodes
            case "Webhook":
                return await self._webhook(config)
            case mode:
                raise AuthorizationError(f'authorization-mode "{mode}" is not a valid mode')

    async def _webhook(self, config: AuthorizerConfig) -> WebhookAuthorizer:
        if config.connection is None:
            raise AuthorizationError("authorization-mode Webhook's authorization config file not passed")
        webhook = await asyncio.to_thread(
            Webhook, config.connection, attempt_seconds=config.timeout_seconds, dialer=self._dialer
        )
        service = await self._stack.enter_async_context(webhook)
        shows_null_times = self._options.compatibility_version < OMITTED_SINCE
        settings = replace(config.webhook, shows_null_times=shows_null_times)
        return WebhookAuthorizer(service, settings, self._tasks, self._options.identity)
