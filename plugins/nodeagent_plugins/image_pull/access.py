"""Access of pods to images on the node: verification of pull credentials against the records of pulls.

spec: config.imagePullCredentialsVerificationPolicy, config.preloadedImagesVerificationAllowlist
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nodeagent.base.metrics import Counter
from nodeagent.contracts.runtime import CredentialOwner, Credentials, Image, OwnerKind
from nodeagent.errors import NodeAgentError
from nodeagent.model.image_allowlist import is_listed, without_tag
from nodeagent.model.image_name import full_name
from nodeagent.model.meta import wire_time
from nodeagent_plugins.image_pull.pull_records import (
    PullCredentials,
    PulledRecord,
    RecordError,
    coordinates,
    matching_owner,
    owners_of,
)
from nodeagent_plugins.image_pull.record_store import RecordStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nodeagent.contracts.context import ImageContext

_log = logging.getLogger(__name__)

GATE = "NodeAgentEnsureSecretPulledImages"
CHECKS = Counter(
    "imagemanager_image_mustpull_checks_total",
    "Counter for how many times kubelet checked whether credentials need to be re-verified to access an image",
    ("result",),
)
MOST_SECRETS_OF_CHECKS = 100
"""Number of secrets in a record up to which a check adds a matching one; pulls always add theirs."""

FindCredentials = Callable[[], Awaitable[Sequence[Credentials]]]


class Policy(StrEnum):
    """Images whose use requires a verification (``imagePullCredentialsVerificationPolicy``)."""

    NEVER = "NeverVerify"
    NOT_PRELOADED = "NeverVerifyPreloadedImages"
    NOT_LISTED = "NeverVerifyAllowlistedImages"
    ALWAYS = "AlwaysVerify"


class _Check(StrEnum):
    ALLOWED = "credentialPolicyAllowed"
    FOUND = "credentialRecordFound"
    MUST_PULL = "mustAuthenticate"
    FAILED = "error"


class ImageAccess:
    """Records the credentials of pulls, and decides whether a pod may use an image without a pull.

    Intents and records are kept in ``image_manager`` of the root directory. An intent marks an image as pulled by the
    agent even if the agent is killed during the pull.
    """

    def __init__(self, context: ImageContext) -> None:
        config = context.config
        self._context, self._store = context, RecordStore(context.root_dir)
        self._policy = Policy(config.image_pull_credentials_verification_policy or Policy.NOT_PRELOADED)
        self._allowlist = config.preloaded_images_verification_allowlist
        self._lock = asyncio.Lock()
        self._started = False
        self._pulling: Counts[str] = Counts()
        """Number of pulls in progress by image, as written in pods."""

    async def must_pull(self, image: str, present: Image, find: FindCredentials) -> bool:
        """Return whether a pod must pull *image* again, because its credentials are not known to permit it.

        :param image: the image as written in the pod.
        :param present: the image in the runtime's store.
        :param find: returns the pod's credentials for the image; called only if they are needed.
        :raises ValueError: *find* raised it.
        """
        result = _Check.FAILED
        try:
            result = await self._check(image, present.id, find)
        except (OSError, RecordError) as error:
            _log.error("Unable to access cache records about image pulls", extra={"image": image, "err": str(error)})
        finally:
            CHECKS.inc(result)
        return result in (_Check.MUST_PULL, _Check.FAILED)

    @asynccontextmanager
    async def pulling(self, image: str) -> AsyncIterator[None]:
        """Keep an intent of *image* during the block, which pulls it and records the result.

        The intent is retained if the block raises: the pull may have succeeded without a record.

        :raises OSError: the intent cannot be written.
        """
        async with self._lock:
            await self._start()
            await asyncio.to_thread(self._store.add_intent, image)
            self._pulling[image] += 1
        retained = True
        try:
            yield
            retained = False
        finally:
            self._pulling[image] -= 1
            if not self._pulling[image]:
                del self._pulling[image]
                if not retained:
                    await self._remove_intent(image)

    async def record_pull(self, image: str, ref: str, credential: Credentials | None) -> None:
        """Record that *image* was pulled.

        :param ref: ID of the image.
        :param credential: the credential that the registry accepted; ``None`` for an anonymous pull.
        :raises OSError: the record cannot be written.
        """
        async with self._lock:
            await self._merge(image, ref, PullCredentials.of(credential))

    async def prune(self) -> None:
        """Remove the records of images that are no longer in the runtime's store.

        :raises NodeAgentError: the runtime did not respond.
        :raises OSError: the directories cannot be created.
        """
        # The lock ensures that images which are pulled after the listing are recorded after the removal.
        async with self._lock:
            await self._start()
            present = {image.id for image in await self._context.images.list_images()}
            for record in await asyncio.to_thread(self._store.records):
                if record.ref not in present:
                    try:
                        await asyncio.to_thread(self._store.remove, record.ref)
                    except OSError as error:
                        _log.error(
                            "Failed to remove an ImagePulledRecord", extra={"imageRef": record.ref, "err": str(error)}
                        )

    async def _check(self, image: str, ref: str, find: FindCredentials) -> _Check:
        async with self._lock:
            await self._start()
            record = await asyncio.to_thread(self._store.read, ref)
            pulled = record is not None or image in self._pulling
            if not pulled:
                pulled = await asyncio.to_thread(self._store.has_intent, image)
        if not self._requires_verification(image, pulled):
            return _Check.ALLOWED
        known = record.credentials.get(without_tag(image)) if record is not None else None
        if known is None:
            return _Check.MUST_PULL
        if known.everyone:
            return _Check.FOUND
        if not known.secrets and not known.accounts:
            return _Check.MUST_PULL
        owner = matching_owner(known, owners_of(await find()))
        if owner is None:
            return _Check.MUST_PULL
        await self._add_owner(image, ref, known, owner)
        return _Check.FOUND

    def _requires_verification(self, image: str, pulled: bool) -> bool:
        match self._policy:
            case Policy.NEVER:
                return False
            case Policy.NOT_PRELOADED:
                return pulled
            case Policy.NOT_LISTED:
                return not is_listed(image, self._allowlist)
            case Policy.ALWAYS:
                return True

    async def _add_owner(self, image: str, ref: str, known: PullCredentials, owner: CredentialOwner) -> None:
        """Record a secret that matched only by its coordinates or digest, so that both match from now on."""
        if owner.kind is not OwnerKind.SECRET or known.secrets.get(coordinates(owner)) == owner.digest:
            return
        if len(known.secrets) >= MOST_SECRETS_OF_CHECKS:
            return
        try:
            async with self._lock:
                await self._merge(image, ref, PullCredentials(secrets={coordinates(owner): owner.digest}))
        except OSError as error:
            _log.error("Failed to write image pulled record", extra={"image": image, "err": str(error)})

    async def _merge(self, image: str, ref: str, credentials: PullCredentials | None) -> None:
        """Add *credentials* to the record; ``None`` only ensures that there is a record, so that pods are verified."""
        try:
            record = await asyncio.to_thread(self._store.read, ref)
        except (OSError, RecordError) as error:
            _log.warning("Failed to read image pull record", extra={"image": image, "err": str(error)})
            record = None
        merged = dict(record.credentials) if record is not None else {}
        if credentials is not None:
            name = without_tag(image)
            merged[name] = merged.get(name, PullCredentials()).merged(credentials)
        if record is not None and merged == record.credentials:
            return
        now = wire_time(self._context.clock.wall())
        new = PulledRecord(ref, now, merged) if record is None else replace(record, updated_at=now, credentials=merged)
        await asyncio.to_thread(self._store.write, new)

    async def _remove_intent(self, image: str) -> None:
        async with self._lock:
            if image in self._pulling:  # Another pull has started.
                return
            try:
                await asyncio.to_thread(self._store.remove_intent, image)
            except OSError as error:
                _log.error("Failed to remove image pull intent", extra={"image": image, "err": str(error)})

    async def _start(self) -> None:
        """Create the directories, and turn intents of earlier runs into records without credentials, once.

        :raises OSError: a directory cannot be created, or a record cannot be written.
        """
        if self._started:
            return
        await asyncio.to_thread(self._store.create)
        intents = await asyncio.to_thread(self._store.intents)
        if intents:
            try:
                images = await self._context.images.list_images()
            except NodeAgentError as error:
                # The intents remain and have the same effect as the records.
                _log.error("Failed to list images", extra={"err": str(error)})
                return
            for intent in intents:
                for image in images:
                    if full_name(intent) in image.names or intent in image.names:
                        await self._merge(intent, image.id, None)
                        await asyncio.to_thread(self._store.remove_intent, intent)
        self._started = True
