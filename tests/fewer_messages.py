"""Messages between the processes of pytest-xdist, which take as long as a short test."""

from __future__ import annotations

from typing import Any

import pytest


class FewerMessages:
    """Plugin of a worker that sends the result of a passed test, but not its start, setup, teardown and end.

    It also prepares no output: the process that summarizes the run prints the results.
    """

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        (worker,) = (plugin for plugin in session.config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent"))
        send = worker.sendevent

        def send_results(name: str, **content: Any) -> None:
            if name not in ("logstart", "logfinish") and not (name == "testreport" and _is_implied(content["data"])):
                send(name, **content)

        worker.sendevent = send_results
        session.config.pluginmanager.unregister(name="terminalreporter")


def _is_implied(report: dict[str, Any]) -> bool:
    """Return whether this is a passed setup or teardown."""
    return bool(report["outcome"] == "passed" and report["when"] != "call")
