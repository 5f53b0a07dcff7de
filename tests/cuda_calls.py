"""The functions on device arrays, or on the host where kernels are interpreted: whoever the arrays belong to."""

import numpy as np

from anydml.functions.call_plans import call
from anydml.operators.registry import FUNCTIONS

WINDOW = FUNCTIONS["slice"]._replace(check_call=lambda name, x, starts, shape, steps: (starts, shape, steps))
"""Slices from a first coordinate on, by steps of either sign."""


def split(x, sizes, axis=0, out=None, gpu=None):
    return _run("split", FUNCTIONS["split"], (x,), (tuple(sizes), axis), out, gpu)


def join(parts, axis=0, out=None, gpu=None):
    return _one("join", FUNCTIONS["join"], parts, (axis,), out, gpu)


def slice_(x, starts, shape, steps, out=None, gpu=None):
    return _one("slice", WINDOW, (x,), (tuple(starts), tuple(shape), tuple(steps)), out, gpu)


def gather(x, indices, axis=0, out=None, gpu=None):
    return _one("gather", FUNCTIONS["gather"], (x, indices), (axis, "clamp", np.dtype(indices.dtype)), out, gpu)


def _one(name, function, inputs, arguments, out, gpu):
    return _run(name, function, inputs, arguments, None if out is None else (out,), gpu)[0]


def _run(name, function, inputs, arguments, out, gpu):
    # Needs Triton, which `WINDOW` does not.
    from anydml.engines.cuda.arrays import DeviceArrays

    engine = DeviceArrays.of(name, inputs) if gpu is None else DeviceArrays(gpu)
    return call(name, function, tuple(inputs), arguments, out, None, engine)
