"""Connections of HTTP clients through a dialer. Imported with the first connection, since ``aiohttp`` is large."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

from apiserver_stub.egress.dialing import connection_error

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

    from apiserver_stub.egress.dialing import Dialer


class DialerConnector(aiohttp.BaseConnector):
    """Pool of connections that *dialer* opens."""

    def __init__(self, dialer: Dialer) -> None:
        super().__init__()
        self._dialer = dialer

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: Any, timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """Return a new connection for *req*; implements the method of the base class."""
        context: ssl.SSLContext | None = None
        if req.is_ssl():
            context = req.ssl if isinstance(req.ssl, ssl.SSLContext) else ssl.create_default_context()
        host, port = req.url.raw_host or "", req.url.port or 0
        try:
            found: ResponseHandler = await self._dialer.connect(
                self._factory, host, port, context, req.server_hostname or ""
            )
        except ssl.CertificateError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        except OSError as error:
            raise aiohttp.ClientConnectionError(connection_error(error, host, port)) from error
        return found


def new_session(dialer: Dialer | None) -> aiohttp.ClientSession:
    """Return an HTTP client without a timeout that connects with *dialer*, or directly."""
    connector = DialerConnector(dialer) if dialer is not None else None
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(), trust_env=False)
