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
from nodeagent.server.application import PortApplication
from nodeagent.server.listener import Listener, MakeProtocol
from nodeagent.server.serving_certificate import ServingPair, self_signed_pair
from nodeagent.server.tls_files import TlsFiles

if TYPE_CHECKING:
    from nodeagent.server.access import Access
    from nodeagent.server.access_recorder import AccessQueue

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0


class AgentServer:
    """Serves the routes of plugins on the configured ports.

    :param checks: the checks of ``/healthz`` by name; each returns an error message or an empty text.
    :param access: returns authenticators and authorizer of the plugins; may raise :class:`ServerConfigError`.
    :param routes: returns the routes of the plugins; called at the first connection.
    :param has_external_routes: whether a third-party plugin provides routes; they are created at the start, so that its
        errors are found there.
    :param accesses: receives the accesses to containers and logs.
    """

    def __init__(
        self,
        context: AgentContext,
        checks: Mapping[str, Callable[[], str]],
        access: Callable[[], tuple[Sequence[Authenticator], Authorizer]],
        routes: Callable[[], Sequence[Route]],
        has_external_routes: Callable[[], bool],
        accesses: AccessQueue,
    ) -> None:
        self._context, self._checks = context, checks
        self._provide_access, self._provide_routes = access, routes
        self._has_external_routes, self._accesses = has_external_routes, accesses
        self._routes: Sequence[Route] | None = None
        self._applications: list[PortApplication] = []
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
        requested = asyncio.Event()
        if self._has_external_routes():
            self._all_routes()
            requested.set()
        async with asyncio.TaskGroup() as group:
            if guard is not None:
                group.create_task(self._serve(requested, guard, tls), name="secure port")
            if config.read_only_port:
                group.create_task(self._serve(requested, None, None), name="read-only port")
            await asyncio.Event().wait()

    async def change_routes(self) -> None:
        """Get the routes from the plugins again; if one is invalid, raise its error and keep the previous routes."""
        if self._routes is None:
            return
        routes = self._combined(self._provide_routes())
        uses = [await application.prepare(routes) for application in self._applications]
        self._routes = routes
        for use in uses:
            use()

    async def _serve(self, requested: asyncio.Event, access: Access | None, tls: TlsFiles | None) -> None:
        """Listen, and create the application at the first connection."""
        from nodeagent.server.access_recorder import AccessRecorder

        application = PortApplication(
            self._all_routes,
            access,
            debugging=self._context.config.enable_debugging_handlers,
            recorder=AccessRecorder(self._context.clock, self._accesses),
        )

        async def connect(on_close: Callable[[], None]) -> asyncio.Protocol:
            requested.set()
            return await application.connect(on_close)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen(connect, access is None, tls))
            await requested.wait()
            self._applications.append(application)
            try:
                await application.create()
                await asyncio.Event().wait()
            finally:
                await application.close()

    def _all_routes(self) -> Sequence[Route]:
        """Return the routes for both ports."""
        if self._routes is None:
            self._routes = self._combined(self._provide_routes())
        return self._routes

    def _combined(self, routes: Sequence[Route]) -> Sequence[Route]:
        """Return the routes of the agent itself, and *routes*."""
        from nodeagent.server.healthz import health_routes
        from nodeagent.server.metrics import metrics_routes

        return [*health_routes(self._checks), *metrics_routes(self._context), *routes]

    async def _listen(self, connect: MakeProtocol, read_only: bool, tls: TlsFiles | None) -> None:
        config = self._context.config
        port = config.read_only_port if read_only else config.port
        listener = Listener(config.address, port, connect, tls.context if tls is not None else None)
        opened = await self._open(listener, tls)
        if read_only:
            self.read_only_port = opened
        else:
            self.port = opened
        fields = {"address": config.address, "port": opened}
        _log.info("Starting to listen read-only" if read_only else "Starting to listen", extra=fields)
        await listener.run()

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
