"""Trust anchors of ClusterTrustBundles, watched from the first use on."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nodeagent.base.selectors import LabelSelector, Requirement
from nodeagent.contracts.api import Api, Resource, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import ApiError, ApiNotFound, VolumeError
from nodeagent_plugins.volumes.pem import decode_blocks, encode_certificates

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_RESOURCES = tuple(
    Resource("certificates", version, "clustertrustbundles", "ClusterTrustBundle", namespaced=False)
    for version in ("v1beta1", "v1alpha1")
)
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class TrustBundles:
    """Trust anchors by name of a bundle, or by signer and labels.

    Order and number of the certificates of a bundle have no meaning: duplicates are removed, and the order differs
    between nodes and after each restart, so that no application depends on it.

    :raises VolumeError: from both methods: there is no such bundle, or the bundles cannot be read.
    """

    def __init__(self, context: CgroupsContext) -> None:
        self._context = context
        self._bundles: dict[str, dict[str, Any]] = {}
        self._following = False
        self._starting = asyncio.Lock()
        self._order_key = secrets.token_bytes(16)

    async def by_name(self, name: str, *, optional: bool) -> bytes:
        """Return the certificates of the bundle *name*; empty if it is missing and *optional*."""
        await self._start()
        bundle = self._bundles.get(name)
        if bundle is None and not optional:
            group = _RESOURCES[0].plural
            raise VolumeError(f'while getting ClusterTrustBundle: {group} "{name}" not found')
        return self._normalized([bundle] if bundle is not None else [])

    async def by_signer(self, signer: str, selector: Mapping[str, Any] | None, *, optional: bool) -> bytes:
        """Return the certificates of all bundles of *signer* that match *selector*; ``None`` matches none."""
        await self._start()
        requirements = None if selector is None else label_selector(selector)
        bundles = [
            bundle
            for bundle in self._bundles.values()
            if (bundle.get("spec") or {}).get("signerName", "") == signer
            and requirements is not None
            and requirements.matches(bundle["metadata"].get("labels"))
        ]
        if not bundles and not optional:
            raise VolumeError("combination of signerName and labelSelector matched zero ClusterTrustBundles")
        return self._normalized(bundles)

    async def _start(self) -> None:
        """List the bundles, in the latest version that the server has, and start to watch them."""
        api = self._context.api
        if api is None:
            raise VolumeError("ClusterTrustBundle projection is not supported in static kubelet mode")
        async with self._starting:
            if self._following:
                return
            for resource in _RESOURCES:
                try:
                    listing = await api.list(resource, into=dict[str, Any], cached=True)
                except ApiNotFound:
                    continue
                except ApiError as error:
                    raise VolumeError(f"failed to list ClusterTrustBundles: {error}") from error
                self._replace(listing.items)
                self._context.tasks.start(self._follow(api, resource), "watch/trust-bundles")
                self._following = True
                return
        raise VolumeError("the API server has no version of ClusterTrustBundle that this node supports")

    async def _follow(self, api: Api, resource: Resource) -> None:
        await follow(api, resource, "", clock=self._context.clock, listed=self._replace, changed=self._change)

    def _replace(self, bundles: list[dict[str, Any]]) -> None:
        self._bundles = {bundle["metadata"]["name"]: bundle for bundle in bundles}

    def _change(self, event: WatchEvent[dict[str, Any]]) -> None:
        name = event.object["metadata"]["name"]
        if event.type is WatchType.DELETED:
            self._bundles.pop(name, None)
        else:
            self._bundles[name] = event.object

    def _normalized(self, bundles: Iterable[Mapping[str, Any]]) -> bytes:
        texts = [(bundle.get("spec") or {}).get("trustBundle", "") for bundle in bundles]
        anchors = {block for text in texts for block in decode_blocks(text)}
        return encode_certificates(sorted(anchors, key=self._position))

    def _position(self, anchor: bytes) -> bytes:
        return hashlib.blake2b(anchor, key=self._order_key, digest_size=16).digest()


def label_selector(selector: Mapping[str, Any]) -> LabelSelector:
    """Return the selector of an API object; an empty one matches everything.

    :raises VolumeError: an operator is unknown.
    """
    requirements = [
        Requirement(key, "in", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for item in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(item.get("operator", ""))
        if operator is None:
            raise VolumeError(f"while parsing label selector: {item.get('operator')!r} is not a valid operator")
        requirements.append(Requirement(item.get("key", ""), operator, frozenset(item.get("values") or ())))
    return LabelSelector(tuple(requirements))
