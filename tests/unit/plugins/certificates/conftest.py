"""The program that makes and reads certificates, without its process."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent_plugins.certificates import pairs, program


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have questions answered here."""

    def ask(action: str, **question: Any) -> dict[str, Any]:
        return {"make_request": program.make_request, "describe": program.describe}[action](question)

    monkeypatch.setattr(pairs, "_ask", ask)
