"""The README's code runs and prints what it shows, and its commands and links are right."""

import doctest
import pathlib
import re
import shutil
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.S | re.M)


def test_python_blocks_print_what_they_show():
    code = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    assert len(test.examples) > 20
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    assert runner.run(test, out=report.append).failed == 0, "".join(report)


def test_every_python_block_is_a_session():
    for block in blocks("python"):
        assert block.startswith(">>> ")
        assert block.endswith("\n\n"), "the empty line ends the last output"


def test_the_first_command_prints_what_is_shown():
    install, run = blocks("sh")[0].strip().split(" && ")
    assert install == "pip install ."
    name, *arguments = run.split()
    program = shutil.which(name, path=sysconfig.get_path("scripts"))
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    shown = next(block for block in blocks("text") if block.startswith("Running"))

    def untimed(text):
        return re.sub(r"\d+\.\d+ ms", "T ms", text)

    assert untimed(done.stdout) == untimed(shown)
    assert done.stderr == ""


def test_the_second_command_is_what_is_checked():
    install, run = blocks("sh")[1].strip().split(" && ")
    assert run == "pytest"
    assert install == 'pip install -e ".[test]"'
    assert install.replace("install", "install --quiet") in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)|`((?:src|examples)/[\w/.]*)`", TEXT))
def test_paths_exist(target):
    assert (ROOT / "".join(target)).exists()
