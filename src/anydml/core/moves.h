/* What compiled code moves: the structs that planning fills in and kernels run.
 *
 *     for every coordinate c of a box:   *(to + Σ c·a) = *(from + Σ c·b)
 *
 * Everything is counted in bytes. Addresses are absolute: a move is run where its operands lie.
 */
#ifndef ANYDML_MOVES_H
#define ANYDML_MOVES_H
#include <stdint.h>

enum { ANYDML_RANK = 16 };    /* dimensions of a simple move; NumPy does those that have more */
enum { ANYDML_LOOKUPS = 16 }; /* lookups of one move */

/* What an index outside its axis does. REFUSE is for checks before anything is written, where what is skipped does not
 * count; then it clamps. */
enum { ANYDML_CLAMP, ANYDML_SKIP, ANYDML_REFUSE };

/* One index read per coordinate, worth `stride · index` bytes. */
typedef struct {
  const char *at;              /* first index */
  int64_t b[ANYDML_RANK];      /* byte strides of the indices, a dimension each */
  int64_t size, stride;        /* of the axis that is looked up */
  int32_t *refused;            /* set to 1 where a clamped index was outside; NULL where none is refused */
  int8_t type;                 /* bytes of an index; negative where it is signed, and wraps once: -4, -8, 4, 8, 1 */
  int8_t outside;
  int8_t into;                 /* what it is added to: -1 the source, -2 the destination, k the address of lookup k */
} anydml_lookup;

/* A move in its simplest form. Lookups that others depend on stand before them. */
typedef struct {
  char *to;
  const char *from;            /* the pattern of a fill */
  int64_t element;             /* bytes that lie together at both ends */
  int64_t pattern;             /* bytes of a fill's pattern, which is repeated; 0 where there is a source */
  int64_t n[ANYDML_RANK], a[ANYDML_RANK], b[ANYDML_RANK];   /* sizes, strides of destination and source; largest a first */
  int32_t rank, lookups;
  anydml_lookup *lookup;
} anydml_move;

#endif
