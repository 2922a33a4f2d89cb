"""Credentials for admission webhooks, selected by the server from the users of a kubeconfig."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from apiserver_stub.admission.config import AdmissionError, unknown_members
from apiserver_stub.webhook_credentials import WebhookCredentials
from nodeagent.base import kubeconfig
from nodeagent.base.aio import SystemClock
from nodeagent.base.key_material import load_key_pair
from nodeagent.base.kubeconfig import KubeconfigError

_DEFAULT = "*"
_HTTPS = "443"


class WebhookUsers:
    """Users of a kubeconfig by the servers to which they apply.

    A name is ``HOST:PORT``, ``HOST`` for port 443, either with ``*`` instead of the first labels, or ``*`` for all
    other servers; without the latter, the user of the current context applies to them.
    """

    def __init__(self, users: Mapping[str, WebhookCredentials], default: str = "") -> None:
        self._users, self._default = users, default

    @classmethod
    def load(cls, path: Path) -> WebhookUsers:
        """Read the kubeconfig *path*.

        :raises KubeconfigError: it is invalid.
        """
        users, default = kubeconfig.load_users(path)
        clock = SystemClock()
        return cls({name: WebhookCredentials(config, clock) for name, config in users.items()}, default)

    def user_of(self, server: str) -> WebhookCredentials | None:
        """Return the credentials for *server*, ``HOST:PORT``; ``None`` for a server that is called without any."""
        for name in (*_names(server), _DEFAULT, self._default):
            if name in self._users:
                return self._users[name]
        return None


NO_USERS = WebhookUsers({})


def present(credentials: WebhookCredentials, context: ssl.SSLContext) -> str:
    """Load the client certificate of *credentials* into *context*, and return the ``Authorization`` header.

    Reads the disk or runs the exec plugin.

    :raises KubeconfigError: a file cannot be read or is invalid.
    :raises ExecPluginError: the exec plugin failed.
    """
    config = credentials.current()
    if config.client_certificate:
        load_key_pair(context, config.client_certificate, config.client_key)
    return config.authorization()


def configured_users(plugin: str, config: Mapping[str, Any], directory: Path) -> WebhookUsers:
    """Return the users of the ``kubeConfigFile`` in the configuration of *plugin*, relative to *directory*.

    :raises AdmissionError: the configuration or the file is invalid.
    """
    known = {"apiVersion": "", "kind": "", "kubeConfigFile": "", "staticManifestsDir": ""}
    if problems := list(unknown_members(dict(config), known)):
        raise AdmissionError(*(f"{plugin}: {problem}" for problem in problems))
    file = config.get("kubeConfigFile")
    if not file:
        return NO_USERS
    try:
        return WebhookUsers.load(directory / file)
    except KubeconfigError as error:
        raise AdmissionError(f"{plugin}: kubeConfigFile: {error}") from error


def _names(server: str) -> Iterator[str]:
    yield from _with_wildcards(server)
    host, _, port = server.rpartition(":")
    if port == _HTTPS:
        yield from _with_wildcards(host)


def _with_wildcards(name: str) -> Iterator[str]:
    yield name
    labels = name.split(".")
    for index in range(1, len(labels)):
        yield ".".join(("*", *labels[index:]))
