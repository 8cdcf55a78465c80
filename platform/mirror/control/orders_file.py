"""The file of orders: beside the mirror's status file, replaced whole, read when it has changed."""

import os
from pathlib import Path

from ...runtime.whole_file import replace_file
from .orders import NotOrders, Orders

SUFFIX = ".orders"


def orders_path(status_file: Path) -> Path:
    """Return where a mirror with this status file looks for orders: `mirror.json` → `mirror.orders`."""
    return status_file.with_suffix(SUFFIX)


def read_orders(path: Path) -> Orders:
    """Return what is there; no orders if there is no file. Raises `NotOrders`."""
    try:
        return Orders.from_json(path.read_bytes(), str(path))
    except FileNotFoundError:
        return Orders()
    except OSError as error:
        raise NotOrders(str(path), str(error)) from error


def write_orders(path: Path, orders: Orders) -> None:
    """Replace the file; it survives a power cut. Raises OSError."""
    replace_file(path, orders.to_json(), is_durable=True)


class OrdersFile:
    """What the mirror knows of its file. Without a path there are never orders."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self.orders = Orders()
        self.trouble: str | None = None
        """Why the file cannot be read now; what was read before holds."""

    def look(self) -> Orders:
        """Return the orders that hold now."""
        if self._path is None:
            return self.orders
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        except OSError:
            seen = None
        if seen is None or seen != self._seen or self.trouble is not None:
            try:
                self.orders, self.trouble, self._seen = read_orders(self._path), None, seen
            except NotOrders as error:
                self.trouble = str(error)
        return self.orders
