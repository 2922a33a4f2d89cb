"""etcd in memory: the calls of the API server over a Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc

COMPACTED = "etcdserver: mvcc: required revision has been compacted"
_REQUESTS = {
    "KV": {"Range": rpc.RangeRequest, "Txn": rpc.TxnRequest, "Compact": rpc.CompactionRequest},
    "Lease": {"LeaseGrant": rpc.LeaseGrantRequest},
    "Maintenance": {"Status": rpc.StatusRequest},
}


@dataclass
class _Watcher:
    key: bytes
    end: bytes
    responses: asyncio.Queue[rpc.WatchResponse | None] = field(default_factory=asyncio.Queue)


class FakeEtcd:
    """State of a cluster.

    :ivar failures: errors of the next calls, by their name.
    :ivar garbage: names of calls with an invalid response.
    :ivar calls: names of the received calls.
    :ivar held: changes are not sent to watches until :meth:`release`.
    """

    def __init__(self) -> None:
        self.revision, self.compacted = 1, 0
        self.values: dict[bytes, kv.KeyValue] = {}
        self.leases: dict[int, int] = {}
        self.failures: dict[str, list[tuple[grpc.StatusCode, str]]] = {}
        self.garbage: set[str] = set()
        self.calls: list[str] = []
        self.requests: list[Any] = []
        self.metadata: list[dict[str, Any]] = []
        self.held = False
        self._history: list[kv.Event] = []
        self._watchers: list[_Watcher] = []
        self._waiting: list[kv.Event] = []

    # Changes, by the API server or by the test.

    def put(self, key: bytes, value: bytes, lease: int = 0) -> None:
        self.revision += 1
        old = self.values.get(key)
        created, version = (old.create_revision, old.version + 1) if old is not None else (self.revision, 1)
        item = kv.KeyValue(
            key=key, value=value, create_revision=created, mod_revision=self.revision, version=version, lease=lease
        )
        self.values[key] = item
        self._record(kv.Event(type=kv.Event.PUT, kv=item))

    def delete(self, key: bytes) -> None:
        self.revision += 1
        del self.values[key]
        self._record(kv.Event(type=kv.Event.DELETE, kv=kv.KeyValue(key=key, mod_revision=self.revision)))

    def release(self) -> None:
        """Send the held changes in one response."""
        self.held = False
        events, self._waiting = self._waiting, []
        self._send(events)

    def end_watches(self, *, cancel: str = "") -> None:
        """Close all watches, or cancel them with a reason."""
        for watcher in self._watchers:
            if cancel:
                reason = rpc.WatchResponse(canceled=True, cancel_reason=cancel)
                watcher.responses.put_nowait(reason)
            watcher.responses.put_nowait(None)
        self._watchers.clear()

    @property
    def watching(self) -> bool:
        return bool(self._watchers)

    def _record(self, event: kv.Event) -> None:
        self._history.append(event)
        if self.held:
            self._waiting.append(event)
        else:
            self._send([event])

    def _send(self, events: list[kv.Event]) -> None:
        for watcher in self._watchers:
            if found := [event for event in events if watcher.key <= event.kv.key < watcher.end]:
                watcher.responses.put_nowait(rpc.WatchResponse(header=self._header, events=found))

    @property
    def _header(self) -> rpc.ResponseHeader:
        return rpc.ResponseHeader(revision=self.revision)

    # Calls.

    async def call(self, name: str, request: Any, context: Any) -> Any:
        self.calls.append(name)
        self.requests.append(request)
        if failures := self.failures.get(name):
            await context.abort(*failures.pop(0))
        if name in self.garbage:
            return b"\xff"
        response = await getattr(self, f"_{name.lower()}")(request, context)
        return response.SerializeToString()

    async def _range(self, request: rpc.RangeRequest, context: Any) -> rpc.RangeResponse:
        if 0 < request.revision < self.compacted:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, COMPACTED)
        return self._select(request)

    def _select(self, request: rpc.RangeRequest) -> rpc.RangeResponse:
        end = request.range_end or request.key + b"\0"
        found = [self.values[key] for key in sorted(self.values) if request.key <= key < end]
        kept = found[: request.limit] if request.limit else found
        listed = [] if request.count_only else kept
        return rpc.RangeResponse(header=self._header, kvs=listed, more=len(kept) < len(found), count=len(found))

    async def _txn(self, request: rpc.TxnRequest, context: Any) -> rpc.TxnResponse:
        (compare,), (success,), (failure,) = request.compare, request.success, request.failure
        item = self.values.get(compare.key)
        by_version = compare.target == rpc.Compare.VERSION
        current = 0 if item is None else item.version if by_version else item.mod_revision
        if current != (compare.version if by_version else compare.mod_revision):
            found = rpc.ResponseOp(response_range=self._select(failure.request_range))
            return rpc.TxnResponse(header=self._header, responses=[found])
        if success.HasField("request_put"):
            put = success.request_put
            if put.lease and put.lease not in self.leases:
                await context.abort(grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
            self.put(put.key, put.value, put.lease)
        else:
            self.delete(success.request_delete_range.key)
        return rpc.TxnResponse(header=self._header, succeeded=True)

    async def _compact(self, request: rpc.CompactionRequest, context: Any) -> rpc.CompactionResponse:
        if request.revision <= self.compacted:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, COMPACTED)
        self.compacted = request.revision
        return rpc.CompactionResponse(header=self._header)

    async def _leasegrant(self, request: rpc.LeaseGrantRequest, context: Any) -> rpc.LeaseGrantResponse:
        number = len(self.leases) + 1
        self.leases[number] = request.TTL
        return rpc.LeaseGrantResponse(ID=number, TTL=request.TTL)

    async def _status(self, request: rpc.StatusRequest, context: Any) -> rpc.StatusResponse:
        return rpc.StatusResponse(dbSize=4096)

    async def watch(self, requests: AsyncIterator[rpc.WatchRequest], context: Any) -> AsyncIterator[bytes]:
        self.calls.append("Watch")
        self.metadata.append(dict(context.invocation_metadata()))
        create = (await anext(requests)).create_request
        watcher = _Watcher(create.key, create.range_end)
        yield rpc.WatchResponse(header=self._header, created=True).SerializeToString()
        if create.start_revision < self.compacted:
            yield rpc.WatchResponse(canceled=True, compact_revision=self.compacted).SerializeToString()
            return
        events = [event for event in self._history if event.kv.mod_revision >= create.start_revision]
        self._watchers.append(watcher)
        if found := [event for event in events if watcher.key <= event.kv.key < watcher.end]:
            watcher.responses.put_nowait(rpc.WatchResponse(header=self._header, events=found))
        reading = asyncio.ensure_future(self._read_progress(requests, watcher))
        try:
            while (response := await watcher.responses.get()) is not None:
                yield b"\xff" if "Watch" in self.garbage else response.SerializeToString()
        finally:
            reading.cancel()

    async def _read_progress(self, requests: AsyncIterator[rpc.WatchRequest], watcher: _Watcher) -> None:
        async for _ in requests:
            self.calls.append("Progress")
            watcher.responses.put_nowait(rpc.WatchResponse(header=self._header))


def _handler(etcd: FakeEtcd, name: str) -> Any:
    async def handle(request: Any, context: Any) -> Any:
        return await etcd.call(name, request, context)

    return handle


@asynccontextmanager
async def serving(etcd: FakeEtcd, socket: Path) -> AsyncIterator[str]:
    """Serve *etcd* on *socket*, and yield its URL."""
    server = grpc.aio.server()
    for service, calls in _REQUESTS.items():
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(_handler(etcd, name), request_deserializer=kind.FromString)
            for name, kind in calls.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"etcdserverpb.{service}", handlers),))
    watch = grpc.stream_stream_rpc_method_handler(etcd.watch, request_deserializer=rpc.WatchRequest.FromString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("etcdserverpb.Watch", {"Watch": watch}),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield f"unix://{socket}"
    finally:
        await server.stop(0)
