"""Watches each child of a node, for a caller that caches thousands of them: it must not read all of them for each new one."""

from collections.abc import Callable

from .session import Session


def watch_each(
    session: Session, parent: str, listed: Callable[[], None], of_child: Callable[[str], Callable[[], None]]
) -> Callable[[], None]:
    """Call `listed` on the session's thread, now and after children appeared or disappeared. Call what `of_child` returns for a
    child after it may have changed. Children for which it returns the same share a call. Return what ends the watch.
    """
    watched: dict[str, Callable[[], None]] = {}

    def on_list() -> None:
        present = set(session.tree.children(parent))
        for gone in watched.keys() - present:
            watched.pop(gone)()
        for new in sorted(present - watched.keys()):
            watched[new] = session.watch_data(f"{parent}/{new}", of_child(new))
        listed()

    end_list = session.watch_children(parent, on_list)

    def end() -> None:
        end_list()
        for end_one in list(watched.values()):
            end_one()

    return end
