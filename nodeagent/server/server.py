"""The agent's HTTPS server (secure port) and the read-only port.

spec: config.enableServer, config.address, config.port, config.readOnlyPort
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.tls import TlsError
from nodeagent.contracts.certificates import current_pair, server_store_name, serving_is_requested
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.server import Authenticator, Authorizer, Route, ServerConfigError
from nodeagent.server.serving_certificate import ServingPair, self_signed_pair
from nodeagent.server.tls_files import TlsFiles

if TYPE_CHECKING:
    from nodeagent.server.access import Access
    from nodeagent.server.listener import Listener

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
SHUTDOWN_SECONDS = 1.0


class AgentServer:
    """Serves the routes of plugins on the configured ports.

    :param checks: the checks of ``/healthz`` by name; each returns an error message or an empty text.
    :param access: returns authenticators and authorizer of the plugins; may raise :class:`ServerConfigError`.
    :param routes: returns the routes of the plugins.
    """

    def __init__(
        self,
        context: AgentContext,
        checks: Mapping[str, Callable[[], str]],
        access: Callable[[], tuple[Sequence[Authenticator], Authorizer]],
        routes: Callable[[], Sequence[Route]],
    ) -> None:
        self._context, self._checks = context, checks
        self._provide_access, self._provide_routes = access, routes
        self.port = 0
        """The bound secure port, once the server listens."""
        self.read_only_port = 0

    @property
    def enabled(self) -> bool:
        """True if the configuration enables a port."""
        config = self._context.config
        return bool(config.enable_server or config.read_only_port)

    async def run(self) -> None:
        """Serve until cancelled; binding a port is retried every 5 seconds.

        Without working authentication and authorization, the secure port is not served; the error is logged.
        """
        from nodeagent.server.access import Access
        from nodeagent.server.healthz import health_routes
        from nodeagent.server.metrics import metrics_routes

        config = self._context.config
        guard: Access | None = None
        tls = self._tls()
        if config.enable_server:
            try:
                fine_grained = self._context.gates.enabled("NodeAgentFineGrainedAuthz")
                access = self._provide_access()
                guard = Access(self._context.node_name, *access, tls.is_trusted, fine_grained=fine_grained)
            except ServerConfigError as error:
                _log.error("Failed to serve secure port", extra={"err": str(error)})
        routes = [*health_routes(self._checks), *metrics_routes(self._context), *self._provide_routes()]
        async with asyncio.TaskGroup() as group:
            if guard is not None:
                group.create_task(self._serve(routes, guard, tls), name="secure port")
            if config.read_only_port:
                group.create_task(self._serve(routes, None, None), name="read-only port")
            await asyncio.Event().wait()

    async def _serve(self, routes: Sequence[Route], access: Access | None, tls: TlsFiles | None) -> None:
        from aiohttp import web

        from nodeagent.server.app import build_app
        from nodeagent.server.listener import Connection, Listener

        config = self._context.config
        app = build_app(routes, access=access, debugging=config.enable_debugging_handlers)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        server = runner.server
        assert server is not None
        port = config.port if access is not None else config.read_only_port
        try:
            listener = Listener(
                config.address,
                port,
                lambda on_close: Connection(server, on_close),
                tls.context if tls is not None else None,
            )
            opened = await self._open(listener, tls)
            if access is not None:
                self.port = opened
            else:
                self.read_only_port = opened
            fields = {"address": config.address, "port": opened}
            _log.info("Starting to listen" if access is not None else "Starting to listen read-only", extra=fields)
            await listener.run()
        finally:
            await runner.cleanup()

    async def _open(self, listener: Listener, tls: TlsFiles | None) -> int:
        failing = False
        while True:
            try:
                # A requested certificate may be issued later; until then, handshakes fail.
                if tls is not None and not serving_is_requested(self._context.config, self._context.settings):
                    await tls.context()
                return listener.open()
            except (OSError, TlsError) as error:
                if not failing:
                    failing = True
                    _log.error("Failed to listen and serve", extra={"err": str(error)})
                await self._context.clock.sleep(RETRY_SECONDS)

    def _tls(self) -> TlsFiles:
        config, settings = self._context.config, self._context.settings
        if config.tls_cert_file and config.tls_private_key_file:
            pair = ServingPair(Path(config.tls_cert_file), Path(config.tls_private_key_file))
        elif serving_is_requested(config, settings):
            requested = current_pair(Path(settings.cert_dir), server_store_name())
            pair = ServingPair(requested, requested)
        else:
            pair = self_signed_pair(Path(settings.cert_dir))
        client_ca = config.authentication.x509.client_ca_file
        return TlsFiles(
            pair.certificate,
            pair.key,
            self._context.clock,
            client_ca=Path(client_ca) if client_ca else None,
            min_version=config.tls_min_version,
            cipher_suites=config.tls_cipher_suites,
            curves=config.tls_curve_preferences,
        )
