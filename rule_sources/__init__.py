"""The source of anydml.core.rules: operators' rules, and checks of calls, whose one text Python interprets as well.

Collected are the checks marked `@call_check` in src/anydml/operators, the rules of the functions that they check, and
what both call. From their annotations each becomes a C function:

    Sizes, Integers    numbers in the call's memory: ``len(n)`` is ``n.count``, ``n[k]`` is ``n.at[k]``
    View, Views        boxes
    Item               the bytes of an element; None is NULL, which stands for zeros
    Text, OutOfRange   one of several words, as a number
    name: str          the call (`Maker`): only errors name the function. A block that raises an error raises REFUSED,
                       and Python then runs the same text and says why.
    maker.cut(…)        ``verbs.cut(maker, …)``; products in rules are checked
    (a,) * n           n equal numbers, and ``tuple([… for k in range(n)])``, or ``Integers([…])`` in rules
"""

from __future__ import annotations

import ast

from rule_sources.entries import Entry
from rule_sources.functions import compiled
from rule_sources.names import SOURCES, Found, meaning, parsed

HEAD = """# cython: cdivision=False, binding=False
from libc.stdint cimport int64_t
from anydml.core cimport arguments, lookup_verbs, results, sizing, verbs
from anydml.core.lookup_verbs cimport REFUSE
from anydml.core.moving cimport ANYDML_CLAMP, ANYDML_SKIP
from anydml.core.verbs cimport REFUSED
"""
"""What the text begins with. Functions without a binding are called by Python in the least time."""


def source() -> str:
    """Return the text of anydml.core.rules, in Cython's language."""
    wanted: dict[str, Found] = {}
    entries = []
    for path in [SOURCES / "functions/copying.py", *sorted((SOURCES / "operators").glob("*.py"))]:
        module = f"{path.parent.name}.{path.stem}"
        for stub in parsed(module).body:
            mark = stub.decorator_list[0] if isinstance(stub, ast.FunctionDef) and stub.decorator_list else None
            if not (isinstance(mark, ast.Call) and mark.args):
                continue
            check = meaning(module, ast.unparse(mark.args[0]))
            if check is None or "call_check" not in map(ast.unparse, getattr(check.node, "decorator_list", ())):
                continue
            named = {str(each.arg): ast.unparse(each.value) for each in mark.keywords}
            for name in (ast.unparse(mark.args[0]), named["rule"], named.get("lengths", "")):
                if name:
                    wanted[name] = meaning(module, name)  # type: ignore[assignment]
            entries.append(Entry(stub, check.node, named).text())  # type: ignore[arg-type]
    texts, places = dict[str, str](), dict[str, str]()
    while wanted:
        name = next(iter(wanted))
        found = wanted.pop(name)
        places[name] = found.module
        texts[name], called = compiled(found)
        if any(each.module != places.get(name, each.module) for name, each in called.items()):
            raise NameError(f"two functions that {found.module}.{name} and others call have one name")
        wanted |= {each: what for each, what in called.items() if each not in texts}
    return "\n\n\n".join([HEAD, *texts.values(), *entries, ""])
