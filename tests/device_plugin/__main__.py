"""The plugin as a process; it registers again when its socket is removed, as after a restart of the agent."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

import grpc.aio

from tests.device_plugin.control import Control
from tests.device_plugin.service import DevicePluginService, register, serve


async def run(arguments: argparse.Namespace) -> None:
    """Serve until terminated."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    service = DevicePluginService(
        Control(arguments.state), preferences=arguments.preferences, pre_start=arguments.pre_start
    )
    socket = arguments.directory / arguments.endpoint
    while not stop.is_set():
        async with serve(service, socket):
            if arguments.serve_only:
                await stop.wait()
                return
            try:
                await register(arguments.directory, arguments.endpoint, arguments.resource)
            except grpc.aio.AioRpcError as error:
                print("rejected:", error.details(), flush=True)
                await asyncio.sleep(0.2)
                continue
            print("registered", flush=True)
            while not stop.is_set() and socket.exists():
                await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resource", default="example.com/widget")
    parser.add_argument("--directory", type=Path, required=True, help="the agent's directory device-plugins")
    parser.add_argument("--state", type=Path, required=True, help="directory of devices, faults and calls")
    parser.add_argument("--endpoint", default="w.sock")
    parser.add_argument("--serve-only", action="store_true", help="do not register")
    parser.add_argument("--preferences", action="store_true")
    parser.add_argument("--pre-start", action="store_true")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
