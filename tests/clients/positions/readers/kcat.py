"""kcat: one run is one read. It ends at the end of the partition, or after the given number of records; with -G it commits at its
end.

Run as a module with the bootstrap address.
"""

import subprocess
import sys
import time
from collections.abc import Sequence

from .lines import PATIENCE_S, say


def kcat(*words: str) -> str:
    done = subprocess.run(["kcat", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def tell(lines: Sequence[str]) -> int:
    """Print kcat's lines and return the offset after the last one, -1 for none."""
    for line in lines:
        say("record", line)
    return int(lines[-1].split()[0]) + 1 if lines else -1


def carry_out(bootstrap: str, words: Sequence[str]) -> None:
    command, topic = words[:2]
    printed = ["-b", bootstrap, "-q", "-u", "-f", "%o %s\n"]
    if command == "ends":
        for word, time_ms in (("begin", -2), ("end", -1)):
            say(word, kcat("-b", bootstrap, "-Q", "-t", f"{topic}:0:{time_ms}").split()[-1])
    elif command == "read":
        lines = kcat(*printed, "-C", "-e", "-t", topic, "-p", "0", "-o", words[2]).splitlines()
        say("position", max(int(words[2]), tell(lines)))
    elif command == "group":
        settings = ["-X", "auto.offset.reset=earliest", "-c", words[3], "-e"]
        tell(kcat(*printed, *settings, "-G", words[2], topic).splitlines())
    elif command == "idle":
        idle([*printed, "-C", "-t", topic, "-p", "0", "-o", words[2]], int(words[2]), int(words[3]), int(words[4]) / 1000)
    else:
        raise ValueError(command)


def idle(words: Sequence[str], position: int, to: int, for_s: float) -> None:
    child = subprocess.Popen(["kcat", *words], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        while position < to:
            position = tell([child.stdout.readline().rstrip("\n")])
        say("idle")
        time.sleep(for_s)
        say("over")
    finally:
        child.kill()
        tell(child.stdout.read().splitlines())
        child.wait()


if __name__ == "__main__":
    for asked in sys.stdin:
        try:
            carry_out(sys.argv[1], asked.split())
            say("done")
        except Exception as error:  # the test receives every error
            say("failed", repr(error).replace("\n", " "))
