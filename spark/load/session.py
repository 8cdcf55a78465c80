"""The Spark session of a load: small, with Python workers of this interpreter; on the loopback only, unless on a cluster.

Under spark-submit it uses the master and the settings given there; otherwise it starts its own JVM in `local[2]`.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from ...client.security.chosen import VARIABLE as CLIENT_CONFIG
from ...runtime.layout import LOOPBACK
from ..data_source.data_source import TopicDataSource
from . import cluster

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    # A load's JVM lives for seconds: without the optimising compiler it takes 13 s of CPU instead of 22 (Python decodes).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData "
    f'"-Dlog4j2.configurationFile={Path(__file__).with_name("log4j2.properties").resolve()}"',
    "spark.sql.session.timeZone": "UTC",
}
LOCAL = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
"""On a cluster executors call the driver, at the address that Spark finds or that `SPARK_LOCAL_IP` names."""
SUBMITTED = {"spark.log.level": "ERROR"}
"""spark-submit starts the JVM with its own log settings. Ours have this level, and Spark prints a line when it sets one."""
CLUSTER = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
"""As for the driver's JVM: only Python works hard."""


def start_session(name: str, scratch: Path, *, master: str | None) -> SparkSession:
    """Return a session with the format `headrace`; Spark spills into `scratch`. End it with `session.stop()`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    given = _submitted() if is_submitted else {}
    master = master or given.get("spark.master", "local[2]")
    is_local = cluster.is_local(master)
    if is_local and not is_submitted:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    scratch.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(name)
    for key, value in (SETTINGS | (LOCAL if is_local else CLUSTER) | (SUBMITTED if is_submitted else {})).items():
        if key not in given:
            builder = builder.config(key, value)
    builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    builder = builder.config("spark.sql.warehouse.dir", str(scratch / "unused")).config("spark.local.dir", str(scratch))
    if CLIENT_CONFIG in os.environ:
        # Paths only: executors read the files on their own machines, and Spark's UI and event log hold no secret.
        builder = builder.config(f"spark.executorEnv.{CLIENT_CONFIG}", os.environ[CLIENT_CONFIG])
    session = builder.master(master).getOrCreate()
    if not is_local:
        cluster.send_code(session.sparkContext, scratch)
    session.dataSource.register(TopicDataSource)
    return session


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was given; its JVM knows them."""
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def forget_jvm() -> None:
    """End what is left of a JVM that does not answer any more: the next session starts one of its own."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        with suppress(Exception):  # py4j's own, of any kind, about connections that are gone
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.kill()
            process.wait()
