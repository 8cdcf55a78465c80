"""A process's log in both its forms, and what its signals do."""

import json
import signal
import subprocess
import sys

SAY = (
    "from headrace.runtime.logs import configure, get_logger\n"
    "configure('broker-1', {level!r}, {form!r})\n"
    "log = get_logger('a.b')\n"
    "log.info('started', port=9092, why='two words')\n"
    "log.warning('odd')\n"
)


def said(level: str, form: str) -> list[str]:
    code = SAY.format(level=level, form=form)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    ).stderr.splitlines()


def test_each_event_is_a_json_object_or_a_plain_line() -> None:
    first, second = map(json.loads, said("INFO", "json"))
    assert (first["event"], first["port"], first["process"], first["level"]) == ("started", 9092, "broker-1", "info")
    assert second["event"] == "odd"
    plain, odd = said("INFO", "text")
    assert plain.endswith("Z INFO    broker-1 started port=9092 why=two words")
    assert odd.endswith("Z WARNING broker-1 odd")


def test_the_level_leaves_out_what_is_below_it() -> None:
    assert [json.loads(line)["event"] for line in said("WARNING", "json")] == ["odd"]


def logged(form: str, code: str) -> list[str]:
    """Return the lines that `code` has written."""
    begin = "import logging\nfrom headrace.runtime.logs import configure, get_logger, log_thread_faults\n"
    begin += f"configure('b', 'INFO', {form!r})\n"
    run = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=True, timeout=30)
    return run.stderr.splitlines()


def test_a_strangers_name_for_itself_writes_no_lines_of_its_own() -> None:
    code = (
        "get_logger('a').warning('refused', client_id='kcat\\n2026-01-01 ERROR broker-1 disk_failed \\x1b[2J', odd='\\ud800')\n"
    )
    (plain,) = logged("text", code)
    assert plain.endswith(r"refused client_id='kcat\n2026-01-01 ERROR broker-1 disk_failed \x1b[2J' odd='\ud800'")
    (as_json,) = logged("json", code)
    assert json.loads(as_json)["client_id"].startswith("kcat\n2026")


def test_an_application_without_logging_of_its_own_reads_the_fields_of_a_library_s_warning() -> None:
    code = "from headrace.runtime.logs import get_library_logger\n"
    code += "get_library_logger('headrace.sdk').warning('logger_waits', topic='clicks', reason='refused\\nby 127.0.0.1:9092')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert run.stderr == "logger_waits topic=clicks reason='refused\\nby 127.0.0.1:9092'\n"


def test_our_own_handler_prints_a_library_s_event_like_any_other() -> None:
    code = "from headrace.runtime.logs import get_library_logger\nget_library_logger('a').warning('odd', port=1)\n"
    (as_json,) = map(json.loads, logged("json", code))
    assert (as_json["event"], as_json["port"]) == ("odd", 1)
    assert logged("text", code)[0].endswith("Z WARNING b odd port=1")


def test_a_library_that_tells_of_every_attempt_is_heard_once_a_minute() -> None:
    code = "for n in range(50): logging.getLogger('kazoo.client').warning('Connection dropped: %s', n)\n"
    code += "logging.getLogger('kazoo.client').warning('Cannot resolve')\nfor _ in range(3): get_logger('ours').warning('odd')\n"
    assert [json.loads(line)["event"] for line in logged("json", code)] == [
        "Connection dropped: 0",
        "Cannot resolve",
        *["odd"] * 3,
    ]


def test_what_is_remembered_of_a_librarys_wordings_is_bounded() -> None:
    code = "for n in range(2500): logging.getLogger('kazoo.client').warning(f'wording {n}')\n"
    code += "print(max(len(one._next_s) for one in logging.getLogger().handlers[0].filters), file=sys.stderr)\n"
    assert int(logged("json", "import sys\n" + code)[-1]) <= 1_000


def test_a_thread_that_ends_by_a_fault_says_so_on_one_line() -> None:
    code = "import threading\nlog_thread_faults()\nthread = threading.Thread(target=lambda: 1 // 0, name='http')\n"
    (line,) = logged("json", code + "thread.start(); thread.join()\n")
    words = json.loads(line)
    assert (words["event"], words["level"], words["thread"]) == ("thread_ended", "error", "http")
    assert "ZeroDivisionError" in words["traceback"]


STOP = (
    "import sys\n"
    "from headrace.runtime.lifecycle import StopSignal, end_at_latest\n"
    "stop = StopSignal(second_ends={second}).install()\n"
    "print('here', flush=True)\n"
    "while not stop.wait(1000): pass\n"
    "print(stop.name, flush=True)\n"
    "{then}\n"
)


def child(second: bool, then: str) -> "subprocess.Popen[str]":
    code = STOP.format(second=second, then=then)
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "SIGTERM\n"
    return process


def test_the_first_signal_asks_and_the_second_ends_at_once_where_that_is_wanted() -> None:
    process = child(True, "sys.stdin.readline()")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    process = child(False, "sys.stdin.readline(); sys.exit(0)")
    process.send_signal(signal.SIGTERM)
    process.communicate("go on\n", timeout=20)
    assert process.returncode == 0


def test_a_stop_past_its_bound_ends_with_its_code_and_says_at_what() -> None:
    process = child(True, "end_at_latest(10, 3, lambda: 'logs'); sys.stdin.readline()")
    assert process.wait(20) == 3
    _, errors = process.communicate()
    assert "stop_ran_out_of_time" in errors


def test_a_broker_does_not_load_what_its_wire_library_would_load_for_tests() -> None:
    code = (
        "import sys\nfrom headrace.cli.main import main\n"
        "code = main(['broker', 'run', '--data', '/dev/null/no', '--zookeeper', '127.0.0.1:1'])\n"
        "print(code, 'kio' in sys.modules, sys.modules.get('hypothesis'), 'prometheus_client' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout == "1 True None False\n", run.stderr


def test_a_signal_is_followed_by_what_was_asked_for_once() -> None:
    code = (
        "import os, signal\nfrom headrace.runtime.lifecycle import StopSignal\n"
        "stop = StopSignal(then=lambda: print('then')).install()\n"
        "for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)\n"
        "print(stop.is_set())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "then\nTrue\n"
