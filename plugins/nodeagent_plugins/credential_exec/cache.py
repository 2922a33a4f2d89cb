"""Answers that still hold, by image, registry or for everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cachetools import TLRUCache

from nodeagent.base.aio import Clock
from nodeagent.base.duration import Duration
from nodeagent.model.registry import registry_of
from nodeagent_plugins.credential_exec.protocol import Answer, CacheKeyType

_ORDER: Final = (CacheKeyType.IMAGE, CacheKeyType.REGISTRY, CacheKeyType.GLOBAL)

Key = tuple[CacheKeyType, str]

MAX_ANSWERS = 4096


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer in the cache."""

    answer: Answer
    until: float
    """Monotonic time from which it does not hold any more."""


def cache_key(key_type: CacheKeyType, image: str) -> Key:
    """Return what an answer of *key_type* about *image* is kept under."""
    match key_type:
        case CacheKeyType.IMAGE:
            return key_type, image
        case CacheKeyType.REGISTRY:
            return key_type, registry_of(image)
        case CacheKeyType.GLOBAL:
            return key_type, ""


class AnswerCache:
    """Keeps one provider's answers, in memory alone.

    :param default_duration: for answers that do not say how long they hold. A length of 0 keeps nothing.
    """

    def __init__(self, clock: Clock, default_duration: Duration) -> None:
        self._clock, self._default = clock, default_duration
        self._kept: TLRUCache[Key, Kept] = TLRUCache(MAX_ANSWERS, lambda _key, kept, _now: kept.until, timer=clock.now)

    def get(self, image: str) -> Kept | None:
        """Return the answer that holds for *image*: one of its own before one of its registry and a global one."""
        for key_type in _ORDER:
            if (kept := self._kept.get(cache_key(key_type, image))) is not None:
                return kept
        return None

    def put(self, image: str, answer: Answer) -> Duration:
        """Cache *answer* about *image* and return for how long."""
        duration = self._default if answer.cache_duration is None else answer.cache_duration
        if duration > Duration():
            self._kept[cache_key(answer.key_type, image)] = Kept(answer, self._clock.now() + duration.seconds)
        return duration
