"""Konnectivity proxy server at a Unix socket, which connects to local ports instead of the requested addresses."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from apiserver_stub.egress.proto.konnectivity_pb2 import (
    CLOSE_REQ,
    CLOSE_RSP,
    DATA,
    DIAL_REQ,
    DIAL_RSP,
    CloseResponse,
    Data,
    DialResponse,
    Packet,
)

_READ_BYTES = 16 * 1024
_END = None


class ProxyService:
    """The service: connections to the port that *leads_to* returns for an address, 0 to reject it."""

    def __init__(self, leads_to: Callable[[str], int]) -> None:
        self._leads_to, self._numbers = leads_to, itertools.count(7)
        self.addresses: list[str] = []
        self.closed: list[int] = []
        """Connections that the client closed."""

    def proxy(self, packets: Iterator[Packet], context: grpc.ServicerContext) -> Iterator[Packet]:
        first = next(packets)
        assert first.type == DIAL_REQ and first.dialRequest.protocol == "tcp"
        address, number = first.dialRequest.address, next(self._numbers)
        self.addresses.append(address)
        port, reply = self._leads_to(address), DialResponse(random=first.dialRequest.random, connectID=number)
        if not port:
            reply.error = f"no route to {address}"
            yield Packet(type=DIAL_RSP, dialResponse=reply)
            return
        with socket.create_connection(("127.0.0.1", port)) as far:
            yield Packet(type=DIAL_RSP, dialResponse=reply)
            received: queue.Queue[Any] = queue.Queue()
            threads = [
                threading.Thread(target=self._read, args=(far, received), daemon=True),
                threading.Thread(target=self._write, args=(packets, far, number), daemon=True),
            ]
            for thread in threads:
                thread.start()
            context.add_callback(lambda: received.put(_END))
            try:
                while (data := received.get()) is not _END:
                    yield Packet(type=DATA, data=Data(connectID=number, data=data))
                yield Packet(type=CLOSE_RSP, closeResponse=CloseResponse(connectID=number))
            finally:
                _shut_down(far)  # Ends the reading thread, which a closed socket does not.

    def _read(self, far: socket.socket, received: queue.Queue[Any]) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(_READ_BYTES):
                received.put(data)
        received.put(_END)

    def _write(self, packets: Iterator[Packet], far: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, grpc.RpcError):
            for packet in packets:
                if packet.type == CLOSE_REQ:
                    self.closed.append(packet.closeRequest.connectID)
                    break
                far.sendall(packet.data.data)
        _shut_down(far)


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_server(path: Path, leads_to: Callable[[str], int]) -> Iterator[ProxyService]:
    """Run a proxy server at the Unix socket *path*."""
    service = ProxyService(leads_to)
    method = grpc.stream_stream_rpc_method_handler(
        service.proxy, request_deserializer=Packet.FromString, response_serializer=Packet.SerializeToString
    )
    with ThreadPoolExecutor(32) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("ProxyService", {"Proxy": method}),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield service
        finally:
            server.stop(None).wait()
