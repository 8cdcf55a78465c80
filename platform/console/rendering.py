"""Templates, and the two files that pages load. Everything is escaped; no page holds a script or a style of its own."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..audit.model.windows import utc

STATIC = {"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of the pages: their own files, and nothing that a topic's name may smuggle in."""
_FOLDER = Path(__file__).parent / "static"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def static(name: str) -> bytes:
    """Return a file of `STATIC`."""
    return (_FOLDER / name).read_bytes()


def render(template: str, **words: Any) -> str:
    """Return a page."""
    return _environment.get_template(f"{template}.html").render(**words)


def prepare() -> None:
    """Compile every template, which is done at its first use else: 0.1 s of the first page."""
    for name in _environment.list_templates():
        _environment.get_template(name)


def instant(at_ms: int | None, *, to: int | None = None) -> Markup:
    """Return an instant in UTC to the second; with `to` in minutes, up to the end. The script adds the local time beside it."""
    if at_ms is None:
        return Markup("–")
    words = utc(at_ms)
    if words.endswith("ms"):
        return escape(words)
    machine = f"{words.replace(' ', 'T')}Z"
    shown = words if to is None else f"{words[:-3]} – {utc(to)[-8:-3]}"
    return Markup(f"<time datetime={machine}>{shown}</time>")


def number(value: float | None) -> str:
    """Return a count; what is not known is no zero."""
    return "–" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Return a number of bytes, short."""
    if value is None:
        return "–"
    left, unit = float(value), 0
    while left >= 1000 and unit < len(_UNITS) - 1:
        left, unit = left / 1000, unit + 1
    return f"{value:,} bytes" if not unit else f"{left:.1f} {_UNITS[unit]}"


def span(ms: float | None) -> str:
    """Return how long something took or is, short."""
    if ms is None:
        return "–"
    if not ms:
        return "0 s"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"
    for unit, width in (("min", 60_000), ("h", 3_600_000), ("days", 86_400_000)):
        if ms < width * 120 or unit == "days":
            return f"{ms / width:,.0f} {unit}"
    raise AssertionError("the last unit has no end")


def link(path: str, **query: Any) -> str:
    """Return an address of the console; what is None or empty is left out."""
    words = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(words)}" if words else path


def _version() -> str:
    digest = hashlib.sha256()
    for name in sorted(STATIC):
        digest.update(static(name))
    return digest.hexdigest()[:12]


def _made() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or "headrace.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {"n": number, "size": size, "span": span, "instant": instant}
    made.filters.update(filters)
    made.globals.update(link=link, version=_version())
    return made


_environment = _made()
