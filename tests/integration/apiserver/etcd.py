"""etcd server on loopback, and direct access to its content."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.storage.etcd.client import EtcdClient, TlsFiles, prefix_end
from apiserver_stub.storage.etcd.proto.kv_pb2 import KeyValue
from tests.integration.programs import free_port

from .in_process import start
from .test_limits import Client

START_SECONDS = 20.0


class Etcd:
    """etcd server with its data in *directory*."""

    def __init__(self, directory: Path, *arguments: str, files: TlsFiles | None = None) -> None:
        self._files = files or TlsFiles()
        self._arguments, self._directory = arguments, directory
        self.port, self._peer = free_port(), free_port()
        self.url = f"{'https' if files else 'http'}://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start with the previous port and data, and wait until it responds."""
        peer = f"http://127.0.0.1:{self._peer}"
        self._directory.mkdir(exist_ok=True)
        with (self._directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "etcd",
                    f"--data-dir={self._directory / 'data'}",
                    f"--listen-client-urls={self.url}",
                    f"--advertise-client-urls={self.url}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=default={peer}",
                    "--log-level=error",
                    *self._arguments,
                ],
                stdout=log,
                stderr=log,
            )
        async with self.client() as client, asyncio.timeout(START_SECONDS):
            while True:
                try:
                    await client.range(b"health")
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.05)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[EtcdClient]:
        client = EtcdClient([self.url], self._files)
        try:
            yield client
        finally:
            await client.close()

    async def stored(self, prefix: str) -> dict[str, KeyValue]:
        """Return the stored keys and values under *prefix*."""
        async with self.client() as client:
            found = await client.range(prefix.encode(), prefix_end(prefix.encode()))
        return {item.key.decode(): item for item in found.kvs}


@asynccontextmanager
async def running_etcd(directory: Path, *arguments: str, files: TlsFiles | None = None) -> AsyncIterator[Etcd]:
    etcd = Etcd(directory, *arguments, files=files)
    try:
        await etcd.start()
        yield etcd
    finally:
        if etcd.process is not None and etcd.process.poll() is None:
            etcd.signal(signal.SIGCONT)
            etcd.kill()


@asynccontextmanager
async def serving(data: Path, *arguments: str) -> AsyncIterator[Client]:
    """Yield an administrator's client of a server with *arguments*."""
    running = await start(data, *arguments)
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(running, session, running.token)
    finally:
        await running.stop()
