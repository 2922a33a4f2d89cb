"""Object readers for nodes with and without an API server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.contracts.api import CONFIG_MAPS, SECRETS, Api, Resource
from nodeagent.contracts.objects import BoundToken
from nodeagent.errors import ApiUnavailable, ConfigError, Problem
from nodeagent.model.pod import Pod, PodSpec
from nodeagent_plugins.object_reader.references import References, references
from nodeagent_plugins.object_reader.services import Services
from nodeagent_plugins.object_reader.stores import CachingStore, DirectStore, Key, ObjectStore
from nodeagent_plugins.object_reader.tokens import Tokens
from nodeagent_plugins.object_reader.watching import WatchingStore

if TYPE_CHECKING:
    from nodeagent.contracts.context import NodeContext

DEFAULT_TTL_SECONDS = 60.0
_IDLE_SYNCS = 5
_SHORTEST_IDLE_SECONDS = 60.0


class _Registered(Struct, frozen=True):
    namespace: str
    spec: PodSpec
    references: References


class Reader:
    """Implements :class:`~nodeagent.contracts.objects.ObjectReader` with an API server.

    A changed object triggers a sync of the pods that reference it, which updates the files in their volumes.

    spec: config.configMapAndSecretChangeDetectionStrategy

    :raises ConfigError: the strategy is invalid.
    """

    def __init__(self, context: NodeContext, api: Api) -> None:
        self._context = context
        self._config_maps = make_store(context, api, CONFIG_MAPS, self._config_map_changed)
        self._secrets = make_store(context, api, SECRETS, self._secret_changed)
        self._services, self._tokens = Services(context, api), Tokens(context, api)
        self._pods: dict[str, _Registered] = {}

    def register_pod(self, pod: Pod) -> None:
        """Keep the references of *pod* current; does nothing if the pod is registered with the same spec."""
        before = self._pods.get(pod.uid)
        if before is not None and before.spec == pod.spec:
            return
        self._services.start()
        now = _Registered(pod.namespace, pod.spec, references(pod.spec))
        self._pods[pod.uid] = now
        self._add(now)  # Before the old ones are removed, so that shared watches continue.
        if before is not None:
            self._remove(before)

    def unregister_pod(self, pod_uid: str) -> None:
        before = self._pods.pop(pod_uid, None)
        if before is not None:
            self._remove(before)
        self._tokens.forget_pod(pod_uid)

    async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        return await self._config_maps.get((namespace, name))

    async def secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        return await self._secrets.get((namespace, name))

    async def services(self, namespace: str) -> Sequence[dict[str, Any]]:
        return await self._services.get(namespace)

    async def service_account_token(
        self, pod: Pod, *, audience: str = "", expiration_seconds: int = 3600
    ) -> BoundToken:
        return await self._tokens.get(pod, audience, expiration_seconds)

    def _config_map_changed(self, key: Key) -> None:
        self._sync_users(key[0], lambda found: key[1] in found.config_maps)

    def _secret_changed(self, key: Key) -> None:
        self._sync_users(key[0], lambda found: key[1] in found.secrets)

    def _sync_users(self, namespace: str, uses: Callable[[References], bool]) -> None:
        """Trigger a sync of the pods in *namespace* that reference a changed object."""
        for uid, pod in self._pods.items():
            if pod.namespace == namespace and uses(pod.references):
                self._context.pods.trigger_sync(uid)

    def _add(self, pod: _Registered) -> None:
        for name in pod.references.config_maps:
            self._config_maps.add((pod.namespace, name))
        for name in pod.references.secrets:
            self._secrets.add((pod.namespace, name))

    def _remove(self, pod: _Registered) -> None:
        for name in pod.references.config_maps:
            self._config_maps.remove((pod.namespace, name))
        for name in pod.references.secrets:
            self._secrets.remove((pod.namespace, name))


class StandaloneReader:
    """Reports that a node without an API server has no such objects."""

    def register_pod(self, pod: Pod) -> None:
        """No cache to update."""

    def unregister_pod(self, pod_uid: str) -> None:
        """No cache to update."""

    async def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        _fail_standalone(f'config map "{namespace}/{name}"')

    async def secret(self, namespace: str, name: str) -> dict[str, Any] | None:
        _fail_standalone(f'secret "{namespace}/{name}"')

    async def services(self, namespace: str) -> Sequence[dict[str, Any]]:
        _fail_standalone(f'services of namespace "{namespace}"')

    async def service_account_token(
        self, pod: Pod, *, audience: str = "", expiration_seconds: int = 3600
    ) -> BoundToken:
        _fail_standalone(f"a service account token for {pod.full_name}")


def make_store(context: NodeContext, api: Api, resource: Resource, changed: Callable[[Key], None]) -> ObjectStore:
    """Return the store of the configured strategy.

    :param changed: called by a store that observes changes.
    :raises ConfigError: the strategy is invalid.
    """
    config = context.config
    strategy = config.config_map_and_secret_change_detection_strategy
    if strategy == "Get":
        return DirectStore(api, resource)
    if strategy == "Cache":
        return CachingStore(api, resource, context.clock, lambda: node_ttl_seconds(context))
    if strategy == "Watch":
        idle = max(_IDLE_SYNCS * config.sync_frequency.seconds, _SHORTEST_IDLE_SECONDS)
        return WatchingStore(api, resource, context.clock, context.tasks, idle, changed)
    path = "configMapAndSecretChangeDetectionStrategy"
    raise ConfigError([Problem("configuration", path, strategy, "must be one of Get, Cache, Watch")])


def node_ttl_seconds(context: NodeContext) -> float:
    """Return the time to live of cached objects: the value of the node's annotation, else a minute."""
    annotations = ((context.node() or {}).get("metadata") or {}).get("annotations") or {}
    text = annotations.get(identity.current().label("ttl", "node.alpha"), "")
    return float(text) if text.isdecimal() else DEFAULT_TTL_SECONDS


def _fail_standalone(description: str) -> NoReturn:
    raise ApiUnavailable(f"failed to read {description}: the node runs in standalone mode, without an API server")
