"""Payload of config maps, secrets, the downward API and tokens. Reads objects, no disk I/O."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from nodeagent.errors import ApiError, VolumeError
from nodeagent.model.downward import resource_value
from nodeagent.model.pod import (
    ClusterTrustBundle,
    ConfigMapVolume,
    DownwardVolume,
    KeyToPath,
    Pod,
    PodCertificate,
    ProjectedObject,
    ProjectedVolume,
    SecretVolume,
    ServiceAccountToken,
)
from nodeagent_plugins.volumes.atomic_writer import File, Payload
from nodeagent_plugins.volumes.downward import field_value

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

T = TypeVar("T")
DEFAULT_MODE = 0o644
_PRIVATE_MODE = 0o600
_DEFAULT_TOKEN_SECONDS = 3600


class _TrustBundles(Protocol):
    async def by_name(self, name: str, *, optional: bool) -> bytes: ...

    async def by_signer(self, signer: str, selector: Mapping[str, Any] | None, *, optional: bool) -> bytes: ...


class _Credentials(Protocol):
    @property
    def key(self) -> bytes: ...

    @property
    def chain(self) -> bytes: ...


class _PodCertificates(Protocol):
    async def credentials(self, pod: Pod, volume: str, index: int, source: PodCertificate) -> _Credentials: ...


class Collector:
    """Collects the files of one volume of one pod, and records the objects that it read for them.

    :raises VolumeError: from every method that returns files: a required object or key is missing, or an object cannot
        be read.
    """

    def __init__(self, context: CgroupsContext, pod: Pod) -> None:
        self._context, self.pod = context, pod
        self._reads: list[tuple[Callable[[], Awaitable[object]], object]] = []
        self._repeatable = True

    async def outdated(self) -> bool:
        """Return whether the files may differ if they were collected again.

        :raises ApiError: an object cannot be read now.
        """
        if not self._repeatable:
            return True
        for read, found in self._reads:
            now = await read()
            if now is not found and now != found:
                return True
        return False

    async def _read(self, read: Callable[[], Awaitable[T]]) -> T:
        found = await read()
        self._reads.append((read, found))
        return found

    async def config_map(self, source: ConfigMapVolume | ProjectedObject, mode: int) -> Payload:
        try:
            found = await self._read(partial(self._context.objects.config_map, self.pod.namespace, source.name))
        except ApiError as error:
            raise VolumeError(f'failed to read configmap "{source.name}": {error}') from error
        if found is None:
            return _absent(f'configmap "{source.name}"', source.optional)
        data = {key: value.encode() for key, value in (found.get("data") or {}).items()}
        data.update(_decoded(f'configmap "{source.name}"', found.get("binaryData") or {}))
        return _select(f'configmap "{source.name}"', "config key", data, source.items, mode, bool(source.optional))

    async def secret(self, source: SecretVolume | ProjectedObject, mode: int) -> Payload:
        name = source.secret_name if isinstance(source, SecretVolume) else source.name
        try:
            found = await self._read(partial(self._context.objects.secret, self.pod.namespace, name))
        except ApiError as error:
            raise VolumeError(f'failed to read secret "{name}": {error}') from error
        if found is None:
            return _absent(f'secret "{name}"', source.optional)
        data = _decoded(f'secret "{name}"', found.get("data") or {})
        return _select(f'secret "{name}"', "secret key", data, source.items, mode, bool(source.optional))

    def downward(self, source: DownwardVolume, mode: int) -> Payload:
        files = {}
        for item in source.items or ():
            if item.field_ref is not None:
                text = field_value(self.pod, item.field_ref)
            elif item.resource_field_ref is not None:
                self._repeatable = False  # The node's resources can change.
                try:
                    text = resource_value(self.pod, item.resource_field_ref, self._allocatable)
                except ValueError as error:
                    raise VolumeError(str(error)) from error
            else:
                raise VolumeError(f"downward API item {item.path!r} has no field reference")
            files[item.path] = File(text.encode(), item.mode if item.mode is not None else mode)
        return files

    async def token(self, source: ServiceAccountToken, mode: int) -> Payload:
        seconds = source.expiration_seconds or _DEFAULT_TOKEN_SECONDS
        try:
            bound = await self._read(
                partial(
                    self._context.objects.service_account_token,
                    self.pod,
                    audience=source.audience,
                    expiration_seconds=seconds,
                )
            )
        except ApiError as error:
            raise VolumeError(f"failed to fetch token: {error}") from error
        return self._identity({source.path: bound.token.encode()}, mode)

    async def trust_bundle(self, source: ClusterTrustBundle, mode: int, bundles: _TrustBundles) -> Payload:
        self._repeatable, optional = False, bool(source.optional)
        if source.name is not None:
            anchors = await bundles.by_name(source.name, optional=optional)
        elif source.signer_name is not None:
            anchors = await bundles.by_signer(source.signer_name, source.label_selector, optional=optional)
        else:
            raise VolumeError("ClusterTrustBundle projection requires either name or signerName to be set")
        return self._identity({source.path: anchors}, mode)

    def certificate(self, source: PodCertificate, mode: int, credentials: _Credentials) -> Payload:
        self._repeatable = False
        contents = {
            source.credential_bundle_path: credentials.key + credentials.chain,
            source.key_path: credentials.key,
            source.certificate_chain_path: credentials.chain,
        }
        return self._identity({path: data for path, data in contents.items() if path}, mode)

    async def projected(
        self, volume: str, source: ProjectedVolume, mode: int, bundles: _TrustBundles, certificates: _PodCertificates
    ) -> Payload:
        """Merge all sources; a later source overrides files with the same path."""
        files: dict[str, File] = {}
        for index, part in enumerate(source.sources or ()):
            if part.config_map is not None:
                files.update(await self.config_map(part.config_map, mode))
            elif part.secret is not None:
                files.update(await self.secret(part.secret, mode))
            elif part.downward_api is not None:
                files.update(self.downward(part.downward_api, mode))
            elif part.service_account_token is not None:
                files.update(await self.token(part.service_account_token, mode))
            elif part.cluster_trust_bundle is not None:
                files.update(await self.trust_bundle(part.cluster_trust_bundle, mode, bundles))
            elif part.pod_certificate is not None:
                found = await certificates.credentials(self.pod, volume, index, part.pod_certificate)
                files.update(self.certificate(part.pod_certificate, mode, found))
            else:
                raise VolumeError("projected source of an unknown kind is not supported on this node")
        return files

    def _identity(self, contents: Mapping[str, bytes], mode: int) -> Payload:
        """Return files that only the user of all containers can read if there is one, or the pod's fsGroup."""
        user = common_user(self.pod)
        private = user is not None or fs_group(self.pod) is not None
        return {path: File(data, _PRIVATE_MODE if private else mode, user) for path, data in contents.items()}

    def _allocatable(self) -> Mapping[str, Any]:
        node = self._context.node() or {}
        found: Mapping[str, Any] = node.get("status", {}).get("allocatable") or {}
        return found


def fs_group(pod: Pod) -> int | None:
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def common_user(pod: Pod) -> int | None:
    """Return the user that all containers run as, ``None`` if it differs or is not set."""
    security = pod.spec.security_context
    default = security.run_as_user if security is not None else None
    users = set()
    for _, container in pod.containers():
        own = container.security_context
        users.add(own.run_as_user if own is not None and own.run_as_user is not None else default)
    return users.pop() if len(users) == 1 else None


def _select(
    what: str, noun: str, data: Mapping[str, bytes], items: Sequence[KeyToPath] | None, mode: int, optional: bool
) -> Payload:
    if not items:
        return {key: File(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = File(data[item.key], item.mode if item.mode is not None else mode)
        elif not optional:
            raise VolumeError(f"{what} references non-existent {noun}: {item.key}")
    return files


def _absent(what: str, optional: bool | None) -> Payload:
    if optional:
        return {}
    raise VolumeError(f"{what} not found")


def _decoded(what: str, encoded: Mapping[str, str]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
    except ValueError:
        raise VolumeError(f"{what} has a value that is not base64") from None
