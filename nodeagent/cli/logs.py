"""``nodeagent logs``: logs of containers and of the system, from an agent's server, with the caller's credentials.

Exit codes: 0 shown, 1 the server refuses or has no such log, 2 wrong usage, 3 the server cannot be reached.
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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nodeagent.base.duration import Duration
from nodeagent.cli import agent_server
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    import aiohttp

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is shown in pieces, so that memory stays flat."""
INTERRUPTED = 130
_COLOURS = (36, 33, 35, 32, 34, 96, 93, 95, 92, 94)
_ENTRY = re.compile(r"<a href=[^>]*>(.*?)</a>")
Query = list[tuple[str, str]]


class Refusal(NodeAgentError):
    """The server answered that it will not, or cannot; the text is its own."""

    reason = "Refused"


@dataclass(frozen=True, slots=True)
class Stream:
    """One log: where it is served, and how its lines are marked when there are others."""

    label: str
    path: str
    query: tuple[tuple[str, str], ...]


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    logs = commands.add_parser("logs", help="show logs of pods, or of the system")
    logs.add_argument(
        "names", nargs="*", metavar="[NAMESPACE/]POD", help="pods; with --system files below /var/log of the node"
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on as the logs grow")
    logs.add_argument("--tail", type=_count, metavar="N", help="the last N lines of each log alone")
    logs.add_argument("--since", type=_duration, metavar="DURATION", help="what is younger alone, such as 5m or 1h30m")
    logs.add_argument("--timestamps", action="store_true", help="the time before each line")
    logs.add_argument("-p", "--previous", action="store_true", help="of the run before the last restart")
    logs.add_argument("-c", "--container", default="", help="of this container alone; else of all of the pod")
    logs.add_argument("--system", action="store_true", help="logs of the system instead of pods")
    logs.add_argument("--query", action="append", default=[], metavar="SERVICE", help="a service's log, with --system")
    logs.add_argument("--pattern", default="", help="lines that match alone, with --query")
    logs.add_argument("--boot", type=_boot, metavar="N", help="of this boot (0), the one before (-1), …, with --query")
    agent_server.add_flags(logs)
    logs.set_defaults(handler=lambda arguments: show(arguments, logs))


def show(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print what is asked for and return the exit code."""
    if problem := _misuse(arguments):
        parser.error(problem)
    try:
        return asyncio.run(_show(arguments, agent_server.find(arguments)))
    except agent_server.NoServer as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE
    except Refusal as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS
    except KeyboardInterrupt:
        return INTERRUPTED


def _misuse(arguments: argparse.Namespace) -> str:
    """Return which options do not go together, or nothing."""
    if not arguments.system:
        if arguments.query or arguments.pattern or arguments.boot is not None:
            return "--query, --pattern and --boot need --system"
        return "" if arguments.names else "a pod is needed, or --system"
    if arguments.previous or arguments.container or arguments.timestamps:
        return "--previous, --container and --timestamps are for pods, not for --system"
    if arguments.query and arguments.names:
        return "--query and files do not go together"
    if (arguments.since or arguments.pattern or arguments.boot is not None) and not arguments.query:
        return "--since, --pattern and --boot need --query with --system"
    return ""


async def _show(arguments: argparse.Namespace, place: agent_server.Place) -> int:
    import aiohttp

    try:
        async with agent_server.session(place) as session:
            if arguments.system and not arguments.query and not arguments.names:
                print("\n".join(_entries(await _text(session, "/logs/"))))
                return ExitCode.OK
            streams = _system_streams(arguments) if arguments.system else await _pod_streams(session, arguments)
            return await _print_all(session, streams)
    except aiohttp.ClientConnectorCertificateError as error:
        cause = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        raise agent_server.NoServer(
            f"{place.url} shows a certificate that cannot be trusted: {cause}; name its authority, or the certificate "
            "itself if it is self-signed (in the agent's --cert-dir), with --certificate-authority"
        ) from error
    except (aiohttp.ClientConnectionError, TimeoutError) as error:
        raise agent_server.NoServer(f"{place.url} cannot be reached: {str(error) or 'not in time'}") from error


# --- which logs -----------------------------------------------------------------------------------------------


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
        for (namespace, pod), found in containers.items()
        for container in found
    ]


async def _containers(
    session: aiohttp.ClientSession, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    """Return the containers of each pod that have begun: those that wait have no log yet.

    :raises Refusal: the node does not have one of the pods.
    """
    import msgspec

    listing = msgspec.json.decode(await _text(session, "/pods"))
    pods = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in listing.get("items") or ()}
    found = {}
    for namespace, name in names:
        pod = pods.get((namespace, name))
        if pod is None:
            raise Refusal(f'this node does not have the pod "{namespace}/{name}"')
        status = pod.get("status") or {}
        began = [
            each["name"]
            for group in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            for each in status.get(group) or ()
            if each.get("containerID") or each.get("lastState")
        ]
        found[namespace, name] = began or [pod["spec"]["containers"][0]["name"]]
    return found


def _system_streams(arguments: argparse.Namespace) -> list[Stream]:
    query: Query = [("follow", "true")] * arguments.follow
    if arguments.tail is not None:
        query.append(("tailLines", str(arguments.tail)))
    if not arguments.query:
        return [Stream(name, f"/logs/{quote(name.lstrip('/'))}", tuple(query)) for name in arguments.names]
    if arguments.since is not None:
        moment = datetime.now(UTC) - timedelta(seconds=arguments.since.seconds)
        query.append(("sinceTime", moment.strftime("%Y-%m-%dT%H:%M:%SZ")))
    if arguments.pattern:
        query.append(("pattern", arguments.pattern))
    if arguments.boot is not None:
        query.append(("boot", str(arguments.boot)))
    services = tuple(("query", service) for service in arguments.query)
    return [Stream(" ".join(arguments.query), "/logs/", (*services, *query))]


# --- reading and printing -------------------------------------------------------------------------------------


async def _print_all(session: aiohttp.ClientSession, streams: Sequence[Stream]) -> int:
    """Print every log, at once; the lines of several are marked. One that fails does not end the others."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    pods = list(dict.fromkeys(stream.label.partition(" ")[0] for stream in streams))  # a colour each
    labels = [
        _label(stream, pods.index(stream.label.partition(" ")[0]), coloured) if len(streams) > 1 else b""
        for stream in streams
    ]
    results = await asyncio.gather(
        *(_print(session, stream, label) for stream, label in zip(streams, labels, strict=True)), return_exceptions=True
    )
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, Refusal):
            raise failure
        print(f"nodeagent: {failure}", file=sys.stderr)
    return ExitCode.PROBLEMS if failures else ExitCode.OK


async def _print(session: aiohttp.ClientSession, stream: Stream, label: bytes) -> None:
    async with session.get(stream.path, params=stream.query, allow_redirects=False) as answer:
        await _refused(answer, stream.label)
        if answer.content_type == "text/html":  # a list of files in the place of a log
            remedy = (
                "set enableSystemLogQuery and the gate NodeLogQuery" if stream.path == "/logs/" else "name a file in it"
            )
            raise Refusal(f"{stream.label}: the node answers with a directory; {remedy}")
        if not label:
            async for piece in answer.content.iter_any():
                _write(piece)
            return
        rest = b""
        async for piece in answer.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            if lines:
                _write(b"".join(b"%s%s\n" % (label, line) for line in lines))
        if rest:
            _write(b"%s%s\n" % (label, rest))


async def _text(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path, allow_redirects=False) as answer:
        await _refused(answer, path)
        return await answer.text(errors="replace")


async def _refused(answer: aiohttp.ClientResponse, what: str) -> None:
    """Raise unless the answer is what was asked for."""
    if answer.status != 200:
        said = (await answer.content.read(2000)).decode(errors="replace").strip()
        raise Refusal(f"{what}: {said or answer.reason} ({answer.status})")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _label(stream: Stream, index: int, coloured: bool) -> bytes:
    text = f"[{stream.label}]"
    return (f"\x1b[{_COLOURS[index % len(_COLOURS)]}m{text}\x1b[0m " if coloured else f"{text} ").encode()


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
        found = Duration.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error
    if found.seconds <= 0:
        raise argparse.ArgumentTypeError("must be longer than nothing")
    return found
