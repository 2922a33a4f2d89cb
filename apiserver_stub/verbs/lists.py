"""GET of a collection, with selectors, paging and resource versions."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, expired, qualified
from apiserver_stub.storage import Compacted, Record
from apiserver_stub.verbs import shards, versions
from apiserver_stub.verbs.responses import Page, Reply
from apiserver_stub.verbs.revisions import awaited_version, catch_up, requested_version, too_large_version
from apiserver_stub.verbs.unreadable import check_all_readable
from apiserver_stub.verbs.write_options import invalid_options
from nodeagent.base import gobase64, tracing
from nodeagent.base.selectors import (
    FieldSelector,
    LabelSelector,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext
    from apiserver_stub.verbs.shards import ShardSelector

_BLOCK = 1000
"""Records of a page with a limit that are examined together."""
_REVISION_LIMIT = 1 << 63
"""Exclusive upper limit of store revisions."""
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."


class _Token(msgspec.Struct):
    """A decoded continue token."""

    v: str = ""
    rv: int = 0
    start: str = ""


_decode_token = msgspec.json.Decoder(_Token).decode


class Selection(Struct, frozen=True):
    """Selectors, namespace and name of a request, to match records with."""

    labels: LabelSelector
    fields: FieldSelector
    resource: Resource
    namespace: str
    name: str | None
    _needles: tuple[bytes, ...] = ()
    shard: ShardSelector | None = None

    @property
    def everything(self) -> bool:
        """``True`` if there are no selectors; namespace and name may still restrict the records."""
        return not self.labels and not self.fields and self.shard is None

    def matches_object(self, obj: Object) -> bool:
        """Return whether the decoded object *obj* of this resource is selected."""
        metadata = obj["metadata"]
        return (
            (self.shard is None or self.shard.matches(metadata))
            and self.labels.matches(metadata.get("labels"))
            and self.fields.matches(lambda label: self.resource.field_value(obj, label))
        )

    def select(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return the selected ones of *records*; most others are rejected by their bytes, without decoding."""
        if self.everything:
            return iter(records)
        for needle in self._needles:
            records = [record for record in records if needle in record.data]
        return (record for record in records if self.matches_object(self.resource.read(record)))

    def covers_key(self, key: str) -> bool:
        """Return whether *key* is in the selected namespace and has the selected name, if any."""
        if self.namespace and not key.startswith(self.namespace + "/"):
            return False
        return self.name is None or key.rpartition("/")[2] == self.name


async def list_objects(context: VerbContext, request: Request, resource: Resource) -> Reply:
    """Return one page of the collection."""
    return Reply(200, page=await read(context, request, resource))


async def read(context: VerbContext, request: Request, resource: Resource) -> Page:
    """Return the requested page of the collection, once the store has reached the requested revision.

    :raises ApiError: 400, 410, 422, 500 or 504.
    """
    name = "cacher list" if _is_cached(context, request, resource) else "List(recursive=true) etcd3"
    with tracing.child(name, lambda: {"type": qualified(resource.plural, resource.group)}):
        await _catch_up(context, request, resource)
        return await select(context, request, resource)


def selection(request: Request, resource: Resource) -> Selection:
    """Return the selectors of *request*.

    :raises ApiError: 400, a selector is invalid or contains a field that the kind does not support in selectors.
    """
    try:
        labels = parse_label_selector(request.query.get("labelSelector"))
        fields = parse_field_selector(request.query.get("fieldSelector"))
    except SelectorError as error:
        raise bad_request(str(error)) from error
    needles = [value.encode() for term in fields.terms if term.equal and (value := term.value) and _plain(value)]
    for term in fields.terms:
        try:
            resource.field_path(term.field)
        except KeyError:
            raise bad_request(_unknown_field(resource, term.field)) from None
        if term.equal and term.field in ("spec.unschedulable", "spec.hostNetwork"):
            needles.clear()  # JSON omits these fields if they are false.
    for requirement in labels.requirements:
        if requirement.operator in ("in", "exists"):
            needles.append(requirement.key.encode())
    watched_name = request.info.name if request.info.verb == "watch" else ""
    name = watched_name or fields.pinned("metadata.name")
    namespace = request.info.namespace if resource.namespaced else ""
    return Selection(labels, fields, resource, namespace, name, tuple(needles))


def _unknown_field(resource: Resource, name: str) -> str:
    if resource.fields:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


async def select(context: VerbContext, request: Request, resource: Resource) -> Page:
    """Return the requested page, in key order.

    :raises ApiError: 400, 410, 422, 500 or 504.
    """
    query, settings = request.query, context.settings
    chosen = selection(request, resource)
    check_list_options(request)
    if settings.selects_shards:
        chosen = replace(chosen, shard=shards.selector_of(query.get(shards.PARAMETER)))
    limit = max(0, query.integer("limit") or 0)
    query.integer("timeoutSeconds")  # Only validated.
    collection = context.store.collection(resource.storage)
    single = chosen.name is not None and bool(chosen.namespace or not resource.namespaced)
    prefix = f"{chosen.namespace}/" if chosen.namespace else ""
    latest = revision = context.store.revision_of(resource.storage)
    after, exact = "", False
    token = query.get("continue")
    version = query.get("resourceVersion")
    match = query.get("resourceVersionMatch")
    cached = _is_cached(context, request, resource)
    if version == "0" and cached:
        limit = 0  # As upstream's watch cache, which ignores limits here.
    if token:
        at, start = _read_token(token, _token_version(request))
        if version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        after, exact = prefix + start, at > 0
        revision = at if exact else revision
    elif requested := requested_version(version, cached=cached and not settings.checks_list_versions):
        exact = match == "Exact" or bool(not match and limit and not single)
        if requested > revision:
            cached = cached or (settings.caches_snapshots and settings.is_cached(resource.plural, resource.group))
            if exact and not settings.times_out_future_lists and requested < _REVISION_LIMIT:
                raise ApiError(500, "", "etcdserver: mvcc: required revision is a future revision")
            raise too_large_version(requested, revision, cached=cached)
        if exact:
            revision = requested
    check_all_readable(context, resource, prefix)
    if single and not exact and not after:
        record = collection.get(resource.key(chosen.namespace, chosen.name or ""))
        found: Sequence[Record] = [record] if record is not None else []
    elif revision < latest:
        try:
            found = collection.select_at(revision, prefix, after)
        except Compacted:
            if not token:
                raise expired(_LIST_TOO_OLD) from None
            raise _expired_token(after[len(prefix) :], _token_version(request)) from None
    else:
        found = collection.view(prefix, after)
    if not chosen.everything:
        found = await versions.records(resource, found)
    page = _page(found, chosen, revision, limit, len(prefix), _token_version(request))
    return replace(page, records=list(await versions.records(resource, page.records)))


def _is_cached(context: VerbContext, request: Request, resource: Resource) -> bool:
    """Return whether upstream serves a list from the watch cache of *resource*, not from its store."""
    query = request.query
    version = query.get("resourceVersion")
    return (
        bool(version)
        and not query.get("continue")
        and (version == "0" or (query.integer("limit") or 0) <= 0)
        and query.get("resourceVersionMatch") in ("", "NotOlderThan")
        and context.settings.is_cached(resource.plural, resource.group)
    )


async def _catch_up(context: VerbContext, request: Request, resource: Resource) -> None:
    """Wait until the store has reached the revision that *request* requires; without one, the latest of its backend."""
    version = request.query.get("resourceVersion")
    if not version:
        await catch_up(context, resource)
    elif (revision := awaited_version(version)) > context.store.revision_of(resource.storage):
        await context.store.catch_up(resource.storage, revision)


def check_list_options(request: Request) -> None:
    """Validate the query options of a list.

    :raises ApiError: 422, an option is invalid or not allowed with the others.
    """
    query = request.query
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion")
    wrong: list[tuple[str, str, str]] = []
    if "sendInitialEvents" in query:
        text = "Forbidden: sendInitialEvents is forbidden for list"
        wrong.append(("FieldValueForbidden", text, "sendInitialEvents"))
    if match:
        field = "resourceVersionMatch"
        if not version:
            text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
            wrong.append(("FieldValueForbidden", text, field))
        if query.get("continue"):
            text = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
            wrong.append(("FieldValueForbidden", text, field))
        if match not in ("Exact", "NotOlderThan"):
            text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
            wrong.append(("FieldValueNotSupported", text, field))
        elif match == "Exact" and version == "0":
            text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            wrong.append(("FieldValueForbidden", text, field))
    if wrong:
        raise invalid_options(request, "ListOptions", wrong)


def _page(
    found: Sequence[Record], chosen: Selection, revision: int, limit: int, prefix_length: int, token_version: str
) -> Page:
    """Return the first *limit* selected records; as upstream, a full page continues if any record follows."""
    metadata: Object = {"resourceVersion": str(revision)}
    selected = _selected(found, chosen, limit)
    if limit and len(selected) == limit and selected[-1].key != found[-1].key:
        metadata["continue"] = _token(token_version, revision, selected[-1].key[prefix_length:] + "\0")
        if not chosen.labels and not chosen.fields:
            metadata["remainingItemCount"] = len(found) - limit  # Of all shards, as upstream.
    if chosen.shard is not None:
        metadata["shardInfo"] = {"selector": str(chosen.shard)}
    return Page(selected, metadata)


def _selected(found: Sequence[Record], chosen: Selection, limit: int) -> list[Record]:
    """Return the selected records, at most *limit* unless it is 0."""
    if not limit:
        return list(chosen.select(found))
    if chosen.everything:
        return list(found[:limit])
    blocks = (found[start : start + _BLOCK] for start in range(0, len(found), _BLOCK))
    return list(islice(chain.from_iterable(map(chosen.select, blocks)), limit))


def _token_version(request: Request) -> str:
    return request.identity.group("meta") + "/v1"


def _token(token_version: str, revision: int, start: str) -> str:
    text = objects.encode({"v": token_version, "rv": revision, "start": start})
    return gobase64.encode_url(text)


def _read_token(token: str, token_version: str) -> tuple[int, str]:
    try:
        value = _decode_token(gobase64.decode_url(token))
    except ValueError as error:  # Includes errors of msgspec.
        raise _invalid_token(f": {error}") from error
    if value.v != token_version:
        raise _invalid_token(f": server does not recognize this encoded version {value.v}")
    if not value.rv:
        raise _invalid_token(f": incorrect encoded start resourceVersion (version {token_version})")
    if not value.start:
        raise _invalid_token(f": encoded start key empty (version {token_version})")
    path = "/" + value.start.removeprefix("/")
    if path.startswith("//") or posixpath.normpath(path) != path:  # The key is outside of the collection.
        raise _invalid_token(f": {value.start}")
    return value.rv, path[1:]


def _invalid_token(problem: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid{problem}")


def _expired_token(start: str, token_version: str) -> ApiError:
    error = expired(_CONTINUE_TOO_OLD)
    error.metadata = {"continue": _token(token_version, -1, start)}
    return error


def _plain(value: str) -> bool:
    """Return whether *value* has the same form in JSON."""
    return value.isascii() and value.isprintable() and '"' not in value and "\\" not in value
