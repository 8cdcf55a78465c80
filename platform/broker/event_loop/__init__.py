"""The event loop: epoll, timers, worker threads, deferred responses, and long work in slices of time."""
