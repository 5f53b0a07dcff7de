/* How a move is run: as steps, each of which has units that may be done in any order, and at once. */
#ifndef ANYDML_STEPS_H
#define ANYDML_STEPS_H
#include "moves.h"
#include "weaving.h"

enum {
  ANYDML_STEPS = 16,              /* steps of a stage at most */
  ANYDML_UNIT = 32 << 10,         /* bytes of a unit, about */
  ANYDML_PAIRS = 256,             /* pairs of moves that are looked at for one more step */
  ANYDML_WEAVES = 2,              /* of them, those that have tables of their own */
};

typedef struct anydml_step anydml_step;

/* n1 lines of n0 elements. */
typedef void (*anydml_plane)(const anydml_step *s, char *to, const char *from, int64_t n1, int64_t n0);

/* The same by lookups: from line i1 and element i0 on of the plane at the coordinates c. */
typedef void (*anydml_look)(const anydml_step *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0);

struct anydml_step {
  void (*work)(const anydml_step *s, int64_t first, int64_t last);
  anydml_plane plane;
  anydml_look look;               /* instead of `plane`, of moves with lookups; else NULL */
  const anydml_move *move;        /* the first of those that it does */
  int64_t count;                  /* how many it does */
  int64_t units;
  char *to;
  const char *from;
  int64_t element, pattern;
  int64_t n1, a1, b1, n0, a0, b0; /* a plane: lines, and what they have */
  int64_t p1, p0, c1, c0;         /* lines and elements of a unit; how many units a plane has of either */
  int64_t n2, a2, b2, p2, c2;     /* the same of planes that follow each other, where a kernel takes several */
  int64_t planes, each;           /* all of them; planes of a unit where one has several */
  int32_t rank, streamed;         /* dimensions outside of planes; whether it writes past the caches */
  int64_t n[ANYDML_RANK], a[ANYDML_RANK], b[ANYDML_RANK];
  const void *table;              /* what else a kernel needs */
};

/* Moves that may be run at once, whatever the order: the first of a list. */
typedef struct {
  int64_t units;
  int32_t steps, woven, together; /* woven: tables in use; together: whether each unit is one of each step */
  anydml_step step[ANYDML_STEPS];
  anydml_weave weave[ANYDML_WEAVES];
} anydml_stage;

/* The offsets of the plane of a number, and the coordinates outside of it. */
static inline void anydml_seek(const anydml_step *s, int64_t number, int64_t *c, char **to, const char **from) {
  for (int d = s->rank - 1; d >= 0; d--) {
    int64_t rest = number / s->n[d];
    c[d] = number - rest * s->n[d];
    *to += c[d] * s->a[d];
    *from += c[d] * s->b[d];
    number = rest;
  }
}

static inline void anydml_next(const anydml_step *s, int64_t *c, char **to, const char **from) {
  for (int d = s->rank - 1; d >= 0; d--) {
    *to += s->a[d];
    *from += s->b[d];
    if (++c[d] < s->n[d]) return;
    *to -= s->a[d] * s->n[d];
    *from -= s->b[d] * s->n[d];
    c[d] = 0;
  }
}

static inline void anydml_part(const anydml_step *s, const int64_t *c, int64_t i1, int64_t i0, char *to, const char *from, int64_t n1, int64_t n0) {
  if (s->look) s->look(s, c, i1, i0, to, from, n1, n0);
  else s->plane(s, to, from, n1, n0);
}

/* Units of a step that is done plane by plane. */
static void anydml_planes(const anydml_step *s, int64_t first, int64_t last) {
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
