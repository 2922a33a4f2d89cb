"""Backend of the server: the open store and the audit log, with the egress through which they are reached."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from apiserver_stub.audit.context import Audit
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.egress.selector import load as load_egress_selector
from apiserver_stub.kinds import Registry
from apiserver_stub.options import Options
from apiserver_stub.server.audit import build_audit
from apiserver_stub.server.storage import Storage, build_storage
from nodeagent.base.structs import Struct


class Backend(Struct, frozen=True):
    """Egress, storage with an open store, and the audit log, if it is enabled."""

    egress: EgressSelector
    storage: Storage
    audit: Audit | None


async def open_backend(options: Options, registry: Registry, stack: AsyncExitStack) -> Backend:
    """Return the configured backend; *stack* closes it.

    :raises EgressError: the egress selector configuration is invalid.
    :raises EncryptionError: the configuration of encryption at rest is invalid.
    :raises StoreUnavailable: the database cannot be opened, or its servers do not respond.
    :raises AuditError: the audit policy or an audit backend is invalid.
    """
    egress = await _egress(options)
    stack.push_async_callback(egress.close)
    storage = await build_storage(options, registry, egress, stack)
    stack.callback(storage.encryption.close)
    stack.push_async_callback(storage.store.close)
    audit = await build_audit(options, egress)
    if audit is not None:
        stack.push_async_callback(audit.close)
    await storage.store.open()
    return Backend(egress, storage, audit)


async def _egress(options: Options) -> EgressSelector:
    path = options.egress_selector_config_file
    return DIRECT if path is None else await asyncio.to_thread(load_egress_selector, path, options.identity)
