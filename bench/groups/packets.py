"""What a ZooKeeper server says of itself."""

import socket


def packets_received(zookeeper: str) -> int:
    """Return how many packets the server at `host:port` has received since its start, by its own count (`srvr`)."""
    host, _, port = zookeeper.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as asking:
        asking.sendall(b"srvr")
        told = b"".join(iter(lambda: asking.recv(4096), b"")).decode()
    return int(next(line.split()[1] for line in told.splitlines() if line.startswith("Received:")))
