"""Runs PTX, NVIDIA's portable machine code, on the host: what Triton compiled, instruction by instruction.

Only what the GPU engine's kernel is made of, which has no loops. All threads of all programs go in step, one NumPy
array a register. Memory is a `Gpu`: loads and stores must be aligned, as a GPU demands, and inside what was allocated,
and it is counted how often every byte is written.
"""

import operator
import re

import numpy as np

ENTRY = re.compile(r"\.entry\s+(\w+)\((.*?)\)(.*)\.reqntid\s+(\d+)", re.S)
INSTRUCTION = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z][\w.:]*)\s*([^;]*);")
OPERAND = re.compile(r"\{[^}]*\}|\[[^]]*\]|[^,\s]+")
WIDTHS = {"%rs": 2, "%r": 4, "%rd": 8}
SHARED = 1 << 15
"""Bytes of shared memory that a program may have."""
TYPES = {
    f"{kind}{bits}": np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}") for kind in "sub" for bits in (8, 16, 32, 64)
}
COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "lt", "ls": "le", "hi": "gt"}
TWO = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class Gpu:
    """Memory of a GPU that is not there: allocations far from each other, none next to another's bytes."""

    def __init__(self, size):
        self._space = np.zeros(size + 32, np.uint8)
        skip = -self._space.ctypes.data % 16
        self.bytes = self._space[skip : skip + size]
        self.allocated = np.zeros(size, bool)
        self._written = np.zeros(size, np.uint16)
        self._next = 256

    @property
    def written(self):
        """How often a kernel wrote each byte, up to the last that is allocated."""
        return self._written[: self._next]

    def count(self, spots, size):
        """Remember that `size` bytes were written at each of these spots."""
        if not spots.size:
            return
        # Accesses are aligned, so that each is a row of these.
        rows, at = self._written.reshape(-1, size), spots // size
        first, last = int(at.min()), int(at.max())
        rows[first : last + 1] += np.bincount(at - first).astype(np.uint16)[:, None]

    def clear(self):
        """Forget all that was allocated."""
        self.allocated[: self._next] = False
        self.written[:] = 0
        self._next = 256

    @property
    def start(self):
        """The address of the first byte, on the host."""
        return self.bytes.ctypes.data

    def put(self, content, shift=0):
        """A copy of an array of bytes, `shift` bytes behind a multiple of 256: its memory on the host."""
        first = self._next + shift
        end = first + len(content)
        self.bytes[first:end] = content
        self.allocated[first:end] = True
        self._next = -(-end // 256) * 256 + 256
        return self.bytes[first:end]

    def spots(self, address, size):
        """Where in memory accesses of `size` bytes begin.

        Raises:
            AssertionError: one is not aligned, or touches what was not allocated.
        """
        at = address.astype(np.int64) - self.start
        assert not (at % size).any(), f"an access of {size} bytes is not aligned"
        assert ((at >= 0) & (at + size <= len(self.bytes))).all(), "an access is far outside"
        # Allocations are farther from each other than an access is long.
        for k in {0, size - 1}:
            assert self.allocated[at + k].all(), f"an access of {size} bytes is outside what was allocated"
        return at


class Kernel:
    """A kernel's code.

    Args:
        ptx: of one entry.
    """

    def __init__(self, ptx):
        _, parameters, _, threads = ENTRY.search(ptx).groups()
        self.parameters = re.findall(r"\.param\s+\.(\w+).*?(\w+)$", parameters.replace(",", "\n"), re.M)
        self.threads = int(threads)
        body = re.sub(r"//[^\n]*", "", ptx[ptx.index("{", ptx.index(".reqntid")) :])
        code = re.sub(r"^\s*\.[^\n]*$", "", body[: body.index("\n}")], flags=re.M)
        names, *texts = re.split(r"^(\$\w+):", "$start:" + code, flags=re.M)[1:]
        names, texts = [names, *texts[1::2]], texts[::2]
        self.labels = {name: k for k, name in enumerate(names)}
        self.blocks = [[_instruction(*match.groups()) for match in INSTRUCTION.finditer(text)] for text in texts]

    def launch(self, programs, arguments, gpu):
        """Run it.

        Args:
            programs: how many.
            arguments: one number a parameter.
            gpu: the memory.
        """
        assert len(arguments) == len(self.parameters), (len(arguments), self.parameters)
        Run(self, programs, arguments, gpu).all()


class Run:
    """One launch of a kernel."""

    def __init__(self, kernel, programs, arguments, gpu):
        self.kernel, self.gpu = kernel, gpu
        self.arguments = [int(a) & (1 << 64) - 1 for a in arguments]
        lanes = np.arange(programs * kernel.threads, dtype=np.uint32)
        self.registers = {"%tid.x": lanes % np.uint32(kernel.threads), "%ctaid.x": lanes // np.uint32(kernel.threads)}
        self.places = {name: np.uint32(8 * k) for k, (_, name) in enumerate(kernel.parameters)}
        self.count = len(lanes)
        self.programs = self.registers["%ctaid.x"].astype(np.int64)
        self.shared = np.zeros(programs * SHARED, np.uint8)
        self.places["global_smem"] = np.uint32(0)
        self.look_at(np.ones(self.count, bool))

    def look_at(self, active):
        """From now on these lanes are active."""
        self.active = active
        self.are_all, self.is_any = bool(active.all()), bool(active.any())

    def all(self):
        """Every block of instructions, in order, by the lanes that come to it: branches lead forwards only."""
        goes_to = np.zeros(self.count, np.int64)
        with np.errstate(over="ignore"):
            for number, block in enumerate(self.kernel.blocks):
                here = goes_to == number
                goes_to[here] = number + 1
                self.look_at(here)
                for negated, predicate, name, operands in block:
                    if predicate:
                        self.look_at(here & (self.registers[predicate] != bool(negated)))
                    if name in ("bra", "bra.uni"):
                        target = self.kernel.labels[operands]
                        assert target > number, "a loop"
                        goes_to[self.active] = target
                        here = goes_to == number + 1
                        self.look_at(here)
                    else:
                        if self.is_any:
                            self.one(name, operands)
                        if predicate:
                            self.look_at(here)

    def one(self, name, operands):
        """One instruction, by the lanes that are active."""
        base, *modifiers = name.split(".")
        if base in ("ld", "st"):
            self.access(base, modifiers, operands)
        elif base in ("red", "atom"):
            *before, place, register = operands
            self.reduce(modifiers, place, register)
            # Who reads what was there before finds no register.
            for each in before:
                self.registers.pop(each, None)
        elif base in ("stmatrix", "ldmatrix"):
            self.matrices(base, modifiers, *(operands if base == "stmatrix" else operands[::-1]))
        elif base == "mov" and "{" in "".join(operands):
            self.repack(modifiers[-1], *operands)
        elif base not in ("ret", "bar"):
            # All threads go in step, so that none has to wait for others.
            self.set(operands[0], self.value(base, modifiers, operands[1:]))

    def set(self, register, value):
        """Give a register a value, in the lanes that are active."""
        if not self.are_all:
            before = self.registers.get(register, value)
            value = np.where(self.active, value, before.view(value.dtype) if before.dtype != bool else before)
        self.registers[register] = value

    def value(self, base, modifiers, operands):
        """What an instruction that touches no memory computes."""
        kind = modifiers[-1]
        if base == "cvt":
            return self.read(operands[0], kind).astype(TYPES[modifiers[-2]])
        if base == "setp":
            a, b = (self.read(x, kind) for x in operands)
            return getattr(operator, COMPARE[modifiers[0]])(a, b)
        if base == "selp":
            a, b = (self.read(x, kind) for x in operands[:2])
            return np.where(self.registers[operands[2]], a, b)
        values = [self.read(x, kind) for x in operands]
        if base in TWO:
            return TWO[base](*values)
        if base in ("mul", "mad"):
            product = self.product(modifiers[0], kind, *values[:2])
            return product if base == "mul" else product + self.read(operands[2], _wide(modifiers[0], kind))
        if base in ("shl", "shr"):
            bits = np.minimum(self.read(operands[1], "u32"), 8 * TYPES[kind].itemsize - 1).astype(values[0].dtype)
            assert (self.read(operands[1], "u32") < 8 * TYPES[kind].itemsize).all()
            return values[0] << bits if base == "shl" else values[0] >> bits
        if base == "prmt":
            assert kind == "b32"
            return _permuted(*values)
        if base == "popc":
            return np.bitwise_count(values[0]).astype(np.uint32)
        if base in ("div", "rem"):
            return self.divided(base, *values)
        if base == "bfe":
            # Shifted to the upper end and back, so that signed fields keep their sign.
            begin, length = (int(x) for x in operands[1:])
            up = 8 * TYPES[kind].itemsize - begin - length
            assert up >= 0, "a field that ends beyond its register"
            return values[0] << values[0].dtype.type(up) >> values[0].dtype.type(up + begin)
        return {"mov": lambda x: x, "neg": np.negative, "not": np.invert, "abs": np.abs}[base](*values)

    def divided(self, base, a, b):
        """``div`` or ``rem``, towards zero as in C."""
        assert (np.broadcast_to(b, self.count)[self.active] != 0).all(), "a division by 0"
        b = np.where(b == 0, b.dtype.type(1), b)
        quotient = np.abs(a) // np.abs(b)
        quotient = np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)
        return quotient if base == "div" else a - quotient * b

    def product(self, mode, kind, a, b):
        """``mul.lo``, ``mul.hi`` or ``mul.wide``."""
        if mode == "lo":
            return a * b
        if mode == "wide":
            wide = TYPES[_wide(mode, kind)]
            return a.astype(wide) * b.astype(wide)
        bits = 8 * TYPES[kind].itemsize
        if bits == 32:
            wide = TYPES[f"{kind[0]}64"]
            return (a.astype(wide) * b.astype(wide) >> wide.type(32)).astype(TYPES[kind])
        high = (np.asarray(a, object) * np.asarray(b, object)) >> bits
        return np.asarray(high & (1 << bits) - 1, object).astype(np.dtype(f"u{bits // 8}")).view(TYPES[kind])

    def read(self, operand, kind):
        """A register, a number or a parameter's place, as a type of PTX's."""
        if kind == "pred":
            return self.registers[operand] if operand.startswith("%") else np.asarray(int(operand) != 0)
        dtype = TYPES[kind]
        if operand in self.places:
            return np.asarray(self.places[operand]).astype(dtype)
        if not operand.startswith("%"):
            number = int(operand.removesuffix("U"), 0) & (1 << 8 * dtype.itemsize) - 1
            return np.asarray(number, np.dtype(f"u{dtype.itemsize}")).view(dtype)
        value = np.asarray(self.registers[operand])
        return value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value.astype(dtype)

    def repack(self, kind, target, source):
        """``mov`` between one register and the halves of one."""
        dtype = TYPES[kind]
        half = np.dtype(f"u{dtype.itemsize // 2}")
        if target.startswith("{"):
            parts = np.ascontiguousarray(np.broadcast_to(self.read(source, kind), self.count)).view(half).reshape(-1, 2)
            for name, part in zip(_names(target), parts.T, strict=True):
                self.set(name, np.ascontiguousarray(part))
        else:
            parts = [np.broadcast_to(self.read(x, f"u{8 * half.itemsize}"), self.count) for x in _names(source)]
            self.set(target, np.stack(parts, 1).view(dtype)[:, 0])

    def access(self, base, modifiers, operands):
        """A load or store."""
        space, kind = modifiers[0], modifiers[-1]
        dtype = TYPES[kind.replace("s", "u")]
        place, registers = operands if base == "st" else operands[::-1]
        address = self.address(place, "u64" if space == "global" else "u32")
        names = _names(registers) if registers.startswith("{") else [registers]
        if space == "param":
            index = np.asarray(address) // 8
            self.set(names[0], np.asarray(self.arguments, np.uint64)[index].astype(dtype))
            return
        assert space in ("global", "shared"), modifiers
        lanes = np.flatnonzero(self.active)
        if base == "st":
            # Of several threads that store to one address, any may be the last.
            lanes = lanes[::-1]
        address = np.broadcast_to(address, self.count)[lanes]
        size = dtype.itemsize * len(names)
        if space == "global":
            at, memory = self.gpu.spots(address, size), self.gpu.bytes.view(dtype)
        else:
            assert (address.astype(np.int64) + size <= SHARED).all(), "beyond the shared memory"
            assert not (address % np.uint32(size)).any(), "shared memory is accessed where it is not aligned"
            at, memory = address + self.programs[lanes] * SHARED, self.shared.view(dtype)
        for k, name in enumerate(names):
            spots = at // dtype.itemsize + k
            if base == "st":
                memory[spots] = np.broadcast_to(self.read(name, f"u{8 * dtype.itemsize}"), self.count)[lanes]
                if space == "global":
                    self.gpu.count(spots * dtype.itemsize, dtype.itemsize)
            else:
                width = WIDTHS[name.rstrip("0123456789")]
                value = np.array(np.broadcast_to(self.registers.get(name, 0), self.count), np.dtype(f"u{width}"))
                found = memory[spots].view(TYPES[kind]) if kind.startswith("s") else memory[spots]
                value[lanes] = found.astype(f"i{width}").view(value.dtype) if kind.startswith("s") else found
                self.registers[name] = value

    def reduce(self, modifiers, place, register):
        """``red.max`` and ``atom.max``: memory keeps the larger number, whichever thread comes first."""
        space, *_, operation, kind = modifiers
        assert (space, operation, kind[0]) == ("global", "max", "s"), modifiers
        lanes = np.flatnonzero(self.active)
        dtype = TYPES[kind]
        at = self.gpu.spots(np.broadcast_to(self.address(place, "u64"), self.count)[lanes], dtype.itemsize)
        value = np.broadcast_to(self.read(register, kind), self.count)[lanes]
        np.maximum.at(self.gpu.bytes.view(dtype), at // dtype.itemsize, value)

    def matrices(self, base, modifiers, place, registers):
        """8 × 8 matrices of 2 bytes between a warp's registers and shared memory, a row at each thread's address."""
        assert "m8n8" in modifiers, modifiers
        assert modifiers[-1] == "b16", modifiers
        assert self.are_all, "a warp moves matrices together"
        address = self.address(place, "u32").astype(np.int64) + self.programs * SHARED
        assert not (address % 16).any(), "a row of a matrix is not aligned"
        rows = np.broadcast_to(address, self.count).reshape(-1, 32) // 2
        memory = self.shared.view(np.uint16)
        thread = np.arange(32)
        for k, name in enumerate(_names(registers)):
            for half in range(2):
                row, column = thread // 4, thread % 4 * 2 + half
                if "trans" in modifiers:
                    row, column = column, row
                spots = (rows[:, 8 * k + row] + column).reshape(-1)
                if base == "stmatrix":
                    value = np.broadcast_to(self.read(name, "u32"), self.count) >> np.uint32(16 * half)
                    memory[spots] = value.astype(np.uint16)
                else:
                    before = self.registers.get(name, np.uint32(0)) if half else np.uint32(0)
                    self.set(name, before | memory[spots].astype(np.uint32) << np.uint32(16 * half))

    def address(self, place, kind):
        """What stands in brackets: a register or a parameter, and perhaps a number to add."""
        first, _, more = place.strip("[] ").partition("+")
        value = self.read(first.strip(), kind)
        return value + value.dtype.type(int(more)) if more.strip() else value


def _instruction(negated, predicate, name, operands):
    return negated, predicate, name, operands.strip() if name.startswith("bra") else OPERAND.findall(operands)


def _names(registers):
    return [name.strip() for name in registers.strip("{} ").split(",")]


def _wide(mode, kind):
    return f"{kind[0]}{2 * int(kind[1:])}" if mode == "wide" else kind


def _permuted(a, b, selector):
    """Four of the eight bytes of two words, by the digits of a hexadecimal number."""
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.uint32(0)
    for k in range(4):
        digit = selector >> np.uint32(4 * k)
        assert not (digit & 8).any(), "no sign is copied"
        byte = both >> ((digit & np.uint32(7)).astype(np.uint64) * np.uint64(8)) & np.uint64(255)
        result = result | byte.astype(np.uint32) << np.uint32(8 * k)
    return result
