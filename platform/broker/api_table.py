"""The router's table for people, in Markdown: `python -m headrace.broker.api_table`. What stands in `docs/BROKER.md`, and a test
holds that it does.

What an API does is the first sentence of its handler's file, so it is said once."""

import re
import sys

from .router import TABLE, Api

_ASIDE_FIRST = re.compile(r"^(\([^)]*\))[:,]? *(.*)$")


def markdown() -> str:
    """Return one line for each API, by key, without a line end behind the last."""
    lines = ["| key | API | versions | what it does |", "|---:|---|---|---|"]
    lines += [f"| {key} | {api.name} | {_versions(api)} | {_sentence(api)} |" for key, api in sorted(TABLE.items())]
    return "\n".join(lines)


def told(api: Api) -> dict[int, tuple[int, int]]:
    """Return the versions that the handler's file says it reads, by key."""
    paragraph = _paragraph(api)
    return {
        int(key): (int(lowest), int(highest or lowest))
        for key, lowest, highest in re.findall(r"\bkey (\d+), versions? (\d+)(?:-(\d+))?", paragraph)
    }


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


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
