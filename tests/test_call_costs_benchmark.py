"""The benchmark of the cost of a call: every function on arrays takes part, and a peer may be any interpreter."""

import inspect
import sys

import pytest

import anydml as dml
from benchmarks import call_costs

NO_MOVES = {"explain", "fuse", "empty_cache", "get_num_threads", "set_cache_limit", "set_num_threads"}


def test_every_function_takes_part():
    source = inspect.getsource(call_costs.cases)
    functions = {name for name in dml.__all__ if inspect.isfunction(getattr(dml, name))} - NO_MOVES
    assert not {name for name in functions if f"dml.{name}(" not in source}
    for _, call in call_costs.cases():
        call()


def test_a_peer_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["call_costs", "--peer", sys.executable, "--rounds", "1"])
    assert call_costs.main() == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + len([*call_costs.cases()])
    assert float(rows[-1].split()[-1]) > 0


def test_a_peer_must_be_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["call_costs"])
    with pytest.raises(SystemExit):
        call_costs.main()
    assert "--peer is needed" in capsys.readouterr().err
