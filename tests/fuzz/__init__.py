"""Random operators on every engine, compared byte for byte with NumPy: `python -m tests.fuzz --minutes 10 --seed 1`."""
