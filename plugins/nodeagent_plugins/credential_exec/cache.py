"""Cache of provider responses by image, registry or globally, and by service account."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from cachetools import TLRUCache

from nodeagent.base.aio import Clock
from nodeagent.base.duration import Duration
from nodeagent.base.structs import Struct
from nodeagent.model.registry import registry_of
from nodeagent_plugins.credential_exec.protocol import CacheKeyType, ProviderResponse

_ORDER: Final = (CacheKeyType.IMAGE, CacheKeyType.REGISTRY, CacheKeyType.GLOBAL)

Key = tuple[CacheKeyType, str, Hashable]

MAX_RESPONSES = 4096


class Kept(Struct, frozen=True):
    """A cached response."""

    response: ProviderResponse
    until: float
    """Monotonic time of expiry."""


def cache_key(key_type: CacheKeyType, image: str, scope: Hashable = None) -> Key:
    """Return the cache key of a response of *key_type* for *image*.

    :param scope: key of the service account or token in the request; ``None`` if it had none.
    """
    match key_type:
        case CacheKeyType.IMAGE:
            return key_type, image, scope
        case CacheKeyType.REGISTRY:
            return key_type, registry_of(image), scope
        case CacheKeyType.GLOBAL:
            return key_type, "", scope


class ResponseCache:
    """In-memory cache of one provider's responses.

    :param default_duration: used for responses without a duration. A duration of 0 disables caching.
    """

    def __init__(self, clock: Clock, default_duration: Duration) -> None:
        self._clock, self._default = clock, default_duration
        self._kept: TLRUCache[Key, Kept] = TLRUCache(
            MAX_RESPONSES, lambda _key, kept, _now: kept.until, timer=clock.now
        )

    def get(self, image: str, scope: Hashable = None) -> Kept | None:
        """Return the cached response for *image* and *scope*: by image, then by registry, then global."""
        for key_type in _ORDER:
            if (kept := self._kept.get(cache_key(key_type, image, scope))) is not None:
                return kept
        return None

    def put(self, image: str, response: ProviderResponse, scope: Hashable = None) -> Duration:
        """Cache *response* for *image* and *scope*, and return the duration."""
        duration = self._default if response.cache_duration is None else response.cache_duration
        if duration > Duration():
            self._kept[cache_key(response.key_type, image, scope)] = Kept(
                response, self._clock.now() + duration.seconds
            )
        return duration
