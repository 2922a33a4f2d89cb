"""Small programs that the runtime starts: to hold a sandbox, to stand beside a container, to make namespaces.

They import the standard library alone, and little of it, because there may be hundreds of them.
"""
