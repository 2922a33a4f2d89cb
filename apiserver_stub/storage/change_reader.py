"""Reader of the changes of a collection: all of them, or those of one topic."""

from __future__ import annotations

import asyncio
from collections import deque

from apiserver_stub.storage.change_topics import ChangeTopics
from apiserver_stub.storage.collection import HISTORY_CHANGES, Collection
from apiserver_stub.storage.record import Change


class ChangeReader:
    """Reader of the changes of *collection* from *position* on; close it after use.

    :param topics: topics of the collection. Once the reader has reached the latest change, it reads only later ones of
        *topic*, and only they resolve :meth:`next_change`. Changes before that are read whatever their topic.
    """

    def __init__(
        self, collection: Collection, position: int, topics: ChangeTopics | None = None, topic: str = ""
    ) -> None:
        self._collection, self._position = collection, position
        self._topics, self._topic = topics, topic
        self._noted: deque[int] | None = None
        """Positions of unread changes of the topic; ``None`` before the reader has reached the latest change."""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def has_changes(self) -> bool:
        """Return whether :meth:`read` would return changes."""
        return self._collection.end > self._position if self._noted is None else bool(self._noted)

    def read(self, limit: int) -> list[Change]:
        """Return at most *limit* of the changes that were not read.

        :raises Compacted: one of them has been dropped.
        """
        if self._noted is not None:
            positions = [self._noted.popleft() for _ in range(min(limit, len(self._noted)))]
            return [change for position in positions for change in self._collection.read(position, 1)]
        changes = self._collection.read(self._position, limit)
        self._position += len(changes)
        if not changes and self._topics is not None:
            self._noted = deque()
            self._topics.follow(self._topic, self)
        return changes

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that the next change resolves; abandon it with :meth:`abandon`."""
        if self._noted is None:
            return self._collection.next_change()
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def abandon(self, waiter: asyncio.Future[None]) -> None:
        """Abandon a future of :meth:`next_change`."""
        self._waiter = None
        self._collection.abandon(waiter)

    def close(self) -> None:
        """Stop following the topic."""
        if self._noted is not None and self._topics is not None:
            self._topics.leave(self._topic, self)
            self._noted = None

    def note(self, position: int) -> None:
        """Record a change of the topic."""
        assert self._noted is not None
        if len(self._noted) < HISTORY_CHANGES:  # Otherwise the collection has dropped the first one.
            self._noted.append(position)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
