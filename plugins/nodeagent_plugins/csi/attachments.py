"""VolumeAttachments of this node: created by a controller, or by the agent if no controller attaches volumes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent.base import identity
from nodeagent.contracts.api import VOLUME_ATTACHMENTS
from nodeagent.errors import ApiConflict, ApiError, ApiNotFound, TransientVolumeError, VolumeError
from nodeagent_plugins.csi.driver_objects import DriverObjects, attach_required
from nodeagent_plugins.csi.names import attachment_name, split_unique_name, unique_name

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext
    from nodeagent_plugins.csi.sources import Source

MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "nodeagent"
_FORBIDDEN = 403
_EXHAUSTED = 8
"""Code of ``ResourceExhausted`` in gRPC, with which a driver reports that its limit is reached."""
_PERMISSIONS = (
    "with enableControllerAttachDetach: false the node needs the permissions to get, list, create and delete "
    "volumeattachments.storage.k8s.io"
)

_log = logging.getLogger(__name__)


class Attachments:
    """Reads the VolumeAttachments of this node; without a controller, creates and deletes them.

    spec: config.enableControllerAttachDetach
    """

    def __init__(self, context: CgroupsContext, specs: DriverObjects) -> None:
        self._context, self._specs = context, specs

    async def wait(self, source: Source, volume: str) -> str:
        """Return the name of the VolumeAttachment, once the volume is attached; request it if no controller does.

        :param volume: name of the PersistentVolume.
        :raises VolumeError: the volume is not attached, or is about to be detached.
        """
        name = self._name(source.driver, source.handle)
        try:
            attachment = await self._read(name)
        except ApiError as error:
            if not _is_absent(error) or self._context.config.enable_controller_attach_detach:
                raise TransientVolumeError(
                    f"volume {source.handle} has GET error for volume attachment {name}: {error}"
                ) from error
            attachment = await self._request(source, volume, name)
        status = attachment.get("status") or {}
        if (attachment.get("metadata") or {}).get("deletionTimestamp"):
            raise TransientVolumeError("volume attachment is being deleted")
        if status.get("attached"):
            return name
        if message := (status.get("attachError") or {}).get("message"):
            raise TransientVolumeError(message)
        raise TransientVolumeError(f"volume {source.handle} is not attached for volume attachment {name}")

    async def is_exhausted(self, source: Source) -> bool:
        """Return whether the attachment failed because the node has no resources for another volume.

        :raises ApiError: the VolumeAttachment cannot be read.
        """
        attachment = await self._read(self._name(source.driver, source.handle))
        status = attachment.get("status") or {}
        return not status.get("attached") and (status.get("attachError") or {}).get("errorCode") == _EXHAUSTED

    async def publish_context(self, source: Source, attempt: str) -> dict[str, str]:
        """Return the metadata of the attachment; empty if the driver requires none.

        :param attempt: start of the error message.
        :raises TransientVolumeError: it cannot be read.
        """
        if source.inline or not attach_required(await self._specs.find(source.driver)):
            return {}
        try:
            attachment = await self._read(self._name(source.driver, source.handle))
        except ApiError as error:
            raise TransientVolumeError(f"{attempt}: {error}") from error
        return dict((attachment.get("status") or {}).get("attachmentMetadata") or {})

    async def requested(self) -> Sequence[str]:
        """Return the unique names of the volumes whose attachment this node has requested.

        :raises VolumeError: they cannot be read.
        """
        api, key, names = self._context.api, self._handle_annotation, []
        if api is None:
            return ()
        try:
            found = await api.list(VOLUME_ATTACHMENTS, into=dict, label_selector=f"{MANAGED_BY}={MANAGER}")
        except ApiError as error:
            raise VolumeError(f"failed to list volume attachments: {error}{_hint(error)}") from error
        for each in found.items:
            spec, metadata = each.get("spec") or {}, each.get("metadata") or {}
            handle = (metadata.get("annotations") or {}).get(key) or ""
            driver = str(spec.get("attacher") or "")
            if spec.get("nodeName") == self._context.node_name and metadata.get("name") == self._name(driver, handle):
                names.append(unique_name(driver, handle))
        return names

    async def delete(self, name: str) -> None:
        """Delete the VolumeAttachment of a volume, so that the driver's attacher detaches it; idempotent.

        :param name: unique name of the volume.
        :raises VolumeError: it was not deleted.
        """
        api = self._context.api
        attachment = self._name(*split_unique_name(name))
        try:
            metadata = (await self._read(attachment)).get("metadata") or {}
        except ApiError as error:
            if _is_absent(error):
                return
            raise VolumeError(f"failed to read volume attachment {attachment}: {error}") from error
        assert api is not None
        try:
            if "deletionTimestamp" not in metadata:
                await api.delete(VOLUME_ATTACHMENTS, attachment, uid=metadata.get("uid") or "")
        except ApiNotFound:
            return
        except ApiError as error:
            raise VolumeError(f"failed to delete volume attachment {attachment}: {error}{_hint(error)}") from error
        _log.info("Volume attachment deleted", extra={"volume": name, "attachment": attachment})

    async def _request(self, source: Source, volume: str, name: str) -> dict[str, Any]:
        """Create the VolumeAttachment and return it.

        :raises TransientVolumeError: it cannot be created now.
        """
        api = self._context.api
        assert api is not None
        spec = {"attacher": source.driver, "nodeName": self._context.node_name}
        metadata = {
            "name": name,
            "labels": {MANAGED_BY: MANAGER},
            "annotations": {self._handle_annotation: source.handle},
        }
        body = {"metadata": metadata, "spec": {**spec, "source": {"persistentVolumeName": volume}}}
        try:
            created = await api.create(VOLUME_ATTACHMENTS, body)
        except ApiConflict as error:
            raise TransientVolumeError(f"volume attachment {name} was created by another client: {error}") from error
        except ApiError as error:
            raise TransientVolumeError(f"failed to create volume attachment {name}: {error}{_hint(error)}") from error
        _log.info("Volume attachment created", extra={"volume": volume, "attachment": name})
        return created

    async def _read(self, name: str) -> dict[str, Any]:
        """Return a VolumeAttachment.

        :raises ApiError: it cannot be read.
        """
        if self._context.api is None:
            raise ApiError("the node is standalone")
        return await self._context.api.get(VOLUME_ATTACHMENTS, name, into=dict)

    def _name(self, driver: str, handle: str) -> str:
        return attachment_name(handle, driver, self._context.node_name)

    @property
    def _handle_annotation(self) -> str:
        return identity.current().label("volume-handle", "csi.volume")


def _hint(error: ApiError) -> str:
    return f"; {_PERMISSIONS}" if error.code == _FORBIDDEN else ""


def _is_absent(error: ApiError) -> bool:
    """Return whether the object does not exist.

    Nodes are forbidden to read an attachment that does not exist, because it is not assigned to them.
    """
    return isinstance(error, ApiNotFound) or error.code == _FORBIDDEN
