"""Prints the code's tables into `docs/BROKER.md`: `python -m headrace.broker.manual docs/BROKER.md`.

A test compares the document with the code. Each table is between `<!-- name -->` and `<!-- end -->`. The description of an API is
the first sentence of its handler's file. Pure, except `main`."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from .handlers.access import table as access_table
from .handlers.api_table import TABLE, Api
from .monitoring import metrics_page
from .settings import topic_settings
from .settings.definitions import NUMBERS, SYNONYMS, WORDS

_MARKED = re.compile(r"(<!-- (?!end)(?P<name>[a-z ]+) -->\n)(?:.*?\n)??(<!-- end -->)", re.DOTALL)
_ASIDE_FIRST = re.compile(r"^(\([^)]*\))[:,]? *(.*)$")
_LARGEST = {str(topic_settings.LARGEST_INT64): "never", str(topic_settings.LARGEST_INT32): "2³¹−1"}


def tables() -> Mapping[str, str]:
    """Return the tables by name."""
    return {
        "settings": _settings(),
        "other names": _other_names(),
        "topic settings": _topic_settings(),
        "metrics": _metrics(),
        "apis": _apis(),
        "rights": _rights(),
    }


def filled(text: str) -> str:
    """Return the text with every table filled in. Raises: KeyError for a mark without a table."""
    known = tables()
    return _MARKED.sub(lambda found: f"{found[1]}{known[found['name']]}\n{found[3]}", text)


def versions_in_file(api: Api) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest versions that the handler's file names in its first paragraph, by API key."""
    paragraph = _paragraph(api)
    return {
        int(key): (int(lowest), int(highest or lowest))
        for key, lowest, highest in re.findall(r"\bkey (\d+), versions? (\d+)(?:-(\d+))?", paragraph)
    }


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


def _apis() -> str:
    lines = ["| key | API | versions | what it does |", "|---:|---|---|---|"]
    lines += [f"| {key} | {api.name} | {_versions(api)} | {_sentence(api)} |" for key, api in sorted(TABLE.items())]
    return "\n".join(lines)


def _rights() -> str:
    lines = ["| API | right | on | |", "|---|---|---|---|"]
    for key, api in sorted(TABLE.items(), key=lambda entry: entry[1].name):
        if key in access_table.FREE:
            continue
        needs = access_table.needs_of(key)
        lines += [f"| {api.name} | {need.operation.name} | {need.resource.name} | {need.note} |" for need in needs]
        if not needs:
            lines.append(f"| {api.name} | – | | |")
    return "\n".join(lines)


def _versions(api: Api) -> str:
    if api.served_from > api.lowest:
        return f"{api.lowest}-{api.highest}, read from {api.served_from} on"
    return f"{api.lowest}-{api.highest}" if api.highest > api.lowest else str(api.lowest)


def _paragraph(api: Api) -> str:
    document = sys.modules[api.handler.__module__].__doc__ or ""
    return " ".join(document.split("\n\n")[0].split())


def _sentence(api: Api) -> str:
    behind = re.split(r"\bkey \d+, versions? \d+(?:-\d+)?", _paragraph(api))[-1].lstrip(" ,:")
    aside = _ASIDE_FIRST.match(behind)
    if aside is not None:
        behind = f"{aside[2]} {aside[1]}" if aside[2].strip(" .") else aside[1][1:-1]
        behind = re.sub(r"\.( \()", r"\1", behind)
    return re.split(r"(?<=[^.A-Z])\. ", behind)[0].rstrip(". ").replace("|", "\\|")


def main(path: str) -> None:
    """Write the tables into the file."""
    file = Path(path)
    file.write_text(filled(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1])
