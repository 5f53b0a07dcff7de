"""The public names of the operators' files, in order: for type checkers, and for the registry, which reads this file."""

# ruff: noqa: E501  # an operator is a line; `as` makes a name public
# isort: off
# fmt: off

from anydml.operators.split import SplitOperatorDesc as SplitOperatorDesc, split as split
from anydml.operators.join import JoinOperatorDesc as JoinOperatorDesc, join as join
from anydml.operators.slice import SliceOperatorDesc as SliceOperatorDesc, slice as slice
from anydml.operators.slice1 import Slice1OperatorDesc as Slice1OperatorDesc, slice1 as slice1
from anydml.operators.gather import GatherOperatorDesc as GatherOperatorDesc, gather as gather
from anydml.operators.tile import TileOperatorDesc as TileOperatorDesc, tile as tile
from anydml.operators.padding import Padding1OperatorDesc as Padding1OperatorDesc, PaddingOperatorDesc as PaddingOperatorDesc, pad as pad
from anydml.operators.gather_elements import GatherElementsOperatorDesc as GatherElementsOperatorDesc, gather_elements as gather_elements
from anydml.operators.gather_nd import GatherNd1OperatorDesc as GatherNd1OperatorDesc, GatherNdOperatorDesc as GatherNdOperatorDesc, gather_nd as gather_nd
from anydml.operators.scatter import ScatterOperatorDesc as ScatterOperatorDesc, scatter as scatter
from anydml.operators.scatter_nd import ScatterNdOperatorDesc as ScatterNdOperatorDesc, scatter_nd as scatter_nd
from anydml.operators.slice_grad import SliceGradOperatorDesc as SliceGradOperatorDesc, slice_grad as slice_grad
from anydml.operators.depth_space import DepthToSpace1OperatorDesc as DepthToSpace1OperatorDesc, DepthToSpaceOperatorDesc as DepthToSpaceOperatorDesc, SpaceToDepth1OperatorDesc as SpaceToDepth1OperatorDesc, SpaceToDepthOperatorDesc as SpaceToDepthOperatorDesc, depth_to_space as depth_to_space, space_to_depth as space_to_depth
from anydml.operators.diagonal_matrix import DiagonalMatrix1OperatorDesc as DiagonalMatrix1OperatorDesc, DiagonalMatrixOperatorDesc as DiagonalMatrixOperatorDesc, diagonal_matrix as diagonal_matrix
from anydml.operators.fill_value import FillValueConstantOperatorDesc as FillValueConstantOperatorDesc, FillValueSequenceOperatorDesc as FillValueSequenceOperatorDesc, fill as fill, sequence as sequence
from anydml.operators.element_wise_identity import ElementWiseIdentityOperatorDesc as ElementWiseIdentityOperatorDesc
from anydml.operators.element_wise_if import ElementWiseIfOperatorDesc as ElementWiseIfOperatorDesc, where as where
from anydml.operators.nonzero_coordinates import NonzeroCoordinatesOperatorDesc as NonzeroCoordinatesOperatorDesc
from anydml.operators.reverse_subsequences import ReverseSubsequencesOperatorDesc as ReverseSubsequencesOperatorDesc, reverse_subsequences as reverse_subsequences
from anydml.operators.one_hot import OneHotOperatorDesc as OneHotOperatorDesc, one_hot as one_hot
from anydml.operators.upsample_2d import Upsample2dOperatorDesc as Upsample2dOperatorDesc
from anydml.operators.resample import Resample1OperatorDesc as Resample1OperatorDesc, Resample2OperatorDesc as Resample2OperatorDesc, Resample3OperatorDesc as Resample3OperatorDesc, ResampleOperatorDesc as ResampleOperatorDesc
from anydml.operators.unfold import UnfoldOperatorDesc as UnfoldOperatorDesc, unfold as unfold
from anydml.operators.split_training import SplitTrainingOperatorDesc as SplitTrainingOperatorDesc, split_training as split_training
from anydml.operators.concat_training import ConcatTrainingOperatorDesc as ConcatTrainingOperatorDesc, concat_training as concat_training
from anydml.operators.axis_functions import broadcast_to as broadcast_to, flip as flip, permute_dims as permute_dims, roll as roll, stack as stack
from anydml.operators.triangles import tril as tril, triu as triu
from anydml.operators.repeating import repeat as repeat, upsample as upsample
