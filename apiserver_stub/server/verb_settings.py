"""Dependencies and settings of verbs from the options."""

from __future__ import annotations

from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.authz import Chain
from apiserver_stub.options import Options
from apiserver_stub.schema.null_times import OMITTED_SINCE
from apiserver_stub.server.storage import Storage
from apiserver_stub.verbs.context import Admission, UnsafeDeletions, VerbContext, VerbSettings
from nodeagent.base.release import Release

_CHECKED_LIST_VERSIONS = Release(1, 33)
"""First release in which the watch cache reports invalid resource versions of lists as the store does."""
_FUTURE_LISTS = Release(1, 34)
"""First release in which the store recognizes the error of etcd about a future revision."""


def build_verbs(options: Options, storage: Storage, admission: Admission, authorizer: Chain) -> VerbContext:
    """Return the dependencies of verbs."""
    unsafe = None
    if options.gates.enabled("AllowUnsafeMalformedObjectDeletion"):

        async def authorize(user: User, info: RequestInfo) -> tuple[bool, str]:
            result = await authorizer.authorize(user, info)
            return result.allowed, result.reason

        unsafe = UnsafeDeletions(storage.layout, authorize)
    return VerbContext(storage.store, admission, verb_settings(options), unsafe)


def verb_settings(options: Options) -> VerbSettings:
    """Return the settings of verbs."""
    return VerbSettings(
        event_ttl_seconds=options.event_ttl_seconds,
        delete_collection_workers=options.delete_collection_workers,
        collects_garbage=options.enable_garbage_collector,
        min_watch_seconds=options.min_request_timeout_seconds,
        selects_shards=options.gates.enabled("ShardedListAndWatch"),
        watch_lists=options.gates.enabled("WatchList"),
        shows_null_times=options.compatibility_version < OMITTED_SINCE,
        is_cached=options.caches,
        checks_list_versions=options.compatibility_version >= _CHECKED_LIST_VERSIONS,
        times_out_future_lists=options.compatibility_version >= _FUTURE_LISTS,
        caches_snapshots=options.gates.enabled("ListFromCacheSnapshot"),
    )
