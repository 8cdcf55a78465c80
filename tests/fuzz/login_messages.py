"""Messages of logins, altered: bytes, and words that mean something to SCRAM, PLAIN or OAUTHBEARER."""

import random

WORDS = (
    b"n,,",
    b"y,,",
    b"p=tls-unique,,",
    b"p=tls-exporter,,",
    b"n,a=alice,",
    b"m=1,",
    b"n=alice",
    b"n==2C=3D=",
    b",r=",
    b",i=1",
    b",i=2147483648",
    b",i=999999999",
    b",i=-1",
    b",s=",
    b",s=!!!",
    b",e=other-error",
    b",v=",
    b",p=",
    b"c=biws",
    b"c=eSws",
    b"c==",
    b",x=y",
    b"\0",
    b"\x01",
    b"\x01\x01",
    b"auth=Bearer ",
    b"auth=Basic ",
    b"host=a",
    b"\xff\xfe",
    "\u200b\u00ad\ufeffä\u0301\U0001f511".encode(),
    b"\r\n",
    b"=" * 40,
    b"," * 40,
    b"A" * 5_000,
)


def altered(chance: random.Random, message: bytes, *, most: int = 3) -> bytes:
    """Return the message with up to `most` changes. It may come out as it was."""
    data = bytearray(message)
    for _ in range(chance.randint(1, most)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(8):
            case 0:
                data[at:at] = chance.choice(WORDS)
            case 1:
                data[at : at + chance.randint(1, 20)] = chance.choice(WORDS)
            case 2:
                del data[at : at + chance.randint(1, 12)]
            case 3 if at < len(data):
                data[at] = chance.randrange(256)
            case 4 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 5:
                parts = bytes(data).split(b",")
                chance.shuffle(parts)
                data = bytearray(b",".join(parts))
            case 6:
                del data[at:]
            case _:
                data += data[at:]
    return bytes(data)
