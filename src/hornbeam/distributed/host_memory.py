"""Workers of one host: messages lie in memory that they share; those to other hosts go as before.

A group of any transport is joined by host (`join_hosts`). Workers of one host are connected by sockets of the kernel,
and each of them has two segments of memory, for operations of even and of odd numbers in turn:

    worker 0   segment of even operations   | histograms for 1 | histograms for 2 | ...
               segment of odd operations    | best splits ...

A worker writes its messages into its segment, or finds them there (`room`), and tells each of the others by the socket
where theirs begins; who reads a message reads it where it lies. When a worker ends an operation all others have begun
it, so they have read what was sent in the one before, whose segment is free for the next. A message of a few bytes is
sent by the socket itself. What was written before `send` is seen after `recv`, on any processor: the kernel orders it.

Segments are files of memory without a name (memfd_create), and sockets have abstract names. So a process that is killed
leaves nothing behind, sizes of /dev/shm do not matter, and the socket of a process that ends tells the others at once.
Only processes of one user and one network namespace on one Linux kernel meet; others keep to the group's transport.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import secrets
import select
import socket
import struct
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from hornbeam.core.errors import CollectiveError
from hornbeam.distributed.collective import ABORT_TAG, Buffer, Collective, Received, failed, lost

SWITCH = "HORNBEAM_HOST_MEMORY"
"""Variable of the environment: 0 leaves all messages to the transport between hosts."""

CONNECT_SECONDS = 10.0
"""Workers of one host that have not found each other by then use the transport between hosts."""

SMALL_BYTES = 4096
"""Messages up to this size are sent by the socket."""

MOST_IDLE = 100
"""Operations in a row that need less than a quarter of a segment, after which it is replaced by a smaller one."""

PATIENCE = 0.001
"""Seconds of looking without a sleep: a worker that sleeps takes some 50 us to wake up."""

LAST_SECONDS = 0.5
"""Where a worker stops after it was at an operation the others may end this one: they wait so long for each other."""

LOOK_SECONDS = 0.05
"""A worker that waits looks this often whether the group was aborted by other means."""

HEAD = struct.Struct("<qqqq")
"""Tag and size of a message; its place in the segment, -1: it follows; size of the segment.

The head of a reason to give up has ABORT_TAG, and the number of the worker that gave up in the place of the size."""

ANCILLARY = socket.CMSG_SPACE(struct.calcsize("i")) if hasattr(socket, "CMSG_SPACE") else 0


def this_host() -> str:
    """Return what processes that can share memory have in common; "": this one cannot, or must not."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create") or os.environ.get(SWITCH) == "0":
        return ""
    try:
        os.close(os.memfd_create("hornbeam"))  # a sandbox may forbid it
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/net').stat().st_ino}/{os.getuid()}"
    except OSError:
        return ""


def join_hosts(outer: Collective, host: str | None = None) -> Collective:
    """Return a group whose workers share memory where they are on one host, or the given one where none can.

    outer  this worker's end of the group; all workers call this at the same time
    host   workers of one name are on one host, "": this one is alone; None: see this_host
    """
    if outer.size == 1:
        return outer
    host = this_host() if host is None else host
    door = Door(host)
    try:
        received = outer.all_gather(json.dumps([host, door.name, door.key]).encode(), "hosts of workers")
        cards = [json.loads(bytes(message)) for message in received]
        mates = [rank for rank, card in enumerate(cards) if card[0] == host and host]
        sockets = door.meet(outer.rank, {rank: cards[rank] for rank in mates}, min(CONNECT_SECONDS, outer.timeout))
    finally:
        door.close()
    try:
        met = [bool(bytes(each)) for each in outer.all_gather(b"1" if sockets else b"", "workers that have met")]
    except BaseException:
        close_sockets(list(sockets.values()))
        raise
    if not all(met[rank] for rank in mates):
        close_sockets(list(sockets.values()))
        sockets = {}
    of_hosts = {card[0]: [met[rank] for rank, other in enumerate(cards) if other[0] == card[0]] for card in cards}
    if not any(name and all(each) for name, each in of_hosts.items()):
        return outer
    return HostCollective(outer, sockets)


class Door:
    """Where a worker is met by others of its host, as long as the group is being joined.

    name  of the socket, in the abstract namespace; "": there is none
    key   what a worker that comes in has to show
    """

    def __init__(self, host: str) -> None:
        self.name, self.key, self._socket = "", secrets.token_hex(16), None
        if host:
            with suppress(OSError):
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                name = f"hornbeam-{secrets.token_hex(16)}"
                self._socket.bind(f"\0{name}")
                self._socket.listen(1024)
                self.name = name

    def meet(self, rank: int, cards: dict[int, list[str]], seconds: float) -> dict[int, socket.socket]:
        """Return connections to all other workers of this host, by their numbers; {}: one cannot be met.

        cards  host, name and key of each worker of this host
        """
        found: dict[int, socket.socket] = {}
        if not all(name for _, name, _ in cards.values()):
            return found
        try:
            for other in (other for other in cards if other < rank):
                found[other] = made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                made.settimeout(seconds)
                made.connect(f"\0{cards[other][1]}")
                made.send(json.dumps([rank, cards[other][2]]).encode())
            stop_at = time.monotonic() + seconds
            while len(found) < len(cards) - 1:
                self._let_in(found, set(cards), stop_at)
        except OSError:
            close_sockets(list(found.values()))
            return {}
        for each in found.values():
            each.setblocking(False)
        return found

    def _let_in(self, found: dict[int, socket.socket], expected: set[int], stop_at: float) -> None:
        """Let in the next one who knocks, if it has the key."""
        assert self._socket is not None
        self._socket.settimeout(max(stop_at - time.monotonic(), 0.001))
        guest, _ = self._socket.accept()
        guest.settimeout(max(stop_at - time.monotonic(), 0.001))
        with suppress(ValueError):
            rank, key = json.loads(guest.recv(1024))
            if secrets.compare_digest(str(key), self.key) and rank in expected and rank not in found:
                found[rank] = guest
                return
        guest.close()

    def close(self) -> None:
        """Let nobody in any more."""
        if self._socket is not None:
            self._socket.close()


def close_sockets(sockets: list[socket.socket]) -> None:
    """Close connections; what the others have not read yet they still can."""
    for each in sockets:
        each.close()


class Segment:
    """Memory of this worker that others read.

    memory   all of it
    strange  numbers of workers that have not got it yet
    n_idle   operations in a row that needed little of it
    """

    def __init__(self, n_bytes: int, readers: Sequence[int]) -> None:
        self._descriptor = os.memfd_create("hornbeam", os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, n_bytes)
        self.memory = memoryview(mmap.mmap(self._descriptor, n_bytes))
        self.strange, self.n_idle = set(readers), 0
        self._address = address_of(self.memory)

    def place_of(self, message: memoryview, used: int) -> int:
        """Return where a message lies in the first `used` bytes; -1: elsewhere."""
        place = address_of(message) - self._address
        return place if 0 <= place <= used - message.nbytes else -1

    def give_to(self, rank: int) -> list[tuple[int, int, bytes]]:
        """Return what goes along with the first message here to a worker."""
        if rank not in self.strange:
            return []
        self.strange.discard(rank)
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", self._descriptor))]

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self._descriptor)


def address_of(message: memoryview) -> int:
    """Return where bytes lie in the memory of this process."""
    return int(np.frombuffer(message, np.uint8).__array_interface__["data"][0])


class Peer:
    """Another worker of this host.

    segments  its memory, for operations of even and odd numbers
    inbox     its messages that nobody has asked for yet
    aborted   worker that gave up, and why, as this one has said; None: it has said nothing
    is_gone   whether it has closed its end
    """

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank, self.socket = rank, connection
        self.segments: list[memoryview] = [memoryview(b""), memoryview(b"")]
        self.inbox: deque[Received] = deque()
        self.aborted: tuple[int, str] | None = None
        self.is_gone = False
        self._n_read = 0

    def send(self, parts: Sequence[Buffer], along: list[tuple[int, int, bytes]]) -> None:
        """Send something, unless the worker is gone, which is noticed where its message is missing."""
        with suppress(ConnectionError):
            self.socket.sendmsg(parts, along)

    def read(self) -> None:
        """Take in a message."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(1 << 16, ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it has closed its end before it read all: what it had sent comes first
            self.read()
            return
        if not data:
            self.is_gone = True
            return
        tag, size, place, segment_bytes = HEAD.unpack_from(data)
        if tag == ABORT_TAG:
            self.aborted = size, data[HEAD.size :].decode(errors="replace")
            return
        half = self._n_read % 2
        for _, _, descriptors in ancillary:
            (descriptor,) = struct.unpack("i", descriptors)
            self.segments[half] = memoryview(mmap.mmap(descriptor, segment_bytes))
            os.close(descriptor)
        inline = memoryview(data)[HEAD.size :]
        self.inbox.append((tag, inline if place < 0 else self.segments[half][place : place + size]))
        self._n_read += 1


class HostCollective(Collective):
    """One worker's end of a group that is joined by host.

    outer    its end of the group as it was
    sockets  connections to the other workers of its host, by their numbers
    """

    def __init__(self, outer: Collective, sockets: dict[int, socket.socket]) -> None:
        super().__init__(outer.rank, outer.size, outer.timeout)
        self._outer, self.traffic = outer, outer.traffic
        self._is_alone = len(sockets) == outer.size - 1  # all workers are on this host
        self._peers = {rank: Peer(rank, each) for rank, each in sockets.items()}
        self._by_descriptor = {peer.socket.fileno(): peer for peer in self._peers.values()}
        self._poll = select.poll()
        for descriptor in self._by_descriptor:
            self._poll.register(descriptor, select.POLLIN)
        self._segments = [Segment(mmap.PAGESIZE, list(self._peers)) for _ in range(2)]
        self._n_done, self._used = 0, 0  # operations; bytes of the next one's segment that were given away
        self._finalize = weakref.finalize(self, close_sockets, list(sockets.values()))

    def close(self) -> None:
        """Leave the others of this host."""
        self._finalize()
        self._outer.close()

    def abort(self, reason: str) -> None:
        """Tell the others: by the sockets where all are on this host, or else as the group does."""
        if self.is_over:
            return
        if self._is_alone:
            self._tell_why(self.rank, reason)
        else:
            self.is_over = True
            self._outer.abort(reason)
        self._finalize()

    def _tell_why(self, rank: int, reason: str) -> None:
        """Tell the others of this host why a worker gave up."""
        self.is_over, text = True, reason.encode()[: 1 << 15]
        for peer in self._peers.values():
            with suppress(OSError):
                peer.send([HEAD.pack(ABORT_TAG, rank, -1, 0), text], [])

    def room(self, n_bytes: int) -> memoryview:
        """Return the beginning of the next operation's segment."""
        self._used = n_bytes
        return self._segment(n_bytes).memory[:n_bytes]

    def _segment(self, n_bytes: int) -> Segment:
        """Return the segment of the next operation, of at least some bytes, and not of many more for long."""
        half = self._n_done % 2
        segment = self._segments[half]
        segment.n_idle = segment.n_idle + 1 if 4 * n_bytes < len(segment.memory) else 0
        if len(segment.memory) < n_bytes or segment.n_idle > MOST_IDLE:
            segment = self._segments[half] = Segment(max(n_bytes * 3 // 2, mmap.PAGESIZE), list(self._peers))
        return segment

    def _exchange(self, messages: Sequence[Buffer | None], tag: int, what: str) -> list[Received]:
        """Tell the workers of this host, exchange with other hosts, then listen to this one."""
        self._outer.look(what)
        self._tell(messages, tag)
        if self._is_alone:
            received = [(tag, messages[self.rank] or b"")] * self.size
        else:
            received = self._outer._exchange(
                [None if rank in self._peers else message for rank, message in enumerate(messages)], tag, what
            )
        self._listen(what)
        for peer in self._peers.values():
            received[peer.rank] = peer.inbox.popleft()
        return received

    def _tell(self, messages: Sequence[Buffer | None], tag: int) -> None:
        """Lay messages into the segment of this operation, one that goes to several workers once."""
        views = {rank: memoryview(messages[rank] or b"") for rank in self._peers}
        large = {id(messages[rank]): view for rank, view in views.items() if view.nbytes > SMALL_BYTES}
        segment, places = self._lay(large) if large else (None, {})
        for rank, view in views.items():
            peer = self._peers[rank]
            if segment is None or view.nbytes <= SMALL_BYTES:
                peer.send([HEAD.pack(tag, view.nbytes, -1, 0), view], [])
            else:
                head = HEAD.pack(tag, view.nbytes, places[id(messages[rank])], len(segment.memory))
                peer.send([head], segment.give_to(rank))
        self._n_done += 1
        self._used = 0

    def _lay(self, views: dict[int, memoryview]) -> tuple[Segment, dict[int, int]]:
        """Return the segment that has these messages, and where each begins; what is there already is not copied."""
        segment = self._segments[self._n_done % 2]
        in_room = {name: segment.place_of(view, self._used) for name, view in views.items()}
        places = {name: place for name, place in in_room.items() if place >= 0}
        if len(places) < len(views):
            done, sizes = _padded(self._used), {name: _padded(view.nbytes) for name, view in views.items()}
            fitting = self._segment(done + sum(sizes.values()))
            if fitting is not segment:  # the room is left behind
                segment, places, done = fitting, {}, 0
        for name, view in views.items():
            if name not in places:
                places[name] = done
                segment.memory[done : done + view.nbytes] = view.cast("B")
                done += _padded(view.nbytes)
        return segment, places

    def _listen(self, what: str) -> None:
        """Wait until every worker of this host has a message here."""
        begun, stop_at = time.perf_counter(), math.inf
        while late := [rank for rank, peer in self._peers.items() if not peer.inbox]:
            now = time.perf_counter()
            waited = now - begun
            is_patient = waited < PATIENCE
            if is_patient:
                os.sched_yield()  # to a worker that shares the processor, if any
            self._read(0.0 if is_patient else min(LOOK_SECONDS, max(self.timeout - waited, 0.0)))
            stopped = [peer for peer in self._peers.values() if peer.is_gone or peer.aborted]
            if stopped and (now > stop_at or any(not peer.inbox for peer in stopped)):
                raise self._stopped(what)
            if stopped:
                stop_at = min(stop_at, now + LAST_SECONDS)
            if not is_patient:
                self._outer.look(what)
            if waited >= self.timeout:
                raise lost(self.rank, late, what, self.timeout)

    def _stopped(self, what: str) -> CollectiveError:
        """Return the error of a group that goes on no more: a worker has said why, or one is gone.

        The others of this host are told, before this worker is gone, too.
        """
        self._outer.look(what)
        gone = [(rank, "its process has ended") for rank, peer in self._peers.items() if peer.is_gone]
        other, reason = next((peer.aborted for peer in self._peers.values() if peer.aborted), None) or gone[0]
        if self._is_alone:
            self._tell_why(other, reason)
        return failed(self.rank, other, what, reason)

    def _read(self, seconds: float) -> None:
        """Take in what has come, or comes soon."""
        for descriptor, _ in self._poll.poll(seconds * 1e3):
            peer = self._by_descriptor[descriptor]
            peer.read()
            if peer.is_gone:
                self._poll.unregister(descriptor)


def _padded(n_bytes: int) -> int:
    """Return a number of bytes after which a line of a processor's cache begins."""
    return -(-n_bytes // 64) * 64
