"""The daemon's signals, and what it says of its configuration."""

from __future__ import annotations

import asyncio
import signal

from nodeagent.base.logging import v_level
from nodeagent.cli.run import end_at_the_next_signal, tell_of
from nodeagent.config.load import load_configuration


async def test_a_second_signal_ends_the_process_without_a_traceback():
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            loop.add_signal_handler(number, lambda: None)

        end_at_the_next_signal(loop)

        assert {signal.getsignal(number) for number in numbers} == {signal.SIG_DFL}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_configuration_is_logged_in_full_from_verbosity_5_on_without_header_values(caplog):
    loaded = load_configuration(
        [
            "--container-runtime-endpoint=unix:///run/x.sock",
            "--manifest-url=https://example.com",
            "--manifest-url-header=Authorization:letmein",
        ]
    )
    caplog.set_level(v_level(4), "nodeagent")
    tell_of(loaded)
    assert "Configuration in force" not in caplog.messages

    caplog.set_level(v_level(5), "nodeagent")
    tell_of(loaded)

    record = next(record for record in caplog.records if record.message == "Configuration in force")
    assert '"containerRuntimeEndpoint": "unix:///run/x.sock"' in record.configuration
    assert '"mode": "Webhook"' in record.configuration
    assert "letmein" not in record.configuration
