"""State of a simulated etcd cluster: revisions, their history, and leases. No I/O."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from nodeagent.base.structs import MutableStruct

_MAX_REQUEST_BYTES = 1_500_000


class EtcdError(Exception):
    """Error response of a call."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, f"etcdserver: {text}"


class _Lease(MutableStruct):
    seconds: int
    keys: set[bytes]


class Etcd:
    """Keys and values with all revisions since the last compaction.

    :ivar full: puts fail, as without space.
    :ivar observers: are called with the events of each revision, before the response.
    """

    def __init__(self) -> None:
        self.revision, self.compacted = 1, 0
        self.full = False
        self.observers: list[Callable[[Sequence[kv.Event]], None]] = []
        self._keys: list[bytes] = []
        """All keys with a version since the last compaction, sorted."""
        self._versions: dict[bytes, list[kv.KeyValue]] = {}
        """Values in order of revision; a deletion has the version 0."""
        self._events: list[tuple[int, kv.Event]] = []
        self._leases: dict[int, _Lease] = {}
        self._granted = 0

    def call(self, name: str, request: Any) -> Any:
        """Return the response of a call.

        :raises EtcdError: the response is an error.
        """
        calls: dict[str, Callable[[Any], Any]] = {
            "Range": self._range,
            "Txn": self._txn,
            "Compact": self._compact,
            "LeaseGrant": self._grant,
            "Status": lambda _: rpc.StatusResponse(header=self.header(), dbSize=1 << 20),
        }
        return calls[name](request)

    def header(self) -> rpc.ResponseHeader:
        """Return the header of a response."""
        return rpc.ResponseHeader(revision=self.revision)

    def events(self, key: bytes, end: bytes, start: int) -> list[kv.Event]:
        """Return the events of the keys from *key* up to *end* (exclusive) since the revision *start*."""
        first = bisect_left(self._events, start, key=lambda event: event[0])
        return [event for _, event in self._events[first:] if key <= event.kv.key < end]

    def lease_seconds(self, lease: int) -> int:
        """Return the time to live of a lease; 0 if it does not exist."""
        found = self._leases.get(lease)
        return found.seconds if found is not None else 0

    def expire(self, lease: int) -> None:
        """Delete the keys of a lease at one revision."""
        keys = sorted(self._leases.pop(lease).keys)
        self._delete([key for key in keys if self._current(key) is not None])

    # --- calls ------------------------------------------------------------------------------------------------

    def _range(self, request: rpc.RangeRequest) -> rpc.RangeResponse:
        if request.revision > self.revision:
            raise EtcdError(grpc.StatusCode.OUT_OF_RANGE, "mvcc: required revision is a future revision")
        if 0 < request.revision < self.compacted:
            raise EtcdError(grpc.StatusCode.OUT_OF_RANGE, "mvcc: required revision has been compacted")
        end = request.range_end or request.key + b"\0"
        keys = self._keys[bisect_left(self._keys, request.key) : bisect_left(self._keys, end)]
        found = [item for key in keys if (item := self._current(key, request.revision)) is not None]
        kept = found[: request.limit] if request.limit else found
        listed = [] if request.count_only else kept
        return rpc.RangeResponse(header=self.header(), kvs=listed, more=len(kept) < len(found), count=len(found))

    def _txn(self, request: rpc.TxnRequest) -> rpc.TxnResponse:
        if request.ByteSize() > _MAX_REQUEST_BYTES:
            raise EtcdError(grpc.StatusCode.INVALID_ARGUMENT, "request is too large")
        (compare,), (success,), (failure,) = request.compare, request.success, request.failure
        if not self._matches(compare):
            found = rpc.ResponseOp(response_range=self._range(failure.request_range))
            return rpc.TxnResponse(header=self.header(), responses=[found])
        if success.HasField("request_put"):
            self._put(success.request_put)
        elif self._current(key := success.request_delete_range.key) is not None:
            self._delete([key])
        return rpc.TxnResponse(header=self.header(), succeeded=True)

    def _matches(self, compare: rpc.Compare) -> bool:
        item = self._current(compare.key)
        if compare.target == rpc.Compare.VERSION:
            return (item.version if item is not None else 0) == compare.version
        return (item.mod_revision if item is not None else 0) == compare.mod_revision

    def _compact(self, request: rpc.CompactionRequest) -> rpc.CompactionResponse:
        if request.revision <= self.compacted:
            raise EtcdError(grpc.StatusCode.OUT_OF_RANGE, "mvcc: required revision has been compacted")
        self.compacted = request.revision
        self._events = self._events[bisect_left(self._events, request.revision, key=lambda event: event[0]) :]
        for key in list(self._keys):
            versions = self._versions[key]
            last = max((at for at, item in enumerate(versions) if item.mod_revision <= self.compacted), default=0)
            kept = versions[last:]
            if len(kept) == 1 and not kept[0].version and kept[0].mod_revision <= self.compacted:
                self._keys.remove(key)
                del self._versions[key]
            else:
                self._versions[key] = kept
        return rpc.CompactionResponse(header=self.header())

    def _grant(self, request: rpc.LeaseGrantRequest) -> rpc.LeaseGrantResponse:
        self._granted += 1
        self._leases[self._granted] = _Lease(request.TTL, set())
        return rpc.LeaseGrantResponse(header=self.header(), ID=self._granted, TTL=request.TTL)

    # --- changes ----------------------------------------------------------------------------------------------

    def _put(self, request: rpc.PutRequest) -> None:
        if self.full:
            raise EtcdError(grpc.StatusCode.RESOURCE_EXHAUSTED, "mvcc: database space exceeded")
        if request.lease and request.lease not in self._leases:
            raise EtcdError(grpc.StatusCode.NOT_FOUND, "requested lease not found")
        before = self._current(request.key)
        if before is not None and before.lease:
            self._leases[before.lease].keys.discard(request.key)
        if request.lease:
            self._leases[request.lease].keys.add(request.key)
        self.revision += 1
        item = kv.KeyValue(key=request.key, value=request.value, mod_revision=self.revision, lease=request.lease)
        item.create_revision = self.revision if before is None else before.create_revision
        item.version = 1 if before is None else before.version + 1
        self._record([kv.Event(type=kv.Event.PUT, kv=item)])

    def _delete(self, keys: Sequence[bytes]) -> None:
        if not keys:
            return
        self.revision += 1
        for key in keys:
            before = self._current(key)
            if before is not None and before.lease in self._leases:
                self._leases[before.lease].keys.discard(key)
        self._record(
            [kv.Event(type=kv.Event.DELETE, kv=kv.KeyValue(key=key, mod_revision=self.revision)) for key in keys]
        )

    def _record(self, events: Sequence[kv.Event]) -> None:
        for event in events:
            key = event.kv.key
            if key not in self._versions:
                insort(self._keys, key)
            self._versions.setdefault(key, []).append(event.kv)
            self._events.append((self.revision, event))
        for observer in self.observers:
            observer(events)

    def _current(self, key: bytes, revision: int = 0) -> kv.KeyValue | None:
        """Return the value of a key, now or at a revision; ``None`` if it does not exist."""
        versions = self._versions.get(key)
        if not versions:
            return None
        item = versions[-1]
        if revision:
            at = bisect_left(versions, revision + 1, key=lambda each: each.mod_revision) - 1
            if at < 0:
                return None
            item = versions[at]
        return item if item.version else None
