"""The source of anydml.core.rules: operators' rules, and checks of calls, whose one text Python interprets as well.

Collected are the checks marked `@front` in src/anydml/operators, the rules of the functions that they check, and what
both call. From their annotations each becomes a C function:

    Sizes, Numbers     numbers in the call's memory: ``len(n)`` is ``n.count``, ``n[k]`` is ``n.at[k]``
    View, Views        boxes
    name: str          the call (`Maker`): only errors name the function. A block that raises an error raises REFUSED,
                       and Python then runs the same text and says why.
    make.cut(…)        ``verbs.cut(make, …)``
    (a,) * n           n equal numbers, and ``tuple([… for k in range(n)])``
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path("src/anydml")
PACKAGE = "anydml"
READ = {
    "abs",
    "are_at_least",
    "are_equal",
    "holds",
    "integer",
    "integers_or_symbols",
    "is_single",
    "one_or_more",
    "sum",
}
"""What core/reading has for compiled checks: these read Python's objects, or decide about open sizes."""

TYPES = {
    **dict.fromkeys(("Sizes", "Numbers"), "verbs.Numbers *"),
    **dict.fromkeys(("int", "int64"), "int64_t"),
    **{"Sequence[Sizes]": "verbs.Shapes", "View": "verbs.Box *", "Views": "verbs.Boxes", "Maker": "verbs.Maker *"},
    **{"bool": "bint", "Listed": "reading.Listed", "None": "int"},
}
ITEMS = {"Sizes": "int", "Sequence[Sizes]": "Sizes", "Views": "View"}
"""The types of items, by those of what is read by index."""

FIELDS = {("Listed", "shape"): "Sizes"}
HEAD = """# cython: cdivision=False
from libc.stdint cimport int64_t
from anydml.core cimport reading, verbs
from anydml.core.verbs cimport REFUSED
"""


class Found(NamedTuple):
    """What a name of a module means: a function's definition, or a number."""

    module: str
    node: ast.expr | ast.FunctionDef


@cache
def parsed(module: str) -> ast.Module:
    """Parse a module of the package."""
    return ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


@cache
def meaning(module: str, name: str) -> Found | None:
    """Follow a name to a definition in the package; None if it has none."""
    for node in parsed(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Found(module, node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return Found(module, node.value)
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            root, _, source = str(node.module).partition(".")
            return meaning(source, name) if root == PACKAGE and source else None
    return None


def type_of(annotation: ast.expr | None) -> str:
    """Return the type in C of an annotation."""
    text = ast.unparse(annotation) if annotation else "Any"
    if text.startswith("tuple["):
        parts = [TYPES.get(part.strip(), "int") for part in text[6:-1].split(",")]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return TYPES.get(text, "object")


class Compiling(ast.NodeTransformer):
    """Makes a function's text that of a C function; remembers what it calls.

    Args:
        module: the function's module.
        function: its definition.
    """

    def __init__(self, module: str, function: ast.FunctionDef) -> None:
        self.module, self.called = module, dict[str, Found]()
        self.types = {each.arg: ast.unparse(each.annotation) for each in function.args.args if each.annotation}
        self.counters = set[str]()
        self.is_one = type_of(function.returns)[0] != "("
        for node in ast.walk(function):
            if isinstance(node, ast.AnnAssign):
                self.types[ast.unparse(node.target)] = ast.unparse(node.annotation)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                self._declare(node.targets[0], node.value)
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
                self.counters.add(node.target.id)

    def _declare(self, target: ast.Tuple, value: ast.expr) -> None:
        """Remember the types of what a collected function returns."""
        found = meaning(self.module, ast.unparse(value.func)) if isinstance(value, ast.Call) else None
        if found and isinstance(found.node, ast.FunctionDef) and found.node.returns:
            parts = ast.unparse(found.node.returns)[6:-1].split(", ")
            self.types |= zip(map(ast.unparse, target.elts), parts, strict=True)

    def type(self, node: ast.expr) -> str:
        """Return an expression's annotated type, if it has one."""
        if isinstance(node, ast.Name):
            return self.types.get(node.id, "")
        if isinstance(node, ast.Subscript):
            return ITEMS.get(self.type(node.value), "")
        return FIELDS.get((self.type(node.value), node.attr), "") if isinstance(node, ast.Attribute) else ""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Numbers that have names are written out."""
        if node.id == "name":
            return ast.Name("make")
        known = meaning(self.module, node.id)
        if known and isinstance(known.node, ast.expr) and node.id.isupper():
            return known.node
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Read a number, a shape or a box."""
        is_typed = self.type(node.value) in ITEMS
        self.generic_visit(node)
        return ast.Subscript(ast.Attribute(node.value, "at"), node.slice) if is_typed else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Call verbs, what reads arguments, and collected functions."""
        if isinstance(node.func, ast.Name) and node.func.id == "len" and self.type(node.args[0]) in ITEMS:
            return ast.Attribute(self.visit(node.args[0]), "count")
        arguments = [self.visit(each) for each in node.args]
        root, _, attribute = ast.unparse(node.func).rpartition(".")
        if attribute == "tuple":
            return arguments[0]
        if root == "make":
            return ast.Call(ast.Name(f"verbs.{attribute}"), [ast.Name("make"), *arguments], [])
        if attribute in READ:
            return ast.Call(ast.Name(f"reading.{attribute}"), arguments, [])
        found = meaning(root or self.module, attribute)
        if found and isinstance(found.node, ast.FunctionDef):
            self.called[attribute] = found
            missing = len(found.node.args.args) - len(arguments)
            arguments += found.node.args.defaults[len(found.node.args.defaults) - missing :] if missing else []
            return ast.Call(ast.Name(attribute), arguments, [])
        return ast.Call(node.func, arguments, node.keywords)

    def visit_If(self, node: ast.If) -> ast.stmt:
        """What is said of an error is left to Python."""
        if isinstance(node.body[-1], ast.Raise):
            node.body = [ast.Raise(ast.Name("REFUSED"))]
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """One number is no tuple."""
        if isinstance(node.value, ast.Tuple) and self.is_one:
            node.value = node.value.elts[0] if node.value.elts else ast.Constant(0)
        return self._stored(node, "made")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        """Types are declared first."""
        return self._stored(ast.Assign([node.target], node.value or ast.Constant(None)), ast.unparse(node.target))

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        """Assign."""
        return self._stored(node, ast.unparse(node.targets[0]))

    def _stored(self, node: ast.Return | ast.Assign, to: str) -> list[ast.stmt]:
        """Make tuples of numbers in the call's memory."""
        value = node.value
        is_tuple = isinstance(value, ast.Call) and ast.unparse(value.func) == "tuple"
        if isinstance(value, ast.Call) and is_tuple and isinstance(value.args[0], ast.ListComp):
            each = value.args[0].generators[0]
            head = f"{to} = verbs.numbers(make, {ast.unparse(self.visit(each.iter.args[0]))})"
            put = f"for {ast.unparse(each.target)} in range({to}.count): {to}.at[{ast.unparse(each.target)}] = 0"
            made = ast.parse(f"{head}\n{put}").body
            made[1].body[0].value = self.visit(value.args[0].elt)
            self.types.setdefault(to, "Sizes")
            return [*made, ast.Return(ast.Name(to))] if isinstance(node, ast.Return) else made
        self.generic_visit(node)
        return [node]

    def visit_Tuple(self, node: ast.Tuple) -> ast.expr:
        """No numbers."""
        self.generic_visit(node)
        return node if node.elts else ast.Call(ast.Name("verbs.numbers"), [ast.Name("make"), ast.Constant(0)], [])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Look for a number among others."""
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.In):
            return ast.Call(ast.Name("reading.has"), [node.comparators[0], node.left], [])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Repeat a number."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Tuple):
            return ast.Call(ast.Name("verbs.repeated"), [ast.Name("make"), node.left.elts[0], node.right], [])
        return node


def head(function: ast.FunctionDef) -> str:
    """Return a C function's declaration."""
    kind, given = type_of(function.returns), []
    for each in function.args.args:
        is_call = each.arg == "name"
        given.append("verbs.Maker *make" if is_call else f"{type_of(each.annotation)} {each.arg}")
    ends = {"int": "except -1", "bint": "except -1", "int64_t": "except? -1"}
    end = "except NULL" if kind.endswith("*") else ends.get(kind, "except *")
    return f"cdef {kind} {function.name}({', '.join(given)}) {end}"


def compiled(found: Found) -> tuple[str, dict[str, Found]]:
    """Return a function's text for Cython, and the functions that it calls."""
    function: ast.FunctionDef = found.node  # type: ignore[assignment]
    compiling = Compiling(found.module, function)
    body = [*function.body]
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        del body[0]
    lines = []
    for node in body:
        made = compiling.visit(node)
        lines += [ast.unparse(ast.fix_missing_locations(each)) for each in (made if isinstance(made, list) else [made])]
    arguments = {each.arg for each in function.args.args}
    declared = [
        f"cdef {type_of(ast.parse(kind, mode='eval').body)} {name}"
        for name, kind in compiling.types.items()
        if name not in arguments
    ]
    declared += [f"cdef int64_t {name}" for name in sorted(compiling.counters)]
    text = "\n".join([*declared, *lines])
    return f"{head(function)}:\n    " + text.replace("\n", "\n    "), compiling.called


def entry(stub: ast.FunctionDef, front: ast.FunctionDef, rule: str, lengths: str) -> str:
    """Return the function that Python calls: all arguments positionally, `out` last; None is left to Python.

    What it runs raises errors, which it need not save as `try` does: a pointer says that there are none.
    """
    parameters = [*stub.args.args, *stub.args.kwonlyargs][:-1]
    kinds = {each.arg: ast.unparse(each.annotation) for each in parameters if each.annotation}
    x, *others = kinds
    is_list, has_parts = kinds[x] != "Array", ast.unparse(stub.returns or ast.Constant(None)).startswith("list[")
    # Objects are made before arrays are read: a finalizer that runs then changes nothing that was read.
    made, out = ["cdef verbs.Maker make[1]"], "out, None"
    if has_parts:
        made += ["cdef list parts = []", "cdef list outputs = verbs.held(out)"]
        made += ["if outputs is None and out is not None: return None"]
        out = "outputs, parts"
    if is_list:
        made += [f"cdef list given = verbs.held({x})", "if not given: return None"]
    if lengths:
        made += ["cdef list counts = []"]
    host = [name for name in others if kinds[name].startswith("HostInts")]
    for name in host:
        made += [f"cdef reading.Listed {name}_list = reading.listed({name})", f"if {name}_list is None: return None"]
    passed = {"given" if is_list else x: "list" if is_list else "object"}
    passed |= {
        f"{name}_list" if name in host else name: "reading.Listed" if name in host else "object" for name in others
    }
    passed |= {"counts": "list"} if lengths else {}
    numbers = type_of(front.returns).strip("()").split(", ") if type_of(front.returns) != "int" else []
    names = [f"p{k}" for k in range(len(numbers))]
    run = [f"cdef {kind} {name}" for name, kind in zip(names, numbers, strict=True)]
    if is_list:
        shapes, views = "(<verbs.Shapes *>&make.inputs)[0]", "make.inputs"
        run += ["if reading.read_all(make, given): return 0"]
    else:
        shapes, views = "<verbs.Numbers *>view", "view"
        run += [f"cdef verbs.Box *view = reading.read_one(make, {x})", "if view == NULL: return 0"]
    checked = f"{front.name}({', '.join(['make', shapes, *[*passed][1 : len(others) + 1]])})"
    ruled = f"{rule}({', '.join(['make', views, *names])})"
    run += [f"{', '.join(names)} = {checked}" if names else checked]
    run += ["while verbs.again(make):", f"    {ruled}"] if has_parts else [ruled]
    run += [f"verbs.append_to(counts, {lengths}({', '.join(['make', shapes, *names])}))"] if lengths else []
    kinds_passed = ", ".join(["verbs.Maker *", *passed.values()])
    done = f"(<int (*)({kinds_passed}) noexcept>run_{stub.name})({', '.join(['make', *passed])})"
    made += [f"verbs.begin_call(make, {out})", f"cdef object found = verbs.end_call(make, {done})"]
    made += ["return reading.with_counts(found, counts)" if lengths else "return found"]
    typed = ", ".join(["verbs.Maker *make", *[f"{kind} {name}" for name, kind in passed.items()]])
    body = "\n    ".join([f"cdef int run_{stub.name}({typed}) except -1:", *run, "return 1"])
    return body + "\n\n\n" + "\n    ".join([f"def {stub.name}({', '.join([*kinds, 'out'])}):", *made])


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
            front = meaning(module, ast.unparse(mark.args[0]))
            if front is None or "front" not in map(ast.unparse, getattr(front.node, "decorator_list", ())):
                continue
            named = {str(each.arg): ast.unparse(each.value) for each in mark.keywords}
            for name in (ast.unparse(mark.args[0]), named["rule"], named.get("lengths", "")):
                if name:
                    wanted[name] = meaning(module, name)  # type: ignore[assignment]
            entries.append(entry(stub, front.node, named["rule"], named.get("lengths", "")))  # type: ignore[arg-type]
    texts: dict[str, str] = {}
    while wanted:
        name = next(iter(wanted))
        found = wanted.pop(name)
        texts[name], called = compiled(found)
        wanted |= {each: what for each, what in called.items() if each not in texts}
    return "\n\n\n".join([HEAD, *texts.values(), *entries, ""])


if __name__ == "__main__":
    print(source())
