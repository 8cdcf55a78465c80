"""`python -m headrace.console.warehouse_reader tables|hours TOPIC|proofs TOPIC HOUR`: one question to the warehouse, as JSON."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..errors import HeadraceError
from ..runtime.layout import Layout

MOST_PROOFS = 50


def main(words: Sequence[str]) -> int:
    """Print the answer; on standard error why there is none."""
    try:
        print(json.dumps(answer(Layout.from_environment(), words)))  # noqa: T201
    except ImportError as error:
        print(f"the warehouse's packages are not installed here (headrace[spark]): {error}", file=sys.stderr)  # noqa: T201
        return 1
    except HeadraceError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


def answer(layout: Layout, words: Sequence[str]) -> dict[str, Any]:
    """Return the answer to a question. Raises WarehouseError."""
    from ..spark.warehouse.settings import WarehouseSettings
    from ..spark.warehouse.topic_table import LOADS, MAIN
    from ..spark.warehouse.warehouse import Warehouse

    warehouse = Warehouse(WarehouseSettings.of(layout))
    match list(words):
        case ["tables", *_]:
            tables = []
            for topic in warehouse.topics():
                table = warehouse.existing_table(topic)
                loaded, published = table.row_counts_by_hour(LOADS), table.row_counts_by_hour(MAIN)
                tables.append(
                    {
                        "topic": topic,
                        "hours": len(loaded),
                        "published_hours": len(published),
                        "loaded": sum(loaded.values()),
                        "published": sum(published.values()),
                        "last_hour": max(loaded, default=None),
                    }
                )
            return {"tables": tables}
        case ["hours", topic]:
            table = warehouse.existing_table(topic)
            loaded, published = table.row_counts_by_hour(LOADS), table.row_counts_by_hour(MAIN)
            marks = warehouse.proofs(topic).last_marks(up_to_publish=table.last_publish)
            return {
                "hours": [
                    {
                        "hour": hour,
                        "loaded": loaded.get(hour, 0),
                        "published": published.get(hour, 0),
                        "is_published": hour in published,
                        "late": max(0, loaded.get(hour, 0) - published.get(hour, 0)) if hour in published else 0,
                        "revision": marks[hour].revision if hour in marks else 0,
                        "verdict": marks[hour].verdict if hour in marks else "",
                    }
                    for hour in sorted({*loaded, *published, *marks}, reverse=True)
                ]
            }
        case ["proofs", topic, hour]:
            table = warehouse.existing_table(topic)
            found = warehouse.proofs(topic).read(up_to_publish=table.last_publish, hours={int(hour)})
            return {"proofs": [asdict(one) for one in found.get(int(hour), [])[-MOST_PROOFS:]][::-1]}
        case _:
            raise HeadraceError(f"{' '.join(words)!r} is no question: tables, hours TOPIC, or proofs TOPIC HOUR")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
