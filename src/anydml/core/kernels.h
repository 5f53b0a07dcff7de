/* Running moves: what kernel does which, chosen for every list anew, and the kernels of every instruction set.
 *
 *     anydml_run(moves, count)                        all of them, in order, by this thread, within the caches
 *
 *     written = anydml_written(moves, count)
 *     done = anydml_plan(&stage, moves, count, written)   the first `done` moves, which may run at once
 *     anydml_work(&stage, first, last)                some of its `stage.units` units, by any thread
 *
 *     anydml_check(&move)                             no more than to look whether indices are outside
 */
#ifndef ANYDML_KERNELS_H
#define ANYDML_KERNELS_H
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#include "moves.h"
#include "processor.h"
#include "steps.h"

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

typedef uint8_t anydml_v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t anydml_v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t anydml_v64 __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint16_t anydml_h16 __attribute__((vector_size(16), may_alias));
typedef uint32_t anydml_s16 __attribute__((vector_size(16), may_alias));
typedef uint64_t anydml_d16 __attribute__((vector_size(16), may_alias));
typedef uint16_t anydml_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t anydml_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t anydml_u64 __attribute__((aligned(1), may_alias));

enum {
  ANYDML_LONG = 4096,      /* bytes of a run that the C library copies */
  ANYDML_AHEAD = 4096,     /* bytes between what is stored past the caches and what is asked for */
  ANYDML_SINK = 4096,      /* bytes that are put together in the first cache */
  ANYDML_BLOCK = 1024,     /* bytes of a repeated pattern */
  ANYDML_TURNED = 64 << 10, /* bytes of a turned block that leaves past the caches */
  ANYDML_LINES_ROW = 1024, /* bytes of a row of the source in a block whose tiles leave as lines */
  ANYDML_PAST_ROW = 256,   /* the same where they are put together before, and bytes of its rows at the destination */
  ANYDML_PAST_LINE = 1024,
  ANYDML_PAST_LEAST = 512, /* bytes of such a row at least */
  ANYDML_NEAR = 1024,      /* bytes of a row that are asked for; processors foresee the rest */
  ANYDML_FAR = 256 << 10,  /* bytes of an axis whose elements are asked for ahead */
  ANYDML_SEGMENT = 2048,   /* indices that are resolved at a time */
  ANYDML_NESTED = 512,     /* the same where indices depend on others */
  ANYDML_DIRECT = 2,       /* stores past the caches from registers */
  ANYDML_LONG_LINE = 8 << 10, /* bytes of a line whose ends may be woven twice */
  ANYDML_ROWS_FROM = 128 << 10, /* bytes of a column from which on rows are written one by one within the caches */
  ANYDML_WOVEN = 12 << 10, /* bytes of rows that are woven at a time, vector by vector */
  ANYDML_WEAVE_FROM = 4 << 10, /* bytes from which on masks are worth making */
  ANYDML_ELEMENT = 128,    /* bytes of the longest element that has a loop of its own */
};

/* The kernels of an instruction set. */
typedef struct {
  const char *name;
  int64_t width;           /* bytes of a vector */
  anydml_plane elements[ANYDML_ELEMENT + 1], rows, rows_streamed, rows_packed, elements_packed, fill, spread, mirror, mirror_uneven, turn[9];
  anydml_look look, check;
  void (*run)(char *, const char *, int64_t);
  void (*beside)(const anydml_step *, int64_t, int64_t), (*weave)(const anydml_step *, int64_t, int64_t), (*turn_past)(const anydml_step *, int64_t, int64_t);
  anydml_weave_vector weave_vector;
  anydml_weave_block weave_blocks, weave_whole;
  int window;              /* bytes that weave_vector takes at a time */
} anydml_kernels;

/* Keeps a number in a register of its own: processors gather elements slower than they load them one by one. */
#define ANYDML_ALONE(x) __asm__("" : "+r"(x))

#define ANYDML_JOIN_(a, b) anydml_##a##_##b
#define ANYDML_JOIN(a, b) ANYDML_JOIN_(a, b)
#define K(name) ANYDML_JOIN(name, ANYDML_ISA)

#define ANYDML_ISA v2
#define ANYDML_LANES 1
#if defined(__x86_64__) && defined(__GNUC__)
#define ANYDML_NAME "x86-64-v2"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("ssse3,sse4.1,sse4.2,popcnt"))), apply_to = function)
#include "kernels_isa.h"
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("ssse3,sse4.1,sse4.2,popcnt")
#include "kernels_isa.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt")
#endif
#define ANYDML_ISA v3
#define ANYDML_LANES 2
#define ANYDML_NAME "x86-64-v3"
#include "kernels_isa.h"
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,movbe,fma,f16c,popcnt")
#endif
#define ANYDML_ISA v4
#define ANYDML_LANES 4
#define ANYDML_NAME "x86-64-v4"
#include "kernels_isa.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
#define ANYDML_NAME "plain"
#include "kernels_isa.h"
#endif

static anydml_kernels anydml_chosen_kernels;
static const anydml_kernels *anydml_chosen = &anydml_kernels_v2;
static int64_t anydml_stream_from = 8 << 20;   /* bytes written from which on stores go past the caches */

/* Chooses the kernels: the best there are, or those of an instruction set no higher than `limit` ("v2", "v3", "v4"). */
static void anydml_choose(const char *limit, int64_t stream_from) {
  anydml_stream_from = stream_from;
  anydml_chosen = &anydml_kernels_v2;
#if defined(__x86_64__) && defined(__GNUC__)
  int most = limit && limit[0] == 'v' && limit[1] >= '2' && limit[1] <= '4' ? limit[1] - '0' : 4;
  int has = anydml_processor();
  if (has >= 3 && most >= 3) anydml_chosen = &anydml_kernels_v3;
  if (has >= 4 && most >= 4) {
    anydml_chosen_kernels = anydml_kernels_v4;
    if (has >= 5) {
      anydml_chosen_kernels.weave_vector = anydml_weave_windows_v4;
      anydml_chosen_kernels.weave_whole = anydml_weave_whole_v4;
      anydml_chosen_kernels.window = 64;
    }
    anydml_chosen = &anydml_chosen_kernels;
  }
#endif
}

static const char *anydml_isa(void) { return anydml_chosen->name; }

#include "stages.h"

#undef K
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif
