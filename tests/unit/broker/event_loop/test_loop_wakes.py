"""A post from another thread wakes the loop at any time."""

import os

import pytest

from headrace.broker.event_loop.loop import Loop


def test_a_post_while_the_loop_takes_note_of_an_earlier_one_costs_no_later_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, called, real = Loop(), list[str](), os.eventfd_read

    def read_while_another_thread_posts(fd: int) -> int:
        loop.post(lambda: called.append("in between"))
        return real(fd)

    loop.post(lambda: called.append("first"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "eventfd_read", read_while_another_thread_posts)
        loop._turn([(loop._poller.wake_fd, 1)])
    assert called == ["first", "in between"]
    loop.post(lambda: called.append("later"))
    assert os.eventfd_read(loop._poller.wake_fd) > 0, "the loop would sleep on until something else wakes it"
    loop.close()


def test_a_post_after_the_end_is_nothing_and_writes_to_nobodys_descriptor() -> None:
    # Before, a late worker raised in its thread, and pytest reported that for another test.
    loop = Loop()
    wake = loop._poller.wake_fd
    reader, writer = os.pipe()
    loop.close()
    try:
        os.dup2(writer, wake)
        loop.post(lambda: None)
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 8)
    finally:
        for descriptor in (reader, writer, wake):
            os.close(descriptor)
