/* Threads that share work. One job at a time: its claims are taken by the caller from the beginning and by workers from
 * the end, so that each finds in its caches what it moved last time, until they meet.
 *
 * A caller that finds a job under way works alone. It waits for claims that workers have begun, never for a worker to
 * come. Workers look for a job for some tens of microseconds before they sleep; only work that is worth it wakes them.
 * Waking takes as long as copying a megabyte, so where such work comes soon again, they stay awake for it, unless another
 * program wants their core: a worker that was kept from looking would be kept from ending a claim, too.
 */
#ifndef ANYDML_POOL_H
#define ANYDML_POOL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>

/* Does units of a plan, the last one exclusive; in any thread, without the GIL. */
typedef void (*anydml_work_t)(const void *plan, int64_t first, int64_t last);

typedef struct {
  anydml_work_t work;
  const void *plan;
  int64_t first, last, step, claims; /* units; units of a claim but for the last one, and how many claims there are */
  int64_t effort;                    /* what a plain copy writes in the time that one thread takes, in bytes */
  int core;                          /* that the caller runs on; −1 where that is not known */
} anydml_job;

static void anydml_claim(const anydml_job *job, int64_t number) {
  int64_t first = job->first + number * job->step, last = first + job->step;
  job->work(job->plan, first, last < job->last ? last : job->last);
}

#if defined(_WIN32)
/* There are no POSIX threads: the caller works alone. */
static void anydml_share(anydml_work_t work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) {
  work(plan, first, last);
}
static void anydml_set_threads(int threads) {}
static int64_t anydml_now(void) { return 0; }
static int anydml_start(void *(*run)(void *)) { return -1; }
static int anydml_watch_forks(void) { return 0; }
static int anydml_threads(void) { return 1; }
static int anydml_workers(void) { return 0; }
static int anydml_sleepers(void) { return 0; }
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include "cores.h"

enum { ANYDML_LOOKS = 4000 };    /* how often a caller looks whether the last claim is done before it sleeps */
enum { ANYDML_BRIEFLY = 30000 }; /* nanoseconds for which a worker looks for a job before it sleeps; */
enum { ANYDML_AWAKE = 500000 };  /* for so many where jobs that are worth waking it came at most so far apart, */
enum { ANYDML_TRIALS = 3 };      /* until it was in vain as many times more than not */
enum { ANYDML_PAUSES = 8 };      /* between two looks */
enum { ANYDML_TAKEN = 300000 };  /* nanoseconds between two looks in which somebody else must have had the core, */
enum { ANYDML_CALM = 256 };      /* and jobs for which it then looks only briefly */
enum { ANYDML_WOKEN = 2 };     /* sleepers that one thread wakes: each of them wakes as many */
enum { ANYDML_STACK = 1 << 20 };
enum { ANYDML_WAKING = 1 << 20 }; /* effort that is worth waking workers for; where none came, twice as much is for a while, */
enum { ANYDML_LATE = 4 };      /* the part of a job, one over this, of which workers must do more to have come in time */
enum { ANYDML_LARGE = 32 << 20 }; /* up to this */
enum { ANYDML_SOON = 15000 };  /* nanoseconds within which a job follows another: their efforts count together */

/* Parts of a state: how many workers are at the job; whether more may begin; whether the caller sleeps until the last
 * one leaves; and above them the number of the job. */
#define ANYDML_AT_WORK UINT64_C(0xffff)
#define ANYDML_OPEN (UINT64_C(1) << 16)
#define ANYDML_AWAITED (UINT64_C(1) << 17)
#define ANYDML_JOB (UINT64_C(1) << 32)

/* A worker, which sleeps on a list of its kind. */
typedef struct anydml_worker {
  struct anydml_worker *under;
  pthread_cond_t called;
  int is_called;
  anydml_place place;
} anydml_worker;

#define ANYDML_LINE_APART __attribute__((aligned(128)))
static struct {
  ANYDML_LINE_APART int owned;            /* whether a caller shares its work */
  ANYDML_LINE_APART uint64_t claimed;     /* claims from the beginning, and in the upper half those from the end */
  ANYDML_LINE_APART uint64_t state;
  anydml_job job;
  ANYDML_LINE_APART int sleepers;
  int64_t ended, streak;                  /* when the last job with sleepers ended; the effort that came in a row */
  int64_t worth;                          /* the effort that is worth waking them */
  ANYDML_LINE_APART int wanted, alive;    /* how many workers there should be, and how many there are */
  pthread_mutex_t lock;                   /* held for a moment, by who goes to sleep and who wakes */
  anydml_worker *asleep;                  /* who sleeps, or is about to */
  pthread_cond_t quiet;
} anydml_crew = {.worth = ANYDML_WAKING, .lock = PTHREAD_MUTEX_INITIALIZER, .quiet = PTHREAD_COND_INITIALIZER};

/* All are in one order that every thread sees, whatever the processor. A worker that goes to sleep says so and then looks
 * for a job; a caller says that there is a job and then looks for sleepers: one of them must see the other. What is shared
 * beside these is one thread's at a time: the job is its caller's until `state` is open, and again once nobody is at
 * work; streak, worth and ended are those of who has `owned`. So no run is any but one of threads that took turns
 * (tests/core/pool_stress.c looks for what nothing orders). */
#define ANYDML_LOAD(word) __atomic_load_n(&anydml_crew.word, __ATOMIC_SEQ_CST)
#define ANYDML_ADD(word, by) __atomic_add_fetch(&anydml_crew.word, by, __ATOMIC_SEQ_CST)
#define ANYDML_REPLACE(word, old, new) __atomic_compare_exchange_n(&anydml_crew.word, old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static int64_t anydml_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Claims from one end until none is left. */
static void anydml_claims(const anydml_job *job, int is_worker) {
  for (;;) {
    uint64_t before = __atomic_fetch_add(&anydml_crew.claimed, is_worker ? UINT64_C(1) << 32 : 1, __ATOMIC_SEQ_CST);
    int64_t ahead = (int64_t)(before & UINT32_MAX), behind = (int64_t)(before >> 32);
    if (ahead + behind >= job->claims) return;
    anydml_claim(job, is_worker ? job->claims - 1 - behind : ahead);
  }
}

static int anydml_is_new(uint64_t state, uint64_t done) { return (state & ANYDML_OPEN) && state / ANYDML_JOB != done; }

/* Wake workers, away from the caller's core: there they would only take turns with it, and the system, to which a core
 * that sleeps looks taken where machines are virtual, moves them away much later. */
static void anydml_wake(int most, int core) {
  pthread_mutex_lock(&anydml_crew.lock);
  for (; most && anydml_crew.asleep; most--) {
    anydml_worker *worker = anydml_crew.asleep;
    anydml_crew.asleep = worker->under;
    ANYDML_ADD(sleepers, -1);
    anydml_keep_off(&worker->place, core);
    worker->is_called = 1;
    pthread_cond_signal(&worker->called);
  }
  pthread_mutex_unlock(&anydml_crew.lock);
}

/* Sleep until called, unless there is a job already, or one worker too many. */
static void anydml_sleep_until_called(anydml_worker *worker, uint64_t done) {
  pthread_mutex_lock(&anydml_crew.lock);
  worker->is_called = 0;
  worker->under = anydml_crew.asleep;
  anydml_crew.asleep = worker;
  ANYDML_ADD(sleepers, 1);
  if (anydml_is_new(ANYDML_LOAD(state), done) || ANYDML_LOAD(alive) > ANYDML_LOAD(wanted)) {
    anydml_crew.asleep = worker->under;
    ANYDML_ADD(sleepers, -1);
  } else {
    while (!worker->is_called) pthread_cond_wait(&worker->called, &anydml_crew.lock);
  }
  pthread_mutex_unlock(&anydml_crew.lock);
  anydml_let_go(&worker->place);
}

static void anydml_tell_caller(void) {
  pthread_mutex_lock(&anydml_crew.lock);
  pthread_cond_signal(&anydml_crew.quiet);
  pthread_mutex_unlock(&anydml_crew.lock);
}

static void *anydml_serve(void *unused) {
  uint64_t done = ~UINT64_C(0);
  int64_t seen = anydml_now(), asked = seen - ANYDML_AWAKE, until = seen + ANYDML_BRIEFLY;
  int woken = 0, hope = 0;
  anydml_worker self = {.called = PTHREAD_COND_INITIALIZER, .place = anydml_own_place()};
  for (;;) {
    uint64_t state = ANYDML_LOAD(state);
    int alive = ANYDML_LOAD(alive), is_asked = woken, is_late = woken;
    if (anydml_is_new(state, done)) {
      if (!ANYDML_REPLACE(state, &state, state + 1)) continue;
      const int core = anydml_crew.job.core;
      is_asked |= anydml_crew.job.effort >= ANYDML_WAKING;
      is_late = 0;
      if (woken && ANYDML_LOAD(sleepers)) anydml_wake(ANYDML_WOKEN, core);
      if (core < 0 || core != anydml_core() || anydml_crew.job.effort >= ANYDML_LARGE) anydml_claims(&anydml_crew.job, 1);
      uint64_t left = ANYDML_ADD(state, -1);
      if ((left & ANYDML_AWAITED) && !(left & ANYDML_AT_WORK)) anydml_tell_caller();
      done = state / ANYDML_JOB;
    } else if (alive > ANYDML_LOAD(wanted)) {
      if (ANYDML_REPLACE(alive, &alive, alive - 1)) return NULL;
      continue;
    } else if (!woken && seen < until) {
      for (int k = 0; k < ANYDML_PAUSES; k++) anydml_pause();
      const int64_t now = anydml_now();
      if (now - seen > ANYDML_TAKEN) {
        hope = -ANYDML_CALM;
        until = now;
      }
      seen = now;
      continue;
    } else if (!woken) {
      hope -= hope > 0;
      anydml_sleep_until_called(&self, done);
      woken = 1;
      continue;
    }
    seen = anydml_now();
    if (is_asked) {
      if (hope < 0 || (seen - asked < ANYDML_AWAKE && hope < ANYDML_TRIALS)) hope++;
      asked = seen;
    }
    const int64_t awake = hope > 0 || (is_late && !hope) ? ANYDML_AWAKE : ANYDML_BRIEFLY;
    if (seen + awake > until) until = seen + awake;
    woken = 0;
  }
}

/* A fork leaves its child without workers, whatever they were at. */
static void anydml_in_child(void) {
  anydml_crew.owned = anydml_crew.sleepers = anydml_crew.alive = 0;
  anydml_crew.asleep = NULL;
  anydml_crew.state &= ~(ANYDML_JOB - 1);
  pthread_mutex_init(&anydml_crew.lock, NULL);
  pthread_cond_init(&anydml_crew.quiet, NULL);
}

/* A thread that takes no signals, which are the program's own threads', and of which nobody hears again; 0, or an
 * error. */
static int anydml_start(void *(*run)(void *)) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, ANYDML_STACK);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, &attributes, run, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

/* Start workers that are missing; where the system gives no more, those that there are will do. */
static void anydml_start_workers(void) {
  while (ANYDML_LOAD(alive) < ANYDML_LOAD(wanted)) {
    ANYDML_ADD(alive, 1);
    if (anydml_start(anydml_serve)) {
      int alive = ANYDML_ADD(alive, -1);
      __atomic_store_n(&anydml_crew.wanted, alive, __ATOMIC_SEQ_CST);
    }
  }
}

/* Close the job, and wait for the claims that workers are at. */
static void anydml_close(void) {
  uint64_t state = __atomic_and_fetch(&anydml_crew.state, ~ANYDML_OPEN, __ATOMIC_SEQ_CST);
  for (int looks = 0; (state & ANYDML_AT_WORK) && looks < ANYDML_LOOKS; looks++) {
    anydml_pause();
    state = ANYDML_LOAD(state);
  }
  if (!(state & ANYDML_AT_WORK)) return;
  pthread_mutex_lock(&anydml_crew.lock);
  state = __atomic_or_fetch(&anydml_crew.state, ANYDML_AWAITED, __ATOMIC_SEQ_CST);
  for (; state & ANYDML_AT_WORK; state = ANYDML_LOAD(state)) pthread_cond_wait(&anydml_crew.quiet, &anydml_crew.lock);
  __atomic_and_fetch(&anydml_crew.state, ~ANYDML_AWAITED, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&anydml_crew.lock);
}

/* Do units of a plan with every thread that is free, `step` at a time. `effort` is what a plain copy writes in the time
 * that one thread takes, in bytes. When this returns, nothing is under way. */
static void anydml_share(anydml_work_t work, const void *plan, int64_t first, int64_t last, int64_t step, int64_t effort) {
  int nobody = 0;
  if (!ANYDML_LOAD(wanted) || step >= last - first || !ANYDML_REPLACE(owned, &nobody, 1)) {
    work(plan, first, last);
    return;
  }
  anydml_start_workers();
  anydml_crew.job = (anydml_job){work, plan, first, last, step, (last - first + step - 1) / step, effort, anydml_core()};
  __atomic_store_n(&anydml_crew.claimed, 0, __ATOMIC_SEQ_CST);
  ANYDML_ADD(state, ANYDML_JOB | ANYDML_OPEN);
  int sleepers = ANYDML_LOAD(sleepers), wakes = 0;
  if (sleepers) {
    anydml_crew.streak = effort + (anydml_now() - anydml_crew.ended < ANYDML_SOON ? anydml_crew.streak : 0);
    wakes = anydml_crew.streak >= anydml_crew.worth;
    if (wakes) anydml_wake(ANYDML_WOKEN, anydml_crew.job.core);
  }
  anydml_claims(&anydml_crew.job, 0);
  anydml_close();
  if (wakes) anydml_crew.streak = 0;
  /* Claims that workers asked for, those included that they did not get. */
  const int64_t helped = (int64_t)(ANYDML_LOAD(claimed) >> 32);
  if (helped > anydml_crew.job.claims / ANYDML_LATE) anydml_crew.worth = ANYDML_WAKING;
  else if (wakes) anydml_crew.worth = anydml_crew.worth < ANYDML_LARGE / 2 ? 2 * anydml_crew.worth : ANYDML_LARGE;
  /* What kept workers away may have ended: a few jobs later they are woken again. */
  else if (sleepers && anydml_crew.worth > ANYDML_WAKING) anydml_crew.worth -= anydml_crew.worth / 16;
  if (sleepers) anydml_crew.ended = anydml_now();
  __atomic_store_n(&anydml_crew.owned, 0, __ATOMIC_SEQ_CST);
}

/* From the next job on; workers that are too many end. */
static void anydml_set_threads(int threads) {
  __atomic_store_n(&anydml_crew.wanted, threads - 1, __ATOMIC_SEQ_CST);
  anydml_wake(-1, -1);
}

static int anydml_threads(void) { return ANYDML_LOAD(wanted) + 1; }
static int anydml_workers(void) { return ANYDML_LOAD(alive); }
static int anydml_sleepers(void) { return ANYDML_LOAD(sleepers); }
static int anydml_watch_forks(void) { return pthread_atfork(NULL, NULL, anydml_in_child); }
#endif
#endif
