"""Compiles a C driver once into the bench's cache and finds the libraries that it links. Names what is missing."""

import hashlib
import importlib.util
import shutil
import subprocess
from pathlib import Path

from ..harness.cache import cache_folder
from ..harness.unavailable import Unavailable

SOURCES = Path(__file__).parent
LIBRARIES = {
    "rdkafka_produce": "rdkafka",
    "rdkafka_consume": "rdkafka",
    "rdkafka_latency": "rdkafka",
    "rabbitmq_produce": "rabbitmq",
    "rabbitmq_consume": "rabbitmq",
    "rabbitmq_forget": "rabbitmq",
    "nats_produce": "nats",
    "nats_consume": "nats",
    "redis_produce": "hiredis",
    "redis_consume": "hiredis",
}
"""Driver → the library that it needs beside the C library. Drivers that are not named need none."""
PACKAGES = {"rabbitmq": "librabbitmq-dev", "nats": "libnats-dev", "hiredis": "libhiredis-dev", "rdkafka": "librdkafka-dev"}


def built(name: str) -> Path:
    """Return the program of driver `name`. Compiles it when source, headers, compiler or library changed. Raises Unavailable."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Unavailable(f"C compiler: driver {name} cannot be built (install gcc)")
    source = SOURCES / f"{name}.c"
    words = _link_words(LIBRARIES.get(name))
    text = b"".join(path.read_bytes() for path in [source, *sorted(SOURCES.glob("*.h"))]) + " ".join([compiler, *words]).encode()
    program = cache_folder() / "drivers" / f"{name}-{hashlib.sha256(text).hexdigest()[:16]}"
    if program.exists():
        return program
    program.parent.mkdir(exist_ok=True)
    scratch = program.with_suffix(".new")
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-pthread", "-o", str(scratch), str(source), *words], capture_output=True, text=True
    )
    if done.returncode:
        library = LIBRARIES.get(name)
        hint = f" (Debian: {PACKAGES[library]})" if library else ""
        raise Unavailable(f"driver {name} does not compile{hint}: {done.stderr.strip()[:400]}")
    scratch.replace(program)
    return program


def _link_words(library: str | None) -> list[str]:
    if library is None:
        return []
    if library == "rdkafka" and (bundled := _bundled_librdkafka()) is not None:
        return [str(bundled), f"-Wl,-rpath,{bundled.parent}", "-Wl,--allow-shlib-undefined"]
    return [f"-l{library}"]


def _bundled_librdkafka() -> Path | None:
    """Return the librdkafka inside confluent-kafka's wheel: a new one, and the one that Python users have."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    return found[0] if found else None
