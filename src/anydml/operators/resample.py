"""DML_OPERATOR_RESAMPLE, RESAMPLE1, RESAMPLE2 and RESAMPLE3 (see `resampling` for their base class)."""

from __future__ import annotations

from typing import ClassVar

from anydml.operators.enums import AxisDirection, InterpolationMode
from anydml.operators.resampling import ResampleBase
from anydml.operators.types import FLOATS_16_AND_32, Levels
from anydml.records import ListOf, Named, record
from anydml.tensor import DataType, TensorDesc

WITH_BYTES = (*FLOATS_16_AND_32, DataType.INT8, DataType.UINT8)


@record
class ResampleOperatorDesc(ResampleBase):
    """DML_RESAMPLE_OPERATOR_DESC: ``Output[c] = Input[floor((c + 0.5) / Scales)]``, clamped to the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes: beyond the scaled input, the last element is repeated.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        scales: above 0, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales = [1, 1, 2, 2]
        >>> desc = dml.ResampleOperatorDesc(small, large, "NEAREST_NEIGHBOR", scales)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: Named[InterpolationMode]
    scales: ListOf[float]

    OPERATOR = "DML_RESAMPLE"
    LEVELS = (
        ("6_2", 1, 4, WITH_BYTES),
        ("5_1", 1, 4, FLOATS_16_AND_32),
        ("2_0", 4, 4, FLOATS_16_AND_32),
    )


@record
class Resample1OperatorDesc(ResampleBase):
    """DML_RESAMPLE1_OPERATOR_DESC: RESAMPLE with pixel offsets.

    ``x = (c − OutputPixelOffsets) / Scales − InputPixelOffsets`` is rounded half up and clamped to the input.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension; 0.5 for pixel centres.
        output_pixel_offsets: finite, one per dimension; −0.5 for pixel centres.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample1OperatorDesc(small, large, "NEAREST_NEIGHBOR", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: Named[InterpolationMode]
    scales: ListOf[float]
    input_pixel_offsets: ListOf[float]
    output_pixel_offsets: ListOf[float]

    OPERATOR = "DML_RESAMPLE1"
    LEVELS = (
        ("6_2", 1, 4, WITH_BYTES),
        ("5_1", 1, 4, FLOATS_16_AND_32),
        ("2_1", 4, 4, FLOATS_16_AND_32),
    )


@record
class Resample2OperatorDesc(ResampleBase):
    """DML_RESAMPLE2_OPERATOR_DESC: RESAMPLE1 with a direction of rounding.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        rounding_direction: INCREASING rounds x up, DECREASING rounds it down.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension.
        output_pixel_offsets: finite, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample2OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    interpolation_mode: Named[InterpolationMode]
    rounding_direction: Named[AxisDirection]
    scales: ListOf[float]
    input_pixel_offsets: ListOf[float]
    output_pixel_offsets: ListOf[float]

    OPERATOR = "DML_RESAMPLE2"
    LEVELS: ClassVar[Levels] = (
        ("6_2", 1, 4, WITH_BYTES),
        ("5_1", 1, 4, FLOATS_16_AND_32),
    )


@record
class Resample3OperatorDesc(Resample2OperatorDesc):
    """DML_RESAMPLE3_OPERATOR_DESC: RESAMPLE2 with a field that only LINEAR reads.

    Args:
        input_tensor: the tensor to read.
        output_tensor: of any sizes.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.
        rounding_direction: INCREASING rounds x up, DECREASING rounds it down.
        scales: above 0, one per dimension.
        input_pixel_offsets: finite, one per dimension.
        output_pixel_offsets: finite, one per dimension.
        antialiased: no effect on the nearest neighbour.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> scales, offsets = [1, 1, 2, 2], ([0.5] * 4, [-0.5] * 4)
        >>> desc = dml.Resample3OperatorDesc(small, large, "NEAREST_NEIGHBOR", "INCREASING", scales, *offsets)
        >>> desc.problems()
        no problems
    """

    antialiased: bool = False

    OPERATOR = "DML_RESAMPLE3"
    LEVELS = (("6_4", 1, 4, WITH_BYTES),)
