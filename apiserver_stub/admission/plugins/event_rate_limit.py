"""EventRateLimit admission plugin: limit the rate of events per server, namespace, user or source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.aggregate import aggregate
from apiserver_stub.admission.config import HEAD, AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, not_supported
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.aio import Clock, TokenBuckets
from nodeagent.base.identity import Identity

_TYPES = ("Namespace", "Server", "SourceAndObject", "User")
_CACHE_SIZE = 4096
_LIMIT = {"type": "", "qps": 0, "burst": 0, "cacheSize": 0}


class EventRateLimit(AdmissionPlugin):
    """Limit the rate of events per server, namespace, user or source (spec: admission.EventRateLimit).

    As upstream, only events of the core group are limited.
    """

    name = "EventRateLimit"
    order = 1800
    enabled_by_default = False
    resources = ("events",)

    def __init__(self, config: Object, clock: Clock, identity: Identity) -> None:
        """Read *config*, a ``Configuration`` with ``limits``.

        :raises AdmissionError: *config* is invalid or missing.
        """
        problems = list(_problems(config, identity))
        if problems:
            raise AdmissionError(*(f"EventRateLimit: {problem}" for problem in problems))
        self._limits = [_Limit(item, clock) for item in config["limits"]]

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.config, context.clock, context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        if call.dry_run:
            return
        problems = []
        for limit in self._limits:
            key = limit.key_of(call)
            if not limit.buckets.try_take(key):
                problems.append(f"limit reached on type {limit.type} for key {key}")
        if problems:
            raise ApiError(429, "TooManyRequests", f"Too many requests: {aggregate(problems)}")


class _Limit:
    """The token buckets of one limit type, by key."""

    def __init__(self, item: Object, clock: Clock) -> None:
        self.type: str = item["type"]
        size = 1 if self.type == "Server" else item.get("cacheSize") or _CACHE_SIZE
        self.buckets = TokenBuckets(item["qps"], item["burst"], clock, size)

    def key_of(self, call: AdmissionRequest) -> str:
        match self.type:
            case "Server":
                return ""
            case "Namespace":
                return call.namespace
            case "User":
                return call.request.user.name
            case _:
                event = call.obj
                source, involved = event.get("source") or {}, event.get("involvedObject") or {}
                parts = [source.get(name) or "" for name in ("component", "host")]
                parts += [involved.get(name) or "" for name in ("kind", "namespace", "name", "uid", "apiVersion")]
                return "".join(str(part) for part in parts)


def _problems(config: Object, identity: Identity) -> Iterator[str]:
    if not config:
        yield "limits: Invalid value: []eventratelimit.Limit(nil): must not be empty"
        return
    yield from check_kind(config, identity.group("eventratelimit.admission"), "Configuration", ("v1alpha1",))
    errors = list(unknown_members(config, {**HEAD, "limits": [_LIMIT]}))
    yield from errors
    limits: list[dict[str, Any]] = config.get("limits") or []
    if errors:
        return
    if not limits:
        yield "limits: Invalid value: []eventratelimit.Limit(nil): must not be empty"
    for index, item in enumerate(limits):
        path = f"limits[{index}]"
        if item.get("type") not in _TYPES:
            cause = not_supported(f"{path}.type", item.get("type") or "", _TYPES)
            yield f"{cause.field}: {cause.message}"
        for name in ("burst", "qps"):
            if item.get(name, 0) <= 0:
                yield f"{path}.{name}: Invalid value: {item.get(name, 0)}: must be positive"
        if item.get("cacheSize", 0) < 0:
            yield f"{path}.cacheSize: Invalid value: {item['cacheSize']}: must not be negative"
