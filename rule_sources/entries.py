"""What Python calls: the entry of each function on arrays."""

from __future__ import annotations

import ast

from rule_sources.names import type_of, word


class Entry:
    """The function that Python calls: all arguments positionally, `out` last; None is left to Python.

    What it runs raises errors, which it need not save as `try` does: a pointer says that there are none.

    Args:
        stub: the public function.
        call_check: the check of its calls.
        named: the rule, and what else the stub's decorator says.
    """

    def __init__(self, stub: ast.FunctionDef, call_check: ast.FunctionDef, named: dict[str, str]) -> None:
        self.name, self.call_check, self.named = stub.name, call_check, named
        parameters = [*stub.args.args, *stub.args.kwonlyargs][:-1]
        self.kinds = {each.arg: ast.unparse(each.annotation) for each in parameters if each.annotation}
        data = [name for name, kind in self.kinds.items() if kind in ("Array", "Sequence[Array]")]
        self.indices = [name for name, kind in self.kinds.items() if kind in ("Indices", "Mask")]
        self.arrays = [*data, *self.indices]
        self.is_list = self.kinds[self.arrays[0]] != "Array"
        self.has_parts = ast.unparse(stub.returns or ast.Constant(None)).startswith("list[")
        # Objects are made before arrays are read: a finalizer that runs then changes nothing that was read.
        self.made, self.run = ["cdef verbs.Maker maker[1]"], list[str]()
        self.passed, self.checked = dict[str, str](), list[str]()

    def text(self) -> str:
        """Return it, and what it runs."""
        out = "out, None"
        if self.has_parts:
            self.made += ["cdef list parts = []", "cdef list outputs = results.items_of(out)"]
            self.made += ["if outputs is None and out is not None: return None"]
            out = "outputs, parts"
        lengths = self.named.get("lengths", "")
        self._take_arrays()
        self._take_others()
        if lengths:
            self.made += ["cdef list counts = []"]
            self.passed["counts"] = "list"
        numbers = (
            type_of(self.call_check.returns).strip("()").split(", ")
            if type_of(self.call_check.returns) != "int"
            else []
        )
        names = [f"p{k}" for k in range(len(numbers))]
        self.run += [f"cdef {kind} {name}" for name, kind in zip(names, numbers, strict=True)]
        shapes, views = self._read_arrays()
        call = f"{self.call_check.name}({', '.join(['maker', shapes, *self.checked, *['None'] * len(self.indices)])})"
        ruled = f"{self.named['rule']}({', '.join(['maker', views, *names])})"
        self.run += [f"{', '.join(names)} = {call}" if names else call]
        self.run += ["while results.runs_again(maker):", f"    {ruled}"] if self.has_parts else [ruled]
        if lengths:
            self.run += [f"sizing.append_to(counts, {lengths}({', '.join(['maker', shapes, *names])}))"]
        kinds = ", ".join(["verbs.Maker *", *self.passed.values()])
        done = f"(<int (*)({kinds}) noexcept>run_{self.name})({', '.join(['maker', *self.passed])})"
        self.made += [f"results.begin_call(maker, {out}, {self.named.get('may_update', 'False')})"]
        self.made += [f"cdef object found = results.end_call(maker, {done})"]
        self.made += ["return arguments.with_counts(found, counts)" if lengths else "return found"]
        typed = ", ".join(["verbs.Maker *maker", *[f"{kind} {name}" for name, kind in self.passed.items()]])
        body = "\n    ".join([f"cdef int run_{self.name}({typed}) except -1:", *self.run, "return 1"])
        return body + "\n\n\n" + "\n    ".join([f"def {self.name}({', '.join([*self.kinds, 'out'])}):", *self.made])

    def _take_arrays(self) -> None:
        """Pass the arrays: lists are held, and indices converted."""
        for k, name in enumerate(self.arrays):
            if self.is_list:
                self.made += [f"cdef list {name}_items = results.items_of({name})", f"if not {name}_items: return None"]
            elif self.kinds[name] == "Indices":
                self.made += [f"cdef object {name}_read = arguments.as_indices({name})"]
                self.arrays[k] = f"{name}_read"
            self.passed[f"{name}_items" if self.is_list else self.arrays[k]] = "list" if self.is_list else "object"

    def _take_others(self) -> None:
        """Pass the other arguments: those read on the host, words as numbers, elements, and numbers."""
        others = [name for name in self.kinds if name not in [*self.arrays, *self.indices]]
        wanted = [
            ast.unparse(each.annotation)
            for each in self.call_check.args.args[1 + len(self.arrays) :]
            if each.annotation
        ]
        for name, kind in zip(others, wanted, strict=False):
            self.checked.append(name)
            if self.kinds[name].startswith("HostInts"):
                self.made += [f"cdef arguments.HostIntegers {name}_list = arguments.read_host_integers({name})"]
                self.made += [f"if {name}_list is None: return None"]
                self.passed[f"{name}_list"] = "arguments.HostIntegers"
                self.checked[-1] = f"{name}_list"
                continue
            self.passed[name] = "object"
            if kind == "Text":
                del self.passed[name]
                self.passed[f"{name}_word"] = "int64_t"
                self.checked[-1] = f"{name}_word"
                self.made += [f"cdef int64_t {name}_word", f"if type({name}) is not str: return None"]
                for each in ast.literal_eval(f"({self.kinds[name][8:-1]},)"):
                    self.made += [f"elif {name} == {each!r}: {name}_word = {ast.unparse(word(each))}"]
                self.made += ["else: return None"]
            elif kind.startswith("Item"):
                self.run += [f"cdef verbs.Item {name}_item = arguments.item(maker, {self.arrays[0]}, {name})"]
                self.checked[-1] = f"{name}_item"
            elif kind == "int":
                self.checked[-1] = f"arguments.integer(maker, {name!r}, {name})"

    def _read_arrays(self) -> tuple[str, str]:
        """Read arrays; return their shapes, and their views."""
        if self.is_list:
            self.run += [f"if arguments.read_all(maker, {self.arrays[0]}_items): return 0"]
            return "(<verbs.Shapes *>&maker.inputs)[0]", "maker.inputs"
        self.run += [f"if arguments.read_first(maker, {self.arrays[0]}, {len(self.arrays)}): return 0"]
        for name in self.arrays[1:]:
            kind = {"Array": "SAME", "Mask": "MASK"}.get(self.kinds.get(name, ""), "INDICES")
            self.run += [f"if arguments.read_next(maker, {name}, arguments.{kind}): return 0"]
        views = [f"maker.inputs.at[{k}]" for k in range(len(self.arrays))]
        return ", ".join(f"<verbs.Integers *>{each}" for each in views), ", ".join(views)
