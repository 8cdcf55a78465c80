"""The access rules (ACLs) of a cluster: one node, which all brokers watch.

JSON under /rights/rules: {"version": 1, "rules": [[word, …], …]}. A row means what the broker's `rights/rule.py` says; here it is
text. One node is written by compare-and-swap, so that a request's rules come into force together. It holds some 9,000 rules.
"""

from collections.abc import Callable, Sequence

from . import paths
from .errors import UnreadableNode, VersionConflict
from .session import Session
from .values import json_bytes, read_json

ATTEMPTS = 10
"""How often a change starts over because another broker changed the rules."""

Rows = Sequence[Sequence[str]]


class AccessRules:
    """Reads, changes and watches the rules."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self) -> Rows:
        """Return the rules; none when there never were any. Raises UnreadableNode: rules that are left out may be denials."""
        return self._read()[0]

    def change(self, change: Callable[[Rows], Rows]) -> Rows:
        """Replace the rules by what `change` makes of them, and return them. It is called again when another broker was faster.

        Raises ValueTooLarge when they are too many; then nothing has changed.
        """
        for _ in range(ATTEMPTS):
            rows, version = self._read()
            wanted = change(rows)
            if wanted == rows:
                return rows
            data = json_bytes({"version": 1, "rules": [list(row) for row in wanted]})
            try:
                if version is not None:
                    self._session.tree.write(paths.ACCESS_RULES, data, version=version)
                elif not self._session.tree.create(paths.ACCESS_RULES, data):
                    continue
            except VersionConflict:
                continue
            return wanted
        raise VersionConflict("change", paths.ACCESS_RULES)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the session's thread now, and after each change. Return what ends the watch."""
        return self._session.watch_data(paths.ACCESS_RULES, callback)

    def _read(self) -> tuple[Rows, int | None]:
        node = self._session.tree.read(paths.ACCESS_RULES)
        if node is None:
            return [], None
        value = read_json(paths.ACCESS_RULES, node.data)
        rules = value.get("rules")
        if value.get("version") != 1 or not isinstance(rules, list) or not all(isinstance(row, list) for row in rules):
            raise UnreadableNode(paths.ACCESS_RULES, node.data, "version 1 and a list of rules are expected")
        return rules, node.version
