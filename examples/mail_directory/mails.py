"""Makes sample mails in a folder: each is written under a hidden name and renamed, as a mail server does. One has 2 MB attached.

python examples/mail_directory/mails.py outbox
"""

import os
import random
import sys
from email.message import EmailMessage
from pathlib import Path

ATTACHMENT_BYTES = 2 << 20


def make_mails(folder: Path) -> list[Path]:
    """Return the paths of three mails, the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, size in enumerate((0, 1_000, ATTACHMENT_BYTES)):
        mail = EmailMessage()
        mail["From"] = "ana@example.org"
        mail["To"] = "bob@example.org"
        mail["Subject"] = f"Mail number {number}"
        mail.set_content(f"Hello Bob,\nthis is mail {number}. \N{EURO SIGN}\n")
        if size:
            content = random.Random(number).randbytes(size)
            mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=f"attachment-{number}.bin")
        hidden = folder / f".mail-{number}"
        hidden.write_bytes(mail.as_bytes())
        made.append(hidden.rename(folder / f"mail-{number}.eml"))
    return made


if __name__ == "__main__":
    for path in make_mails(Path(sys.argv[1])):
        sys.stdout.write(f"{path} {os.path.getsize(path)} bytes\n")
