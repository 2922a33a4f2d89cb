"""Objects that pods refer to: ConfigMaps, Secrets, Services and service account tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from nodeagent.model.pod import Pod


@dataclass(frozen=True, slots=True)
class BoundToken:
    """A service account token bound to a pod."""

    token: str = field(repr=False)
    expires_at: datetime


class ObjectReader(Protocol):
    """Reads objects that pods refer to, refreshed by the configured change detection strategy.

    In standalone mode every read raises :class:`~nodeagent.errors.ApiUnavailable`.
    spec: config.configMapAndSecretChangeDetectionStrategy
    """

    def register_pod(self, pod: Pod) -> None:
        """Start to refresh the objects that *pod* refers to; idempotent.

        :param pod: a pod that was admitted or changed.
        """
        ...

    def unregister_pod(self, pod_uid: str) -> None:
        """Stop to refresh the objects that only this pod refers to; idempotent.

        :param pod_uid: UID of a terminated pod.
        """
        ...

    async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the ConfigMap, or ``None`` if it does not exist.

        :param namespace: namespace of the pod.
        :param name: name of the ConfigMap.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

    async def secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the Secret, or ``None`` if it does not exist.

        :param namespace: namespace of the pod.
        :param name: name of the Secret.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...

    async def services(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the Services of *namespace*.

        :param namespace: namespace of the pod.
        :raises ApiUnavailable: the Services have not been listed yet, or the node is standalone.
        """
        ...

    async def service_account_token(
        self, pod: Pod, *, audience: str = "", expiration_seconds: int = 3600
    ) -> BoundToken:
        """Return a token bound to *pod*, refreshed before it expires.

        :param pod: the pod, which determines the service account.
        :param audience: audience of the token; empty uses that of the API server.
        :param expiration_seconds: requested lifetime in seconds.
        :raises ApiUnavailable: the API server cannot be reached, or did not respond in time.
        :raises ApiError: the API server returned an error status.
        """
        ...
