"""Runs SQL statements in Spark with Iceberg: run with the Python of `spark.pieces`, `job.py CATALOG_DB WAREHOUSE JARS`.

Reads one statement a line, a JSON string, and answers each with one line: {"rows": [...]} or {"failed": "..."}. Iceberg's
JdbcCatalog opens the SQLite catalog that pyiceberg made: both use the same tables of it.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.warehouse": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.warehouse.type": "jdbc",
    "spark.sql.catalog.warehouse.jdbc.schema-version": "V1",
    # Commits of other programs are to be seen at once.
    "spark.sql.catalog.warehouse.cache-enabled": "false",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


def main(catalog: str, warehouse: str, jars: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the JVM prints to standard output too
    builder = SparkSession.builder.appName("iceberg").master("local[1]").config("spark.jars", jars)
    own = {"spark.sql.catalog.warehouse.uri": f"jdbc:sqlite:{catalog}", "spark.sql.catalog.warehouse.warehouse": warehouse}
    for name, value in {**ICEBERG, **LOCAL, **own}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        for line in sys.stdin:
            try:
                found = {"rows": [list(row) for row in session.sql(json.loads(line)).collect()]}
            except Exception as error:  # one statement's error is its answer
                found = {"failed": str(error)[:3000]}
            answers.write(json.dumps(found, default=str) + "\n")
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
