"""Searches with atheris: `python -m tests.fuzz TARGET [--seconds N]`. Without TARGET it lists the targets. A crash ends the
search and writes its input as `crash-…` into the working folder. Put it into tests/fuzz/corpus/TARGET/ under a name that
describes it.
"""

import argparse
import sys
import tempfile

from . import seeds


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, epilog="example: python -m tests.fuzz records"
    )
    parser.add_argument("target", nargs="?")
    parser.add_argument("--seconds", type=int, default=60)
    words = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed here: pip install atheris, with Python 3.11 or 3.12", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["headrace"]):
        from .targets import TARGETS
    if words.target not in TARGETS:
        print("targets:", *sorted(TARGETS))
        return 0 if words.target is None else 2
    with tempfile.TemporaryDirectory(prefix="fuzz-found-") as found:
        known = seeds.FOLDER / words.target
        folders = [found, *([str(known)] if known.is_dir() else [])]
        limits = [f"-max_total_time={words.seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048"]
        atheris.Setup([sys.argv[0], *limits, *folders], TARGETS[words.target])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
