"""Credentials of a connection: TLS context and authorization header, reloaded when their sources change."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path

from nodeagent.apiclient.transport import HTTP2, ConnectionLost
from nodeagent.base.aio import Clock
from nodeagent.base.exec_plugin import ExecCredential, ExecPluginError
from nodeagent.base.file_signature import file_signature
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError

_log = logging.getLogger(__name__)

CREDENTIALS_SECONDS = 10.0
"""Maximum age of loaded credentials; certificates and tokens are replaced while the process runs."""


class Credentials:
    """TLS context and authorization header, from files that other processes replace or from an exec plugin.

    The plugin is run before the first request, after its credentials have expired, and after the server has rejected
    them.

    :param pair: file with certificate and key that replaces all credentials of the kubeconfig once it exists.
    """

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock, pair: Path | None = None) -> None:
        self._kubeconfig, self._clock, self._pair = kubeconfig, clock, pair
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._signatures: tuple[object, ...] = ()
        self._obtained: ExecCredential | None = None
        self._rejected = False
        self._paired = False
        self.context: ssl.SSLContext | None = None
        self.stream_context: ssl.SSLContext | None = None
        """Also accepts HTTP/2, unless the variable ``DISABLE_HTTP2`` of the environment is set."""
        self.authorization = ""

    async def refresh(self) -> None:
        """Reload credentials that are due; if that fails, the current ones stay active unless they have expired.

        Concurrent callers wait for the same reload.

        :raises ConnectionLost: there are no valid credentials.
        """
        if self._is_due():
            async with self._lock:
                if self._is_due():
                    await self._reload()

    def reject(self, authorization: str) -> None:
        """Run the plugin before the next request, because the server has rejected a request with *authorization*."""
        if self._kubeconfig.exec_plugin is not None and authorization == self.authorization:
            self._rejected = True

    async def _reload(self) -> None:
        try:
            await asyncio.to_thread(self._read)
        except (KubeconfigError, ExecPluginError) as error:
            if self._read_at is None or self._plugin_is_expired():
                raise ConnectionLost(str(error)) from error
            _log.warning("Failed to reload credentials, keeping the current ones", extra={"err": str(error)})
        self._read_at, self._rejected = self._clock.now(), False

    def _is_due(self) -> bool:
        if self._read_at is None or self._rejected or self._plugin_is_expired():
            return True
        changes = self._pair or self._kubeconfig.files() or self._kubeconfig.token_file
        return bool(changes) and self._clock.now() - self._read_at >= CREDENTIALS_SECONDS

    def _plugin_is_expired(self) -> bool:
        return not self._paired and self._obtained is not None and self._obtained.expired(self._clock.wall())

    def _read(self) -> None:
        config = self._kubeconfig
        if self._pair is not None and self._pair.exists():
            config = config.with_pair(self._pair)
            self._paired = True
        replaced = False
        if config.exec_plugin is not None:
            previous = self._obtained
            if previous is None or self._rejected or self._plugin_is_expired():
                self._obtained = self._kubeconfig.run_plugin()
                replaced = previous is None or previous.certificate != self._obtained.certificate
            assert self._obtained is not None
            config = config.with_credential(self._obtained)
        signatures = tuple((path, file_signature(path)) for path in config.files())
        if self.context is None or replaced or signatures != self._signatures:
            context = stream_context = config.ssl_context()
            if not os.environ.get("DISABLE_HTTP2") and (stream_context := config.ssl_context()) is not None:
                stream_context.set_alpn_protocols([HTTP2, "http/1.1"])
            # A new context also causes new connections.
            self.context, self.stream_context, self._signatures = context, stream_context, signatures
        self.authorization = config.authorization()
