"""`headrace query SQL`: DuckDB over the warehouse's published hours, or over every row with the name `<topic>_all`."""

import argparse
import json
import re
import sys
from itertools import islice

from ..errors import HeadraceError
from ..runtime.layout import Layout
from .topic_names import topics_if_reachable, unknown_topic

HELP = """ask the warehouse in SQL: a topic's name is its published hours (the table's branch main), <topic>_all every row loaded

example: headrace query 'SELECT status, count(*) AS requests FROM access_log GROUP BY status ORDER BY 2 DESC' --json"""

TABLE_ROWS = 200
NO_SUCH_TABLE = re.compile(r"Table with name (.+?) does not exist")
"""DuckDB's message."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sql")
    parser.add_argument("--json", action="store_true", help="print a JSON array of rows; instants as ISO 8601 in UTC")
    parser.add_argument("--limit", type=int, default=TABLE_ROWS, help=f"rows shown as a table (default {TABLE_ROWS})")


def run(arguments: argparse.Namespace) -> int:
    from ..spark.errors import BadQuery
    from ..spark.warehouse.query import plain, query
    from ..spark.warehouse.settings import WarehouseSettings
    from ..spark.warehouse.warehouse import Warehouse

    layout = Layout.from_environment()
    warehouse = Warehouse(WarehouseSettings.of(layout))
    try:
        answer = query(warehouse, arguments.sql)
    except BadQuery as error:
        missing = NO_SUCH_TABLE.search(str(error))
        if missing is None:
            raise
        raise _no_such_table(missing[1], warehouse.topics(), layout) from error
    for note in answer.notes:
        print(f"note: {note}", file=sys.stderr)
    if arguments.json:
        sys.stdout.write("[")
        for number, row in enumerate(answer.rows):
            words = dict(zip(answer.columns, map(plain, row), strict=True))
            sys.stdout.write((",\n " if number else "") + json.dumps(words, ensure_ascii=False))
        sys.stdout.write("]\n")
        return 0
    shown = [[_cell(plain(value)) for value in row] for row in islice(answer.rows, arguments.limit)]
    widths = [max([len(name), *(len(row[at]) for row in shown)]) for at, name in enumerate(answer.columns)]
    for line in (answer.columns, ["-" * width for width in widths], *shown):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if next(answer.rows, None) is not None:
        print(f"the first {arguments.limit} rows; --limit or --json shows more", file=sys.stderr)
    return 0


class NotLoadedYet(HeadraceError):
    """The topic exists, but nothing of it is in the warehouse."""


def _no_such_table(name: str, loaded: list[str], layout: Layout) -> HeadraceError:
    """Return the error for an unknown table: its topic is not loaded yet, or there is no such topic."""
    has = f"The warehouse has {', '.join(loaded)}, each also as NAME_all with every row."
    topic = name.removesuffix("_all")
    if topic in (topics_if_reachable(layout.live_bootstrap) or ()):
        return NotLoadedYet(f"nothing of topic {topic!r} is in the warehouse yet: `headrace load {topic}` loads it. {has}")
    views = [view for one in loaded for view in (one, f"{one}_all")]
    return unknown_topic(name, "in the warehouse", views, has)


def _cell(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
