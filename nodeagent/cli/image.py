"""``nodeagent image``: list, pull, pin and collect the images of this node, through the runtime's own endpoint.

The flags are the daemon's (``--config``, ``--container-runtime-endpoint``, ``--root-dir``, …), so that the runtime and
the rules are those of the agent. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no runtime answers.
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
from nodeagent.config.flags import FlagParser, add_flags, read_flags
from nodeagent.config.load import Loaded, load
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.image_pins import read_pins, write_pins
from nodeagent.contracts.images import CollectableImage, ImageCollection, ImageCollector
from nodeagent.contracts.pull_progress import PullProgress
from nodeagent.contracts.runtime import Credentials, Image
from nodeagent.errors import ConfigError, NodeAgentError, PluginError, RuntimeUnavailable
from nodeagent.model.image_name import full_name, parse_image_name, with_default_tag
from nodeagent.pluginmanager import PluginManager

_Action = Callable[[argparse.Namespace, Loaded], int]
_T = TypeVar("_T")
_SHORT_ID = 12
_ID = re.compile(r"(?:sha256:)?[0-9a-f]{64}")


def add_parser(commands: Any) -> None:
    """Add the command to the parser of all commands."""
    image = commands.add_parser("image", help="list, pull, pin and collect images")
    actions = image.add_subparsers(required=True, metavar="ACTION", parser_class=FlagParser)
    _add(actions, "list", "show the images of the runtime's store", partial(_run, _list))
    _add(
        actions,
        "pull",
        "pull an image, with the credentials that the node's providers know",
        partial(_run, _pull),
        image=True,
    )
    _add(actions, "pin", "never collect an image on this node", partial(_run_alone, _pin), image=True)
    _add(actions, "unpin", "let a pinned image be collected again", partial(_run_alone, _unpin), image=True)
    collect = _add(actions, "gc", "remove unused images as age and disk ask for it", partial(_run, _collect))
    collect.add_argument("--dry-run", action="store_true", help="only tell what would go, and why the rest stays")
    collect.add_argument("--all", action="store_true", help="every unused image goes, whatever the disk has free")


def _add(
    actions: Any, name: str, what: str, handler: Callable[[argparse.Namespace], int], *, image: bool = False
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=what)
    if image:
        parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    add_flags(parser)
    parser.set_defaults(handler=handler)
    return parser


def _run(action: _Action, arguments: argparse.Namespace) -> int:
    logging.getLogger("nodeagent_plugins").addHandler(logging.NullHandler())  # what matters is printed
    try:
        return action(arguments, load(read_flags(arguments)))
    except (ConfigError, PluginError):
        raise
    except NodeAgentError as error:
        print(f"nodeagent: {error}", file=sys.stderr)
        return ExitCode.UNREACHABLE if isinstance(error, RuntimeUnavailable) else ExitCode.PROBLEMS


def _run_alone(action: Callable[[argparse.Namespace, Path], int], arguments: argparse.Namespace) -> int:
    """Do what needs the root directory and nothing else: no configuration, no runtime."""
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
    async def work(context: AgentContext, _: PluginManager) -> Sequence[Image]:
        return await context.images.list_images()

    images = _ask(loaded, work)
    pins = read_pins(_root(loaded))
    found = [_shown(image, pins) for image in sorted(images, key=_name)]
    if arguments.output == "json":
        print_json(found)
        return ExitCode.OK
    rows = [(one["name"], _short(one["id"]), size_text(one["sizeBytes"]), one["pinnedBy"] or "-") for one in found]
    print_table(rows, ("IMAGE", "ID", "SIZE", "PINNED BY"))
    return ExitCode.OK


def _pull(arguments: argparse.Namespace, loaded: Loaded) -> int:
    try:
        name = parse_image_name(arguments.image)
    except ValueError as error:
        print(f"nodeagent: {arguments.image!r} {error}", file=sys.stderr)
        return ExitCode.CONFIGURATION
    image = with_default_tag(arguments.image, name)

    async def work(context: AgentContext, plugins: PluginManager) -> tuple[str, Image | None]:
        credentials = await _credentials(context, plugins, name.repository)
        async with _progress(f"pulling {image}", context):
            ref = await _pull_with(context, image, credentials)
        return ref, await context.images.image_status(ref)

    started = time.monotonic()
    ref, found = _ask(loaded, work)
    seconds = round(time.monotonic() - started, 3)
    size = found.size_bytes if found is not None else 0
    if arguments.output == "json":
        id = found.id if found is not None else ""
        print_json({"image": image, "ref": ref, "id": id, "sizeBytes": size, "seconds": seconds})
    else:
        print(f"pulled {image} as {ref} in {seconds:.1f} s, {size_text(size)}")
    return ExitCode.OK


def _pin(arguments: argparse.Namespace, root: Path) -> int:
    try:
        parse_image_name(arguments.image)
    except ValueError as error:
        if not _ID.fullmatch(arguments.image):
            print(f"nodeagent: {arguments.image!r} {error}", file=sys.stderr)
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
    async def work(context: AgentContext, plugins: PluginManager) -> ImageCollection:
        collector: ImageCollector = plugins.provide("nodeagent_provide_image_collector", context=context)
        return await collector.collect(everything=arguments.all, dry_run=arguments.dry_run)

    done = _ask(loaded, work)
    failed = any(one.error for one in done.images)
    if arguments.output == "json":
        print_json(_collection(done, arguments.dry_run))
        return ExitCode.PROBLEMS if failed else ExitCode.OK
    print(f"The disk of images is {done.used_percent} % full, {size_text(done.available_bytes)} are free.")
    fate = "goes" if arguments.dry_run else "gone"
    rows = [
        (_name(one.image), size_text(one.image.size_bytes), _time(one.last_used), *_fate(one, fate))
        for one in done.images
    ]
    print_table(rows, ("IMAGE", "SIZE", "LAST USED", "FATE", "WHY"))
    return ExitCode.PROBLEMS if failed else ExitCode.OK


# --- the runtime ----------------------------------------------------------------------------------------------


def _ask(loaded: Loaded, work: Callable[[AgentContext, PluginManager], Coroutine[Any, Any, _T]]) -> _T:
    """Connect as the agent would, do *work* and return what it gives."""
    plugins = PluginManager()
    plugins.load_entry_points(loaded.settings.disabled_plugins)

    async def connected() -> _T:
        async with contextlib.AsyncExitStack() as cleanup, TaskOwner("image") as tasks:
            context = AgentContext(
                config=loaded.config,
                gates=loaded.gates,
                settings=loaded.settings,
                clock=SystemClock(),
                tasks=tasks,
                cleanup=cleanup,
            )
            context.runtime = plugins.provide("nodeagent_provide_runtime", context=context)
            context.images = plugins.provide("nodeagent_provide_image_service", context=context)
            return await work(context, plugins)

    return asyncio.run(connected())


async def _credentials(context: AgentContext, plugins: PluginManager, repository: str) -> list[Credentials]:
    found: list[Credentials] = []
    for provided in plugins.provide_all("nodeagent_provide_credential_providers", context=context):
        for provider in provided.value:
            found += await provider.credentials(repository)
    return list(dict.fromkeys(found))


async def _pull_with(context: AgentContext, image: str, credentials: Sequence[Credentials]) -> str:
    """Try one credential after the other, none at all where there is none.

    :raises NodeAgentError: of the failures the last one.
    """
    *others, last = credentials or (None,)
    for credential in others:
        with contextlib.suppress(NodeAgentError):
            return await context.images.pull_image(image, credential)
    return await context.images.pull_image(image, last)


@asynccontextmanager
async def _progress(what: str, context: AgentContext) -> AsyncIterator[None]:
    """Show on a terminal for how long something goes on, and how much was received as far as the runtime tells."""
    progress = PullProgress()

    async def tell() -> None:
        for seconds in range(10**9):
            print(f"\r\x1b[K{what}: {seconds} s{_far(progress)}", end="", file=sys.stderr, flush=True)
            await asyncio.sleep(1)

    tasks = []
    if sys.stderr.isatty():
        tasks = [asyncio.create_task(progress.poll(context.images, asyncio.sleep)), asyncio.create_task(tell())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _far(progress: PullProgress) -> str:
    if progress.supported is False:
        return ", and this runtime does not tell how much it has received"
    return f", {progress} received" if progress.total_bytes else ""


# --- what is shown --------------------------------------------------------------------------------------------


def _root(loaded: Loaded) -> Path:
    return Path(loaded.settings.root_dir)


def _shown(image: Image, pins: frozenset[str]) -> dict[str, Any]:
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


def _fate(one: CollectableImage, goes: str) -> tuple[str, str]:
    if one.error:
        return "failed", one.error
    return (goes, one.removal_reason) if one.removal_reason else ("stays", one.retained_reason or "not needed")


def _name(image: Image) -> str:
    return next(iter((*image.repo_tags, *image.repo_digests)), "<none>")


def _short(id: str) -> str:
    return id.removeprefix("sha256:")[:_SHORT_ID]


def _time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else "never"
