"""Tables of the pages, each made from what it is about: ``python docs/tables.py`` writes them into the pages.

A table stands between ``<!-- name argument -->`` and ``<!-- end of name -->``, and a test compares it with these:

    support SPLIT      the support table that descs are checked against
    levels             the feature levels
    fields             every field of every desc, in C++ and in Python
    benchmark cpu      what `benchmarks/results/cpu.json` holds
    chart cpu          the chart beside it
    files stores       what `benchmarks/results/stores.json` holds
    tools checkpoint_tools  what `benchmarks/results/checkpoint_tools.json` holds
    processor shards   the same, with processor time, of `benchmarks/results/shards.json`
    slimmed slim_ways  what slimming leaves by architecture, of `benchmarks/results/slim_ways.json`
    small images       microseconds of what `benchmarks/results/images.json` holds
    gallery            every picture, with the page that it is on
    words numpy        what fused functions know of a library: numpy or torch
    names functions    the public names of a section of the reference (see names.py)
    ambiguities onnx   what a document leaves open: onnx or directml
    undecided          the nodes that the referee leaves out, as no sentence decides them
    cases              the operators that it has cases of, and why others have none
    verdicts           the counts that `benchmarks/results/referee.json` holds
    differences        the smallest case of each difference and crash in it
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, cast

from names import names

from anydml.feature_level import FeatureLevel, Support
from anydml.operators import REGISTRY
from anydml.operators.problem import camel, dimension_text
from anydml.referee.directml.page_sentences import QUESTIONS
from anydml.referee.no_cases import reason_of
from anydml.referee.operators import OPERATORS
from anydml.referee.readings import engines_by_reading
from anydml.referee.schema_texts import first_versions
from anydml.tracing.library_functions import ElementDependentFunction, LibraryFunction
from anydml.tracing.numpy_table import NUMPY
from anydml.tracing.torch_table import TORCH

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TABLE = re.compile(r"(?<=^<!-- )(\w+) ?([\w-]*) -->\n.*?(?=^<!-- end of \1 -->$)", re.M | re.S)
CHART = re.compile(r"^!\[[^\]]*\]\(\.\./benchmarks/results/([\w-]+)\.svg\)$", re.M)
PICTURE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)?pictures/(\w+\.svg)\)")
MODULES = re.compile(r"(?<=^fft)_|(?<=^linalg)_")
COUNTS = {("DML_TILE", "Repeats"): "RepeatsCount", ("DML_RESAMPLE", "Scales"): "ScaleCount"}
"""What other arrays than those of DimensionCount entries are counted by (DirectML.h)."""

NAMED = re.compile(r"<code>([^<>]+)</code>")
TRACEBACK = re.compile(r'<span class="gt">(.*?)(?=<span class="gp">|</code>)', re.S)
HYPHENATED = re.compile(r"[^\s;]*-[^\s;]*")
LONGEST_WHOLE = 40
"""Characters of a word that has room in a line of the narrowest page."""
CELL = re.compile(r"<td>(.*?)</td>", re.S)
LONG = 30
"""Characters of a cell that is kept wide enough to be read (see style.css)."""
TITLE = re.compile(r"(<h1[^>]*>)([^<]+)")

SHOWN_READINGS = 4
"""Readings of one question that are listed."""

SLIMMERS = ("onnxslim", "onnxsim", "onnxscript", "ORT extended")
"""The other tools that slim ONNX models, as results files call them."""

NOT_MEASURED = "Not measured yet.\n"


def filled(markdown: str) -> str:
    """A page with its tables as they are now."""

    def table(match: re.Match[str]) -> str:
        name, argument = match.groups()
        asked = f"{name} {argument} -->" if argument else f"{name} -->"
        return f"{asked}\n\n{TABLES[name](*filter(None, [argument])).strip()}\n\n"

    return TABLE.sub(table, markdown)


def support(operator: str) -> str:
    """An operator's support table, newest level first, as `desc.check` reads it."""
    rows = []
    for row in REGISTRY[f"DML_OPERATOR_{operator}"].SUPPORT:
        alike: dict[Support, list[str]] = {}
        for tensor, what in row.tensors.items():
            alike.setdefault(what, []).append(tensor)
        for what, tensors in alike.items():
            dimensions = dimension_text(what.min_dimensions, what.max_dimensions)
            types = ", ".join(data_type.name for data_type in what.data_types)
            rows.append((f"`{row.level.short}`", ", ".join(tensors), dimensions, types))
    return table(("from level", "tensors", "dimensions", "data types"), rows)


def levels() -> str:
    """The feature levels, oldest first."""
    names = [f"`{level.short}`" for level in FeatureLevel]
    return " → ".join(names) + "\n"


def fields() -> str:
    """The fields of every desc: C++ and Python. One that is an array follows its count in C++, and brings it here."""
    rows = []
    for kind in dict.fromkeys(REGISTRY.values()):
        is_directml = kind.OPERATOR.startswith("DML_")
        rows.append((f"**`{kind.OPERATOR}{'_OPERATOR_DESC' if is_directml else ''}`**", f"**`{kind.__name__}`**", ""))
        for field in dataclasses.fields(cast(Any, kind)):
            name = camel(field.name)
            count = _count(kind.OPERATOR, name, str(field.type)) if is_directml else None
            cpp = f"`{name}`" if count is None else f"`{count}`, `{name}`"
            rows.append((cpp, f"`{field.name}`", f"`{field.type}`"))
    return table(("C++", "Python", "type"), rows)


def _count(operator: str, name: str, kind: str) -> str | None:
    """The C++ field that says how long an array is."""
    if not kind.startswith("tuple"):
        return None
    if name.endswith("Tensors"):
        return f"{name.removesuffix('Tensors')}Count"
    return COUNTS.get((operator, name), "DimensionCount")


def benchmark(name: str) -> str:
    """Machine, command, date and figures of one results file."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return NOT_MEASURED
    found = json.loads(path.read_text(encoding="utf-8"))
    machine = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in found["machine"].items())
    facts = [(key, str(found.get(key, "not recorded"))) for key in ("command", "date")] + [("machine", machine)]
    parts = [table(("what", "value"), facts), *_cases(found["cases"])]
    for grows, rows in found.get("growth", {}).items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        cells = [
            [f"{row[key]:,}" if isinstance(row.get(key), int) else str(row.get(key, "–")) for key in columns]
            for row in rows
        ]
        parts.append(f"How the cost grows with {grows}:\n\n" + table(columns, cells))
    return "\n".join(parts)


def _cases(cases: Sequence[dict[str, Any]]) -> Iterable[str]:
    large = [case for case in cases if _copy_seconds(case)]
    small = [case for case in cases if not _copy_seconds(case)]
    head = ("case", "work", "anydml", "fastest peer", "times as fast", "of a plain copy")
    for unit, chosen in (("GB/s", large), ("µs a call", small)):
        if chosen:
            columns = head if unit == "GB/s" else head[:-1]
            yield f"In {unit}:\n\n" + table(columns, [_case(case, unit == "GB/s") for case in chosen])


def _copy_seconds(case: dict[str, Any]) -> float | None:
    """The plain copy's time: beside the others', or among them."""
    seconds: float | None = case.get("copy_seconds", case["seconds"].get("copy"))
    return seconds


def _case(case: dict[str, Any], is_large: bool) -> list[str]:
    seconds = {name: time for name, time in case["seconds"].items() if name != "copy"}
    ours = seconds.pop("anydml")
    peer = min(seconds, key=seconds.__getitem__, default=None)

    def speed(time: float) -> str:
        return f"{case['bytes'] / time / 1e9:.1f}" if is_large else f"{time * 1e6:.2f}"

    against = ["–", "–"] if peer is None else [f"{speed(seconds[peer])} {peer}", f"{seconds[peer] / ours:.2f}"]
    row = [case["name"], case["about"], speed(ours), *against]
    return [*row, f"{(_copy_seconds(case) or 0) / ours:.0%}"] if is_large else row


def chart(name: str) -> str:
    """The chart of one results file."""
    return f"![Chart of {name}](../benchmarks/results/{name}.svg)" if (RESULTS / f"{name}.svg").exists() else ""


def _in_page(chart: re.Match[str]) -> str:
    """The chart itself, which the site has in the page."""
    svg = (RESULTS / f"{chart[1]}.svg").read_text(encoding="utf-8")
    return f'<div class="scrolled" markdown="0">{" ".join(svg.splitlines())}</div>'


def files(name: str) -> str:
    """Machine, command, date, and seconds, with MiB of memory where they were measured, of work on files."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    ways = list(dict.fromkeys(way for case in found["cases"].values() for way in _ways(case)))
    rows = []
    for label, case in found["cases"].items():
        own = _ways(case)
        cells = [_seconds(own[way]) if way in own else "–" for way in ways]
        rows.append((label, case["about"], f"{case['bytes'] / 1e9:.2f}", *cells))
    return f"{_measured(found)}:\n\n" + table(("case", "work", "GB", *ways), rows)


def tools(name: str) -> str:
    """Machine, command, date, and seconds, MiB and what is lost, a row for each tool of each task."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    rows = []
    for task, case in found["cases"].items():
        for tool, way in case["ways"].items():
            lost = ", ".join(way["lost"]) or "–"
            rows.append((task, tool, f"{way['seconds']:.1f}", f"{way['mib']:.0f}", lost))
    return f"{_measured(found)}:\n\n" + table(("from, to", "tool", "s", "MiB", "beside the tensors"), rows)


def processor(name: str) -> str:
    """Machine, command, date, and seconds of processor time and MiB of memory, of work on files at some load."""
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    ways = list(dict.fromkeys(way for case in found["cases"].values() for way in _ways(case)))
    rows = []
    for label, case in found["cases"].items():
        own = _ways(case)
        cells = [f"{own[way]['processor']:.2f}, {own[way]['mib']:.0f}" if own.get(way) else "–" for way in ways]
        rows.append((label, case["about"], f"{case['load']:.1f}", *cells))
    said = "seconds of processor time, and MiB, of which imports took about 120"
    return f"{_measured(found)}; {said}:\n\n" + table(("case", "work", "load", *ways), rows)


def small(name: str) -> str:
    """Machine, command, date, and microseconds of everybody, of one results file."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return NOT_MEASURED
    found = json.loads(path.read_text(encoding="utf-8"))
    ways = list(dict.fromkeys(way for case in found["cases"] for way in case["seconds"]))
    rows = []
    for case in found["cases"]:
        cells = [f"{case['seconds'][way] * 1e6:.1f}" if way in case["seconds"] else "–" for way in ways]
        rows.append((case["name"], case["about"], *cells, f"{case['ratio']:.2f}"))
    said = f"{_measured(found)}{found.get('note', '')}; microseconds:\n\n"
    return said + table(("case", "work", *ways, "× fastest"), rows)


def slimmed(name: str) -> str:
    """What tools leave of ONNX models: geometric means over both exporters, of fixed / open sizes, by architecture."""
    models: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for label, row in json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"].items():
        architecture, _, sizes = label.split(".")
        models.setdefault(architecture.replace("_", " "), {}).setdefault(sizes, []).append(row)
    shares: dict[str, Callable[[dict[str, Any]], float]] = {
        "bytes": lambda row: row["anydml"]["bytes"] / row["exported"]["bytes"],
        "nodes": lambda row: row["anydml"]["nodes"] / row["exported"]["nodes"],
        "latency": lambda row: row["anydml"]["latency"],
        "latency by the fastest other tool": lambda row: min(row[tool]["latency"] for tool in SLIMMERS),
        "nodes that compute, alone": lambda row: row["exported"]["compute alone"],
    }
    rows = []
    for architecture, by_sizes in sorted(models.items()):
        cells = [
            [f"{geometric_mean(map(share, by_sizes[sizes])):.2f}" for sizes in ("static", "dynamic")]
            for share in shares.values()
        ]
        rows.append((architecture, *map(" / ".join, cells)))
    return table(("architecture", *shares), rows)


def _measured(found: dict[str, Any]) -> str:
    """Command, date and machine of one results file, in one line."""
    machine = found["machine"]
    basic = ("processor", "threads", "memory_gib", "system", "python", "anydml")
    versions = "".join(f", {name} {version}" for name, version in machine.items() if name not in basic)
    about = f"{machine['processor']}, {machine['threads']} threads, {machine['memory_gib']} GiB of memory"
    return f"`{found['command']}` on {found['date']}, {about}{versions}"


def words(library: str) -> str:
    """What fused functions know of a library: names, and parameters that count."""
    found: dict[LibraryFunction, list[str]] = {}
    for name, word in {"numpy": NUMPY, "torch": TORCH}[library].items():
        if not isinstance(word, ElementDependentFunction):
            found.setdefault(word, []).append(f"`{MODULES.sub('.', name)}`")
    rows = [(", ".join(names), f"`{word.signature}`") for word, names in found.items()]
    return table(("functions", "parameters"), rows)


def gallery() -> str:
    """Every picture, under the heading of the page that shows it first."""
    docs, parts, seen = ROOT / "docs", [], set()
    for page in sorted(docs.rglob("*.md"), key=lambda path: (path.parent.name == "operators", path)):
        text = TABLE.sub("", page.read_text(encoding="utf-8"))
        shown = [found for found in PICTURE.findall(text) if found[1] not in seen]
        seen |= {name for _, name in shown}
        place = page.relative_to(docs).as_posix()
        if shown and place != "index.md":
            parts.append(f"### [{text.partition(chr(10))[0].removeprefix('# ')}]({place})\n")
            parts += [f"![{about}](pictures/{name})\n" for about, name in shown]
    return "\n".join(parts)


def _ways(case: dict[str, Any]) -> dict[str, Any]:
    if "ways" in case:
        return dict(case["ways"])
    return {way: {"seconds": seconds} for way, seconds in case["seconds"].items()}


def _seconds(measured: dict[str, float] | None) -> str:
    """Of one way; None is one that was killed for memory."""
    if measured is None:
        return "killed"
    memory = f", {measured['mib']:.0f} MiB" if "mib" in measured else ""
    return f"{measured['seconds']:.2f} s{memory}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = (head, ["---"] * len(head), *rows)
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def ambiguities(document: str) -> str:
    """The questions that a document leaves open, and what is done here."""
    if document == "directml":
        rows = [(each["question"], each["says"], each["here"]) for each in QUESTIONS]
        return table(("question", "DirectML's prose", "anydml"), rows)
    rows = []
    for operator in OPERATORS.values():
        for each in operator.ambiguities:
            shown = each.readings[:SHOWN_READINGS]
            for k, reading in enumerate(shown):
                first = ("", "") if k else (operator.name, each.question)
                rows.append(
                    (*first, reading.words, ", ".join(engines_by_reading(operator.name, each.question, reading.words)))
                )
            if more := len(each.readings) - len(shown):
                rows.append(("", "", f"and {more} more", ""))
    return table(("operator", "question", "readings", "who takes them"), rows)


def undecided() -> str:
    """The nodes that are no cases, by operator."""
    found: dict[str, list[str]] = {}
    for operator in OPERATORS.values():
        for each in operator.left_out:
            found.setdefault(each.words, []).append(operator.name)
    return table(("operators", "left out"), [(", ".join(names), words) for words, names in found.items()])


def cases() -> str:
    """The operators that cases are of, and why others are of none."""
    reasons: dict[str, list[str]] = {}
    for name in sorted(first_versions().keys() - OPERATORS.keys()):
        reasons.setdefault(reason_of(name), []).append(name)
    rows = [("", ", ".join(OPERATORS)), *((reason, ", ".join(names)) for reason, names in reasons.items())]
    return table(("no cases, because", "operators"), rows)


def verdicts() -> str:
    """What engines make of the referee's cases, by operator."""
    path = RESULTS / "referee.json"
    if not path.exists():
        return NOT_MEASURED
    found = json.loads(path.read_text(encoding="utf-8"))
    facts = [(key, str(found[key])) for key in ("date", "cases", "command")]
    engines = [f"{each['engine']}: {sum(each['counts'].values()):,} cases" for each in found["engines"]]
    names = list(found["engines"][0]["operators"])
    rows = [[name, *(_counts(each["operators"][name]) for each in found["engines"])] for name in names]
    rows.append(["all", *(_counts(each["counts"]) for each in found["engines"])])
    head = (
        "Agree / differ / refuse / crash or hang; what an engine's Python package cannot be given is in brackets.\n\n"
    )
    return table(("what", "value"), facts) + "\n" + head + table(("operator", *engines), rows)


def differences() -> str:
    """The smallest case of each difference and crash of each engine, and the sentence that decides it."""
    path = RESULTS / "referee.json"
    if not path.exists():
        return NOT_MEASURED
    parts = []
    for engine in json.loads(path.read_text(encoding="utf-8"))["engines"]:
        rows = [
            (
                f"{each['cases']} × {each['operator']} {each['verdict']}"
                + (f", {each['common']}" * bool(each["common"])),
                "<br>".join(_code(line) for line in (*each["smallest"], f"{each['verdict']}: {each['found']}")),
                _code(each["text"]),
            )
            for each in engine["differences"]
        ]
        body = table(("cases", "the smallest", "text"), rows) if rows else "No case differs, and none crashes.\n"
        parts.append(f"### {engine['engine']}\n\n{body}")
    return "\n".join(parts)


def _code(line: str) -> str:
    """A line as code in a cell."""
    return f"`{line.replace('`', chr(39))}`"


def _counts(verdicts: dict[str, int]) -> str:
    crashes = verdicts.get("crashes", 0) + verdicts.get("hangs", 0)
    counts = [*(verdicts.get(name, 0) for name in ("agrees", "differs", "refuses")), crashes]
    left = f" ({verdicts['not run']})" if verdicts.get("not run") else ""
    return " / ".join(f"{count:,}" for count in counts) + left


TABLES: dict[str, Callable[..., str]] = {
    "support": support,
    "levels": levels,
    "fields": fields,
    "benchmark": benchmark,
    "chart": chart,
    "files": files,
    "tools": tools,
    "processor": processor,
    "gallery": gallery,
    "slimmed": slimmed,
    "small": small,
    "words": words,
    "names": names,
    "ambiguities": ambiguities,
    "cases": cases,
    "undecided": undecided,
    "verdicts": verdicts,
    "differences": differences,
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page (see `hooks` in mkdocs.yml)."""
    # A session's prompts and output are told apart, so that they are not copied (see style.css).
    return CHART.sub(_in_page, markdown).replace("```python\n>>> ", "```pycon\n>>> ")


def on_page_content(html: str, **_: Any) -> str:
    """Likewise, of its HTML: where lines may be broken, which cells are long, and that a traceback is one output."""
    html = TITLE.sub(lambda found: found[1] + found[2].replace("_", "_<wbr>"), html, 1)
    html = CELL.sub(_cell, html)
    html = TRACEBACK.sub(lambda found: f'<span class="gt">{re.sub("<[^>]+>", "", found[1])}</span>', html)
    return NAMED.sub(lambda code: f"<code>{HYPHENATED.sub(_whole, code[1])}</code>", html)


def _cell(cell: re.Match[str]) -> str:
    # In tables, pipes within code are escaped for GitHub, and the escape is kept by Python-Markdown.
    text = cell[1].replace("\\|", "|")
    return f'<td class="long">{text}</td>' if len(re.sub("<[^>]+>", "", text)) > LONG else f"<td>{text}</td>"


def _whole(word: re.Match[str]) -> str:
    return word[0] if len(word[0]) > LONGEST_WHOLE else f'<span class="whole">{word[0]}</span>'


def main() -> None:
    """Write the tables of all pages."""
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
