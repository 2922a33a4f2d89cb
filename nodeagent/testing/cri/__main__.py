"""``python -m nodeagent.testing.cri SOCKET``: serve CRI with a fake runtime until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from nodeagent.testing.cri.server import make_server
from nodeagent.testing.cri.services import ImageService, RuntimeService


async def _serve(socket: Path) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = make_server(socket, RuntimeService(), ImageService())
    await server.start()
    await stopping.wait()
    await server.stop(None)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m nodeagent.testing.cri", description="Serve a fake CRI runtime.")
    parser.add_argument("socket", metavar="SOCKET", type=Path, help="path of the Unix socket")
    asyncio.run(_serve(parser.parse_args().socket))


if __name__ == "__main__":
    main()
