"""Default contents of namespaces: the ``default`` ServiceAccount and the ``kube-root-ca.crt`` ConfigMap.

While a kube-controller-manager runs, it publishes the CA certificate instead of this controller.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_NAMESPACES, _ACCOUNTS, _CONFIG_MAPS = "core/namespaces", "core/serviceaccounts", "core/configmaps"
_ROOT_CA = "kube-root-ca.crt"
_RESYNC = ""


async def keep_namespaces_filled(store: Store, identity: Identity, ca_certificate: str, *, restores_ca: bool) -> None:
    """Create and restore the default contents of namespaces; runs until cancelled."""
    await NamespaceContents(store, identity, ca_certificate, restores_ca=restores_ca).run()


async def fill_namespace(
    store: Store, identity: Identity, ca_certificate: str, name: str, now: datetime | None = None
) -> None:
    """Create the missing default contents of namespace *name*."""
    record = store.collection(_NAMESPACES).get(name)
    if record is None or "deletionTimestamp" in objects.decode(record.data)["metadata"]:
        return
    account: Object = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": name}}
    await ensure(store, _ACCOUNTS, account)
    if not is_held(store, CONTROLLER_MANAGER, now or datetime.now(UTC), identity):
        await ensure(store, _CONFIG_MAPS, _root_ca(ca_certificate, name))


class NamespaceContents:
    """Controller of the default service account and the root CA ConfigMap of every namespace.

    :param restores_ca: whether changes of the ConfigMap are reverted; false if another server that shares the store may
        have a different CA.
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        ca_certificate: str,
        *,
        restores_ca: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._identity = identity
        self._store, self._ca_certificate, self._restores_ca = store, ca_certificate, restores_ca
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("namespace-contents", clock)
        self._left: set[str] = set()
        """Namespaces whose ConfigMap a kube-controller-manager maintains."""

    async def run(self) -> None:
        feed = ChangeFeed(self._store, [_NAMESPACES, _ACCOUNTS, _CONFIG_MAPS], self)
        await run_controller(feed, self._queue, self._process)

    def reset(self) -> None:
        self._left.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == _NAMESPACES:
            self._queue.add(record.key)
        elif collection == _CONFIG_MAPS and record.key.endswith(f"/{_ROOT_CA}"):
            self._queue.add(record.key.partition("/")[0])

    def remove(self, collection: str, record: Record) -> None:
        namespace, _, name = record.key.partition("/")
        if collection == _NAMESPACES:
            self._left.discard(record.key)
        elif name == ("default" if collection == _ACCOUNTS else _ROOT_CA):
            self._queue.add(namespace)

    async def _process(self, namespace: str) -> None:
        if namespace != _RESYNC:
            await fill_namespace(self._store, self._identity, self._ca_certificate, namespace, self._clock.wall())
        if is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            if namespace != _RESYNC:
                self._left.add(namespace)
            self._queue.add_after(_RESYNC, HELD_FOR.total_seconds())
        elif namespace == _RESYNC:
            for name in self._left:
                self._queue.add(name)
            self._left.clear()
        elif self._restores_ca:
            await self._restore_root_ca(namespace)

    async def _restore_root_ca(self, namespace: str) -> None:
        key, desired, written = objects.key_of(namespace, _ROOT_CA), _root_ca(self._ca_certificate, namespace), False

        def decide(current: Record | None) -> Outcome:
            nonlocal written
            written = False
            if current is None:
                raise LookupError(key)
            found: Object = objects.decode(current.data)
            if found.get("data") == desired["data"]:
                return Keep()
            written = True
            return Put(objects.encode_for_store({**found, "data": desired["data"]}))

        try:
            await self._store.update(_CONFIG_MAPS, key, decide)
        except LookupError:
            return  # Deleted, or the namespace is terminating.
        if written:
            self._queue.slow_down(namespace)


def _root_ca(ca_certificate: str, namespace: str) -> Object:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": _ROOT_CA, "namespace": namespace},
        "data": {"ca.crt": ca_certificate},
    }
