"""Names in a model file cannot forge or turn lines of the output."""

from __future__ import annotations

import pytest

from anydml import dxdispatch
from anydml.cli import main


def test_names_cannot_forge_or_turn_lines(folder):
    name = "x': 1\nResource 'B': 7\u202e\x1b[2J\u2028"
    lines = []

    def edit(m):
        m["resources"][name] = m["resources"].pop("A")
        m["dispatchables"][name] = m["dispatchables"].pop("every other")
        m["commands"] = [
            {"type": "dispatch", "dispatchable": name, "bindings": {"InputTensor": name, "OutputTensor": "B"}},
            {"type": "print", "resource": name},
            {"type": "writeFile", "resource": name, "targetPath": "a\u202e\n.bin"},
        ]

    options = {"explain": True, "timing": dxdispatch.Timing(verbosity=2)}
    dxdispatch.run(dxdispatch.load(folder.edit(edit)), log=lines.append, **options)
    assert len([line for line in lines if r"x': 1\nResource 'B': 7\u202e\x1b[2J\u2028" in line]) == 5
    assert all(part.isprintable() for line in lines for part in line.split("\n"))
    assert not any(part.startswith("Resource 'B'") for line in lines for part in line.split("\n"))


NAMES = ["a\nm.json: no problems", "a\u202eb", "a\x1b[2Jb", "a\u2028b", "a\x85b", "a\u2066b", "\ud800"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda m, name: m["resources"].update({name: {}}),
        lambda m, name: m["commands"][1].update(resource=name),
        lambda m, name: m["commands"][0]["bindings"].update(InputTensor=name),
        lambda m, name: m["dispatchables"].update({name: {**m["dispatchables"]["every other"], "desc": {}}}),
        lambda m, name: m["dispatchables"]["every other"].update(type=name),
        lambda m, name: m["resources"]["A"].update(initialValuesDataType=name),
        lambda m, name: m["resources"]["A"].update(initialValues={"sourcePath": name}),
        lambda m, name: m["resources"]["A"].update(initialValues={"sourcePath": name + ".npy"}),
        lambda m, name: m["commands"].append({"type": "writeFile", "resource": "A", "targetPath": name + "/x/../.."}),
        lambda m, name: m.update({name: 1}),
        lambda m, name: m["dispatchables"]["every other"]["desc"].update({name: 1}),
        lambda m, name: m["commands"][0]["bindings"].update({name: "A"}),
        lambda m, name: (
            m["dispatchables"].update({name: m["dispatchables"].pop("every other")}),
            m["dispatchables"][name]["desc"].update(Strides=[9]),
        ),
    ],
)
def test_errors_and_problems_are_printable_lines(folder, command, spoil, name, capsys):
    file = folder.edit(lambda m: spoil(m, name))
    with pytest.raises(SystemExit) as ended:
        main([command, str(file)])
    out, err = capsys.readouterr()
    assert ended.value.code or "unknown" in err
    lines = (out + err).splitlines()
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("m.json") for line in lines)
