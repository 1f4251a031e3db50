/* SPDX-License-Identifier: Apache-2.0
 * forms.h -- graphs that have a kernel form of their own: softmax, layer norm, sums, products, over
 * rows of every length.
 */
#ifndef GM_TESTS_GPU_FORMS_H
#define GM_TESTS_GPU_FORMS_H

#define SOFTMAX(T, R, N)                                                                           \
  "forward (%x: " T "[" R ", " N "]) -> (%4) {\n"                                                  \
  "  %0 = amax %x dims=[1] keepdim=true : " T "[" R ", 1]\n"                                       \
  "  %1 = sub %x %0 : " T "[" R ", " N "]\n"                                                       \
  "  %2 = exp %1 : " T "[" R ", " N "]\n"                                                          \
  "  %3 = sum %2 dims=[1] keepdim=true : " T "[" R ", 1]\n"                                        \
  "  %4 = div %2 %3 : " T "[" R ", " N "]\n"                                                       \
  "}\n"
#define LAYER_NORM(T, R, N)                                                                        \
  "forward (%x: " T "[" R ", " N "], %w: " T "[" N "], %b: " T "[" N "]) -> (%10, %0) {\n"         \
  "  %0 = sum %x dims=[1] keepdim=true : " T "[" R ", 1]\n"                                        \
  "  %1 = full sizes=[] dtype=" T " value=" N ".0 : " T "[]\n"                                     \
  "  %2 = div %0 %1 : " T "[" R ", 1]\n"                                                           \
  "  %3 = sub %x %2 : " T "[" R ", " N "]\n"                                                       \
  "  %4 = square %3 : " T "[" R ", " N "]\n"                                                       \
  "  %5 = sum %4 dims=[1] keepdim=true : " T "[" R ", 1]\n"                                        \
  "  %6 = div %5 %1 : " T "[" R ", 1]\n"                                                           \
  "  %7 = rsqrt %6 : " T "[" R ", 1]\n"                                                            \
  "  %8 = mul %3 %7 : " T "[" R ", " N "]\n"                                                       \
  "  %9 = mul %8 %w : " T "[" R ", " N "]\n"                                                       \
  "  %10 = add %9 %b : " T "[" R ", " N "]\n"                                                      \
  "}\n"
/* The form of nn.functional for halves; rows without their first column begin anywhere. */
#define HALF_LAYER_NORM(T, R, N)                                                                   \
  "forward (%x: " T "[" R ", " N "], %w: " T "[" N "], %b: " T "[" N "]) -> (%14) {\n"             \
  "  %0 = cast %x dtype=f32\n"                                                                     \
  "  %1 = sum %0 dims=[1] keepdim=true\n"                                                          \
  "  %2 = full sizes=[] dtype=f32 value=" N ".0\n"                                                 \
  "  %3 = div %1 %2\n"                                                                             \
  "  %4 = sub %0 %3\n"                                                                             \
  "  %5 = square %4\n"                                                                             \
  "  %6 = sum %5 dims=[1] keepdim=true\n"                                                          \
  "  %7 = div %6 %2\n"                                                                             \
  "  %8 = rsqrt %7\n"                                                                              \
  "  %9 = mul %4 %8\n"                                                                             \
  "  %10 = cast %w dtype=f32\n"                                                                    \
  "  %11 = mul %9 %10\n"                                                                           \
  "  %12 = cast %b dtype=f32\n"                                                                    \
  "  %13 = add %11 %12\n"                                                                          \
  "  %14 = cast %13 dtype=" T "\n"                                                                 \
  "}\n"
#define HALF_SOFTMAX(T, R, N)                                                                      \
  "forward (%x: " T "[" R ", " N "]) -> (%6) {\n"                                                  \
  "  %0 = cast %x dtype=f32\n"                                                                     \
  "  %1 = amax %0 dims=[1] keepdim=true\n"                                                         \
  "  %2 = sub %0 %1\n"                                                                             \
  "  %3 = exp %2\n"                                                                                \
  "  %4 = sum %3 dims=[1] keepdim=true\n"                                                          \
  "  %5 = div %3 %4\n"                                                                             \
  "  %6 = cast %5 dtype=" T "\n"                                                                   \
  "}\n"
#define CUT_SOFTMAX(T, R, N, FIRST, LAST)                                                          \
  "forward (%x: " T "[" R ", " N "], %y: " T "[" R ", 1]) -> (%6, %7) {\n"                         \
  "  %0 = slice %x dim=1 start=" FIRST " stop=" LAST " step=1\n"                                   \
  "  %1 = amax %0 dims=[1] keepdim=true\n"                                                         \
  "  %2 = sub %0 %1\n"                                                                             \
  "  %3 = exp %2\n"                                                                                \
  "  %4 = sum %3 dims=[1] keepdim=true\n"                                                          \
  "  %6 = div %3 %4\n"                                                                             \
  "  %7 = add %0 %y\n"                                                                             \
  "}\n"
/* A softmax whose long rows are processed in turns: exponentials rotate in registers of their own,
 * since x is needed to the end. */
#define GATED_SOFTMAX(T, R, N)                                                                     \
  "forward (%x: " T "[" R ", " N "]) -> (%5) {\n"                                                  \
  "  %0 = amax %x dims=[1] keepdim=true\n"                                                         \
  "  %1 = sub %x %0\n"                                                                             \
  "  %2 = exp %1\n"                                                                                \
  "  %3 = sum %2 dims=[1] keepdim=true\n"                                                          \
  "  %4 = div %2 %3\n"                                                                             \
  "  %5 = mul %4 %x\n"                                                                             \
  "}\n"
#define SCALED_SOFTMAX(T, R, N)                                                                    \
  "forward (%x: " T "[" R ", " N "]) -> (%5) {\n"                                                  \
  "  %0 = amax %x dims=[1] keepdim=true\n"                                                         \
  "  %1 = sub %x %0\n"                                                                             \
  "  %2 = exp %1\n"                                                                                \
  "  %3 = sum %2 dims=[1] keepdim=true\n"                                                          \
  "  %4 = reciprocal %3\n"                                                                         \
  "  %5 = mul %2 %4\n"                                                                             \
  "}\n"
/* With the results that a gradient needs, which are wider than halves. */
#define TRAINED_LOG_SOFTMAX(T, R, N)                                                               \
  "forward (%x: " T "[" R ", " N "]) -> (%7, %3, %4) {\n"                                          \
  "  %0 = cast %x dtype=f32\n"                                                                     \
  "  %1 = amax %0 dims=[1] keepdim=true\n"                                                         \
  "  %2 = sub %0 %1\n"                                                                             \
  "  %3 = exp %2\n"                                                                                \
  "  %4 = sum %3 dims=[1] keepdim=true\n"                                                          \
  "  %5 = log %4\n"                                                                                \
  "  %6 = sub %2 %5\n"                                                                             \
  "  %7 = cast %6 dtype=" T "\n"                                                                   \
  "}\n"
/* The first phase is the long one; registers rotate there, too, since x is needed to the end. */
#define SHARES(T, R, N)                                                                            \
  "forward (%x: " T "[" R ", " N "]) -> (%5) {\n"                                                  \
  "  %0 = exp %x\n"                                                                                \
  "  %1 = tanh %0\n"                                                                               \
  "  %2 = sum %1 dims=[1] keepdim=true\n"                                                          \
  "  %4 = div %1 %2\n"                                                                             \
  "  %5 = mul %4 %x\n"                                                                             \
  "}\n"
#define SUMS(T, R, N)                                                                              \
  "forward (%x: " T "[" R ", " N "], %w: " T "[" N "]) -> (%1, %2, %3, %4, %5) {\n"                \
  "  %0 = mul %x %w : " T "[" R ", " N "]\n"                                                       \
  "  %1 = sum %0 dims=[0] keepdim=false : " T "[" N "]\n"                                          \
  "  %2 = sum %0 dims=[0, 1] keepdim=false : " T "[]\n"                                            \
  "  %3 = sum %0 dims=[1] keepdim=false : " T "[" R "]\n"                                          \
  "  %4 = amax %0 dims=[1] keepdim=false : " T "[" R "]\n"                                         \
  "  %5 = amin %0 dims=[0] keepdim=false : " T "[" N "]\n"                                         \
  "}\n"
#define PRODUCT(T, A, B, C)                                                                        \
  "forward (%a: " T "[" A ", " B "], %b: " T "[" B ", " C "]) -> (%0) {\n"                         \
  "  %0 = matmul %a %b : " T "[" A ", " C "]\n"                                                    \
  "}\n"

/* 3 x 3, stride 2, padding 1: a result, both gradients, a pool and its gradient. */
#define CONVOLUTION(T)                                                                             \
  "forward (%x: " T "[2, 8, 17, 15], %w: " T "[12, 8, 3, 3], %g: " T                               \
  "[2, 12, 9, 8]) -> (%0, %1, %2, %3) {\n"                                                         \
  "  %0 = convolve %x %w sizes=[2, 12, 9, 8] window=[1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1]\n"        \
  "  %1 = convolve_input %g %w sizes=[2, 8, 17, 15] window=[1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1]\n" \
  "  %2 = convolve_weight %x %g sizes=[12, 8, 3, 3] window=[1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1]\n" \
  "  %3 = window_pick %x %x sizes=[2, 8, 9, 8] window=[1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1]\n"      \
  "}\n"
#define POOL_GRADIENT(T)                                                                           \
  "forward (%x: " T "[2, 3, 17, 15], %g: " T "[2, 3, 9, 8]) -> (%0) {\n"                           \
  "  %0 = window_spread %x %g sizes=[2, 3, 17, 15] window=[1, 3, 3, 1, 2, 2, 0, 1, 1, 1, 1, 1]\n"  \
  "}\n"

#define ATTENTION(T, L, S, E)                                                                      \
  "forward (%q: " T "[2, " L ", " E "], %k: " T "[2, " S ", " E "], %v: " T "[2, " S ", " E        \
  "]) -> (%8) {\n"                                                                                 \
  "  %0 = permute %k dims=[0, 2, 1]\n"                                                             \
  "  %1 = matmul %q %0\n"                                                                          \
  "  %2 = full sizes=[] dtype=" T " value=0.125\n"                                                 \
  "  %3 = mul %1 %2\n"                                                                             \
  "  %4 = amax %3 dims=[2] keepdim=true\n"                                                         \
  "  %5 = sub %3 %4\n"                                                                             \
  "  %6 = exp %5\n"                                                                                \
  "  %9 = sum %6 dims=[2] keepdim=true\n"                                                          \
  "  %7 = div %6 %9\n"                                                                             \
  "  %8 = matmul %7 %v\n"                                                                          \
  "}\n"

/* Rows for a thread, a warp, a block of each size, and rows shared by many blocks. */
static const struct {
  const char *text;
  double tolerance;
} forms[] = {
  { SOFTMAX ("f32", "300", "5"), 1e-6 },
  { SOFTMAX ("f32", "37", "64"), 1e-6 },
  { SOFTMAX ("f32", "37", "1001"), 1e-6 },
  { SOFTMAX ("f32", "7", "1024"), 1e-6 },
  { SOFTMAX ("f32", "5", "3000"), 1e-6 },
  { SOFTMAX ("f32", "3", "8192"), 1e-6 },
  { SOFTMAX ("f32", "2", "12000"), 1e-6 },
  { SOFTMAX ("f32", "2", "40000"), 1e-6 },
  { SOFTMAX ("f32", "2", "70001"), 1e-6 },
  { SOFTMAX ("f16", "37", "1024"), 2e-3 },
  { SOFTMAX ("bf16", "5", "3000"), 1e-2 },
  { SOFTMAX ("f64", "5", "3000"), 1e-14 },
  { LAYER_NORM ("f32", "37", "768"), 1e-5 },
  { LAYER_NORM ("f32", "9", "4096"), 1e-5 },
  { LAYER_NORM ("f32", "1", "131072"), 1e-5 },
  { LAYER_NORM ("f16", "9", "512"), 1e-2 },
  { LAYER_NORM ("f32", "9", "1023"), 1e-5 },
  { LAYER_NORM ("f32", "3", "33001"), 1e-5 },
  { HALF_LAYER_NORM ("bf16", "37", "128"), 2e-2 },
  { HALF_LAYER_NORM ("bf16", "19", "1023"), 2e-2 },
  { HALF_LAYER_NORM ("f16", "3", "4097"), 4e-3 },
  { SOFTMAX ("bf16", "37", "1001"), 1e-2 },
  { SOFTMAX ("f32", "3", "32768"), 1e-6 },
  { SOFTMAX ("f16", "3", "32767"), 2e-3 },
  { CUT_SOFTMAX ("f32", "11", "260", "1", "258"), 1e-6 },
  { CUT_SOFTMAX ("bf16", "11", "600", "3", "580"), 1e-2 },
  { HALF_SOFTMAX ("bf16", "3", "32768"), 1e-2 },
  { HALF_SOFTMAX ("f16", "3", "32767"), 2e-3 },
  { HALF_LAYER_NORM ("bf16", "3", "32768"), 2e-2 },
  { SCALED_SOFTMAX ("f32", "3", "32768"), 1e-6 },
  { SOFTMAX ("f32", "3", "30000"), 1e-6 },
  { SCALED_SOFTMAX ("f32", "3", "32767"), 1e-6 },
  { GATED_SOFTMAX ("f32", "3", "20480"), 1e-6 },
  { GATED_SOFTMAX ("f32", "3", "20479"), 1e-6 },
  { GATED_SOFTMAX ("f16", "3", "32768"), 2e-3 },
  { GATED_SOFTMAX ("bf16", "3", "32760"), 1e-2 },
  /* Rows for which a thread has too few registers, or whose registers rotate. */
  { SOFTMAX ("f32", "3", "60000"), 1e-6 },
  { LAYER_NORM ("f32", "3", "60001"), 1e-5 },
  { LAYER_NORM ("f32", "3", "32767"), 1e-5 },
  { HALF_LAYER_NORM ("bf16", "3", "32767"), 2e-2 },
  { SCALED_SOFTMAX ("f64", "2", "30001"), 1e-14 },
  { SOFTMAX ("bf16", "66", "70001"), 1e-2 },
  { TRAINED_LOG_SOFTMAX ("f16", "5", "1023"), 2e-3 },
  { TRAINED_LOG_SOFTMAX ("bf16", "3", "32767"), 1e-2 },
  { TRAINED_LOG_SOFTMAX ("f16", "3", "32768"), 2e-3 },
  { TRAINED_LOG_SOFTMAX ("bf16", "3", "65535"), 1e-2 },
  { SHARES ("f32", "3", "20480"), 1e-5 },
  { SHARES ("f32", "3", "20479"), 1e-5 },
  { SHARES ("f16", "3", "32768"), 4e-3 },
  { SUMS ("f32", "1100", "70"), 1e-5 },
  { SUMS ("f32", "70", "1100"), 1e-5 },
  { SUMS ("f32", "3", "100000"), 1e-5 },
  { SUMS ("f16", "300", "33"), 2e-3 },
  { SUMS ("i64", "300", "33"), 0 },
  { PRODUCT ("f32", "65", "33", "70"), 1e-5 },
  { PRODUCT ("f32", "128", "64", "64"), 1e-5 },
  { PRODUCT ("f16", "3", "100", "5"), 2e-3 },
  { PRODUCT ("f64", "17", "200", "31"), 1e-13 },
  { PRODUCT ("i32", "17", "20", "31"), 0 },
  { CONVOLUTION ("f32"), 1e-5 },
  { CONVOLUTION ("f16"), 4e-3 },
  { CONVOLUTION ("f64"), 1e-13 },
  { POOL_GRADIENT ("f32"), 0 },
  { ATTENTION ("f32", "70", "50", "64"), 1e-5 },
  { ATTENTION ("f16", "40", "33", "128"), 4e-3 },
};

#endif
