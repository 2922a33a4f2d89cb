"""Progress of an image pull, aggregated from periodic samples."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from nodeagent.base.quantity import size_text
from nodeagent.contracts.runtime import ImageService, ProgressReportingImageService, Transfer
from nodeagent.errors import NodeAgentError

POLL_INTERVAL_SECONDS = 1.0


class PullProgress:
    """Sums up the bytes that the runtime receives during a pull.

    The runtime reports the transfers of all pulls together, so concurrent pulls are included. Transfers that started
    earlier and do not advance are excluded. A transfer that is no longer reported counts as complete.

    :ivar supported: whether the runtime reports transfers; ``None`` before the first poll.
    """

    def __init__(self) -> None:
        self.supported: bool | None = None
        self._before: dict[str, int] | None = None
        self._seen: dict[str, Transfer] = {}

    @property
    def received_bytes(self) -> int:
        """Bytes received so far."""
        return sum(each.received_bytes for each in self._seen.values())

    @property
    def total_bytes(self) -> int:
        """Total size of the transfers observed so far; further ones may start later."""
        return sum(max(each.received_bytes, each.total_bytes) for each in self._seen.values())

    def __str__(self) -> str:
        return f"{size_text(self.received_bytes)} of {size_text(self.total_bytes)}"

    def update(self, in_progress: Sequence[Transfer]) -> None:
        """Add a sample; the first one is the baseline of earlier transfers."""
        now = {each.ref: each for each in in_progress}
        if self._before is None:
            self._before = {ref: each.received_bytes for ref, each in now.items()}
        for ref, previous in self._seen.items():
            if ref not in now:
                self._seen[ref] = replace(previous, received_bytes=max(previous.received_bytes, previous.total_bytes))
        for ref, each in now.items():
            if ref in self._seen or self._before.get(ref) != each.received_bytes:
                self._seen[ref] = each

    async def poll(self, images: ImageService, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Poll every second until cancelled; return if the runtime does not report transfers."""
        while isinstance(images, ProgressReportingImageService):
            try:
                transfers = await images.transfers()
            except NodeAgentError:
                pass  # The pull itself reports runtime errors.
            else:
                if transfers is None:
                    break
                self.supported = True
                self.update(transfers)
            await sleep(POLL_INTERVAL_SECONDS)
        self.supported = False
