"""How much of an image has been received, put together from one look after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nodeagent.base.quantity import size_text
from nodeagent.contracts.runtime import ImageService, ProgressReportingImageService, Transfer
from nodeagent.errors import NodeAgentError

POLL_INTERVAL_SECONDS = 1.0


class PullProgress:
    """Adds up what a runtime receives while a pull goes on.

    A runtime tells of all its pulls at once, so what another one receives meanwhile is counted as well. What was begun
    before and does not advance is left out. What is not under way any more has been received whole.

    :ivar supported: whether the runtime tells at all; ``None`` before it was asked.
    """

    def __init__(self) -> None:
        self.supported: bool | None = None
        self._before: dict[str, int] | None = None
        self._seen: dict[str, Transfer] = {}

    @property
    def received_bytes(self) -> int:
        return sum(each.received_bytes for each in self._seen.values())

    @property
    def total_bytes(self) -> int:
        """Of all parts that were seen so far; runtimes may begin further ones later."""
        return sum(max(each.received_bytes, each.total_bytes) for each in self._seen.values())

    def __str__(self) -> str:
        return f"{size_text(self.received_bytes)} of {size_text(self.total_bytes)}"

    def update(self, under_way: Sequence[Transfer]) -> None:
        """Take the next look; the first one tells what was there before."""
        now = {each.ref: each for each in under_way}
        if self._before is None:
            self._before = {ref: each.received_bytes for ref, each in now.items()}
        for ref, known in self._seen.items():
            if ref not in now:
                self._seen[ref] = replace(known, received_bytes=max(known.received_bytes, known.total_bytes))
        for ref, each in now.items():
            if ref in self._seen or self._before.get(ref) != each.received_bytes:
                self._seen[ref] = each

    async def poll(self, images: ImageService, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Look each second until cancelled; ends by itself when the runtime does not tell."""
        while isinstance(images, ProgressReportingImageService):
            try:
                found = await images.transfers()
            except NodeAgentError:
                pass  # the pull itself tells what is wrong with the runtime
            else:
                if found is None:
                    break
                self.supported = True
                self.update(found)
            await sleep(POLL_INTERVAL_SECONDS)
        self.supported = False
