import os

import pytest

from anydml.engines.cpu.threads import available_cores
from anydml.memory import limits


@pytest.fixture
def system(monkeypatch, tmp_path):
    """A machine whose files have these texts."""
    monkeypatch.setattr(limits, "ROOT", str(tmp_path))

    def put(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("cpu_", "cpu.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return put


@pytest.mark.parametrize(
    ("quota", "number"), [("100000 100000", 1), ("150000 100000", 2), ("5000 100000", 1), ("max 100000", None)]
)
@pytest.mark.parametrize("folder", ["", "a", "a/b"])
def test_quotas_of_version_2_count_in_every_group_around(system, tmp_path, folder, quota, number):
    system(proc__self__cgroup="0::/a/b\n", **{"sys__fs__cgroup__a__b__cpu_max": "900000 100000\n"})
    group = tmp_path / "sys/fs/cgroup" / folder
    (group / "cpu.max").write_text(f"{quota}\n")
    assert limits.processors() == (number or (None if folder == "a/b" else 9))


@pytest.mark.parametrize(("quota", "number"), [("250000", 3), ("-1", None)])
def test_quotas_of_version_1(system, tmp_path, quota, number):
    system(proc__self__cgroup="3:cpu,cpuacct:/box\n1:memory:/other\n")
    group = tmp_path / "sys/fs/cgroup/cpu/box"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    assert limits.processors() == number


def test_threads_are_no_more_than_the_processors_whose_time_there_is(system):
    system(proc__self__cgroup="0::/\n", sys__fs__cgroup__cpu_max="100000 100000\n")
    assert available_cores() == 1


def test_without_limits_all_cores_count(system):
    assert limits.processors() is None
    system(proc__self__cgroup="a line that is none\n", sys__fs__cgroup__cpu_max="words\n")
    assert limits.processors() is None
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
