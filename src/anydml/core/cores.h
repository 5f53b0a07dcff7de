/* The processor's cores: which one a thread runs on, and which one it must avoid. */
#ifndef ANYDML_CORES_H
#define ANYDML_CORES_H
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The cores that a thread may use. */
typedef struct {
  pid_t thread;
  int is_kept_off;
  cpu_set_t cores; /* its affinity before it was kept off a core */
} anydml_place;

static anydml_place anydml_own_place(void) { return (anydml_place){.thread = (pid_t)syscall(SYS_gettid)}; }

static int anydml_core(void) { return sched_getcpu(); }

/* Keep a thread off a core, if it may use others; a negative core is ignored. */
static void anydml_keep_off(anydml_place *place, int core) {
  cpu_set_t others;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(place->thread, sizeof others, &place->cores)) return;
  others = place->cores;
  CPU_CLR(core, &others);
  place->is_kept_off = CPU_COUNT(&others) && !sched_setaffinity(place->thread, sizeof others, &others);
}

/* Restore the calling thread's affinity. */
static void anydml_let_go(anydml_place *place) {
  if (place->is_kept_off) sched_setaffinity(0, sizeof place->cores, &place->cores);
  place->is_kept_off = 0;
}
#else
typedef struct {
  int unused;
} anydml_place;

static anydml_place anydml_own_place(void) { return (anydml_place){0}; }
static int anydml_core(void) { return -1; }
static void anydml_keep_off(anydml_place *place, int core) {}
static void anydml_let_go(anydml_place *place) {}
#endif

static inline void anydml_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}
#endif
