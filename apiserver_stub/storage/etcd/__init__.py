"""etcd backend of the store; the only package of the server that imports ``grpc``, loaded for ``--store-servers``."""
