"""Credentials of a kubeconfig for connections to webhooks, including those of an exec plugin."""

from __future__ import annotations

import threading

from nodeagent.base.aio import Clock
from nodeagent.base.exec_plugin import ExecCredential
from nodeagent.base.kubeconfig import Kubeconfig


class WebhookCredentials:
    """Credentials of *config*; the plugin runs before the first request, after expiry and after a rejection."""

    def __init__(self, config: Kubeconfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        self._lock = threading.Lock()
        self._obtained: ExecCredential | None = None
        self._rejected = False

    @property
    def renewable(self) -> bool:
        """``True`` if rejected credentials can be replaced."""
        return self._config.exec_plugin is not None

    def reject(self) -> None:
        """Run the plugin before the next request, because the server rejected the credentials."""
        self._rejected = True

    def current(self) -> Kubeconfig:
        """Return the kubeconfig with the valid credentials. Blocks while the plugin runs.

        :raises ExecPluginError: the plugin failed.
        :raises KubeconfigError: the file of the certificate authority cannot be read.
        """
        if self._config.exec_plugin is None:
            return self._config
        with self._lock:
            found = self._obtained
            if found is None or self._rejected or found.expired(self._clock.wall()):
                found = self._obtained = self._config.run_plugin()
                self._rejected = False
            return self._config.with_credential(found)
