"""Static pods from a directory or file (spec: config.staticPodPath, config.fileCheckFrequency).

The directory is watched, and completely read at each ``fileCheckFrequency`` to detect changes that a watch misses, such
as those behind a symbolic link. A file that is open for writing is skipped until it is closed. An invalid file is
logged once per content and does not affect the others: a pod from its last valid content keeps running.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import PodSource, PublishPods
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_source_file.files import ManifestFiles
from nodeagent_plugins.pod_source_file.watch import Watch

_DEBOUNCE_SECONDS = 0.03
_UNSETTLED_SECONDS = (0.2, 5.0)
_FIRST_SET_SECONDS = 3.0
"""Maximum delay of the first set for files that are being written, because missing pods count as removed."""


@hookimpl
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    config = context.config
    if not config.static_pod_path:
        return ()
    path, seconds = Path(config.static_pod_path), config.file_check_frequency.seconds
    allowed = not context.gates.enabled("PreventStaticPodAPIReferences")
    return (FilePodSource(path, context.node_name, context.clock, seconds, references_allowed=allowed),)


class FilePodSource:
    """Publishes the pods of a directory or file, one pod per file.

    :param check_seconds: interval of complete reads.
    :param references_allowed: whether pods may refer to API objects.
    """

    name = "file"

    def __init__(
        self, path: Path, node_name: str, clock: Clock, check_seconds: float, *, references_allowed: bool = True
    ) -> None:
        self._path, self._clock, self._check = path.absolute(), clock, check_seconds
        self._files = ManifestFiles(self._path, node_name, clock.wall, references_allowed=references_allowed)
        self._watch_pause = Backoff(1.0, 20.0)
        self._unsettled_pause = Backoff(*_UNSETTLED_SECONDS)

    async def run(self, publish: PublishPods) -> None:
        """Publish the pods now and after each change until cancelled."""
        changed = asyncio.Event()
        watch = Watch(self._path, _threadsafe(changed.set))
        published: Sequence[Pod] | None = None
        started = self._clock.now()
        try:
            while True:
                changed.clear()
                watching, scan = await asyncio.to_thread(
                    lambda: (watch.renew(), self._files.scan(watch.take_deleted()))
                )
                early = published is None and scan.unsettled and self._clock.now() - started < _FIRST_SET_SECONDS
                if scan.recreated and published is not None:
                    # The kubelet restarts a static pod whose file is deleted and created again.
                    publish([pod for pod in published if pod not in scan.recreated])
                    published = None
                if scan.pods is not None and scan.pods != published and not early:
                    published = scan.pods
                    publish(published)
                if await self._wait(changed, self._pause(watching, scan.unsettled)):
                    await self._clock.sleep(_DEBOUNCE_SECONDS)  # One read for several changes.
        finally:
            await asyncio.to_thread(watch.stop)

    def _pause(self, watching: bool, unsettled: bool) -> float:
        """Return how long to wait for a change before the next complete read."""
        pause = self._check
        if watching:
            self._watch_pause.reset()
        else:
            pause = min(pause, self._watch_pause.next())
        if unsettled:
            pause = min(pause, self._unsettled_pause.next())
        else:
            self._unsettled_pause.reset()
        return pause

    async def _wait(self, changed: asyncio.Event, seconds: float) -> bool:
        """Wait for a change, at most *seconds*; return whether there was one."""
        tasks = [asyncio.create_task(changed.wait()), asyncio.create_task(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return changed.is_set()


def _threadsafe(notify: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls *notify* in the running loop, from any thread."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            loop.call_soon_threadsafe(notify)

    return call
