"""`python -m tests.chaos_sdk`: plays episodes one after the other; a line each; exit code 1 if something did not hold."""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.chaos_sdk import campaign, platform
from tests.chaos_sdk.episode import Episode


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos_sdk", description=__doc__, epilog="example: --rounds 20 --seed 7"
    )
    parser.add_argument("--rounds", type=int, default=1_000, help="kills in all (1,000)")
    parser.add_argument("--seed", type=int, default=campaign.chosen_seed(), help="of the first episode; the next ones count on")
    parser.add_argument("--transport", choices=("direct", "journal"), help="play only this one's episodes")
    words = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    print(f"seed {words.seed}, {words.rounds} rounds, in {folder}", flush=True)
    failed = killed = 0
    windows: Counter[str] = Counter()
    began = time.monotonic()
    with platform.started(folder) as running:
        for planned in campaign.plan(words.rounds, words.seed):
            if words.transport is not None and planned.has_journal != (words.transport == "journal"):
                continue
            episode = Episode(running, planned)
            try:
                episode.play()
                told = "holds"
            except AssertionError as error:
                failed += 1
                told = f"FAILED\n{error}"
            killed += sum(episode.kills.values())
            windows.update(episode.verdicts)
            print(f"{time.monotonic() - began:6.0f} s  {episode}: {told}", flush=True)
    print(f"{killed} kills, windows {dict(windows)}, {failed} failed episodes in {time.monotonic() - began:.0f} s")
    if failed:
        print(f"the ledgers and logs are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
