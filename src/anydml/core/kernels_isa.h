/* All kernels for one instruction set, and their table. Included once for each
 * instruction set, so it has no guard. */
#include "vectors.h"
#include "rows.h"
#include "tiles.h"
#include "lookups.h"
#include "interleave_kernels.h"
#include "numbers.h"

static const anydml_kernels K(kernels) = {
  .name = ANYDML_NAME,
  .width = K(W),
  .elements = {[1] = K(elements1), [2] = K(elements2), [3] = K(elements3), [4] = K(elements4), [6] = K(elements6), [8] = K(elements8),
    [12] = K(elements12), [16] = K(elements16), [24] = K(elements24), [32] = K(elements32), [64] = K(elements64), [128] = K(elements128)},
  .rows = K(rows), .rows_packed = K(rows_packed), .elements_packed = K(elements_packed),
  .fill = K(fill), .repeat_element = K(repeat_element), .mirror = K(mirror), .mirror_uneven = K(mirror_uneven),
  .transpose = {[1] = K(transpose), [2] = K(transpose), [3] = K(transpose), [4] = K(transpose), [8] = K(transpose)},
  .transpose_streamed = K(transpose_streamed),
  .put_numbers = K(put_numbers), .run = K(copy), .side_by_side = K(side_by_side),
  .lookup_plane = K(lookup_plane), .select = K(select_plane), .check = K(check), .interleave = K(interleave), .interleave_vector = K(interleave_vector), .interleave_blocks = K(interleave_blocks), .window = 16,
};
#undef ANYDML_ZIP
#undef ANYDML_LOW
#undef ANYDML_HIGH
#undef ANYDML_LARGE
#undef ANYDML_PICK
#undef ANYDML_NAME
#undef ANYDML_LANES
#undef ANYDML_ISA
