"""HTTP/2 for those who ask for it (spec: opt.http2-max-streams-per-connection, opt.goaway-chance).

A connection runs the protocol and hands every stream as a connection of its own to the handler of HTTP/1.1, so that
requests take one way through the server whatever they came by. Imported when the first such connection is made.

Custom on top of ``h2``, since aiohttp serves only HTTP/1.1.
"""
