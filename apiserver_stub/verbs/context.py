"""Dependencies of the verbs: store, admission and settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import field

from apiserver_stub.verbs.shards import ShardCounts
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import RequestInfo, User
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage import Store
    from apiserver_stub.storage.layout import Layout
    from apiserver_stub.verbs.admission import AdmissionRequest


class Admission(Protocol):
    """The chain of admission plugins."""

    async def admit(self, call: AdmissionRequest) -> None:
        """Run the mutating plugins on the object of *call*, before it is validated.

        :raises ApiError: a plugin rejects the request.
        """

    async def validate(self, call: AdmissionRequest) -> None:
        """Run the validating plugins, after the object was validated.

        :raises ApiError: a plugin rejects the request.
        """

    async def check(self, call: AdmissionRequest) -> None:
        """Run the mutating and then the validating plugins.

        :raises ApiError: a plugin rejects the request.
        """


class VerbSettings(Struct, frozen=True):
    """Settings of the verbs."""

    event_ttl_seconds: int = 3600
    """Lifetime of events; 0 for unlimited."""
    delete_collection_workers: int = 1
    collects_garbage: bool = True
    """``True`` if a garbage collector processes the finalizers of foreground and orphaning deletions."""
    min_watch_seconds: int = 1800
    """Minimum duration of a watch if the client requests no timeout."""
    selects_shards: bool = False
    """``True`` if lists and watches support shard selectors (feature gate ``ShardedListAndWatch``)."""
    watch_lists: bool = False
    """``True`` if watches may start with the current objects (feature gate ``WatchList``)."""
    shows_null_times: bool = True
    """``True`` if unset creation timestamps are null in responses, as in early releases."""
    is_cached: Callable[[str, str], bool] = lambda plural, group: True
    """Return whether lists of *plural* in *group* behave as served from a watch cache."""
    checks_list_versions: bool = False
    """``True`` if an invalid resource version of a cached list is an error of the client, as in later releases."""
    times_out_future_lists: bool = False
    """``True`` if lists of exact revisions of the future time out instead of failing, as in later releases."""
    caches_snapshots: bool = False
    """``True`` if lists of an exact revision are cached too (feature gate ``ListFromCacheSnapshot``)."""


class UnsafeDeletions(Struct, frozen=True):
    """Dependencies of deletions of unreadable objects."""

    layout: Layout
    authorize: Callable[[User, RequestInfo], Awaitable[tuple[bool, str]]]
    """Return whether a user is allowed to make a request, and the reason."""


class VerbContext(Struct, frozen=True):
    """Dependencies of the verbs."""

    store: Store
    admission: Admission
    settings: VerbSettings = VerbSettings()
    unsafe_deletions: UnsafeDeletions | None = None
    """``None`` if unreadable objects cannot be deleted (feature gate ``AllowUnsafeMalformedObjectDeletion``)."""
    shard_counts: ShardCounts = field(default_factory=ShardCounts)

    def ttl_of(self, resource: Resource) -> int | None:
        """Return the lifetime in seconds of objects of *resource*, ``None`` if they do not expire."""
        return self.settings.event_ttl_seconds or None if resource.ttl else None
