"""``nodeagent image``: list, pull, pin and garbage-collect the images of this node, through the container runtime.

Accepts the flags of the daemon (``--config``, ``--container-runtime-endpoint``, ``--root-dir``, …), so that runtime and
thresholds are the agent's. Exit codes: 0 done, 1 failed, 2 usage error or invalid configuration, 3 the runtime is
unreachable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nodeagent.base import identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.quantity import size_text
from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.printing import print_json, print_table
from nodeagent.components import provide_runtime
from nodeagent.config.flags import FlagParser, add_flags, read_flags
from nodeagent.config.load import Loaded, load
from nodeagent.contracts.context import ApiContext, ImageContext
from nodeagent.contracts.image_pins import read_pins, write_pins
from nodeagent.contracts.images import CollectableImage, ImageCollection, ImageCollector
from nodeagent.contracts.pull_progress import PullProgress
from nodeagent.contracts.runtime import Credentials, Image
from nodeagent.errors import ConfigError, NodeAgentError, PluginError, RuntimeUnavailable
from nodeagent.model.image_name import full_name, parse_image_name, with_default_tag
from nodeagent.plugin_context import new_context
from nodeagent.pluginmanager import PluginManager

_Action = Callable[[argparse.Namespace, Loaded], int]
_T = TypeVar("_T")
_SHORT_ID = 12
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    image = commands.add_parser("image", help="list, pull, pin and garbage-collect images")
    actions = image.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)
    _add(actions, "list", "list the images of the runtime", partial(_run, _list))
    _add(
        actions,
        "pull",
        "pull an image, with the credentials of the node's credential providers",
        partial(_run, _pull),
        image=True,
    )
    _add(actions, "pin", "exempt an image from garbage collection", partial(_run_offline, _pin), image=True)
    _add(actions, "unpin", "revoke the exemption of a pinned image", partial(_run_offline, _unpin), image=True)
    collect = _add(actions, "gc", "remove unused images according to age and disk usage", partial(_run, _collect))
    collect.add_argument("--dry-run", action="store_true", help="only print the images to remove and to retain")
    collect.add_argument("--all", action="store_true", help="remove all unused images, regardless of disk usage")


def _add(
    actions: Any, name: str, text: str, handler: Callable[[argparse.Namespace], int], *, image: bool = False
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text)
    if image:
        parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    add_flags(parser)
    parser.set_defaults(handler=handler)
    return parser


def _run(action: _Action, arguments: argparse.Namespace) -> int:
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # Errors are printed.
    try:
        return action(arguments, load(read_flags(arguments)))
    except (ConfigError, PluginError):
        raise
    except NodeAgentError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE if isinstance(error, RuntimeUnavailable) else ExitCode.PROBLEMS


def _run_offline(action: Callable[[argparse.Namespace, Path], int], arguments: argparse.Namespace) -> int:
    """Run an action that needs only the root directory, neither a configuration nor the runtime."""
    flags = read_flags(arguments)
    if flags.problems:
        raise ConfigError(flags.problems)
    identity.configure(flags.settings.identity)
    try:
        return action(arguments, Path(flags.settings.root_dir))
    except NodeAgentError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.PROBLEMS


# --- actions --------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace, loaded: Loaded) -> int:
    async def work(context: ImageContext, _: PluginManager) -> Sequence[Image]:
        return await context.images.list_images()

    images = _with_runtime(loaded, work)
    pins = read_pins(_root(loaded))
    reports = [_to_json(image, pins) for image in sorted(images, key=_name)]
    if arguments.output == "json":
        print_json(reports)
        return ExitCode.OK
    rows = [(one["name"], _short(one["id"]), size_text(one["sizeBytes"]), one["pinnedBy"] or "-") for one in reports]
    print_table(rows, ("IMAGE", "ID", "SIZE", "PINNED BY"))
    return ExitCode.OK


def _pull(arguments: argparse.Namespace, loaded: Loaded) -> int:
    try:
        name = parse_image_name(arguments.image)
    except ValueError as error:
        print(f"nodeagent: image name {arguments.image!r} {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    image = with_default_tag(arguments.image, name)

    async def work(context: ImageContext, plugins: PluginManager) -> tuple[str, Image | None]:
        credentials = await _credentials(context, plugins, name.repository)
        async with _progress(f"pulling {image}", context):
            ref = await _pull_with(context, image, credentials)
        return ref, await context.images.image_status(ref)

    started = time.monotonic()
    ref, status = _with_runtime(loaded, work)
    seconds = round(time.monotonic() - started, 3)
    size = status.size_bytes if status is not None else 0
    if arguments.output == "json":
        id = status.id if status is not None else ""
        print_json({"image": image, "ref": ref, "id": id, "sizeBytes": size, "seconds": seconds})
    else:
        print(f"pulled {image} as {ref} in {seconds:.1f} s, {size_text(size)}")
    return ExitCode.OK


def _pin(arguments: argparse.Namespace, root: Path) -> int:
    try:
        parse_image_name(arguments.image)
    except ValueError as error:
        if not _ID.fullmatch(arguments.image):
            print(f"nodeagent: image name {arguments.image!r} {error}", file=sys.stderr)
            return ExitCode.CONFIGURATION
    return _write(arguments, root, read_pins(root) | {full_name(arguments.image)}, "pinned")


def _unpin(arguments: argparse.Namespace, root: Path) -> int:
    pins, name = read_pins(root), full_name(arguments.image)
    if name not in pins:
        raise NodeAgentError(f"{name} is not pinned on this node")
    return _write(arguments, root, pins - {name}, "unpinned")


def _write(arguments: argparse.Namespace, root: Path, pins: frozenset[str], done: str) -> int:
    write_pins(root, pins)
    name = full_name(arguments.image)
    if arguments.output == "json":
        print_json({"image": name, "pins": sorted(pins)})
    else:
        print(f"{done} {name}")
    return ExitCode.OK


def _collect(arguments: argparse.Namespace, loaded: Loaded) -> int:
    async def work(context: ImageContext, plugins: PluginManager) -> ImageCollection:
        collector: ImageCollector = plugins.provide("nodeagent_provide_image_collector", context=context)
        return await collector.collect(everything=arguments.all, dry_run=arguments.dry_run)

    done = _with_runtime(loaded, work)
    failed = any(one.error for one in done.images)
    if arguments.output == "json":
        print_json(_collection(done, arguments.dry_run))
        return ExitCode.PROBLEMS if failed else ExitCode.OK
    print(f"Image filesystem: {done.used_percent} % used, {size_text(done.available_bytes)} available")
    removed = "remove" if arguments.dry_run else "removed"
    rows = [
        (_name(one.image), size_text(one.image.size_bytes), _time(one.last_used), *_outcome(one, removed))
        for one in done.images
    ]
    print_table(rows, ("IMAGE", "SIZE", "LAST USED", "OUTCOME", "REASON"))
    return ExitCode.PROBLEMS if failed else ExitCode.OK


# --- the runtime ----------------------------------------------------------------------------------------------


def _with_runtime(loaded: Loaded, work: Callable[[ImageContext, PluginManager], Coroutine[Any, Any, _T]]) -> _T:
    """Connect to the runtime as the agent does, run *work* and return its result."""
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)

    async def connected() -> _T:
        async with contextlib.AsyncExitStack() as cleanup, TaskOwner("image") as tasks:
            context = new_context(
                loaded.config,
                loaded.gates,
                loaded.settings,
                clock=SystemClock(),
                tasks=tasks,
                cleanup=cleanup,
                release=loaded.release,
            )
            images = provide_runtime(context.stage(ApiContext, api=None, new_api=None), plugins)
            return await work(images, plugins)

    return asyncio.run(connected())


async def _credentials(context: ImageContext, plugins: PluginManager, repository: str) -> list[Credentials]:
    credentials: list[Credentials] = []
    for provided in plugins.provide_all("nodeagent_provide_credential_providers", context=context):
        for provider in provided.value:
            try:
                credentials += await provider.credentials(repository)
            except PluginError as error:
                print(f"warning: {error}", file=sys.stderr)
    return list(dict.fromkeys(credentials))


async def _pull_with(context: ImageContext, image: str, credentials: Sequence[Credentials]) -> str:
    """Pull with the first of *credentials* that succeeds, or anonymously if there are none; return the image reference.

    :raises NodeAgentError: all attempts failed; the error of the last one.
    """
    *others, last = credentials or (None,)
    for credential in others:
        with contextlib.suppress(NodeAgentError):
            return await context.images.pull_image(image, credential)
    return await context.images.pull_image(image, last)


@asynccontextmanager
async def _progress(title: str, context: ImageContext) -> AsyncIterator[None]:
    """Display the elapsed time on a terminal, and the received bytes if the runtime reports them."""
    progress = PullProgress()

    async def display() -> None:
        for seconds in range(10**9):
            print(f"\r\x1b[K{title}: {seconds} s{_received(progress)}", end="", file=sys.stderr, flush=True)
            await asyncio.sleep(1)

    tasks = []
    if sys.stderr.isatty():
        tasks = [asyncio.create_task(progress.poll(context.images, asyncio.sleep)), asyncio.create_task(display())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _received(progress: PullProgress) -> str:
    if progress.supported is False:
        return ", this runtime does not report progress"
    return f", {progress} received" if progress.total_bytes else ""


# --- output ---------------------------------------------------------------------------------------------------


def _root(loaded: Loaded) -> Path:
    return Path(loaded.settings.root_dir)


def _to_json(image: Image, pins: frozenset[str]) -> dict[str, Any]:
    return {
        "name": _name(image),
        "id": image.id,
        "tags": list(image.repo_tags),
        "digests": list(image.repo_digests),
        "sizeBytes": image.size_bytes,
        "pinnedBy": "runtime" if image.pinned else "operator" if image.names & pins else "",
    }


def _collection(done: ImageCollection, dry_run: bool) -> dict[str, Any]:
    return {
        "dryRun": dry_run,
        "capacityBytes": done.capacity_bytes,
        "availableBytes": done.available_bytes,
        "usedPercent": done.used_percent,
        "wantedBytes": done.bytes_to_free,
        "freedBytes": done.freed_bytes,
        "images": [
            {
                "name": _name(one.image),
                "id": one.image.id,
                "sizeBytes": one.image.size_bytes,
                "firstSeen": _time(one.first_seen),
                "lastUsed": _time(one.last_used) if one.last_used else None,
                "goes": one.removal_reason,
                "keeps": one.retained_reason,
                "error": one.error,
            }
            for one in done.images
        ],
    }


def _outcome(one: CollectableImage, removed: str) -> tuple[str, str]:
    if one.error:
        return "failed", one.error
    if one.removal_reason:
        return removed, one.removal_reason
    return "retained", one.retained_reason or "no space needed"


def _name(image: Image) -> str:
    return next(iter((*image.repo_tags, *image.repo_digests)), "<none>")


def _short(id: str) -> str:
    return id.removeprefix("sha256:")[:_SHORT_ID]


def _time(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ") if at else "never"
