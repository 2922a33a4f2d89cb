"""Client of an etcd cluster: one active connection, with failover to the next server.

Custom, since the etcd packages on PyPI are unmaintained; it calls etcd's generated messages over grpc.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from apiserver_stub.storage.base import StoreRejected, StoreUnavailable
from apiserver_stub.storage.etcd.proto import rpc_pb2 as rpc
from nodeagent.base import tracing
from nodeagent.base.structs import Struct

CALL_SECONDS = 10.0
"""Timeout of one call, shorter than that of a request."""
_CHANNEL: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_NO_SOCKETS: Mapping[str, Path] = {}
_COMPACTED = "etcdserver: mvcc: required revision has been compacted"
_END: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # Missing from the type stubs.
_LEASE_NOT_FOUND = "etcdserver: requested lease not found"
_SERVICES: dict[str, tuple[str, Any]] = {
    "Range": ("KV", rpc.RangeResponse),
    "Txn": ("KV", rpc.TxnResponse),
    "Compact": ("KV", rpc.CompactionResponse),
    "LeaseGrant": ("Lease", rpc.LeaseGrantResponse),
    "Status": ("Maintenance", rpc.StatusResponse),
}


class HistoryCompacted(Exception):
    """The requested revision has been compacted."""


class LeaseExpired(Exception):
    """The lease of a write has expired."""


class TlsFiles(Struct, frozen=True):
    """Certificate files for connections to ``https`` URLs."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class Observer(Protocol):
    """Callback for the duration and result of every call."""

    def __call__(self, operation: str, kind: str, seconds: float, *, failed: bool) -> None: ...


class _Endpoint:
    def __init__(self, url: str, files: TlsFiles, socket: Path | None) -> None:
        parts, channel = urlsplit(url), _CHANNEL
        self.url, self.target = url, f"unix:{parts.path}" if parts.scheme in ("unix", "unixs") else parts.netloc
        if socket is not None:
            self.target = f"unix:{socket}"
            channel = [*channel, ("grpc.default_authority", parts.netloc)]
        if parts.scheme in ("https", "unixs"):
            if socket is not None:
                channel = [*channel, ("grpc.ssl_target_name_override", parts.hostname or "")]
            self.channel = grpc.aio.secure_channel(self.target, _credentials(files), options=channel)
        else:
            self.channel = grpc.aio.insecure_channel(self.target, options=channel)
        self.calls: dict[str, Callable[..., Any]] = {
            name: self.channel.unary_unary(
                f"/etcdserverpb.{service}/{name}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=bytes,  # See _decode.
            )
            for name, (service, _) in _SERVICES.items()
        }
        self.watch: Any = self.channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=bytes,
        )


class EtcdClient:
    """Client of the cluster with these server URLs.

    :param sockets: Unix sockets that lead to servers, by URL; other servers are connected directly.
    :raises OSError: a TLS file cannot be read.
    """

    def __init__(
        self,
        urls: Sequence[str],
        files: TlsFiles,
        *,
        observe: Observer | None = None,
        sockets: Mapping[str, Path] = _NO_SOCKETS,
    ) -> None:
        self._endpoints = [_Endpoint(url, files, sockets.get(url)) for url in urls]
        self._current = 0
        self._observe = observe

    @property
    def urls(self) -> list[str]:
        return [endpoint.url for endpoint in self._endpoints]

    async def range(
        self,
        key: bytes,
        end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        count_only: bool = False,
        seconds: float = CALL_SECONDS,
        kind: str = "",
    ) -> rpc.RangeResponse:
        """Return the values from *key* up to *end* (exclusive), or of *key* only; the latest unless *revision* is set.

        If a server fails, the others are called within the same timeout, because reads can be repeated.

        :param seconds: timeout.
        :raises HistoryCompacted: *revision* was compacted.
        :raises StoreUnavailable: no response.
        """
        request = rpc.RangeRequest(key=key, range_end=end, limit=limit, revision=revision, count_only=count_only)
        operation = "listWithCount" if count_only else "list" if end else "get"
        end_at, tried = time.monotonic() + seconds, set[int]()
        while True:
            tried.add(self._current)
            try:
                response: rpc.RangeResponse = await self._call("Range", request, seconds, operation, kind)
                return response
            except StoreUnavailable:
                seconds = end_at - time.monotonic()
                if seconds <= 0 or self._current in tried:
                    raise

    async def put(
        self, key: bytes, value: bytes, *, expected: int, lease: int = 0, kind: str = ""
    ) -> tuple[int, rpc.RangeResponse | None]:
        """Store *value* if the key was last written at revision *expected*, 0 for a missing one.

        Returns the new revision, or 0 and the current value.

        :raises LeaseExpired: the lease has expired.
        :raises StoreRejected: the value is too large.
        :raises StoreUnavailable: no response; the write may have succeeded.
        """
        operation = "update" if expected else "create"
        change = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value, lease=lease))
        return await self._exchange(key, change, expected, operation, kind)

    async def delete(self, key: bytes, *, expected: int, kind: str = "") -> tuple[int, rpc.RangeResponse | None]:
        """Remove *key* if it was last written at revision *expected*; returns and raises as :meth:`put`."""
        change = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        return await self._exchange(key, change, expected, "delete", kind)

    async def bump(self, key: bytes, value: bytes, *, version: int) -> tuple[bool, rpc.TxnResponse]:
        """Store *value* if *key* was written *version* times; return whether it was, and the response."""
        compare = rpc.Compare(target=rpc.Compare.VERSION, key=key, version=version)
        request = rpc.TxnRequest(
            compare=[compare],
            success=[rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))],
            failure=[rpc.RequestOp(request_range=rpc.RangeRequest(key=key))],
        )
        response: rpc.TxnResponse = await self._call("Txn", request, CALL_SECONDS, "compact", "")
        return response.succeeded, response

    async def compact(self, revision: int) -> None:
        """Compact the history before *revision*; an earlier compaction is not an error."""
        with contextlib.suppress(HistoryCompacted):
            await self._call("Compact", rpc.CompactionRequest(revision=revision), CALL_SECONDS, "compact", "")

    async def grant(self, seconds: int) -> int:
        """Return a new lease of *seconds*."""
        response = await self._call("LeaseGrant", rpc.LeaseGrantRequest(TTL=seconds), CALL_SECONDS, "grant", "")
        return int(response.ID)

    async def sizes(self) -> dict[str, int]:
        """Return the database size in bytes by server, of those that respond.

        :raises StoreUnavailable: none of them responds.
        """
        found, problem = {}, StoreUnavailable("no servers")
        for endpoint in self._endpoints:
            try:
                response = _decode(
                    rpc.StatusResponse, await endpoint.calls["Status"](rpc.StatusRequest(), timeout=CALL_SECONDS)
                )
            except StoreUnavailable as error:
                problem = error
            except grpc.aio.AioRpcError as error:
                problem = StoreUnavailable(_text(error))
            else:
                found[endpoint.url] = int(response.dbSize)
        if not found:
            raise problem
        return found

    @contextlib.asynccontextmanager
    async def watch(self, key: bytes, end: bytes, start: int) -> AsyncIterator[Watching]:
        """Open a watch of the keys from *key* up to *end* (exclusive), starting at revision *start*.

        :raises StoreUnavailable: it cannot be opened.
        """
        endpoint = self._endpoints[self._current]
        call: Any = endpoint.watch(metadata=(("hasleader", "true"),))
        try:
            create = rpc.WatchCreateRequest(key=key, range_end=end, start_revision=start, progress_notify=True)
            try:
                await call.write(rpc.WatchRequest(create_request=create))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                self._fail_over(endpoint)
                raise StoreUnavailable(str(error)) from error
            yield Watching(call, lambda: self._fail_over(endpoint))
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the connections."""
        for endpoint in self._endpoints:
            await endpoint.channel.close(None)

    async def _exchange(
        self, key: bytes, change: rpc.RequestOp, expected: int, operation: str, kind: str
    ) -> tuple[int, rpc.RangeResponse | None]:
        compare = rpc.Compare(target=rpc.Compare.MOD, key=key, mod_revision=expected)
        failure = rpc.RequestOp(request_range=rpc.RangeRequest(key=key))
        request = rpc.TxnRequest(compare=[compare], success=[change], failure=[failure])
        response: rpc.TxnResponse = await self._call("Txn", request, CALL_SECONDS, operation, kind)
        if response.succeeded:
            return response.header.revision, None
        return 0, response.responses[0].response_range

    async def _call(self, name: str, request: Any, seconds: float, operation: str, kind: str) -> Any:
        started = time.perf_counter()
        failed = True
        endpoint = self._endpoints[self._current]
        service, kind_of_response = _SERVICES[name]
        try:
            with tracing.child(f"etcdserverpb.{service}/{name}", lambda: _rpc(service, name), kind="client"):
                metadata = tuple(tracing.outgoing().items()) or None
                received = await endpoint.calls[name](request, timeout=seconds, metadata=metadata)
            response = _decode(kind_of_response, received)
            failed = False
            return response
        except grpc.aio.AioRpcError as error:
            raise self._translate(error, endpoint) from error
        finally:
            if self._observe is not None:
                self._observe(operation, kind, time.perf_counter() - started, failed=failed)

    def _translate(self, error: grpc.aio.AioRpcError, endpoint: _Endpoint) -> Exception:
        """Return the exception of this module for *error*."""
        text = _text(error)
        if text == _COMPACTED:
            return HistoryCompacted(text)
        if text == _LEASE_NOT_FOUND:
            return LeaseExpired(text)
        code = error.code()
        if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.PERMISSION_DENIED):
            return StoreRejected(text)
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            self._fail_over(endpoint)
        return StoreUnavailable(text)

    def _fail_over(self, endpoint: _Endpoint) -> None:
        """Fail over to the next server, unless another call has done so."""
        if self._endpoints[self._current] is endpoint:
            self._current = (self._current + 1) % len(self._endpoints)


class Watching:
    """Open watch."""

    def __init__(self, call: Any, fail_over: Callable[[], None]) -> None:
        self._call, self._fail_over = call, fail_over

    async def request_progress(self) -> None:
        """Request a progress notification; a broken watch is detected by its reader."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(rpc.WatchRequest(progress_request=rpc.WatchProgressRequest()))

    async def responses(self) -> AsyncIterator[rpc.WatchResponse]:
        """Yield the responses of the watch.

        :raises HistoryCompacted: changes since the start were compacted.
        :raises StoreUnavailable: the watch has ended.
        """
        while True:
            try:
                received = await self._call.read()
            except grpc.aio.AioRpcError as error:
                self._fail_over()
                raise StoreUnavailable(_text(error)) from error
            if received is _END:
                self._fail_over()
                raise StoreUnavailable("watch closed")
            response = _decode(rpc.WatchResponse, received)
            if response.canceled:
                if response.compact_revision:
                    raise HistoryCompacted(response.cancel_reason)
                raise StoreUnavailable(response.cancel_reason or "watch was cancelled")
            yield response


def _decode(kind: Any, response: bytes) -> Any:
    """Return a response as a message; gRPC itself would return ``None`` for one that it fails to decode."""
    try:
        return kind.FromString(response)
    except DecodeError as error:
        raise StoreUnavailable("the server returned an invalid response") from error


def _rpc(service: str, name: str) -> tracing.Attributes:
    return {"rpc.system": "grpc", "rpc.service": f"etcdserverpb.{service}", "rpc.method": name}


def _text(error: grpc.aio.AioRpcError) -> str:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return "context deadline exceeded"
    details = error.details() or error.code().name
    return details if details.startswith("etcdserver: ") else f"etcd: {details}"


def _credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    ca = files.ca or ssl.get_default_verify_paths().cafile
    roots, key, certificate = (Path(name).read_bytes() if name else None for name in (ca, files.key, files.certificate))
    return grpc.ssl_channel_credentials(roots, key, certificate)


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key after all keys with *prefix*, which must not end with 0xff."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
