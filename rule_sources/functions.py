"""Functions of operators' texts, as C functions."""

from __future__ import annotations

import ast

from rule_sources.names import Found, meaning, module_of, number, type_of, word

READ = {
    "abs",
    "are_at_least",
    "are_equal",
    "are_known",
    "holds",
    "integer",
    "integers_or_symbols",
    "is_zero",
    "is_number",
    "is_one",
    "is_single",
    "one_or_more",
    "prod",
    "sum",
}
"""What core/arguments has for compiled checks: these read Python's objects, or decide about open sizes."""

ITEMS = {"Sizes": "int", "Sequence[Sizes]": "Sizes", "Views": "View"}
"""The types of items, by those of what is read by index."""

FIELDS = {("HostIntegers", "shape"): "Sizes"}

MAX_INTS = 6
"""Maximum number of sizes of ``maker.ints(…)``."""


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
        """Integers that have names are written out."""
        if node.id == "name":
            return ast.Name("maker")
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
        if root == "maker":
            return self._verb(attribute, [] if attribute == "constant" else node.args)
        arguments = [self.visit(each) for each in node.args]
        if attribute in ("tuple", "int"):
            return arguments[0]
        if attribute in READ:
            return ast.Call(ast.Name(f"arguments.{attribute}"), arguments, [])
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
            assert len(arguments) <= MAX_INTS
            none = [ast.Constant(0)] * (MAX_INTS - len(arguments))
            arguments = [ast.Constant(len(arguments)), *arguments, *none]
        elif name == "fill":
            arguments[1] = or_null(arguments[1])
        elif name == "result" and len(arguments) == 1:
            arguments.append(ast.Name("NULL"))
        return ast.Call(ast.Name(f"{module_of(name)}.{name}"), [ast.Name("maker"), *arguments], [])

    def visit_If(self, node: ast.If) -> ast.stmt:
        """What is said of an error is left to Python."""
        if isinstance(node.body[-1], ast.Raise):
            node.body = [ast.Raise(ast.Name("REFUSED"))]
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """A single number is returned as it is, not in a tuple; no number at all is 0."""
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
        is_tuple = isinstance(value, ast.Call) and ast.unparse(value.func) in ("tuple", "Integers")
        if isinstance(value, ast.Call) and is_tuple and isinstance(value.args[0], ast.ListComp):
            each = value.args[0].generators[0]
            head = f"{to} = verbs.numbers(maker, {ast.unparse(self.visit(each.iter.args[0]))})"
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
        return node if node.elts else ast.Call(ast.Name("verbs.numbers"), [ast.Name("maker"), ast.Constant(0)], [])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Lookup for a number among others, or compare words."""
        if self.type(node.left) in ("Text", "OutOfRange"):
            node.comparators = [word(each.value) for each in node.comparators]  # type: ignore[attr-defined]
        self.generic_visit(node)
        if isinstance(node.ops[0], ast.In):
            return ast.Call(ast.Name("arguments.has"), [node.comparators[0], node.left], [])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Repeat a number, or multiply sizes."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Tuple):
            return ast.Call(ast.Name("sizing.repeated"), [ast.Name("maker"), node.left.elts[0], node.right], [])
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
        given.append("verbs.Maker *maker" if is_call else f"{type_of(each.annotation)} {each.arg}")
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
