from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import msgspec
import pytest

from nodeagent.base.logging import Logging, LoggingOptions, LoggingSettings, active, configure


class Streams:
    """Standard error and standard output of a configured logging, read after a flush."""

    def __init__(self) -> None:
        self.err, self.out = io.BytesIO(), io.BytesIO()
        self.options = LoggingOptions(error_stream=self.err, info_stream=self.out)

    def configure(self, **settings: object) -> Logging:
        return configure(LoggingSettings(**settings), options=self.options)  # type: ignore[arg-type]

    def err_lines(self) -> list[str]:
        return _lines(self.err)

    def out_lines(self) -> list[str]:
        return _lines(self.out)

    def out_objects(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(line) for line in self.out_lines()]

    def err_objects(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(line) for line in self.err_lines()]


@pytest.fixture
def streams() -> Iterator[Streams]:
    yield Streams()
    if (logging := active()) is not None:
        logging.close()


def _lines(stream: io.BytesIO) -> list[str]:
    if (logging := active()) is not None:
        logging.flush()
    return stream.getvalue().decode().splitlines()


MakeStreams = Callable[[], Streams]
