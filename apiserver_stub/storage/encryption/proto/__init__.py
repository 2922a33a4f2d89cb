"""The messages of the store; ``python tools/protogen.py`` makes them from the ``.proto`` files."""
