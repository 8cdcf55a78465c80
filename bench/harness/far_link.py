"""A far and lossy line to a server on loopback, in user space: `python -m bench.harness.far_link --delay-ms 50 --loss 0.01 …`.

    client -> 127.0.0.1:PORT, relay -> [namespace near] = TUN = delay, loss = TUN = [namespace far] -> relay -> server

For kernels without `netem`: two network namespaces of this process's own, a TUN device in each, and every IP packet between
them is held for the delay or dropped, by this program. So TCP over the line is the kernel's, with its own recovery and window.
What is not as with `netem` between client and server: a relay at either end, each with socket buffers of its own (the line's
TCP connection ends there). `--bulk-s` measures instead what one TCP connection gets over the line, far to near, and prints it.
"""

import argparse
import ctypes
import fcntl
import heapq
import json
import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable

from .unavailable import Unavailable

MTU = 1_500
MOST_PACKETS = 20_000
"""That one direction holds; what comes beyond is dropped, as a queue does."""
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_NEAR, _FAR, _PORT = "10.250.17.1", "10.250.17.2", 7_000
_HELD_BYTES = 256 << 10
"""Of one direction of one relayed connection."""
_BULK = bytes(64 << 10)

_libc = ctypes.CDLL(None, use_errno=True)


def why_not(congestion: str) -> str | None:
    """Return why this machine cannot have such a line; None if it can. Tries it in a process of its own."""
    words = [sys.executable, "-m", __name__, "--try", "--congestion", congestion]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it does not start"])[-1]


class Line:
    """Two namespaces, and packets between them. `turn` moves what is due; sockets are made in the one or the other."""

    def __init__(self, delay_s: float, loss: float, seed: int, congestion: str) -> None:
        """`congestion`: how its sockets answer loss, by the kernel's name. Raises Unavailable."""
        self.loop = selectors.DefaultSelector()
        self._delay_s, self._loss, self._random = delay_s, loss, random.Random(seed)
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._congestion = congestion.encode()
        self.packets = self.dropped = 0
        self._main = _namespace()
        near = _own_namespace(_NEAR, _FAR)
        self._near = _namespace()
        far = _own_namespace(_FAR, _NEAR)
        self._far = _namespace()
        for device, other in ((near, far), (far, near)):
            self.loop.register(device, selectors.EVENT_READ, lambda device=device, other=other: self._take(device, other))
        self._enter(self._main)

    def near_socket(self) -> socket.socket:
        return self._socket_in(self._near)

    def far_socket(self) -> socket.socket:
        return self._socket_in(self._far)

    def turn(self, longest_s: float = 0.2) -> None:
        """Wait for what comes next, at most so long, and carry it out."""
        now = time.monotonic()
        until = self._queue[0][0] if self._queue else now + longest_s
        for key, _ in self.loop.select(max(0.0, min(longest_s, until - now))):
            key.data()
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, _, device, packet = heapq.heappop(self._queue)
            try:
                os.write(device, packet)
            except OSError:
                self.dropped += 1  # the device's queue is full

    def _take(self, device: int, other: int) -> None:
        due = time.monotonic() + self._delay_s
        for _ in range(64):
            try:
                packet = os.read(device, MTU + 64)
            except BlockingIOError:
                return
            self.packets += 1
            if self._random.random() < self._loss or len(self._queue) >= MOST_PACKETS:
                self.dropped += 1
                continue
            self._number += 1
            heapq.heappush(self._queue, (due, self._number, other, packet))

    def _socket_in(self, namespace: int) -> socket.socket:
        self._enter(namespace)
        try:
            made = socket.socket()
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._congestion)
            return made
        except OSError as error:
            raise Unavailable(f"the kernel has no congestion control {self._congestion.decode()!r}: {error}") from error
        finally:
            self._enter(self._main)

    def _enter(self, namespace: int) -> None:
        _checked(_libc.setns(namespace, _CLONE_NEWNET), "setns")


class Relay:
    """What comes from one socket goes to the other; either's end is the other's."""

    def __init__(self, loop: selectors.BaseSelector, one: socket.socket, other: socket.socket) -> None:
        self._loop = loop
        self._to = {one: other, other: one}
        self._held: dict[socket.socket, bytearray] = {one: bytearray(), other: bytearray()}
        self._ended: set[socket.socket] = set()
        for each in (one, other):
            each.setblocking(False)
            loop.register(each, selectors.EVENT_READ, lambda each=each: self._move(each))

    def _move(self, ready: socket.socket) -> None:
        try:
            for each, other in self._to.items():
                self._drain(each)
                if ready is each and each not in self._ended and len(self._held[other]) < _HELD_BYTES:
                    self._fill(each, other)
                self._drain(other)
            for each, other in self._to.items():
                if each in self._ended and not self._held[other]:
                    return self._close()
            self._watch()
        except OSError:
            self._close()
        return None

    def _fill(self, each: socket.socket, other: socket.socket) -> None:
        try:
            came = each.recv(64 << 10)
        except BlockingIOError:
            return
        if came:
            self._held[other] += came
        else:
            self._ended.add(each)

    def _drain(self, to: socket.socket) -> None:
        held = self._held[to]
        try:
            if held:
                del held[: to.send(held)]
        except BlockingIOError:
            return

    def _watch(self) -> None:
        for each, other in self._to.items():
            reads = each not in self._ended and len(self._held[other]) < _HELD_BYTES
            events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self._held[each] else 0)
            known = each in self._loop.get_map()
            if events and known:
                self._loop.modify(each, events, self._loop.get_key(each).data)
            elif events:
                self._loop.register(each, events, lambda each=each: self._move(each))
            elif known:
                self._loop.unregister(each)

    def _close(self) -> None:
        for each in self._to:
            if each.fileno() >= 0 and each in self._loop.get_map():
                self._loop.unregister(each)
            each.close()


def serve(line: Line, port: int, server_port: int) -> None:
    """Relay connections to the loopback `port` over the line to the server, until killed."""
    far, front = line.far_socket(), socket.socket()
    for listener, address in ((far, (_FAR, _PORT)), (front, ("127.0.0.1", port))):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(64)

    def accept(listener: socket.socket, made: Callable[[], socket.socket], address: tuple[str, int]) -> None:
        came, _ = listener.accept()
        onward = made()
        for each in (came, onward):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        onward.setblocking(False)
        onward.connect_ex(address)
        Relay(line.loop, came, onward)

    line.loop.register(front, selectors.EVENT_READ, lambda: accept(front, line.near_socket, (_FAR, _PORT)))
    line.loop.register(far, selectors.EVENT_READ, lambda: accept(far, socket.socket, ("127.0.0.1", server_port)))
    while True:
        line.turn()


def bulk(line: Line, seconds: float, warm_s: float) -> float:
    """Return the megabytes a second that one connection carries from far to near, after `warm_s`."""
    far, near = line.far_socket(), line.near_socket()
    far.bind((_FAR, _PORT))
    far.listen(1)
    near.setblocking(False)
    near.connect_ex((_FAR, _PORT))
    received = 0

    def send() -> None:
        peer, _ = far.accept()
        peer.setblocking(False)
        line.loop.register(peer, selectors.EVENT_WRITE, lambda: peer.send(_BULK))

    def receive() -> None:
        nonlocal received
        received += len(near.recv(1 << 20))

    line.loop.register(far, selectors.EVENT_READ, send)
    line.loop.register(near, selectors.EVENT_READ, receive)
    began = time.monotonic()
    while time.monotonic() < began + warm_s:
        line.turn()
    before, began = received, time.monotonic()
    while time.monotonic() < began + seconds:
        line.turn()
    return (received - before) / 1e6 / (time.monotonic() - began)


def _own_namespace(address: str, peer: str) -> int:
    """Enter a new network namespace with a TUN device of this address; return the device. Raises Unavailable."""
    _checked(_libc.unshare(_CLONE_NEWNET), "a network namespace of its own (unshare)")
    try:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"line", _IFF_TUN | _IFF_NO_PI))
        for words in (f"addr add {address} peer {peer} dev line", f"link set line mtu {MTU} txqueuelen 10000 up"):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"no TUN device: {getattr(error, 'stderr', None) or error}") from error
    return device


def _namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise Unavailable(f"no {what}: {os.strerror(ctypes.get_errno())}; it takes Linux and root")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=50, help="of one direction: half the round trip")
    parser.add_argument("--loss", type=float, default=0.01, help="the part of packets that is dropped, each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--congestion", default="cubic", help="the answer to loss: cubic, bbr, reno")
    parser.add_argument("--port", type=int, help="relay connections to this loopback port over the line …")
    parser.add_argument("--server-port", type=int, help="… to this one")
    parser.add_argument("--bulk-s", type=float, help="measure one TCP connection for so long instead")
    parser.add_argument("--warm-s", type=float, default=5.0, help="before it is measured")
    parser.add_argument("--try", action="store_true", help="only make the line, and end")
    arguments = parser.parse_args()
    try:
        line = Line(arguments.delay_ms / 1000, arguments.loss, arguments.seed, arguments.congestion)
        if arguments.bulk_s is not None:
            found = bulk(line, arguments.bulk_s, arguments.warm_s)
            print(json.dumps({"mb_per_s": found, "packets": line.packets, "dropped": line.dropped}))
        elif getattr(arguments, "try"):
            line.near_socket().close()
        else:
            serve(line, arguments.port, arguments.server_port)
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
