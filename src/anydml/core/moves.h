/* Moves as structs, which are planned and run by kernels.
 *
 *     for every coordinate c of a box:   *(to + Σ c·a) = *(from + Σ c·b)
 *
 * All distances are in bytes. Addresses are absolute: a move is bound to the memory of its operands.
 */
#ifndef ANYDML_MOVES_H
#define ANYDML_MOVES_H
#include <stdint.h>

enum { ANYDML_RANK = 16 };    /* dimensions of a simplified move; NumPy does those with more */
enum { ANYDML_LOOKUPS = 16 }; /* lookups of one move */

/* Treatment of indices out of range. REFUSE is for checks before anything is written: it ignores skipped elements, and
 * otherwise reports the index and clamps it. */
enum { ANYDML_CLAMP, ANYDML_SKIP, ANYDML_REFUSE };

/* One index per coordinate, which adds `stride · index` bytes. */
typedef struct {
  const char *at;              /* first index */
  int64_t b[ANYDML_RANK];      /* strides of the indices */
  int64_t size, stride;        /* of the axis that is looked up */
  int32_t *refused;            /* set to 1 if a clamped index was out of range; NULL to accept that */
  int8_t type;                 /* bytes of an index; negative if it is signed and wraps once: -4, -8, 4, 8, 1 */
  int8_t outside;
  int8_t into;                 /* added to: -1 the source, -2 the destination, k the address of lookup k */
} anydml_lookup;

/* A simplified move. Lookups come after those that they depend on. */
typedef struct {
  char *to;
  const char *from;            /* the pattern of a fill */
  int64_t element;             /* bytes that are contiguous at both ends */
  int64_t pattern;             /* bytes of a fill's pattern, which is repeated without strides; 0 if there is a source */
  int64_t n[ANYDML_RANK], a[ANYDML_RANK], b[ANYDML_RANK];   /* sizes, strides of destination and source; largest a first */
  int32_t rank, lookups;
  anydml_lookup *lookup;
} anydml_move;

#endif
