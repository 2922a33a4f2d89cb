"""State files: assignments that persist across restarts, as JSON with a checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodeagent.base.atomic_file import write_private
from nodeagent_plugins.resource_managers.checksum import Fingerprint
from nodeagent_plugins.resource_managers.errors import StaleState


class Checkpoint:
    """One state file.

    :param policy: the configured policy; a state written by another policy is rejected.
    :param fingerprint: computes the checksum of the content.
    """

    def __init__(self, file: Path, policy: str, fingerprint: Fingerprint) -> None:
        self.file, self._policy, self._fingerprint = file, policy, fingerprint

    def read(self) -> dict[str, Any] | None:
        """Return the stored state, ``None`` if there is no file. Blocks.

        :raises StaleState: the file is damaged or was written by another policy.
        """
        try:
            content = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise self.stale(str(error)) from error
        if not isinstance(content, dict):
            raise self.stale("not a JSON object")
        policy = content.get("policyName")
        if policy != self._policy:
            raise self.stale(f'configured policy "{self._policy}" differs from state checkpoint policy "{policy}"')
        checksum = content.pop("checksum", None)
        try:
            fits = checksum == self._fingerprint(content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self.stale(f"checkpoint is corrupted: {error!r}") from error
        if not fits:
            raise self.stale("checkpoint is corrupted: checksum mismatch")
        return content

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the file. Blocks.

        :raises OSError: the file cannot be written; the previous one remains.
        """
        content = {"policyName": self._policy, **state}
        write_private(self.file, json.dumps({**content, "checksum": self._fingerprint(content)}).encode())

    def stale(self, why: str) -> StaleState:
        """Return the error with instructions for the operator."""
        return StaleState(
            f"could not restore state from checkpoint: {why}; please drain this node and delete the checkpoint file "
            f'"{self.file}" before the next start'
        )
