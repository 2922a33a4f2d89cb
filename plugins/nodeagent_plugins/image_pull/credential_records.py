"""Remembers which credentials opened the images on this node, so that a cached private image stays private.

What is kept of credentials is a keyed digest, in a file that only root can read.
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
    """Who may use which image without asking its registry again.

    An image that was never pulled here since records are kept was put there by the operator: anyone may use it.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / FILE_NAME
        self._key = ""
        self._opened: dict[str, list[str]] = {}
        """Digests of the credentials that opened an image, by its id; the empty one stands for anyone."""
        self._loaded = False
        self._saving = asyncio.Lock()

    async def allows(self, image_id: str, credentials: Collection[Credentials]) -> bool:
        """Whether somebody with *credentials* opened the image before, or anyone can."""
        await self._load()
        opened = self._opened.get(image_id)
        if opened is None or _ANYONE in opened:
            return True
        return any(self._digest(credential) in opened for credential in credentials)

    async def note(self, image_id: str, credential: Credentials | None, present: Collection[str]) -> None:
        """Note that *credential*, or nobody's, opened an image; forgets images that are not *present* any more."""
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
            raise ValueError("its key is too short")
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warning("Access to images cannot be read", extra={"file": str(self._path), "err": str(error)})
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
            _log.warning("Access to images not saved", extra={"file": str(self._path), "err": str(error)})
