"""``nodeagent-runtime --root DIR --listen unix:///path``: the embedded runtime's own process."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import __version__
from nodeagent_plugins.embedded_runtime import hairpin

if TYPE_CHECKING:
    from nodeagent_plugins.embedded_runtime.daemon import Daemon


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="nodeagent-runtime", description=__doc__)
    parser.add_argument("--root", type=Path, help="where images, containers and their state live")
    parser.add_argument("--listen", required=True, help="unix:///path of the socket to serve CRI on")
    parser.add_argument("--runner", default="", help="crun, runc or own; the first of these that works, if not given")
    parser.add_argument(
        "--network", default="", choices=("", "bridge", "host"), help="a bridge if possible, if not given"
    )
    parser.add_argument("--bridge", default="nodeagent0", help="name of the bridge")
    parser.add_argument("--pod-cidr", default="10.88.64.0/20", help="subnet of the pods until the node's is set")
    parser.add_argument(
        "--hairpin-mode",
        default=hairpin.PROMISCUOUS_BRIDGE,
        choices=hairpin.MODES,
        help="access of a pod to itself through a Service; agents set the mode of their configuration",
    )
    parser.add_argument(
        "--insecure-registry", action="append", default=[], metavar="HOST[:PORT]", help="pull from it without TLS"
    )
    parser.add_argument(
        "--cdi-spec-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="directory of CDI specs; of several, a later one takes precedence (default: /etc/cdi, /var/run/cdi)",
    )
    parser.add_argument(
        "--detach", action="store_true", help="run in the background and log to ROOT/runtime.log; return once it serves"
    )
    parser.add_argument(
        "--import",
        dest="import_archive",
        type=Path,
        metavar="ARCHIVE",
        help="import the images of an OCI or docker archive into the runtime at the endpoint, and print their names",
    )
    parser.add_argument("--version", action="version", version=f"nodeagent-runtime {__version__}")
    return parser


def main() -> int:
    """Run the runtime until SIGTERM; exit with 2 if it cannot start."""
    parser = build_parser()
    given = parser.parse_args()
    if not given.listen.startswith("unix:///"):
        parser.error("--listen must be a Unix socket, unix:///path")
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # Child processes only exec.
    if given.import_archive is not None:
        return _import(given.listen, given.import_archive.resolve())
    if given.root is None:
        parser.error("--root is required")
    root = given.root.resolve()
    from nodeagent_plugins.embedded_runtime.userns import become_root, release

    ready: Callable[[], None] = _detach(root) if given.detach else _nothing
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o711)
        become_root(root)
    except OSError as error:
        print(f"embedded runtime: {error}", file=sys.stderr)
        return 2

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    import uvloop

    from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES
    from nodeagent.base.malloc import trim_eagerly
    from nodeagent_plugins.embedded_runtime.daemon import Daemon, InUseError, Options

    options = Options(
        root=root,
        socket=Path(given.listen.removeprefix("unix://")),
        runner=given.runner,
        network=given.network,
        bridge=given.bridge,
        subnet=given.pod_cidr,
        hairpin_mode=given.hairpin_mode,
        insecure_registries=given.insecure_registry,
        cdi_directories=given.cdi_spec_dir or DEFAULT_DIRECTORIES,
    )
    trim_eagerly()
    try:
        daemon = Daemon(options)
    except (ValueError, OSError, InUseError) as error:
        print(f"embedded runtime: {error}", file=sys.stderr)
        return 2
    uvloop.run(_serve(daemon, ready))
    if daemon.empty:
        release(root)
    return 0


async def _serve(daemon: Daemon, ready: Callable[[], None]) -> None:
    from nodeagent.base.aio import SystemClock, TaskOwner
    from nodeagent.base.memory_trim import run_memory_trim
    from nodeagent.base.service_manager import ServiceManager

    manager = ServiceManager()

    def serving() -> None:
        ready()
        manager.ready(daemon.describe())

    async with TaskOwner("process") as tasks:
        tasks.start(manager.run_watchdog(daemon.describe, SystemClock()), "watchdog")
        tasks.start(run_memory_trim(SystemClock()), "memory trim")
        await daemon.run(serving)
        manager.stopping()


def _import(endpoint: str, archive: Path) -> int:
    import grpc

    from nodeagent_plugins.embedded_runtime.server import request_import

    try:
        names = request_import(endpoint, archive)
    except grpc.RpcError as error:
        print(f"embedded runtime: {error.details()}", file=sys.stderr)
        return 1
    print("\n".join(names))
    return 0


def _nothing() -> None:
    """Do nothing, because no process waits for the readiness."""


def _detach(root: Path) -> Callable[[], None]:
    """Continue in a daemon process; return the function that reports readiness to the parent process."""
    root.mkdir(parents=True, exist_ok=True, mode=0o711)
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        with os.fdopen(reader, "rb") as result:
            serves = result.read() == b"ok"
        if not serves:
            print((root / "runtime.log").read_text(errors="replace")[-2000:], file=sys.stderr)
        os._exit(0 if serves else 2)
    os.close(reader)
    os.setsid()
    log = os.open(root / "runtime.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)

    def ready() -> None:
        os.write(writer, b"ok")
        os.close(writer)

    return ready


if __name__ == "__main__":
    sys.exit(main())
