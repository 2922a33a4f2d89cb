"""``nodeagent logs``: print container and system logs from an agent's server, with the user's credentials.

Exit codes: 0 printed, 1 the server rejected the request or has no such log, 2 usage error, 3 the server is unreachable.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import math
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nodeagent.base.duration import Duration
from nodeagent.base.structs import Struct
from nodeagent.cli import agent_server
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    import aiohttp

MAX_LINE_BYTES = 1024 * 1024
"""Longer lines are printed in pieces, which bounds memory usage."""
INTERRUPTED = 130
_COLORS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_ENTRY = re.compile(r"<a href=[^>]*>(.*?)</a>")
Query = list[tuple[str, str]]


class LogRequestError(NodeAgentError):
    """The server rejected the request, or does not have the log; the message is the server's."""

    reason = "LogRequestError"


class Stream(Struct, frozen=True):
    """Request for one log."""

    label: str
    """Prefix of its lines if several logs are printed."""
    path: str
    query: tuple[tuple[str, str], ...]


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    logs = commands.add_parser("logs", help="print logs of pods or of the system")
    logs.add_argument(
        "names", nargs="*", metavar="[NAMESPACE/]POD", help="pods; with --system: files in the node's /var/log"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="stream the logs")
    logs.add_argument("--tail", type=_count, metavar="N", help="print only the last N lines of each log")
    logs.add_argument(
        "--since", type=_duration, metavar="DURATION", help="print only logs newer than a duration, such as 5m or 1h30m"
    )
    logs.add_argument("--timestamps", action="store_true", help="print the time of each line")
    logs.add_argument(
        "-p", "--previous", action="store_true", help="print the logs of the previous instance of the container"
    )
    logs.add_argument("-c", "--container", default="", help="print only the logs of this container (default: all)")
    logs.add_argument("--system", action="store_true", help="print logs of the system instead of pods")
    logs.add_argument(
        "--query", action="append", default=[], metavar="SERVICE", help="print the log of a service; with --system"
    )
    logs.add_argument("--pattern", default="", help="print only lines that match a regular expression; with --query")
    logs.add_argument(
        "--boot", type=_boot, metavar="N", help="print logs of this boot (0), the previous one (-1), …; with --query"
    )
    agent_server.add_flags(logs)
    logs.set_defaults(handler=lambda arguments: show(arguments, logs))


def show(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the requested logs and return the exit code."""
    if problem := _usage_error(arguments):
        parser.error(problem)
    try:
        return asyncio.run(_show(arguments, agent_server.resolve(arguments)))
    except agent_server.ServerUnreachable as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except LogRequestError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    except KeyboardInterrupt:
        return INTERRUPTED


def _usage_error(arguments: argparse.Namespace) -> str:
    """Return an error for options that cannot be combined; empty if there is none."""
    if not arguments.system:
        if arguments.query or arguments.pattern or arguments.boot is not None:
            return "--query, --pattern and --boot require --system"
        return "" if arguments.names else "specify a pod or --system"
    if arguments.previous or arguments.container or arguments.timestamps:
        return "--previous, --container and --timestamps cannot be used with --system"
    if arguments.query and arguments.names:
        return "--query cannot be used with files"
    if (arguments.since or arguments.pattern or arguments.boot is not None) and not arguments.query:
        return "--since, --pattern and --boot require --query if --system is set"
    return ""


async def _show(arguments: argparse.Namespace, endpoint: agent_server.ServerEndpoint) -> int:
    import aiohttp

    try:
        async with agent_server.session(endpoint) as session:
            if arguments.system and not arguments.query and not arguments.names:
                print("\n".join(_entries(await _text(session, "/logs/"))))
                return ExitCode.OK
            streams = _system_streams(arguments) if arguments.system else await _pod_streams(session, arguments)
            return await _print_all(session, streams)
    except aiohttp.ClientConnectorCertificateError as error:
        cause = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        raise agent_server.ServerUnreachable(
            f"failed to verify the certificate of {endpoint.url}: {cause}; use --certificate-authority "  # wording: ok
            "with its CA certificate, or with the certificate itself if it is self-signed (in the agent's --cert-dir)"
        ) from error
    except (aiohttp.ClientConnectionError, TimeoutError) as error:
        raise agent_server.ServerUnreachable(
            f"failed to connect to {endpoint.url}: {str(error) or 'timed out'}"
        ) from error


# --- requests -------------------------------------------------------------------------------------------------


async def _pod_streams(session: aiohttp.ClientSession, arguments: argparse.Namespace) -> list[Stream]:
    query: Query = [("follow", "true")] * arguments.follow + [("previous", "true")] * arguments.previous
    query += [("timestamps", "true")] * arguments.timestamps
    if arguments.tail is not None:
        query.append(("tailLines", str(arguments.tail)))
    if arguments.since is not None:
        query.append(("sinceSeconds", str(max(1, math.ceil(arguments.since.seconds)))))
    names = [_pod_name(name) for name in arguments.names]
    containers = {pod: [arguments.container] for pod in names}
    if not arguments.container:
        containers = await _containers(session, names)
    return [
        Stream(
            f"{namespace}/{pod} {container}",
            f"/containerLogs/{quote(namespace)}/{quote(pod)}/{quote(container)}",
            tuple(query),
        )
        for (namespace, pod), pod_containers in containers.items()
        for container in pod_containers
    ]


async def _containers(
    session: aiohttp.ClientSession, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return the containers of each pod that have started; waiting ones have no log yet.

    :raises LogRequestError: a pod is not on the node.
    """
    import msgspec

    listing = msgspec.json.decode(await _text(session, "/pods"))
    pods = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in listing.get("items") or ()}
    containers = {}
    for namespace, name in names:
        pod = pods.get((namespace, name))
        if pod is None:
            raise LogRequestError(f'pod "{namespace}/{name}" not found on this node')
        status = pod.get("status") or {}
        started = [
            each["name"]
            for group in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            for each in status.get(group) or ()
            if each.get("containerID") or each.get("lastState")
        ]
        containers[namespace, name] = started or [pod["spec"]["containers"][0]["name"]]
    return containers


def _system_streams(arguments: argparse.Namespace) -> list[Stream]:
    query: Query = [("follow", "true")] * arguments.follow
    if arguments.tail is not None:
        query.append(("tailLines", str(arguments.tail)))
    if not arguments.query:
        return [Stream(name, f"/logs/{quote(name.lstrip('/'))}", tuple(query)) for name in arguments.names]
    if arguments.since is not None:
        since = datetime.now(UTC) - timedelta(seconds=arguments.since.seconds)
        query.append(("sinceTime", since.strftime("%Y-%m-%dT%H:%M:%SZ")))
    if arguments.pattern:
        query.append(("pattern", arguments.pattern))
    if arguments.boot is not None:
        query.append(("boot", str(arguments.boot)))
    services = tuple(("query", service) for service in arguments.query)
    return [Stream(" ".join(arguments.query), "/logs/", (*services, *query))]


# --- reading and printing -------------------------------------------------------------------------------------


async def _print_all(session: aiohttp.ClientSession, streams: Sequence[Stream]) -> int:
    """Print the logs concurrently; the lines of several are labeled. A failed one does not affect the others."""
    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    pods = list(dict.fromkeys(stream.label.partition(" ")[0] for stream in streams))  # One color per pod.
    labels = [
        _label(stream, pods.index(stream.label.partition(" ")[0]), colored) if len(streams) > 1 else b""
        for stream in streams
    ]
    results = await asyncio.gather(
        *(_print(session, stream, label) for stream, label in zip(streams, labels, strict=True)), return_exceptions=True
    )
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, LogRequestError):
            raise failure
        print(f"nodeagent: {failure}", file=sys.stderr)
    return ExitCode.PROBLEMS if failures else ExitCode.OK


async def _print(session: aiohttp.ClientSession, stream: Stream, label: bytes) -> None:
    async with session.get(stream.path, params=stream.query, allow_redirects=False) as response:
        await _raise_for_status(response, stream.label)
        if response.content_type == "text/html":  # A directory listing instead of a log.
            remedy = (
                "set enableSystemLogQuery and the feature gate NodeLogQuery"
                if stream.path == "/logs/"
                else "specify a file in it"
            )
            raise LogRequestError(f"{stream.label}: the node returned a directory listing; {remedy}")
        if not label:
            async for piece in response.content.iter_any():
                _write(piece)
            return
        rest = b""
        async for piece in response.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            if lines:
                _write(b"".join(b"%s%s\n" % (label, line) for line in lines))
        if rest:
            _write(b"%s%s\n" % (label, rest))


async def _text(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path, allow_redirects=False) as response:
        await _raise_for_status(response, path)
        return await response.text(errors="replace")


async def _raise_for_status(response: aiohttp.ClientResponse, subject: str) -> None:
    """Raise an error with the server's message unless the status is 200.

    :raises LogRequestError: the status is not 200.
    """
    if response.status != 200:
        message = (await response.content.read(2000)).decode(errors="replace").strip()
        raise LogRequestError(f"{subject}: {message or response.reason} ({response.status})")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _label(stream: Stream, index: int, colored: bool) -> bytes:
    text = f"[{stream.label}]"
    return (f"\x1b[{_COLORS[index % len(_COLORS)]}m{text}\x1b[0m " if colored else f"{text} ").encode()


def _entries(page: str) -> list[str]:
    return [html.unescape(name) for name in _ENTRY.findall(page)]


def _pod_name(text: str) -> tuple[str, str]:
    namespace, _, name = text.removeprefix("pod/").rpartition("/")
    return namespace or "default", name


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError("must be at least 0")
    return count


def _boot(text: str) -> int:
    boot = int(text)
    if boot > 0:
        raise argparse.ArgumentTypeError("must be 0 or less")
    return boot


def _duration(text: str) -> Duration:
    try:
        duration = Duration.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
    if duration.seconds <= 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return duration
