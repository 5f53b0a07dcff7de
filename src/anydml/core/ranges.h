/* Address ranges of moves, and so which of them may run concurrently. */
#ifndef ANYDML_RANGES_H
#define ANYDML_RANGES_H
#include <stdlib.h>
#include "moves.h"

/* An address range; `high` is exclusive. */
typedef struct { const char *low, *high; } anydml_range;

/* The address range of a nonempty box. */
static inline anydml_range anydml_range_of(const char *at, int64_t size, int rank, const int64_t *n, const int64_t *strides) {
  anydml_range r = {at, at + size};
  for (int d = 0; d < rank; d++) {
    const int64_t far = strides[d] * (n[d] - 1);
    if (far < 0) r.low += far; else r.high += far;
  }
  return r;
}

/* The address range that one end of a move may access, including the lookups that are added to it (see `into`). */
static anydml_range anydml_access_range(const anydml_move *m, const char *at, const int64_t *strides, int64_t size, int into) {
  anydml_range r = anydml_range_of(at, size, m->rank, m->n, strides);
  for (int k = 0; k < m->lookups; k++) {
    if (m->lookup[k].into != into) continue;
    const int64_t far = m->lookup[k].stride * (m->lookup[k].size - 1);
    if (far < 0) r.low += far; else r.high += far;
  }
  return r;
}

static inline int anydml_disjoint(anydml_range p, anydml_range q) { return p.high <= q.low || q.high <= p.low; }

static int anydml_compare_ranges(const void *p, const void *q) {
  const char *one = ((const anydml_range *)p)->low, *other = ((const anydml_range *)q)->low;
  return (one > other) - (one < other);
}

/* Whether no two ranges have a byte in common; sorts them. */
static inline int anydml_all_disjoint(anydml_range *ranges, int64_t count) {
  qsort(ranges, (size_t)count, sizeof *ranges, anydml_compare_ranges);
  for (int64_t k = 1; k < count; k++) if (ranges[k].low < ranges[k - 1].high) return 0;
  return 1;
}

/* The smallest range that includes both; p may be empty. */
static inline anydml_range anydml_union_range(anydml_range p, anydml_range q) {
  if (p.low == p.high) return q;
  return (anydml_range){p.low < q.low ? p.low : q.low, p.high > q.high ? p.high : q.high};
}

static inline anydml_range anydml_write_range(const anydml_move *m) { return anydml_access_range(m, m->to, m->a, m->element, -2); }

/* Whether a move reads nothing of a range that is written. */
static int anydml_reads_outside(anydml_range written, const anydml_move *m) {
  if (!m->pattern && !anydml_disjoint(written, anydml_access_range(m, m->from, m->b, m->element, -1))) return 0;
  for (int k = 0; k < m->lookups; k++)
    if (!anydml_disjoint(written, anydml_access_range(m, m->lookup[k].at, m->lookup[k].b, 8, k))) return 0;
  return 1;
}

/* Whether neither of two moves writes memory that the other reads. */
static __attribute__((noinline)) int anydml_no_read_conflict(const anydml_move *p, const anydml_move *q) {
  return anydml_reads_outside(anydml_write_range(p), q) && anydml_reads_outside(anydml_write_range(q), p);
}

/* Whether the boxes of two moves' dimensions from d on, at a distance from each other, have no byte in common. */
static int anydml_boxes_disjoint(const anydml_move *p, const anydml_move *q, int64_t distance, int d) {
  int64_t reach_p = p->element, reach_q = q->element;
  for (int k = d; k < p->rank; k++) { reach_p += p->a[k] * (p->n[k] - 1); reach_q += q->a[k] * (q->n[k] - 1); }
  if (distance >= reach_p || -distance >= reach_q) return 1;
  if (d == p->rank || p->a[d] != q->a[d]) return 0;
  const int64_t step = p->a[d];
  reach_p -= step * (p->n[d] - 1);
  reach_q -= step * (q->n[d] - 1);
  if (reach_p > step || reach_q > step || step <= 0) return 0;
  int64_t rest = distance % step;
  if (rest < 0) rest += step;
  if (rest < reach_p && !anydml_boxes_disjoint(p, q, rest, d + 1)) return 0;
  return rest - step + reach_q <= 0 || anydml_boxes_disjoint(p, q, rest - step, d + 1);
}

/* Whether two moves may run in any order, and concurrently. */
static int anydml_independent(const anydml_move *p, const anydml_move *q) {
  const anydml_range written = anydml_write_range(p), also = anydml_write_range(q);
  if (!anydml_reads_outside(written, q) || !anydml_reads_outside(also, p)) return 0;
  if (anydml_disjoint(written, also)) return 1;
  int lookups = 0;
  for (int k = 0; k < p->lookups; k++) lookups |= p->lookup[k].into == -2;
  for (int k = 0; k < q->lookups; k++) lookups |= q->lookup[k].into == -2;
  return !lookups && p->rank == q->rank && anydml_boxes_disjoint(p, q, q->to - p->to, 0);
}
#endif
