"""Topics of the changes of a collection, so that a change notifies only the readers that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from apiserver_stub.storage.record import Change

TopicsOf = Callable[[Change], Iterable[str]]
"""Return the topics that a change may concern, at least those that it does concern."""


class Follower(Protocol):
    """A reader of the changes of one topic."""

    def note(self, position: int) -> None:
        """Receive the position of a change of the topic."""
        ...


class ChangeTopics:
    """Followers of a collection by topic."""

    def __init__(self, topics_of: TopicsOf) -> None:
        self._topics_of = topics_of
        self._followers: dict[str, dict[Follower, None]] = {}
        """By topic, in the order of their start."""

    def follow(self, topic: str, follower: Follower) -> None:
        """Pass the positions of later changes of *topic* to *follower*."""
        self._followers.setdefault(topic, {})[follower] = None

    def leave(self, topic: str, follower: Follower) -> None:
        """Undo :meth:`follow`."""
        followers = self._followers[topic]
        followers.pop(follower, None)
        if not followers:
            del self._followers[topic]

    def note(self, start: int, changes: Sequence[Change]) -> None:
        """Pass the positions of *changes*, the first of which is *start*, to the followers that they may concern."""
        if not self._followers:
            return
        for position, change in enumerate(changes, start):
            for topic in self._topics_of(change):
                for follower in self._followers.get(topic, ()):
                    follower.note(position)

    def note_all(self, position: int) -> None:
        """Pass *position* to all followers."""
        for followers in self._followers.values():
            for follower in followers:
                follower.note(position)
