"""Numbers that results are multiplied by, beside the same numbers in weights: proved where ONNX Runtime agrees."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import onnx
import pytest
from how_many import how_many
from onnx import helper, numpy_helper
from proving.mutants import mutant

from anydml.proving import prove
from anydml.proving.running import error_of, run

MOST = 64
"""Units in the last place by which sums in another order may be off."""

RANDOM = np.random.default_rng(5)
W, B = RANDOM.standard_normal((8, 6)).astype(np.float32), RANDOM.standard_normal(6).astype(np.float32)
S, G = np.float32(0.3), RANDOM.standard_normal(6).astype(np.float32)
K = RANDOM.standard_normal((5, 4, 3)).astype(np.float32)
C, H = RANDOM.standard_normal(5).astype(np.float32), RANDOM.standard_normal((5, 1)).astype(np.float32)
VARIANCE = np.abs(C) + np.float32(0.5)
SCALE = C.astype(np.float64) / np.sqrt(VARIANCE.astype(np.float64) + 1e-3)


def model(body, sizes=("N", 4, 8), opset=18, **constants):
    """A model of nodes that are written as `operator inputs -> output`, with attributes as `name=value`."""
    nodes = []
    for line in filter(None, map(str.strip, body.split(";"))):
        left, output = line.split(" -> ")
        operator, *words = left.split()
        attributes = {key: eval(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
        nodes.append(helper.make_node(operator, [w for w in words if "=" not in w], [output], **attributes))
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    rank = len(sizes)
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", sizes), ("y", [None] * rank))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


FACTORS_MERGED = {
    "a number": ("MatMul x w -> p; Mul p s -> y", {"w": W, "s": S}, "MatMul x w -> y", {"w": W * S}),
    "a number and a bias": ("MatMul x w -> p; Add b p -> q; Mul s q -> y", {"w": W, "s": S, "b": B},
                            "MatMul x w -> p; Add p b -> y", {"w": W * S, "b": B * S}),
    "columns": ("MatMul x w -> p; Add p b -> q; Mul q g -> y", {"w": W, "g": G, "b": B},
                "MatMul x w -> p; Add p b -> y", {"w": W * G, "b": B * G}),
    "columns, transposed": (
        "MatMul x w -> p; Transpose p perm=[0,2,1] -> q; Mul q g -> y", {"w": W, "g": G.reshape(6, 1)},
        "MatMul x w -> p; Transpose p perm=[0,2,1] -> y", {"w": W * G}),
    "heads": ("MatMul x w -> p; Reshape p r -> q; Mul q g -> u; Reshape u t -> y",
              {"w": W, "g": G[:2].reshape(2, 1), "r": np.array([0, 0, 2, 3]), "t": np.array([0, 0, 6])},
              "MatMul x w -> y", {"w": W * np.repeat(G[:2], 3)}),
    "a divisor": ("MatMul x w -> p; Div p s -> y", {"w": W, "s": S}, "MatMul x w -> y", {"w": W / S}),
    "before a product": ("Mul x s -> p; MatMul p w -> y", {"w": W, "s": S}, "MatMul x w -> y", {"w": W * S}),
    "channels": ("Conv x k b -> p; Mul p h -> y", {"k": K, "b": C, "h": H}, "Conv x k b -> y",
                 {"k": K * H[..., None], "b": C * H[:, 0]}),
    "before a convolution": ("Mul x s -> p; Conv p k b -> y", {"k": K, "b": C, "s": S}, "Conv x k b -> y",
                             {"k": K * S, "b": C}),
    "two biases": ("Conv x k b -> p; Add p h -> y", {"k": K, "b": C, "h": H}, "Conv x k b -> y",
                   {"k": K, "b": C + H[:, 0]}),
    "a normalization": (
        "Conv x k -> p; BatchNormalization p c b m v epsilon=1e-3 -> y",
        {"k": K, "c": C, "b": C + 1, "m": C * 2, "v": VARIANCE},
        "Conv x k b -> y", {"k": K * SCALE[:, None, None], "b": C + 1 - C * 2 * SCALE}),
    "two numbers": ("MatMul x w -> p; Mul p s -> q; Mul q g -> y", {"w": W, "s": S, "g": G},
                    "MatMul x w -> y", {"w": W * S * G}),
    "one of two factors": ("MatMul x w -> q; MatMul x w -> k; Transpose k perm=[0,2,1] -> t; Mul q s -> u; "
                           "MatMul u t -> y", {"w": W, "s": S},
                           "MatMul x w -> q; MatMul x v -> k; Transpose k perm=[0,2,1] -> t; MatMul q t -> y",
                           {"w": W * S, "v": W}),
    "a factor of a factor": ("MatMul x w -> p; Erf p -> e; Mul e s -> h; Mul p h -> y", {"w": W, "s": S},
                             "MatMul x w -> p; Erf p -> e; MatMul x v -> q; Mul q e -> y", {"w": W, "v": W * S}),
}  # fmt: skip


def float32(constants):
    kinds = {key: np.asarray(array) for key, array in constants.items()}
    return {key: array.astype(np.float32) if array.dtype.kind == "f" else array for key, array in kinds.items()}


@pytest.mark.parametrize("case", FACTORS_MERGED.values(), ids=FACTORS_MERGED)
def test_numbers_in_weights_are_equal_for_real_numbers(case):
    body, constants, other, merged = case
    merged = float32(merged)
    first, second = model(body, **constants), model(other, **merged)
    for pair in ((first, second), (second, first)):
        proof = prove(*pair, runs=False)
        assert proof.verdict == "rounded", proof.first_difference
        assert proof.names == ["N"]
    given = {"x": RANDOM.standard_normal((2, 4, 8)).astype(np.float32)}
    assert max(error_of(a, b) for a, b in zip(run(first, given), run(second, given), strict=True)) <= MOST
    for key, array in merged.items():
        if array.dtype == np.float32:
            wrong = array.copy()
            wrong.reshape(-1)[1] *= np.float32(1 + 2**-21)
            assert prove(first, model(other, **{**merged, key: wrong}), runs=False).verdict == "undecided", key


def test_weights_that_are_multiplied_alike_are_compared_bit_for_bit():
    near = W.copy()
    near.view(np.uint32)[2, 3] ^= 1
    first, second = (model("MatMul x w -> p; Mul p s -> y", w=each, s=S) for each in (W, near))
    assert prove(first, first).verdict == "proved"
    assert prove(first, second, runs=False).verdict == "undecided"


REFUSED = {
    "a normalization": {"b": (C + 1).reshape(1, 5)},
    "a convolution": {"b": C.reshape(1, 5, 1)},
    "no root": {"v": -VARIANCE},
}


@pytest.mark.parametrize(("name", "wrong"), REFUSED.items(), ids=REFUSED)
def test_parameters_that_a_runtime_refuses_are_not_merged(name, wrong):
    constants = {"k": K, "c": C, "b": C + 1, "m": C * 2, "v": VARIANCE}
    body = "Conv x k -> p; BatchNormalization p c b m v epsilon=1e-3 -> y"
    if name == "a convolution":
        body, constants = "Conv x k b -> y", {"k": K, "b": C}
    first, second = model(body, **constants), model(body, **{**constants, **wrong})
    assert prove(first, first, runs=False).verdict == "proved"
    assert prove(first, second, runs=False).verdict == "undecided"


def test_what_is_added_to_zero_is_equal_but_for_signs():
    first, second = model("Relu x -> p; Add p z -> y", z=np.zeros(8, np.float32)), model("Relu x -> y")
    proof = prove(first, second)
    assert (proof.verdict, proof.rounding) == ("rounded", ["0 is added, which makes 0 of −0"])
    assert prove(first, model("Relu x -> p; Add p z -> y", z=-np.zeros(8, np.float32)), runs=False).verdict == "rounded"
    assert prove(model("Relu x -> p; Add p z -> y", z=-np.zeros(8, np.float32)), second).verdict == "proved"


def test_sums_in_another_order_are_equal_where_other_nodes_hide_it():
    first = model("Relu x -> p; Neg x -> q; Exp x -> r; Add p q -> s; Add s r -> t; Transpose t -> y", (3, 4, 8))
    second = model("Exp x -> r; Neg x -> q; Relu x -> p; Add r q -> s; Add s p -> t; Transpose t -> y", (3, 4, 8))
    wrong = model("Exp x -> r; Neg x -> q; Relu x -> p; Add r q -> s; Sub s p -> t; Transpose t -> y", (3, 4, 8))
    assert prove(first, second).verdict == "rounded"
    assert prove(first, wrong).verdict == "different"


@pytest.mark.parametrize("operator", ["Add", "Div", "Mul", "Sub"])
def test_axes_of_old_opsets_are_not_those_of_newer_ones(operator):
    models = [
        model(f"{operator} x b broadcast=1 axis={axis} -> y", (2, 3, 3), opset=6, b=np.array([1, 2, 4], np.float32))
        for axis in (1, 2)
    ]
    assert prove(models[0], models[0], runs=False).verdict == "proved"
    assert prove(*models, runs=False).verdict == "undecided"


def random_model(random):
    """Products, convolutions, numbers and moves behind each other, and what the last of them is."""
    shape, lines, constants = [4, 8], [], {}
    value = "x"

    def constant(*sizes):
        name = f"c{len(constants)}"
        constants[name] = random.standard_normal(sizes).astype(np.float32)
        return name

    def add(text):
        nonlocal value
        lines.append(f"{text} -> v{len(lines)}")
        value = f"v{len(lines) - 1}"

    for _ in range(int(random.integers(2, 7))):
        rows, columns = shape
        match int(random.integers(9)):
            case 0 | 1:
                shape = [rows, int(random.integers(1, 7))]
                add(f"MatMul {value} {constant(columns, shape[1])}")
            case 2:
                add(f"Add {value} {constant(columns)}")
            case 3 | 4:
                sizes = ([], [1], [columns], [rows, 1], [rows, columns])[random.integers(5)]
                pair = [value, constant(*sizes)][:: random.choice([-1, 1])]
                add(f"Mul {' '.join(pair)}")
            case 5:
                shape = [int(random.integers(1, 5)), columns]
                bias = [constant(shape[0])] * int(random.integers(2))
                add(f"Conv {value} {constant(shape[0], rows, 1)} {' '.join(bias)}")
            case 6:
                shape = shape[::-1]
                add(f"Transpose {value} perm=[0,2,1]")
            case 7:
                add(f"{random.choice(['Relu', 'Tanh', 'Neg'])} {value}")
            case 8:
                add(f"Mul {value} {value}" if random.integers(2) else f"Softmax {value} axis=-1")
    return f"{'; '.join(lines)}; Identity {value} -> y", constants


def merged(lines, constants, random):
    """The same with one number in the weights before it: along the right axis or another; None without such a pair."""
    nodes = [line.split() for line in lines.split(";")]
    for before, node in pairwise(nodes):
        if node[0] != "Mul" or before[0] not in ("MatMul", "Conv") or before[-1] not in node:
            continue
        other = next((word for word in node[1:3] if word != before[-1]), before[-1])
        if other not in constants or (before[0] == "Conv" and len(before) > 5):
            continue
        weights, by = constants[before[2]], constants[other]
        if before[0] == "Conv":
            by = by.reshape(-1, 1, 1) if by.ndim == 2 and by.shape[1] == 1 else by
        by = by.reshape(by.shape[::-1]) if random.integers(4) == 0 else by
        try:
            product = (weights * by).astype(np.float32)
        except ValueError:
            continue
        if product.shape != weights.shape:
            continue
        text = lines.replace(" ".join(node), f"Identity {before[-1]} -> {node[-1]}")
        return text, {**constants, before[2]: product}
    return None


def test_no_number_that_is_merged_wrongly_is_proved():
    random, count = np.random.default_rng(7), Counter()
    while count["tried"] < how_many(60):
        text, constants = random_model(random)
        first = model(text, ("N", 4, 8), **constants)
        if random.integers(3):
            found = merged(text, constants, random)
            second = None if found is None else model(found[0], ("N", 4, 8), **found[1])
        else:
            found = mutant(first, random)
            second = None if found is None else found[0]
        if second is None:
            continue
        try:
            onnx.checker.check_model(second, full_check=True)
        except Exception:  # the checker raises errors of several types
            continue
        count["tried"] += 1
        verdict = prove(first, second, runs=False).verdict
        count[verdict] += 1
        if verdict not in ("proved", "rounded"):
            continue
        for size in (1, 3):
            given = {"x": random.standard_normal((size, 4, 8)).astype(np.float32)}
            try:
                expected = run(first, given)
            except Exception:  # ONNX Runtime raises errors of several types
                continue
            (a,), (b,) = expected, run(second, given)
            assert a.shape == b.shape
            assert error_of(a, b) <= MOST, (text, found)
    assert min(count["rounded"], count["undecided"]) > count["tried"] // 10
