"""Sources of CSI volumes, and the objects that a call needs: secrets, pod information and tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.api import SECRETS
from nodeagent.contracts.persistent_volumes import VolumeSpec
from nodeagent.errors import ApiError, TransientVolumeError, VolumeError
from nodeagent.model.meta import wire_time
from nodeagent.model.persistent_volume import READ_WRITE_ONCE, SecretReference
from nodeagent.model.pod import Pod
from nodeagent.model.wire import to_wire
from nodeagent_plugins.csi.data_file import EPHEMERAL, PERSISTENT
from nodeagent_plugins.csi.driver_objects import DriverSpec
from nodeagent_plugins.csi.names import PREFIX, inline_handle

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"
_TOKEN_SECONDS = 3600


class Source(Struct, frozen=True):
    """A CSI volume of a PersistentVolume, or an inline one."""

    driver: str
    handle: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    fs_type: str = ""
    access_modes: tuple[str, ...] = ()
    mount_options: tuple[str, ...] = ()
    read_only: bool = False
    inline: bool = False
    migrated: bool = False
    """True if the volume has an in-tree source that was translated to this driver."""
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None
    expand_secret: SecretReference | None = None

    @property
    def access_mode(self) -> str:
        """The access mode that drivers receive: the first one."""
        return self.access_modes[0] if self.access_modes else READ_WRITE_ONCE

    @property
    def lifecycle(self) -> str:
        return EPHEMERAL if self.inline else PERSISTENT


def find_source(spec: VolumeSpec, pod: Pod | None = None) -> Source | None:
    """Return the source of *spec*, or ``None`` if it is not a CSI volume.

    :param pod: the pod; determines handle and secret of an inline volume.
    """
    volume = spec.persistent_volume
    if volume is not None:
        csi = volume.spec.csi
        if csi is None:
            return None
        return Source(
            csi.driver,
            csi.volume_handle,
            dict(csi.volume_attributes or {}),
            csi.fs_type,
            tuple(volume.spec.access_modes or ()),
            tuple(volume.spec.mount_options or ()),
            spec.read_only,
            migrated=spec.migrated,
            stage_secret=csi.node_stage_secret_ref,
            publish_secret=csi.node_publish_secret_ref,
            expand_secret=csi.node_expand_secret_ref,
        )
    if spec.volume.csi is None:
        return None
    inline: dict[str, Any] = to_wire(spec.volume.csi)
    secret = (inline.get("nodePublishSecretRef") or {}).get("name", "")
    return Source(
        inline.get("driver", ""),
        inline_handle(pod.uid, spec.volume.name) if pod is not None else "",
        dict(inline.get("volumeAttributes") or {}),
        inline.get("fsType") or "",
        read_only=bool(inline.get("readOnly")),
        inline=True,
        publish_secret=SecretReference(name=secret, namespace=pod.namespace) if secret and pod is not None else None,
    )


def source_of(spec: VolumeSpec, pod: Pod | None = None) -> Source:
    """Return the source of *spec*.

    :raises VolumeError: it is not a CSI volume.
    """
    source = find_source(spec, pod)
    if source is None:
        raise VolumeError(f"{PREFIX}volume source not found in volume.Spec")
    return source


class CallObjects:
    """Reads the objects that calls need, with the permissions of the node and without a cache."""

    def __init__(self, context: CgroupsContext) -> None:
        self._context = context

    async def secret(self, reference: SecretReference | None, field_name: str) -> dict[str, str]:
        """Return the values of a Secret; empty without a reference.

        :param field_name: name of the reference, for error messages.
        :raises TransientVolumeError: the Secret cannot be read, or a value is not valid UTF-8.
        """
        if reference is None:
            return {}
        attempt = f"fetching {field_name} {reference.namespace}/{reference.name} failed"
        if self._context.api is None:
            raise TransientVolumeError(f"{attempt}: the node is standalone")
        try:
            secret = await self._context.api.get(SECRETS, reference.name, reference.namespace, into=dict)
        except ApiError as error:
            raise TransientVolumeError(f"{attempt}: {error}") from error
        values = {}
        for key, encoded in (secret.get("data") or {}).items():
            try:
                values[key] = base64.b64decode(encoded or "", validate=True).decode("utf-8")
            except ValueError:  # The error contains the value.
                raise TransientVolumeError(f'{attempt}: value of "{key}" is not valid UTF-8') from None
        return values

    async def tokens(self, spec: DriverSpec | None, pod: Pod) -> dict[str, str]:
        """Return the tokens that a driver requests, as one attribute; empty if it requests none.

        :raises TransientVolumeError: a token cannot be requested.
        """
        requests = (spec.token_requests if spec else None) or []
        if not requests:
            return {}
        tokens = {}
        for request in requests:
            try:
                token = await self._context.objects.service_account_token(
                    pod, audience=request.audience, expiration_seconds=request.expiration_seconds or _TOKEN_SECONDS
                )
            except ApiError as error:
                raise TransientVolumeError(
                    f"{PREFIX}mounter.SetUpAt failed to get service accoount token attributes: {error}"
                ) from error
            tokens[request.audience] = {
                "token": token.token,
                "expirationTimestamp": wire_time(token.expires_at),
            }
        return {TOKENS: json.dumps(tokens, sort_keys=True, separators=(",", ":"))}


def pod_information(pod: Pod, *, ephemeral: bool) -> dict[str, str]:
    """Return the attributes of a pod for drivers with ``podInfoOnMount``."""
    account = pod.spec.service_account_name or pod.spec.service_account or ""
    return {
        "csi.storage.k8s.io/pod.name": pod.name,
        "csi.storage.k8s.io/pod.namespace": pod.namespace,
        "csi.storage.k8s.io/pod.uid": pod.uid,
        "csi.storage.k8s.io/serviceAccount.name": account,
        "csi.storage.k8s.io/ephemeral": "true" if ephemeral else "false",
    }
