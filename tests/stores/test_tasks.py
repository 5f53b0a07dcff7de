"""Plans as tasks: run by processes at once, by Dask, twice, in part; killed; changed; finished."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import AnydmlError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

X = np.random.default_rng(1).random((60, 80, 10), "f4")


@pytest.fixture(autouse=True)
def local(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zarr.create_array("x.zarr", data=X, chunks=(6, 80, 10))


def planned(target="y.zarr", tasks=5, memory="100kB", **options):
    plan = stores.plan_tasks("plan.json", "x.zarr", target, tasks, chunks=[60, 8, 10], memory=memory, **options)
    return plan, json.loads(Path("plan.json").read_text())


def left():
    return sorted(name for name in os.listdir() if name not in ("x.zarr", "plan.json"))


def read(path="y.zarr"):
    return zarr.open_array(path, mode="r")[...]


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    out = capsys.readouterr()
    return ended.value.code or 0, out.out, out.err


def test_tasks_divide_the_blocks_and_say_what_they_move():
    plan, found = planned()
    tasks = found["tasks"]
    assert [each["task"] for each in tasks] == [*range(5)]
    assert [k for each in tasks for k in range(*each["blocks"])] == [*range(len(plan.blocks))]
    assert sum(each["bytes_written"] for each in tasks) == X.nbytes
    written, needed = np.zeros(X.shape, int), np.zeros(X.shape, int)
    for each in tasks:
        for block in each["boxes"]:
            written[tuple(slice(*own) for own in block["box"])] += 1
            ends = zip(block["box"], (60, 8, 10), strict=True)
            assert block["chunks"] == [[low // size, -(-high // size)] for (low, high), size in ends]
            for own in block["reads"]:
                needed[tuple(slice(*ends) for ends in own["box"])] += 1
    assert (written == 1).all()
    assert (needed >= 1).all()
    assert sum(each["bytes_read"] for each in tasks) == needed.sum() * 4


@pytest.mark.parametrize("memory", ["100kB", "512MB"])
@pytest.mark.parametrize("tasks", [1, 2, 6, 10, 13])
def test_there_are_as_many_tasks_as_were_asked_for(tasks, memory):
    plan, found = planned(tasks=tasks, memory=memory)
    sizes = [len(range(*own["blocks"])) for own in found["tasks"]]
    assert (len(sizes), sum(sizes)) == (tasks, len(plan.blocks))
    # There are ten chunks, which are written as wholes.
    assert sum(map(bool, sizes)) == min(tasks, 10)
    assert ("3 of them have nothing to do" in str(plan)) == (tasks == 13)
    for number in range(tasks):
        stores.run_task("plan.json", number)
    assert stores.finish_tasks("plan.json").resumed == len(plan.blocks)
    np.testing.assert_array_equal(read(), X)


@pytest.mark.parametrize("done", [[], [4, 0, 2], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("options", [{}, {"shards": [60, 16, 10]}, {"slices": "::-1"}])
def test_what_no_task_has_written_is_written_at_the_end(done, options):
    _, found = planned(**options)
    blocks = 0
    for number in done:
        stores.run_task("plan.json", number)
        stores.run_task("plan.json", number)
        blocks += len(range(*found["tasks"][number]["blocks"]))
    assert stores.finish_tasks("plan.json").resumed == blocks
    np.testing.assert_array_equal(read(), X[::-1] if "slices" in options else X)
    assert left() == ["y.zarr"]
    stores.run_task("plan.json", 0)
    assert stores.finish_tasks("plan.json").already_complete
    assert left() == ["y.zarr"]
    shutil.rmtree("y.zarr")
    for late in (lambda: stores.run_task("plan.json", 0), lambda: stores.finish_tasks("plan.json")):
        with pytest.raises(AnydmlError, match="is not being written by this plan"):
            late()


def test_processes_run_them_at_once_and_one_is_killed(capsys):
    code, out, _ = said(capsys, "rechunk", "x.zarr", "y.zarr", "--chunks", "60,8,10", "--memory", "100kB", "--plan",
                        "plan.json", "--tasks", 4)  # fmt: skip
    assert (code, "is divided into 4 tasks in plan.json" in out) == (0, True)
    line = [sys.executable, "-m", "anydml", "rechunk", "--plan", "plan.json", "-q", "--task"]
    processes = [subprocess.Popen([*line, str(number)]) for number in range(3)]
    assert [each.wait(120) for each in processes] == [0, 0, 0]
    dying = subprocess.Popen([*line, "3"])
    time.sleep(0.1)
    dying.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    dying.wait(120)
    assert said(capsys, "rechunk", "--plan", "plan.json", "--task", 3)[:2] == (0, "task 3 of 'plan.json' is written\n")
    code, out, _ = said(capsys, "rechunk", "--plan", "plan.json", "--json", "-q")
    assert (code, json.loads(out)["blocks_resumed"], json.loads(out)["blocks"]) == (0, 5, 5)
    code, out, _ = said(capsys, "rechunk", "--plan", "plan.json")
    assert (code, "is complete: this plan was finished before" in out) == (0, True)
    np.testing.assert_array_equal(read(), X)


def test_dask_runs_them():
    dask = pytest.importorskip("dask")
    planned()
    dask.compute(*map(dask.delayed(partial(stores.run_task, "plan.json")), range(5)), scheduler="threads")
    plan = stores.finish_tasks("plan.json")
    assert plan.resumed == len(plan.blocks)
    np.testing.assert_array_equal(read(), X)


def test_tasks_at_an_address():
    pytest.importorskip("obstore")
    _, found = planned("memory://tasks/y.zarr", memory="200kB")
    stores.run_task("plan.json", 1)
    assert stores.finish_tasks("plan.json").resumed == len(range(*found["tasks"][1]["blocks"]))
    assert stores.verify("x.zarr", "memory://tasks/y.zarr") is None
    stores.plan_tasks("plan.json", "memory://tasks/y.zarr", "z.zarr", 3, chunks=[60, 80, 1])
    stores.run_task("plan.json", 0)
    stores.finish_tasks("plan.json")
    np.testing.assert_array_equal(read("z.zarr"), X)


def test_the_same_plan_again_keeps_what_tasks_have_written():
    planned()
    stores.run_task("plan.json", 1)
    planned()
    stores.run_task("plan.json", 2)
    assert stores.finish_tasks("plan.json").resumed == 2
    np.testing.assert_array_equal(read(), X)


@pytest.mark.parametrize("tasks", [2, 3, 10])
def test_other_tasks_of_the_same_blocks_begin_anew(tasks):
    plan, _ = planned(tasks=5, memory="60kB")
    stores.run_task("plan.json", 1)
    assert len(planned(tasks=tasks, memory="60kB")[0].blocks) == len(plan.blocks)
    assert stores.finish_tasks("plan.json").resumed == 0
    np.testing.assert_array_equal(read(), X)


def test_another_plan_of_the_same_output_begins_anew():
    planned()
    stores.run_task("plan.json", 1)
    planned(slices="::-1")
    assert stores.finish_tasks("plan.json").resumed == 0
    np.testing.assert_array_equal(read(), X[::-1])


def test_groups_have_tasks():
    group = zarr.open_group("g", mode="w", attributes={"a": 1})
    group.create_array("t", data=X, chunks=(6, 80, 10))
    group.create_array("u", data=np.arange(5))
    stores.plan_tasks("plan.json", "g", "h", 3, chunks=[60, 8, 10])
    stores.run_task("plan.json", 0)
    stores.finish_tasks("plan.json")
    assert stores.verify("g", "h") is None


def test_an_input_that_has_changed_is_noticed():
    planned()
    zarr.open_array("x.zarr", mode="r+")[0, 0, 0] = 5
    for call in (lambda: stores.run_task("plan.json", 0), lambda: stores.finish_tasks("plan.json")):
        with pytest.raises(AnydmlError, match=r"has changed since the plan was made"):
            call()


def test_an_output_that_exists_is_refused():
    zarr.create_array("y.zarr", data=X)
    with pytest.raises(AnydmlError, match="exists already"):
        planned()
    planned(overwrite=True)
    assert zarr.open_array("y.zarr", mode="r").chunks != (60, 8, 10)
    stores.finish_tasks("plan.json")
    assert zarr.open_array("y.zarr", mode="r").chunks == (60, 8, 10)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--plan", "plan.json", "--task", 5], "has 5 tasks, numbered from 0: there is no task 5"),
        (["--plan", "none.json"], "cannot be read"),
        (["--plan", "x.zarr/zarr.json"], "is not a plan: name a file that anydml rechunk --plan has written"),
        (["--plan", "plan.json", "--chunks", "3"], "--chunks is fixed when the plan is made"),
        (["--plan", "plan.json", "x.zarr"], "IN and OUT are needed"),
        (["--task", 1], "IN and OUT are needed"),
        (["x.zarr", "z", "--plan", "plan.json", "--task", 1], "--task takes IN and OUT"),
        (["x.zarr", "z", "--plan", "plan.json", "--verify"], "--plan takes no --dry-run"),
        (["x.zarr", "z", "--tasks", 2], "--tasks is the number"),
    ],
)
def test_mistakes(capsys, arguments, words):
    planned()
    code, _, err = said(capsys, "rechunk", *arguments)
    assert (code, words in err, len(err.splitlines())) == (2, True, 1)


@pytest.mark.parametrize("text", ["{}", "[1]", "notes", '{"anydml": "1", "tasks": []}', ""])
def test_a_file_that_is_no_plan_is_not_replaced(text):
    Path("plan.json").write_text(text)
    with pytest.raises(AnydmlError, match=r"plan.json: exists, and is not a plan of tasks: name another file"):
        planned()
    assert (Path("plan.json").read_text(), left()) == (text, [])


def test_plans_of_other_versions_and_of_files_are_refused():
    _, found = planned()
    for change, words in (
        ({"anydml": "9"}, "is a plan of anydml 9"),
        ({"options": {"q": 1}}, "is not a plan"),
        ({"tasks": [{"blocks": [0, "a"]}]}, "is not a plan"),
        ({"tasks": [{"blocks": [0, 99]}]}, "has changed since"),
    ):
        Path("plan.json").write_text(json.dumps({**found, **change}))
        with pytest.raises(AnydmlError, match=words):
            stores.finish_tasks("plan.json")
    np.save("x.npy", X)
    with pytest.raises(AnydmlError, match="--plan needs an array in chunks"):
        stores.plan_tasks("p.json", "x.npy", "y.npy")
    Path("file").touch()
    with pytest.raises(AnydmlError, match=r"p.json: cannot be written"):
        stores.plan_tasks("file/p.json", "x.zarr", "z.zarr")
    assert not [*Path().glob(".z*")]
    with pytest.raises(AnydmlError, match="tasks must be a number of tasks, at least 1"):
        stores.plan_tasks("p.json", "x.zarr", "y.zarr", 0)
