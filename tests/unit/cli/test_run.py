"""The daemon's signals."""

from __future__ import annotations

import asyncio
import signal

from nodeagent.cli.run import end_at_the_next_signal


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
