"""Random kills (`kill -9`) of applications, agent, broker and audit under load, in both transports; what must hold is checked.

Each event carries an id of its own. The application writes to a ledger file of its own, with write(2), before and after each call
of `log`: so what it attempted and what it was told True for is known whatever dies. `application.py` is that program,
`nursery.py` forks it, `ledgers.py` reads what it wrote, `rows.py` reads the topics with confluent-kafka. `claims.py` says what
must hold of them by id, `verdicts.py` what the running audit service may say (both pure). `episode.py` plays rounds of kills on
one `platform.py`, `campaign.py` plans many. `python -m tests.chaos_sdk --rounds 20 --seed N` plays a run again.
"""
