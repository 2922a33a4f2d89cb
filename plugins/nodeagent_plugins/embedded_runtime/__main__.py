"""``python -m nodeagent_plugins.embedded_runtime --root DIR --listen unix:///path``: the runtime's own process."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path


def main() -> int:
    """Run the runtime until SIGTERM; exit with 2 when it cannot start as asked."""
    parser = argparse.ArgumentParser(prog="nodeagent-embedded-runtime", description=__doc__)
    parser.add_argument("--root", required=True, type=Path, help="where images, containers and their state live")
    parser.add_argument("--listen", required=True, help="unix:///path of the socket to serve CRI on")
    parser.add_argument("--runner", default="", help="crun, runc or own; the first of these that works, if not given")
    parser.add_argument(
        "--network", default="", choices=("", "bridge", "host"), help="a bridge if possible, if not given"
    )
    parser.add_argument("--bridge", default="nodeagent0", help="name of the bridge")
    parser.add_argument("--pod-cidr", default="10.88.64.0/20", help="where pods get addresses until a node's is told")
    parser.add_argument(
        "--insecure-registry", action="append", default=[], metavar="HOST[:PORT]", help="pull from it without TLS"
    )
    given = parser.parse_args()
    if not given.listen.startswith("unix:///"):
        parser.error("--listen must be a Unix socket, unix:///path")
    root = given.root.resolve()

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # children only ever run other programs
    import uvloop
    from nodeagent_plugins.embedded_runtime.daemon import Daemon, InUseError, Options

    options = Options(
        root=root,
        socket=Path(given.listen.removeprefix("unix://")),
        runner=given.runner,
        network=given.network,
        bridge=given.bridge,
        subnet=given.pod_cidr,
        insecure_registries=given.insecure_registry,
    )
    try:
        daemon = Daemon(options)
    except (ValueError, OSError, InUseError) as error:
        print(f"embedded runtime: {error}", file=sys.stderr)
        return 2
    uvloop.run(daemon.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
