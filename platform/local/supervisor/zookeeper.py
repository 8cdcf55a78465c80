"""Starts a real ZooKeeper 3.9 from the jars in pyspark: no download, 62 MiB, ready in half a second.

Chooses the jars, the JVM flags and the configuration file; starts nothing itself.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import HeadraceError
from ...runtime.layout import LOOPBACK

JARS = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-",
    "metrics-core-",
    "snappy-java-",
    "netty-",
)
FLAGS = ("-Xmx128m", "-Xms16m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=24m", "-Xss512k")
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"


class ZooKeeperError(HeadraceError):
    """ZooKeeper cannot be started from what is installed here."""


def java() -> str:
    """Return the java program: `JAVA_HOME`'s, else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise ZooKeeperError(f"no Java at {program or 'the path'}: install Java 17 or newer, or set JAVA_HOME")
    return program


def jars() -> list[Path]:
    """Return pyspark's jars that make a ZooKeeper server."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperError("ZooKeeper runs from pyspark's jars and pyspark is not installed: run `make install`")
    folder = Path(spec.origin).parent / "jars"
    found = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(JARS))
    if not any(jar.name.startswith("zookeeper-3") for jar in found):
        raise ZooKeeperError(f"no zookeeper-3*.jar in {folder}: reinstall pyspark (`make install`)")
    return found


def configuration(port: int, data: Path, secured: Path | None = None) -> str:
    """Return the `zoo.cfg` of one standalone server on loopback. `secured`: a folder of `headrace security init`: the port speaks
    TLS, only with clients that have a certificate of its CA, and there is no other port.
    """
    client = "client" if secured is None else "secureClient"
    settings: dict[str, object] = {
        "tickTime": 500,
        "dataDir": data,
        f"{client}Port": port,
        f"{client}PortAddress": LOOPBACK,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "minSessionTimeout": 1_000,
        "maxSessionTimeout": 30_000,
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 1,
        **({} if secured is None else tls(secured)),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def tls(secured: Path) -> dict[str, object]:
    """Return the lines of `zoo.cfg` that turn on TLS with the files of a folder of `headrace security init`."""
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": secured / "zookeeper" / "keystore.pem",
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": secured / "ca.pem",
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
        # The names in clients' certificates are roles, not hosts.
        "ssl.clientHostnameVerification": "false",
    }


def command(port: int, folder: Path, log4j: Path | None = None, secured: Path | None = None) -> Sequence[str]:
    """Write `zoo.cfg` into `folder` and return the command that runs the server in the foreground, data beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "zoo.cfg"
    written.write_text(configuration(port, folder / "data", secured))
    log4j = log4j or Path(__file__).with_name("log4j2.properties")
    classpath = os.pathsep.join(str(jar) for jar in jars())
    return [java(), *FLAGS, f"-Dlog4j2.configurationFile={log4j}", "-cp", classpath, MAIN_CLASS, str(written)]


def main() -> None:
    """Become a ZooKeeper server: `python -m headrace.local.supervisor.zookeeper PORT FOLDER [SECURED]`."""
    port, folder, *secured = sys.argv[1:]
    words = command(int(port), Path(folder), secured=Path(secured[0]) if secured else None)
    os.execv(words[0], list(words))


if __name__ == "__main__":
    main()
