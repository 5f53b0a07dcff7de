"""PyTorch's own samples of its operators that move: fused, they give what PyTorch gives, bit for bit."""

import re
import types

import pytest
from how_many import how_many

import anydml as dml

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own
pytest.importorskip("expecttest")  # PyTorch's samples need it

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402  # where there is PyTorch
from torch.utils._pytree import tree_leaves  # noqa: E402

SAMPLES = how_many(6)
DTYPES = torch.float32, torch.int64

MOVING = """
_chunk_cat alias_copy atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat
chunk clone column_stack combinations conj conj_physical constant_pad_nd contiguous diag diag_embed diagflat
diagonal diagonal_copy diagonal_scatter dsplit dstack empty empty_like expand expand_as expand_copy eye fft.fftshift
fft.ifftshift fill flatten flip fliplr flipud full full_like gather H hsplit hstack index_copy index_fill
index_select linalg.diagonal mH masked_fill meshgrid movedim mT narrow narrow_copy new_empty new_empty_strided
new_full new_ones new_zeros nn.functional.channel_shuffle nn.functional.max_unpool1d nn.functional.max_unpool2d
nn.functional.max_unpool3d nn.functional.pad nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
nn.functional.unfold nn.functional.upsample_nearest ones ones_like permute permute_copy positive ravel real repeat
reshape reshape_as resolve_conj resolve_neg roll rot90 select select_scatter slice slice_scatter split
split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack T t t_copy take take_along_dim tile transpose
transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split unsqueeze
unsqueeze_copy view view_as view_copy vsplit vstack where zeros zeros_like
"""
ALWAYS = frozenset(MOVING.split())
"""Operators whose samples all move."""

SOMETIMES = {
    "__getitem__": "a mask as an index.*the number of selected elements is unknown",
    "float": "to torch.float32",
    "index_put": "with accumulate|by a traced mask.*the places of elements would depend on elements",
    "long": "to torch.int64",
    "masked_scatter": "by a traced mask.*the places of elements would depend on elements",
    "nn.functional.embedding": "with max_norm",
    "nn.functional.interpolate": "in mode '(area|bicubic|bilinear|linear|trilinear)'",
    "nn.functional.one_hot": "without num_classes.*shape would depend on elements",
    "put": "with accumulate",
    "repeat_interleave": "traced counts.*shape would depend on elements",
    "scatter": "with reduce='(add|multiply)'",
    "tensor_split": "by a traced array.*shapes would depend on elements",
    "to": "to torch.float64",
}
"""Those of which some compute, or depend on values, and what refusals say."""

NEVER = {
    "argwhere": "would depend on elements",
    "masked_select": "would depend on elements",
    "nonzero": "would depend on elements",
    "sort": "does not compute",
    "sum": "does not compute",
    "trace": "does not compute",
    "unique": "would depend on elements",
}
"""Those that never move."""

RULE = "anydml moves elements and does not compute"

FOUND = {
    f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db if op.name in {*ALWAYS, *SOMETIMES, *NEVER}
}


def function_of(op):
    """The operator, of a tensor beside its arguments; what is a method of tensors alone is called as one."""
    name = getattr(op.op, "__name__", "")
    is_method = isinstance(op.op, (types.MethodDescriptorType, types.WrapperDescriptorType))
    call = (lambda x, *rest, **named: getattr(x, name)(*rest, **named)) if is_method else op.op
    return lambda beside, arguments, named: call(*arguments, **named)


def contents(tree):
    """Shapes, dtypes and bytes of tensors in a structure."""
    return [(each.shape, each.dtype, each.resolve_conj().contiguous().numpy().tobytes()) for each in tree_leaves(tree)]


def samples(op, most):
    """So many of each dtype, from the first to the last."""
    for dtype in DTYPES:
        if dtype in op.dtypes:
            every = [*op.sample_inputs("cpu", dtype)]
            yield from every[:: -(-len(every) // most)]


def outcome(function, *arguments):
    """What a fused function gives, or why it is refused."""
    try:
        return dml.fuse(function)(*arguments), None
    except dml.FuseError as error:
        return None, f"{error} ({error.rule})"


@pytest.mark.parametrize("name", FOUND)
def test_samples(name):
    op = FOUND[name]
    reason, right, refused = {**SOMETIMES, **NEVER}.get(op.name), 0, 0
    function = function_of(op)
    for sample in samples(op, SAMPLES):
        arguments, named = (sample.input, *sample.args), sample.kwargs
        beside = torch.zeros(1)
        expected = function(beside, arguments, named)
        found, message = outcome(function, beside, arguments, named)
        if message:
            assert reason is not None, (name, sample, message)
            assert RULE in message, message
            assert re.search(reason, message), message
            refused += 1
            if "depend" in reason and len(tree_leaves(arguments)) > 1 and op.name not in NEVER:
                check_known(function, sample, expected)
            continue
        assert type(found) is type(expected) or isinstance(found, (tuple, list)), name
        if op.name.startswith(("empty", "new_empty")):
            # Nothing is said of their elements.
            assert [each[:2] for each in contents(found)] == [each[:2] for each in contents(expected)], (name, sample)
        else:
            assert contents(found) == contents(expected), (name, sample)
        right += 1
    computes = name.startswith("nn.functional.interpolate") and "nearest" not in name
    assert right or refused
    assert not right if op.name in NEVER or computes else right or op.name in ("to", "masked_scatter"), name


def check_known(function, sample, expected):
    """What depends on the values of arguments moves where these are known."""

    def known(x, beside):
        return function(beside, (x, *sample.args), sample.kwargs)

    found, message = outcome(known, sample.input, torch.zeros(1))
    if message:
        assert "accumulate" in message, message
    else:
        assert contents(found) == contents(expected), sample


def test_every_operator_is_there():
    known = {op.name for op in op_db}
    assert {*ALWAYS, *SOMETIMES, *NEVER} <= known
