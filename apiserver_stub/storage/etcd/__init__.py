"""An etcd cluster as the store; the one home of ``grpc`` in the server, imported when ``--store-servers`` is set."""
