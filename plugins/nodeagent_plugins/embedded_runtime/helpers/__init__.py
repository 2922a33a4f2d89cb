"""Helper processes of the runtime: sandbox pause process, container shim and the built-in OCI runtime.

They import only a small part of the standard library, because there can be hundreds of them.
"""
