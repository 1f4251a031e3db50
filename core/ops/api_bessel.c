/* SPDX-License-Identifier: Apache-2.0
 * api_bessel.c -- the modified Bessel functions of the first kind, of orders 0 and 1, made of several ops.
 *
 * Up to 8 their power series, whose terms all have one sign; beyond, sqrt (x) exp (-x) times them is a polynomial in 16 / x - 1: Chebyshev
 * interpolation in 38 points, of which what is below 1e-17 was left out.  Computed in f64 and rounded once, as in api_special.c.
 * Source of the series: Abramowitz and Stegun, 9.6.10.
 */
#include "core/ops/api_special.h"

enum { N_SERIES = 25, N_TAIL = 24, SERIES_TO = 8 };

/* The sum of (x^2 / 4)^k / (k! (k + order)!). */
static GmVal
power_series (GmBuilder *b, GmVal x, int order)
{
  double c[N_SERIES];
  c[N_SERIES - 1] = 1;
  for (int k = 1; k < N_SERIES; k++)
    c[N_SERIES - 1 - k] = c[N_SERIES - k] / (k * (k + order));
  GmVal half = NUM (mul, x, 0.5);
  return polynomial (b, TWO (mul, half, half), c, N_SERIES);
}

/* sqrt (x) exp (-x) times the function, x >= 8. */
static GmVal
tail_series (GmBuilder *b, GmVal x, int order)
{
  static const double zero[N_TAIL] = {
    -2.026060429371984816e-11, 9.3650868928382998299e-11, 1.5279202698644171116e-10, -6.633287112559029949e-10, -5.7158438651284557581e-10,
    2.1968921378859774325e-9, 1.5200816955259402306e-9, -4.5755534245394724669e-9, -3.505966531000390385e-9, 6.5601387469211627668e-9,
    7.5525830621950466107e-9, -5.038106487905705236e-9, -1.3408917540117590204e-8, -6.8493381882858463719e-9, 7.5546918812557717784e-9,
    2.1566251453104133399e-8, 3.9325843345528452303e-8, 8.8720343833141468444e-8, 2.9735985885673933132e-7, 1.4838476651250265739e-6,
    0.000011143033790932037838, 0.00013621607438984735184, 0.0033605519836678615539, 0.40217650944500808447
  };
  static const double one[N_TAIL] = {
    1.8515118835222580649e-11, -9.7523972041552030737e-11, -1.4011625183470703393e-10, 6.9170892942040491794e-10, 5.2956254420966628119e-10,
    -2.2970041618878735331e-9, -1.4387250534390404366e-9, 4.810597405093901062e-9, 3.4262341491301739449e-9, -6.9838396248995210187e-9,
    -7.642394134436024403e-9, 5.5933701017927909524e-9, 1.4034238782095354227e-8, 6.840138997706117083e-9, -8.4277660937422303136e-9,
    -2.3392503748018378485e-8, -4.312917729178241302e-8, -1.0001095659636543317e-7, -3.4838557610442956358e-7, -1.8349102358955384596e-6,
    -0.000015038547200567216663, -0.00021923576383172430234, -0.0097495771932357362032, 0.38939845902587232098
  };
  GmVal v = NUM (sub, gm_num_apply (b, div, 16, x), 1);
  return polynomial (b, v, order ? one : zero, N_TAIL);
}

/* scaled: times exp (-|x|). */
static GmArg
modified (const GmApi *api, GmBuilder *b, GmArg *a, int order, bool scaled)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal size = ONE (abs, x), high = NUM (gt, size, SERIES_TO);
  if (!scaled) /* what is beyond is infinite */
    size = choose_other (b, NUM (gt, size, 800), size, 800);
  GmVal far = choose (b, high, size, SERIES_TO), near = choose_other (b, high, x, 0);
  CHECK ();
  GmVal low = power_series (b, near, order), up = TWO (div, tail_series (b, far, order), ONE (sqrt, far));
  if (order == 1) {
    low = TWO (mul, low, NUM (mul, near, 0.5));
    up = gm_b (b, where, NUM (lt, x, 0), ONE (neg, up), up);
  }
  if (scaled) {
    low = TWO (mul, low, ONE (exp, ONE (neg, ONE (abs, near))));
  } else {
    GmVal half = ONE (exp, NUM (mul, far, 0.5)); /* twice: exp (x) alone is infinite earlier */
    up = TWO (mul, TWO (mul, up, half), half);
  }
  return finish (b, gm_b (b, where, high, up, low), own);
}

RUN (i0) { return modified (api, b, a, 0, false); }
RUN (i0e) { return modified (api, b, a, 0, true); }
RUN (i1) { return modified (api, b, a, 1, false); }
RUN (i1e) { return modified (api, b, a, 1, true); }
