"""The benchmark of random crops and flips: everybody makes the same batches, and whole epochs are measured."""

import pytest

pytest.importorskip("torch")

from benchmarks import augment


def test_batches_are_the_same(capsys, monkeypatch):
    monkeypatch.setattr(augment, "IMAGES", 64)
    assert augment.main(["--rounds", "1", "--workers", "0"]) == 0
    assert capsys.readouterr().out.count("anydml") >= 2


def test_a_difference_is_not_measured(monkeypatch):
    monkeypatch.setattr(augment, "fused", lambda samples: augment.augment(samples)[::-1].copy())
    with pytest.raises(SystemExit, match="differ"):
        augment.main(["--rounds", "1", "--workers", "0"])
