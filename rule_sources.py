"""The source of anydml.core.rules: operators' rules, and checks of calls, whose one text Python interprets as well.

Collected are the checks marked `@front` in src/anydml/operators, the rules of the functions that they check, and what
both call. From their annotations each becomes a C function:

    Sizes, Numbers     numbers in the call's memory: ``len(n)`` is ``n.count``, ``n[k]`` is ``n.at[k]``
    View, Views        boxes
    Item               the bytes of an element; None is NULL, which stands for zeros
    Word, Outside      one of several words, as a number
    name: str          the call (`Maker`): only errors name the function. A block that raises an error raises REFUSED,
                       and Python then runs the same text and says why.
    make.cut(…)        ``verbs.cut(make, …)``; products in rules are checked
    (a,) * n           n equal numbers, and ``tuple([… for k in range(n)])``, or ``Numbers([…])`` in rules
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path("src/anydml")
PACKAGE = "anydml"
READ = {
    "abs",
    "are_at_least",
    "are_equal",
    "are_known",
    "holds",
    "integer",
    "integers_or_symbols",
    "is_none",
    "is_number",
    "is_one",
    "is_single",
    "one_or_more",
    "prod",
    "sum",
}
"""What core/reading has for compiled checks: these read Python's objects, or decide about open sizes."""

TYPES = {
    **dict.fromkeys(("Sizes", "Numbers"), "verbs.Numbers *"),
    **dict.fromkeys(("int", "int64"), "int64_t"),
    **{"Sequence[Sizes]": "verbs.Shapes", "View": "verbs.Box *", "Views": "verbs.Boxes", "Maker": "verbs.Maker *"},
    **{"bool": "bint", "Listed": "reading.Listed", "None": "int"},
    **dict.fromkeys(("Item", "Item | None"), "verbs.Item"),
    **dict.fromkeys(("Word", "Outside"), "int64_t"),
}
ITEMS = {"Sizes": "int", "Sequence[Sizes]": "Sizes", "Views": "View"}
"""The types of items, by those of what is read by index."""

FIELDS = {("Listed", "shape"): "Sizes"}
HEAD = """# cython: cdivision=False
from libc.stdint cimport int64_t
from anydml.core cimport looking, reading, results, sizing, verbs
from anydml.core.looking cimport REFUSE
from anydml.core.moving cimport ANYDML_CLAMP, ANYDML_SKIP
from anydml.core.verbs cimport REFUSED
"""
WORDS = {"error": "REFUSE", "refuse": "REFUSE", "clamp": "ANYDML_CLAMP", "skip": "ANYDML_SKIP"}
"""Numbers of words; others get one when they are met."""

MOST_INTS = 6
"""Maximum number of sizes of ``make.ints(…)``."""


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


@cache
def module_of(verb: str) -> str:
    """Return the module of the core that has a verb."""
    for name in ("verbs", "results", "looking", "sizing"):
        if re.search(rf"^cdef .*\b{verb}\(Maker", (SOURCES / f"core/{name}.pxd").read_text(encoding="utf-8"), re.M):
            return name
    raise LookupError(f"the core has no verb {verb}")


def word(text: str) -> ast.expr:
    """Return a word's number."""
    return ast.Name(WORDS.setdefault(text, str(len(WORDS))))


def number(found: Found) -> ast.expr:
    """Return what a name stands for, as one number if it is made of numbers."""
    names = {each.id for each in ast.walk(found.node) if isinstance(each, ast.Name)}
    known = {name: meaning(found.module, name) for name in names}
    if not all(each and isinstance(each.node, ast.expr) for each in known.values()):
        return found.node  # type: ignore[return-value]
    values = {name: ast.literal_eval(number(each)) for name, each in known.items() if each}
    return ast.Constant(eval(ast.unparse(found.node), {"__builtins__": {}}, values))


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
        self.returned = type_of(function.returns)
        self.is_one = self.returned[0] != "("
        self.is_rule = "rule" in map(ast.unparse, function.decorator_list)
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
            return number(known)
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
        root, _, attribute = ast.unparse(node.func).rpartition(".")
        if root == "make":
            return self._verb(attribute, [] if attribute == "constant" else node.args)
        arguments = [self.visit(each) for each in node.args]
        if attribute in ("tuple", "int", "treatment"):
            return arguments[0]
        if attribute in READ:
            return ast.Call(ast.Name(f"reading.{attribute}"), arguments, [])
        found = meaning(root or self.module, attribute)
        if found and isinstance(found.node, ast.FunctionDef):
            self.called[attribute] = found
            missing = len(found.node.args.args) - len(arguments)
            arguments += found.node.args.defaults[len(found.node.args.defaults) - missing :] if missing else []
            for k, each in enumerate(found.node.args.args):
                if type_of(each.annotation) == "verbs.Item":
                    arguments[k] = or_null(arguments[k])
            return ast.Call(ast.Name(attribute), arguments, [])
        return ast.Call(node.func, arguments, node.keywords)

    def _verb(self, name: str, given: list[ast.expr]) -> ast.expr:
        """Call a verb."""
        is_word = [isinstance(each, ast.Constant) and isinstance(each.value, str) for each in given]
        arguments = [
            word(each.value) if is_it else self.visit(each) for each, is_it in zip(given, is_word, strict=True)
        ]  # type: ignore[attr-defined]
        if name == "ints":
            assert len(arguments) <= MOST_INTS
            none = [ast.Constant(0)] * (MOST_INTS - len(arguments))
            arguments = [ast.Constant(len(arguments)), *arguments, *none]
        elif name == "fill":
            arguments[1] = or_null(arguments[1])
        elif name == "result" and len(arguments) == 1:
            arguments.append(ast.Name("NULL"))
        return ast.Call(ast.Name(f"{module_of(name)}.{name}"), [ast.Name("make"), *arguments], [])

    def visit_If(self, node: ast.If) -> ast.stmt:
        """What is said of an error is left to Python."""
        if isinstance(node.body[-1], ast.Raise):
            node.body = [ast.Raise(ast.Name("REFUSED"))]
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """One number is no tuple, and nothing is 0."""
        if node.value is None:
            node.value = ast.Constant(0)
        if isinstance(node.value, ast.Tuple) and self.is_one:
            node.value = node.value.elts[0] if node.value.elts else ast.Constant(0)
        elif isinstance(node.value, ast.Tuple) and "verbs.Item" in self.returned:
            node.value.elts = [or_null(each) for each in node.value.elts]
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
        is_tuple = isinstance(value, ast.Call) and ast.unparse(value.func) in ("tuple", "Numbers")
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
        """Look for a number among others, or compare words."""
        if self.type(node.left) in ("Word", "Outside"):
            node.comparators = [word(each.value) for each in node.comparators]  # type: ignore[attr-defined]
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.In):
            return ast.Call(ast.Name("reading.has"), [node.comparators[0], node.left], [])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Repeat a number, or multiply sizes."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Tuple):
            return ast.Call(ast.Name("sizing.repeated"), [ast.Name("make"), node.left.elts[0], node.right], [])
        if isinstance(node.op, ast.Mult) and self.is_rule:
            return ast.Call(ast.Name("sizing.times"), [node.left, node.right], [])
        if isinstance(node.op, ast.FloorDiv):
            return ast.Call(ast.Name("sizing.quotient"), [node.left, node.right], [])
        return node


def or_null(node: ast.expr) -> ast.expr:
    """No element is a pointer to nothing."""
    return ast.Name("(<verbs.Item>NULL)") if isinstance(node, ast.Constant) and node.value is None else node


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


class Entry:
    """The function that Python calls: all arguments positionally, `out` last; None is left to Python.

    What it runs raises errors, which it need not save as `try` does: a pointer says that there are none.

    Args:
        stub: the public function.
        front: the check of its calls.
        named: the rule, and what else the stub's decorator says.
    """

    def __init__(self, stub: ast.FunctionDef, front: ast.FunctionDef, named: dict[str, str]) -> None:
        self.name, self.front, self.named = stub.name, front, named
        parameters = [*stub.args.args, *stub.args.kwonlyargs][:-1]
        self.kinds = {each.arg: ast.unparse(each.annotation) for each in parameters if each.annotation}
        data = [name for name, kind in self.kinds.items() if kind in ("Array", "Sequence[Array]")]
        self.indices = [name for name, kind in self.kinds.items() if kind in ("Indices", "Mask")]
        self.arrays = [*data, *self.indices]
        self.is_list = self.kinds[self.arrays[0]] != "Array"
        self.has_parts = ast.unparse(stub.returns or ast.Constant(None)).startswith("list[")
        # Objects are made before arrays are read: a finalizer that runs then changes nothing that was read.
        self.made, self.run = ["cdef verbs.Maker make[1]"], list[str]()
        self.passed, self.checked = dict[str, str](), list[str]()

    def text(self) -> str:
        """Return it, and what it runs."""
        out = "out, None"
        if self.has_parts:
            self.made += ["cdef list parts = []", "cdef list outputs = results.held(out)"]
            self.made += ["if outputs is None and out is not None: return None"]
            out = "outputs, parts"
        lengths = self.named.get("lengths", "")
        self._take_arrays()
        self._take_others()
        if lengths:
            self.made += ["cdef list counts = []"]
            self.passed["counts"] = "list"
        numbers = type_of(self.front.returns).strip("()").split(", ") if type_of(self.front.returns) != "int" else []
        names = [f"p{k}" for k in range(len(numbers))]
        self.run += [f"cdef {kind} {name}" for name, kind in zip(names, numbers, strict=True)]
        shapes, views = self._read_arrays()
        call = f"{self.front.name}({', '.join(['make', shapes, *self.checked, *['None'] * len(self.indices)])})"
        ruled = f"{self.named['rule']}({', '.join(['make', views, *names])})"
        self.run += [f"{', '.join(names)} = {call}" if names else call]
        self.run += ["while results.again(make):", f"    {ruled}"] if self.has_parts else [ruled]
        if lengths:
            self.run += [f"sizing.append_to(counts, {lengths}({', '.join(['make', shapes, *names])}))"]
        kinds = ", ".join(["verbs.Maker *", *self.passed.values()])
        done = f"(<int (*)({kinds}) noexcept>run_{self.name})({', '.join(['make', *self.passed])})"
        self.made += [f"results.begin_call(make, {out}, {self.named.get('may_update', 'False')})"]
        self.made += [f"cdef object found = results.end_call(make, {done})"]
        self.made += ["return reading.with_counts(found, counts)" if lengths else "return found"]
        typed = ", ".join(["verbs.Maker *make", *[f"{kind} {name}" for name, kind in self.passed.items()]])
        body = "\n    ".join([f"cdef int run_{self.name}({typed}) except -1:", *self.run, "return 1"])
        return body + "\n\n\n" + "\n    ".join([f"def {self.name}({', '.join([*self.kinds, 'out'])}):", *self.made])

    def _take_arrays(self) -> None:
        """Pass the arrays: lists are held, and indices converted."""
        for k, name in enumerate(self.arrays):
            if self.is_list:
                self.made += [f"cdef list {name}_held = results.held({name})", f"if not {name}_held: return None"]
            elif self.kinds[name] == "Indices":
                self.made += [f"cdef object {name}_read = reading.as_indices({name})"]
                self.arrays[k] = f"{name}_read"
            self.passed[f"{name}_held" if self.is_list else self.arrays[k]] = "list" if self.is_list else "object"

    def _take_others(self) -> None:
        """Pass the other arguments: those read on the host, words as numbers, elements, and numbers."""
        others = [name for name in self.kinds if name not in [*self.arrays, *self.indices]]
        wanted = [
            ast.unparse(each.annotation) for each in self.front.args.args[1 + len(self.arrays) :] if each.annotation
        ]
        for name, kind in zip(others, wanted, strict=False):
            self.checked.append(name)
            if self.kinds[name].startswith("HostInts"):
                self.made += [f"cdef reading.Listed {name}_list = reading.listed({name})"]
                self.made += [f"if {name}_list is None: return None"]
                self.passed[f"{name}_list"] = "reading.Listed"
                self.checked[-1] = f"{name}_list"
                continue
            self.passed[name] = "object"
            if kind == "Word":
                del self.passed[name]
                self.passed[f"{name}_word"] = "int64_t"
                self.checked[-1] = f"{name}_word"
                self.made += [f"cdef int64_t {name}_word", f"if type({name}) is not str: return None"]
                for each in ast.literal_eval(f"({self.kinds[name][8:-1]},)"):
                    self.made += [f"elif {name} == {each!r}: {name}_word = {ast.unparse(word(each))}"]
                self.made += ["else: return None"]
            elif kind.startswith("Item"):
                self.run += [f"cdef verbs.Item {name}_item = reading.item(make, {self.arrays[0]}, {name})"]
                self.checked[-1] = f"{name}_item"
            elif kind == "int":
                self.checked[-1] = f"reading.integer(make, {name!r}, {name})"

    def _read_arrays(self) -> tuple[str, str]:
        """Read arrays; return their shapes, and their views."""
        if self.is_list:
            self.run += [f"if reading.read_all(make, {self.arrays[0]}_held): return 0"]
            return "(<verbs.Shapes *>&make.inputs)[0]", "make.inputs"
        if len(self.arrays) == 1:
            self.run += [
                f"cdef verbs.Box *view = reading.read_one(make, {self.arrays[0]})",
                "if view == NULL: return 0",
            ]
            return "<verbs.Numbers *>view", "view"
        self.run += [f"if reading.read_first(make, {self.arrays[0]}, {len(self.arrays)}): return 0"]
        for name in self.arrays[1:]:
            kind = {"Array": "SAME", "Mask": "MASK"}.get(self.kinds.get(name, ""), "INDICES")
            self.run += [f"if reading.read_next(make, {name}, reading.{kind}): return 0"]
        views = [f"make.inputs.at[{k}]" for k in range(len(self.arrays))]
        return ", ".join(f"<verbs.Numbers *>{each}" for each in views), ", ".join(views)


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
            entries.append(Entry(stub, front.node, named).text())  # type: ignore[arg-type]
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


if __name__ == "__main__":
    print(source())
