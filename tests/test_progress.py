"""How far long work is."""

import io
import os
import re
import sys
import threading

import pytest

from anydml import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 99


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_a_bar_that_goes_again(clock):
    stream = Terminal()
    bar = progress.Progress(1_000_000_000, 0, stream)
    bar.advance(1)
    assert stream.getvalue() == "", "not so soon"
    clock[0] += 2
    bar.advance(499_999_999)
    assert stream.getvalue() == "\r[############............]  50% 500.00 MB of 1.00 GB, 250.00 MB/s, 2 s left"
    bar.close()
    assert stream.getvalue().endswith("\r")
    assert stream.getvalue().split("\r")[-2].strip() == ""


def test_a_narrow_terminal_shows_one_line_that_fits(clock, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((40 if number == 99 else 80, 24)))
    bar = progress.Progress(1_000_000_000, 0, stream)
    for _ in range(3):
        clock[0] += 2
        bar.advance(100_000_000)
    bar.close()
    parts = stream.getvalue().split("\r")
    assert parts[1] == "10% 100.00 MB of 1.00 GB, 50.00 MB/s, 1"
    assert max(map(len, parts)) == 39
    assert parts[-2:] == [" " * 39, ""]


@pytest.mark.skipif(os.name != "posix", reason="a terminal is opened")
def test_a_terminals_width_is_asked_for(clock):
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 33, 0, 0))
        with os.fdopen(theirs, "w", closefd=False) as stream:
            bar = progress.Progress(1_000_000_000, 0, stream)
            clock[0] += 2
            bar.advance(100_000_000)
            assert os.read(ours, 1000) == b"\r10% 100.00 MB of 1.00 GB, 50.00 "
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("stream", ["none", "closed"])
def test_work_goes_on_where_nothing_can_be_said(monkeypatch, clock, stream):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stderr", None if stream == "none" else closed)
    with progress.progress_bar(10) as advance:
        clock[0] += 100
        advance(5)


def test_elsewhere_there_is_a_line_every_ten_seconds(clock):
    stream = io.StringIO()
    bar = progress.Progress(100, 0, stream)
    for _ in range(100):
        clock[0] += 1
        bar.advance(1)
    bar.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "10% 10 B of 100 B, 1 B/s, 1:30 min left"


def test_what_was_finished_before_counts_for_the_share_but_not_the_rate(clock):
    bar = progress.Progress(100, 50, io.StringIO())
    clock[0] += 5
    bar.advance(10)
    assert bar.text(clock[0]) == " 60% 60 B of 100 B, 2 B/s, 20 s left"


def test_nothing_is_shown_unless_it_is_asked_for(capsys, clock):
    with progress.progress_bar(10, progress=False) as advance:
        clock[0] += 100
        advance(5)
    seen = []
    with progress.progress_bar(10, progress=seen.append) as advance:
        advance(5)
    assert seen == [5]
    assert capsys.readouterr() == ("", "")
    with progress.progress_bar(10) as advance:
        clock[0] += 3601
        advance(5)
        clock[0] += 3600
        advance(0)
    assert re.fullmatch(r"(.* of 10 B.* left\n){2}", capsys.readouterr().err)


def test_a_stream_that_is_closed_stops_nothing(clock):
    stream = Terminal()
    bar = progress.Progress(10, 0, stream)
    stream.close()
    clock[0] += 1
    bar.advance(5)
    bar.close()


@pytest.mark.parametrize("options", [["-i", "50", "-I", "4"], ["-t", "200", "-I", "4"]])
@pytest.mark.parametrize("is_quiet", [False, True])
def test_run_shows_a_bar_and_takes_it_away(monkeypatch, options, is_quiet):
    from anydml.cli import main

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.02)
    with pytest.raises(SystemExit) as ended:
        main(["run", "examples/split.json", *options, *(["--quiet"] if is_quiet else [])])
    assert not ended.value.code
    said = stream.getvalue()
    assert not said if is_quiet else re.search(r"\[#+\.+\] .*% \d+ (samples|ms) of (50 samples|200 ms)", said)
    assert is_quiet or re.search(r"\r +\r$", said)


def test_work_of_unknown_extent_is_said_from_the_first_second(clock, monkeypatch):
    monkeypatch.setattr(progress.threading.Thread, "start", lambda thread: None)
    monkeypatch.setattr(progress.threading.Thread, "join", lambda thread: None)
    for stream, pauses in (Terminal(), [1, 1, 1]), (io.StringIO(), [1, 10, 10]):
        start = clock[0]
        waits = progress.Waiting("reshard: planning", stream)
        for pause, spent in zip(pauses, (0.5, 1.5, 12), strict=True):
            assert waits.tick(start + spent) == pause
        waits.close()
        said = stream.getvalue()
        assert "reshard: planning, 2 s" in said
        assert "reshard: planning, 12 s" in said
        assert "0 s" not in said
        assert said.endswith("\r" if stream.isatty() else "12 s\n")


def test_work_is_said_by_a_thread_until_it_ends(monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.001)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    said = threading.Event()
    monkeypatch.setattr(progress.Progress, "say", lambda bar, text, before="": said.set())
    with progress.waiting("x"):
        assert said.wait(30)
    before = threading.active_count()
    with progress.waiting("x", False):
        assert threading.active_count() == before
    assert capsys.readouterr() == ("", "")
