"""A service that logs into a file and rotates it, as a process: `python -m … <file> <kind> <lines> <seed>`.

Each line is `<rotation>:<number>`. Kinds: `rename` (old ones are compressed after a while), `copytruncate` (copy, truncate),
`logrotate` (the program itself). Nothing is written between copy and truncation: that is the stated exclusion of copytruncate.
"""

import gzip
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path


def main(log: Path, kind: str, lines: int, seed: int) -> None:
    draw = random.Random(seed)
    rotation = 0
    # One way for the whole life of a log: logrotate overwrites what another way has left.
    way = draw.choice(["compress", "nocompress", "compress\ndelaycompress"])
    file = log.open("a")
    for number in range(lines):
        file.write(f"{rotation}:{number} {'x' * draw.randrange(60)}\n")
        if draw.random() < 0.02:
            file.flush()
            time.sleep(draw.uniform(0, 0.05))
        if number % 1_500 == 1_499:
            file.flush()
            rotate(log, kind, way)
            rotation += 1
            file.close()
            file = log.open("a")
    file.close()


def rotate(log: Path, kind: str, way: str) -> None:
    if kind == "logrotate":
        settings = log.with_suffix(".rotate")
        settings.write_text(f"{log} {{\nrotate 100\n{way}\ncreate\n}}\n")
        state = log.with_suffix(".state")
        subprocess.run(["logrotate", "--force", "--state", str(state), str(settings)], check=True, capture_output=True)
        return
    old = sorted(log.parent.glob(f"{log.name}.*"), key=lambda path: -int(path.name.split(".")[2]))
    for path in old:
        words = path.name.split(".")
        words[2] = str(int(words[2]) + 1)
        path.rename(path.with_name(".".join(words)))
    first = Path(f"{log}.1")
    if kind == "copytruncate":
        shutil.copyfile(log, first)
        os.truncate(log, 0)
        return
    log.rename(first)
    second = Path(f"{log}.2")
    if second.exists():
        with second.open("rb") as plain, gzip.open(f"{second}.gz", "wb") as compressed:
            shutil.copyfileobj(plain, compressed)
        second.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
