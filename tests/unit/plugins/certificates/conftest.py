"""Fixture: the certificate helper without a process."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent_plugins.certificates import helper_process, pairs


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute the helper's requests in this process."""

    def request(action: str, **request: Any) -> dict[str, Any]:
        return {"make_request": helper_process.make_request, "describe": helper_process.describe}[action](request)

    monkeypatch.setattr(pairs, "_run_helper", request)
