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
  int is_restricted;
  cpu_set_t cores; /* its affinity before it was kept off a core */
} anydml_affinity;

static anydml_affinity anydml_own_affinity(void) { return (anydml_affinity){.thread = (pid_t)syscall(SYS_gettid)}; }

static int anydml_core(void) { return sched_getcpu(); }

/* Keep a thread off a core, if it may use others; a negative core is ignored. */
static void anydml_avoid_core(anydml_affinity *affinity, int core) {
  cpu_set_t others;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(affinity->thread, sizeof others, &affinity->cores)) return;
  others = affinity->cores;
  CPU_CLR(core, &others);
  affinity->is_restricted = CPU_COUNT(&others) && !sched_setaffinity(affinity->thread, sizeof others, &others);
}

/* Restore the calling thread's affinity. */
static void anydml_restore_affinity(anydml_affinity *affinity) {
  if (affinity->is_restricted) sched_setaffinity(0, sizeof affinity->cores, &affinity->cores);
  affinity->is_restricted = 0;
}
#else
typedef struct {
  int unused;
} anydml_affinity;

static anydml_affinity anydml_own_affinity(void) { return (anydml_affinity){0}; }
static int anydml_core(void) { return -1; }
static void anydml_avoid_core(anydml_affinity *affinity, int core) {}
static void anydml_restore_affinity(anydml_affinity *affinity) {}
#endif

static inline void anydml_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}
#endif
