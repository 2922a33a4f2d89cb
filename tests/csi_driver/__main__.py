"""The driver as a process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from tests.csi_driver.server import Registrar, serve
from tests.csi_driver.service import ALL_CAPABILITIES, NodeService
from tests.csi_driver.storage import BindMounts, Storage


async def run(arguments: argparse.Namespace) -> None:
    """Serve until terminated."""
    storage = Storage(arguments.directory, BindMounts())
    topology = dict(pair.split("=", 1) for pair in arguments.topology)
    service = NodeService(
        arguments.name,
        storage,
        capabilities=arguments.capabilities,
        node_id=arguments.node_id,
        max_volumes=arguments.max_volumes,
        topology=topology or None,
    )
    socket = arguments.directory / "csi.sock"
    registrar = Registrar(arguments.name, str(socket), service=service)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with contextlib.AsyncExitStack() as servers:
        await servers.enter_async_context(serve(service, socket))
        if arguments.registry is not None:
            await servers.enter_async_context(registrar.serve(arguments.registry / f"{arguments.name}-reg.sock"))
        print("ready", flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="test.csi.example")
    parser.add_argument("--directory", type=Path, required=True, help="state, volumes, csi.sock and faults.json")
    parser.add_argument("--registry", type=Path, help="the agent's directory plugins_registry")
    parser.add_argument("--node-id", default="node-1")
    parser.add_argument("--max-volumes", type=int, default=0)
    parser.add_argument("--capabilities", type=int, nargs="*", default=list(ALL_CAPABILITIES[:5]))
    parser.add_argument("--topology", nargs="*", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
