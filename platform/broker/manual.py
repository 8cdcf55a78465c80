"""The tables of `docs/BROKER.md`, from the tables of the code: `python -m headrace.broker.manual docs/BROKER.md` puts them in.

A test holds that they are there as the code has them. Each stands between `<!-- name -->` and `<!-- end -->`. Pure, but for
`main`."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from . import api_table, metrics_page, topic_settings
from .setting_table import NUMBERS, SYNONYMS, WORDS

_PLACE = re.compile(r"(<!-- (?!end)(?P<name>[a-z ]+) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
_LARGEST = {str(topic_settings.LARGEST_INT64): "never", str(topic_settings.LARGEST_INT32): "2³¹−1"}


def tables() -> Mapping[str, str]:
    """Return each table by the name of its place."""
    return {
        "settings": _settings(),
        "other names": _other_names(),
        "topic settings": _topic_settings(),
        "metrics": _metrics(),
        "apis": api_table.markdown(),
    }


def filled(text: str) -> str:
    """Return the text with every table in its place. Raises KeyError for a place that no table belongs to."""
    known = tables()
    return _PLACE.sub(lambda found: f"{found[1]}{known[found['name']]}\n{found[3]}", text)


def _settings() -> str:
    rows = {}
    for name, number in NUMBERS.items():
        highest = _LARGEST.get(str(number.highest), str(number.highest))
        rows[name] = f"{number.default} ({number.lowest} to {highest}) | {number.doc}"
    for name, word in WORDS.items():
        rows[name] = f"{'–' if word.default is None else word.default} | {word.doc}"
    lines = [f"| `{name}` | {row} |" for name, row in sorted(rows.items())]
    return "\n".join(["| setting | default (bounds) | |", "|---|---|---|", *lines])


def _other_names() -> str:
    lines = [f"| `{other}` | `{name}` |" for other, (name, _) in SYNONYMS.items()]
    return "\n".join(["| also taken | for |", "|---|---|", *lines])


def _topic_settings() -> str:
    lines = []
    for name, setting in sorted(topic_settings.TABLE.items()):
        broker_name = "" if setting.broker_name is None else f"`{setting.broker_name}`"
        default = _LARGEST.get(setting.default, setting.default)
        lines.append(f"| `{name}` | {broker_name} | {default} | {setting.doc} |")
    return "\n".join(["| topic setting | the broker's default for it | default | |", "|---|---|---|---|", *lines])


def _metrics() -> str:
    lines = []
    for name, (kind, labels, doc) in metrics_page.TABLE.items():
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {doc} |")
    return "\n".join([f"| `{metrics_page.PREFIX}…` | type | labels | |", "|---|---|---|---|", *lines])


def main(path: str) -> None:
    """Write the tables into the file."""
    file = Path(path)
    file.write_text(filled(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1])
