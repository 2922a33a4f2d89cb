"""Tests for the responses to local queries."""

import asyncio
import json
import os
import struct

import msgspec

from nodeagent.contracts.local import LocalQuery, NoArguments
from nodeagent.errors import NodeAgentError
from nodeagent.server.local import LocalServer


class Name(msgspec.Struct):
    name: str


class Writer:
    """The connection of a client with a user ID."""

    def __init__(self, user):
        self.user, self.data, self.closed = user, b"", False

    def get_extra_info(self, name):
        return self

    def getsockopt(self, level, option, size):
        return struct.pack("3i", 1, self.user, self.user)

    def write(self, data):
        self.data += data

    async def drain(self):
        pass

    def close(self):
        self.closed = True


async def greet(request):
    return {"greeting": f"hello {request.name}"}


async def reject(request):
    raise NodeAgentError("not now")


async def break_down(request):
    raise ZeroDivisionError("oops")


QUERIES = [
    LocalQuery("greet", NoArguments, reject),
    LocalQuery("greet", Name, greet, 5),
    LocalQuery("reject", NoArguments, reject),
    LocalQuery("broken", NoArguments, break_down),
]


async def respond(tmp_path, line, user=None):
    reader, writer = asyncio.StreamReader(), Writer(os.geteuid() if user is None else user)
    reader.feed_data(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    reader.feed_eof()
    await LocalServer(tmp_path, QUERIES)._serve(reader, writer)
    assert writer.closed
    return json.loads(writer.data)


async def test_query_is_handled_with_its_arguments(tmp_path):
    request = {"question": "greet", "arguments": {"name": "you"}}
    for user in (None, 0):
        assert await respond(tmp_path, request, user) == {"answer": {"greeting": "hello you"}, "error": ""}
    assert (await respond(tmp_path, request, 12345))["error"] == "permission denied: only root has access"


async def test_failed_query_has_the_error_as_its_response(tmp_path, caplog):
    for line, error in [
        ({"question": "other"}, 'unknown query "other" (supported: broken, greet, reject)'),
        ({"question": "greet"}, "Object missing required field `name`"),
        ({"question": "reject"}, "not now"),
        ({"question": "broken"}, "internal error: ZeroDivisionError('oops'); see the agent's log"),
        (b"?\n", "JSON is malformed: invalid character (byte 0)"),
    ]:
        response = await respond(tmp_path, line)
        assert (response["answer"], response["error"]) == (None, error)
    assert caplog.messages == ["Failed to handle local query"]
