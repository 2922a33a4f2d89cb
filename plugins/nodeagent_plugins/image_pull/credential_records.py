"""Credential records: the credentials that images were pulled with, so that cached private images remain private.

Credentials are stored as keyed digests in a file that only root can read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Collection
from pathlib import Path

from nodeagent.contracts.runtime import Credentials

_log = logging.getLogger(__name__)

FILE_NAME = "image_access.json"
_ANYONE = ""


class ImageCredentialRecords:
    """Access to cached images without a new pull.

    An image without a record was not pulled by this agent but provided by the administrator: every pod may use it.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / FILE_NAME
        self._key = ""
        self._opened: dict[str, list[str]] = {}
        """Digests of the credentials by image ID; the empty digest stands for a public image."""
        self._loaded = False
        self._saving = asyncio.Lock()

    async def allows(self, image_id: str, credentials: Collection[Credentials]) -> bool:
        """Return whether the image is public or was pulled with one of *credentials*."""
        await self._load()
        opened = self._opened.get(image_id)
        if opened is None or _ANYONE in opened:
            return True
        return any(self._digest(credential) in opened for credential in credentials)

    async def record_pull(self, image_id: str, credential: Credentials | None, present: Collection[str]) -> None:
        """Record the credential of a pull, ``None`` if public; drop the records of images that are not *present*."""
        await self._load()
        digest = _ANYONE if credential is None else self._digest(credential)
        known = self._opened.get(image_id, [])
        kept = {id: opened for id, opened in self._opened.items() if id in present or id == image_id}
        kept[image_id] = known if digest in known else [*known, digest]
        if kept == self._opened:
            return
        self._opened = kept
        async with self._saving:
            await asyncio.to_thread(self._save, {"key": self._key, "images": self._opened})

    async def _load(self) -> None:
        if not self._loaded:
            self._key, self._opened = await asyncio.to_thread(self._read)
            self._loaded = True

    def _digest(self, credential: Credentials) -> str:
        text = json.dumps([credential.username, credential.password]).encode()
        return hashlib.blake2b(text, key=bytes.fromhex(self._key), digest_size=32).hexdigest()

    def _read(self) -> tuple[str, dict[str, list[str]]]:
        try:
            content = json.loads(self._path.read_bytes())
            images = {str(id): [str(digest) for digest in opened] for id, opened in content["images"].items()}
            if len(bytes.fromhex(content["key"])) >= 16:
                return content["key"], images
            raise ValueError("the key is too short")
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("Failed to read image credential records", extra={"path": str(self._path), "err": str(error)})
        return secrets.token_hex(32), {}

    def _save(self, content: object) -> None:
        aside = self._path.with_name(f"{FILE_NAME}.tmp")
        try:
            aside.unlink(missing_ok=True)
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file)
            aside.replace(self._path)
        except OSError as error:
            _log.warning("Failed to write image credential records", extra={"path": str(self._path), "err": str(error)})
