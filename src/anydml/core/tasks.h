/* Moves as tasks, whose units may run in any order, and concurrently. */
#ifndef ANYDML_TASKS_H
#define ANYDML_TASKS_H
#include "moves.h"
#include "interleave_plan.h"

enum {
  ANYDML_TASKS = 16,              /* maximum number of tasks of a stage */
  ANYDML_UNIT = 32 << 10,         /* approximate bytes of a unit */
  ANYDML_PAIRS = 256,             /* maximum number of pairs of moves that are compared for one more task */
  ANYDML_LONG_ROW = 2048,         /* bytes of a transposed row from which its ends may be parts of lines */
  ANYDML_INTERLEAVES = 2,              /* maximum number of tasks with tables */
  ANYDML_ALIKE = 64,              /* maximum number of moves that one table interleaves */
};

typedef struct anydml_task anydml_task;

/* n1 lines of n0 elements. */
typedef void (*anydml_plane)(const anydml_task *s, char *to, const char *from, int64_t n1, int64_t n0);

/* As `anydml_plane`, by lookups: from line i1 and element i0 on of the plane at coordinates c. */
typedef void (*anydml_lookup_plane)(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0);

struct anydml_task {
  void (*work)(const anydml_task *s, int64_t first, int64_t last);
  anydml_plane plane;
  anydml_lookup_plane lookup_plane;               /* of moves with lookups, which may use `plane`; else NULL */
  const anydml_move *move;        /* its first move */
  int64_t count;                  /* number of its moves */
  int64_t units;
  char *to;
  const char *from;
  int64_t element, pattern;
  int64_t n1, a1, b1, n0, a0, b0; /* a plane: lines, and their elements */
  int64_t p1, p0, c1, c0;         /* lines and elements of a unit; number of units along both */
  int64_t n2, a2, b2, p2, c2;     /* likewise for contiguous planes, if a kernel takes several */
  int64_t planes, each;           /* number of planes; planes of a unit, if it has several */
  int32_t rank, streamed;         /* outer dimensions; whether stores are non-temporal */
  int64_t n[ANYDML_RANK], a[ANYDML_RANK], b[ANYDML_RANK];
  const char *base;               /* source of elements that a mask does not select, and its strides, by dimension of the move */
  int64_t d[ANYDML_RANK];
  const void *table;              /* additional data for a kernel */
};

/* The first moves of a list, which may run in any order, and concurrently. */
typedef struct {
  int64_t units;
  int32_t tasks, interleaved, lockstep; /* interleaved: tables in use; lockstep: whether a unit is one of each task */
  anydml_task task[ANYDML_TASKS];
  anydml_interleave interleave[ANYDML_INTERLEAVES];
} anydml_stage;

/* Add the offsets of the plane with a number, and set its outer coordinates. */
static inline void anydml_seek(const anydml_task *s, int64_t number, int64_t *c, char **to, const char **from) {
  for (int d = s->rank - 1; d >= 0; d--) {
    int64_t rest = number / s->n[d];
    c[d] = number - rest * s->n[d];
    *to += c[d] * s->a[d];
    *from += c[d] * s->b[d];
    number = rest;
  }
}

static inline void anydml_next(const anydml_task *s, int64_t *c, char **to, const char **from) {
  for (int d = s->rank - 1; d >= 0; d--) {
    *to += s->a[d];
    *from += s->b[d];
    if (++c[d] < s->n[d]) return;
    *to -= s->a[d] * s->n[d];
    *from -= s->b[d] * s->n[d];
    c[d] = 0;
  }
}

/* Whether tiles of a transposed plane at `to` are stored as whole lines: all rows reach lines at the same element, and are
 * long if they begin elsewhere. */
static inline int anydml_has_lines(const anydml_task *s, const char *to) {
  const int64_t e = s->element, head = -(uintptr_t)to & 63, row = s->n0 * e;
  return !((s->a1 | s->a2 | 64 % e) & 63) && head % e == 0 && (!head || row >= ANYDML_LONG_ROW);
}

/* Whether elements of a line are further apart at the source than lines are. */
static inline int anydml_crosses(const anydml_task *s) { return anydml_abs(s->b1) < anydml_abs(s->b0); }

static inline void anydml_part(const anydml_task *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  if (s->lookup_plane) s->lookup_plane(s, c, i1, i0, to, from, n1, n0);
  else s->plane(s, to, from, n1, n0);
}

/* Run units of a task plane by plane. */
static void anydml_planes(const anydml_task *s, int64_t first, int64_t last) {
  int64_t c[ANYDML_RANK], parts = s->c1 * s->c0;
  if (parts == 1) {
    char *to = s->to;
    const char *from = s->from;
    int64_t begin = first * s->each, end = last * s->each < s->planes ? last * s->each : s->planes;
    anydml_seek(s, begin, c, &to, &from);
    for (;;) {
      anydml_part(s, c, 0, 0, to, from, s->n1, s->n0);
      if (++begin >= end) break;
      anydml_next(s, c, &to, &from);
    }
  } else
    for (int64_t unit = first; unit < last; unit++) {
      char *to = s->to;
      const char *from = s->from;
      int64_t number = unit / parts, part = unit - number * parts, i1 = part / s->c0, i0 = part - i1 * s->c0;
      anydml_seek(s, number, c, &to, &from);
      i1 *= s->p1;
      i0 *= s->p0;
      anydml_part(s, c, i1, i0, to + i1 * s->a1 + i0 * s->a0, from + i1 * s->b1 + i0 * s->b0,
                  s->p1 < s->n1 - i1 ? s->p1 : s->n1 - i1, s->p0 < s->n0 - i0 ? s->p0 : s->n0 - i0);
    }
}
#endif
