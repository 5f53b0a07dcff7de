/* Detection of instruction sets by CPUID: with Zig, the compilers' built-in functions for this report none. */
#ifndef ANYDML_PROCESSOR_H
#define ANYDML_PROCESSOR_H
#if defined(__x86_64__)
#include <cpuid.h>

/* The highest level that the processor and the system support: 2, 3 or 4 as in x86-64-v2, and 5 for v4 with VBMI. */
static int anydml_processor(void) {
  const unsigned basic = bit_FMA | bit_MOVBE | bit_POPCNT | bit_OSXSAVE | bit_F16C, wide = bit_AVX2 | bit_BMI | bit_BMI2;
  const unsigned widest = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  const unsigned halves = 0x06, whole = 0xe6; /* registers that the system saves: of 256 bits, and of 512 */
  unsigned a, b, c, d, unused, saved;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & basic) != basic) return 2;
  if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LZCNT)) return 2;
  __asm__("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & wide) != wide || (saved & halves) != halves) return 2;
  if ((b & widest) != widest || (saved & whole) != whole) return 3;
  return c & bit_AVX512VBMI ? 5 : 4;
}
#endif
#endif
