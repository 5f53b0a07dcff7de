/* The pool of pool.h next ThreadSanitizer, or with a delay before each atomic operation: .ci/sanitize builds it.
 *
 * Two threads share jobs while a third one changes how many workers there are. Each unit must be done once, and what is
 * written must be seen, by workers and by the caller, though only the pool's own atomics are between them. RELAXED, the
 * name of one of their words, takes its order from it alone: where others' order hangs on that word, ThreadSanitizer must
 * find a race, or it would find none in the pool either.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static __thread unsigned drawn;

static unsigned draw(void) { return (drawn = drawn * 1664525 + 1013904223 + (unsigned)(size_t)&drawn) >> 24; }

/* Mostly none; else other threads' turn. All that those do who wait for somebody. */
static void yield(void) {
  if (draw() < 16) sched_yield();
}

/* Mostly none; else some microseconds, or so many that who waits sleeps. */
static void delay(void) {
  unsigned what = draw();
  if (what < 6) nanosleep(&(struct timespec){.tv_nsec = what ? 20000 : 1000000}, NULL);
}

#ifdef RELAXED
#define ORDER(at, order) __builtin_choose_expr(!__builtin_strcmp(#at, "&anydml_pool." RELAXED), __ATOMIC_RELAXED, order)
#else
#define ORDER(at, order) order
#endif
#define __atomic_load_n(at, order) (yield(), __atomic_load_n(at, ORDER(at, order)))
#define __atomic_store_n(at, value, order) (delay(), __atomic_store_n(at, value, ORDER(at, order)))
#define __atomic_fetch_add(at, by, order) (delay(), __atomic_fetch_add(at, by, ORDER(at, order)))
#define __atomic_add_fetch(at, by, order) (delay(), __atomic_add_fetch(at, by, ORDER(at, order)))
#define __atomic_and_fetch(at, by, order) (delay(), __atomic_and_fetch(at, by, ORDER(at, order)))
#define __atomic_or_fetch(at, by, order) (delay(), __atomic_or_fetch(at, by, ORDER(at, order)))
#define __atomic_compare_exchange_n(at, old, new, weak, order, failed) \
  (delay(), __atomic_compare_exchange_n(at, old, new, weak, ORDER(at, order), ORDER(at, failed)))
#include "pool.h"

enum { UNITS = 300, CALLERS = 2 };
typedef struct { int64_t from[UNITS], to[UNITS]; } plan;
static int rounds, last_end;

static void add(const void *given, int64_t first, int64_t last) {
  plan *p = (plan *)given;
  delay();
  for (int64_t k = first; k < last; k++) p->to[k] += p->from[k];
}

static void *call(void *unused) {
  plan *p = calloc(1, sizeof *p);
  for (int round = 1; round <= rounds; round++) {
    const int count = 1 + rand() % UNITS, step = 1 + rand() % 40;
    for (int k = 0; k < UNITS; k++) p->from[k] = round + k, p->to[k] = 1;
    anydml_share(add, p, 0, count, step, round % 2 ? ANYDML_WAKE_MOST : 1);
    for (int k = 0; k < UNITS; k++) {
      if (p->to[k] == 1 + (k < count) * (round + k)) continue;
      fprintf(stderr, "round %d: unit %d of %d is %lld\n", round, k, count, (long long)p->to[k]);
      abort();
    }
    if (round % 50 == 0) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* and all workers sleep */
  }
  free(p);
  return NULL;
}

static void *change(void *unused) {
  while (!(__atomic_load_n)(&last_end, __ATOMIC_SEQ_CST)) {
    anydml_set_threads(2 + rand() % 4);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  return NULL;
}

int main(int count, char **arguments) {
  pthread_t callers[CALLERS], changing;
  rounds = atoi(arguments[1]);
  anydml_set_threads(4);
  for (int k = 0; k < CALLERS; k++) pthread_create(&callers[k], NULL, call, NULL);
  pthread_create(&changing, NULL, change, NULL);
  for (int k = 0; k < CALLERS; k++) pthread_join(callers[k], NULL);
  (__atomic_store_n)(&last_end, 1, __ATOMIC_SEQ_CST);
  pthread_join(changing, NULL);
  printf("%d jobs of %d callers: as if one thread had done them\n", rounds * CALLERS, CALLERS);
}
