"""The driver as a process."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from tests.dra_driver.api import ClaimApi
from tests.dra_driver.control import Control
from tests.dra_driver.service import HEALTH, PROTOCOLS, DriverService, serve, serve_registration


async def run(arguments: argparse.Namespace) -> None:
    """Serve until terminated."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    name, root = arguments.name, arguments.root
    service = DriverService(name, Control(arguments.state), ClaimApi(arguments.facts), arguments.cdi)
    endpoint = root / "plugins" / name / f"{arguments.instance}.sock"
    registration = root / "plugins_registry" / f"{name}-{arguments.instance}.sock"
    async with (
        serve(service, endpoint, arguments.services),
        serve_registration(name, endpoint, arguments.services, registration),
    ):
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="gpu.example.com")
    parser.add_argument("--instance", default="dra", help="name of the sockets")
    parser.add_argument("--root", type=Path, required=True, help="the agent's root directory")
    parser.add_argument("--state", type=Path, required=True, help="directory of faults and calls")
    parser.add_argument("--cdi", type=Path, required=True, help="directory of CDI specs")
    parser.add_argument("--facts", type=Path, required=True, help="file ready.json of the API server")
    parser.add_argument("--services", nargs="+", default=["v1.DRAPlugin", HEALTH], choices=[*PROTOCOLS, HEALTH])
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
