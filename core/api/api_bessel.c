/* SPDX-License-Identifier: Apache-2.0
 * api_bessel.c -- Bessel functions of orders 0 and 1, made of several ops.
 *
 * Computed in f64 and rounded once, as in api_special.c. Each function has two formulas, for small
 * and for large arguments.
 */
#include "core/api/api_special.h"

enum { N_SERIES = 25, N_TAIL = 24, SERIES_TO = 8, SWINGS_FROM = 5 };

/* -- Modified: I ------------------------------------------------------------------------------- */

/* Coefficients of the modified functions. Up to 8 the functions are their power series, whose terms
 * all have one sign; beyond, sqrt (x) exp (-x) times them is a polynomial in 16 / x - 1: Chebyshev
 * interpolation in 38 points, without terms below 1e-17. Source of the series: Abramowitz and
 * Stegun, 9.6.10. */

/* Returns the sum of (x^2 / 4)^k / (k! (k + order)!). */
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

/* Returns sqrt (x) exp (-x) times the modified Bessel function of this order, for x >= 8. */
static GmVal
tail_series (GmBuilder *b, GmVal x, int order)
{
  static const double zero[N_TAIL] = {
    -2.026060429371984816e-11, 9.3650868928382998299e-11,  1.5279202698644171116e-10,
    -6.633287112559029949e-10, -5.7158438651284557581e-10, 2.1968921378859774325e-9,
    1.5200816955259402306e-9,  -4.5755534245394724669e-9,  -3.505966531000390385e-9,
    6.5601387469211627668e-9,  7.5525830621950466107e-9,   -5.038106487905705236e-9,
    -1.3408917540117590204e-8, -6.8493381882858463719e-9,  7.5546918812557717784e-9,
    2.1566251453104133399e-8,  3.9325843345528452303e-8,   8.8720343833141468444e-8,
    2.9735985885673933132e-7,  1.4838476651250265739e-6,   0.000011143033790932037838,
    0.00013621607438984735184, 0.0033605519836678615539,   0.40217650944500808447
  };
  static const double one[N_TAIL] = {
    1.8515118835222580649e-11,  -9.7523972041552030737e-11, -1.4011625183470703393e-10,
    6.9170892942040491794e-10,  5.2956254420966628119e-10,  -2.2970041618878735331e-9,
    -1.4387250534390404366e-9,  4.810597405093901062e-9,    3.4262341491301739449e-9,
    -6.9838396248995210187e-9,  -7.642394134436024403e-9,   5.5933701017927909524e-9,
    1.4034238782095354227e-8,   6.840138997706117083e-9,    -8.4277660937422303136e-9,
    -2.3392503748018378485e-8,  -4.312917729178241302e-8,   -1.0001095659636543317e-7,
    -3.4838557610442956358e-7,  -1.8349102358955384596e-6,  -0.000015038547200567216663,
    -0.00021923576383172430234, -0.0097495771932357362032,  0.38939845902587232098
  };
  GmVal v = NUM (sub, gm_num_apply (b, div, 16, x), 1);
  return polynomial (b, v, order ? one : zero, N_TAIL);
}

/* Runs the modified Bessel function I of this order; scaled: times exp (-|x|). */
static GmArg
modified (const GmApi *api, GmBuilder *b, GmArg *a, int order, bool scaled)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal size = ONE (abs, x), high = NUM (gt, size, SERIES_TO);
  GmVal beyond = NUM (gt, size, 800), infinite = NULL;
  if (!scaled) { /* beyond, the value and its slope are infinite */
    infinite = ONE (exp, choose (b, beyond, size, 0));
    if (order == 1)
      infinite = gm_b (b, where, NUM (lt, x, 0), ONE (neg, infinite), infinite);
    size = choose_other (b, beyond, size, 800);
  }
  GmVal far = choose (b, high, size, SERIES_TO), near = choose_other (b, high, x, 0);
  CHECK ();
  GmVal low = power_series (b, near, order),
        up = TWO (div, tail_series (b, far, order), ONE (sqrt, far));
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
  GmVal y = gm_b (b, where, high, up, low);
  return finish (b, infinite ? gm_b (b, where, beyond, infinite, y) : y, own);
}

RUN (i0)
{
  return modified (api, b, a, 0, false);
}
RUN (i0e)
{
  return modified (api, b, a, 0, true);
}
RUN (i1)
{
  return modified (api, b, a, 1, false);
}
RUN (i1e)
{
  return modified (api, b, a, 1, true);
}

/* -- Ordinary Bessel functions: J and Y -------------------------------------------------------- */

/* Coefficients of J and Y. Up to 5, (1 - J0) 4 / x^2 and (1/2 - J1 / x) 16 / x^2, and Y0 - 2/pi log
 * (x) J0 and (Y1 - 2/pi (log (x) J1 - 1/x)) / x, are polynomials in x^2 / 12.5 - 1. Beyond, sqrt
 * (pi x / 2) times J and Y are P cos - Q sin and P sin + Q cos of x - pi/4 - order pi/2, where P
 * and Q x / 5 are polynomials in 50 / x^2 - 1. Chebyshev interpolation in 60 points, without terms
 * below 1e-18. Source of the forms: Abramowitz and Stegun, 9.1.10, 9.1.11, 9.2.5 and 9.2.6. */
static const double near_j0[] = { 1.817110836517380847e-14,   -9.6832088400625513652e-13,
                                  4.3815234657923211367e-11,  -1.6627895942680345679e-9,
                                  5.1961762190802826807e-8,   -1.309084606029239835e-6,
                                  0.000025896072131901111498, -0.00038889239519964851387,
                                  0.0042401609245852619702,   -0.031565544458216187104,
                                  0.14682338956233978234,     -0.37383651069307315557,
                                  0.44311824314049452236 };
static const double near_j1[] = { 2.6323985439376886849e-15, -1.51382682238259425e-13,
                                  7.4411893810445109452e-12, -3.0909015650455638366e-10,
                                  1.0670533722835477451e-8,  -3.0039260902954224937e-7,
                                  6.7368615657922318694e-6,  -0.00011688656568489630574,
                                  0.0015107924462658575492,  -0.01383485174029915389,
                                  0.083787833586394253963,   -0.30508289618631160686,
                                  0.59565969123365032585 };
static const double near_y0[] = { 1.166603953074689028e-13,  -6.0499369472396502796e-12,
                                  2.6539975248625818531e-10, -9.7209552080454006776e-9,
                                  2.9142206889637087676e-7,  -6.9855043740770608361e-6,
                                  0.00012994629092082169635, -0.0018028096665503852327,
                                  0.017635345389338758932,   -0.11151682184328655054,
                                  0.38851639956570941848,    -0.47057636552972878084,
                                  -0.43265582228551251781,   0.48372485781029950417 };
static const double near_y1[] = { 4.2779076012476450689e-15, -2.3977823416691828484e-13,
                                  1.1448943838049981583e-11, -4.6013010745475041035e-10,
                                  1.5288901825737139833e-8,  -4.1137780795312436694e-7,
                                  8.7330983048487752464e-6,  -0.00014141835794484213012,
                                  0.0016688031328635942083,  -0.013433433740818166015,
                                  0.066346953547791070547,   -0.16312020358118715284,
                                  0.091086508384484436867,   0.13974939033568804928 };
static const double cosine_0[] = {
  6.5106235315576049135e-13,  -9.5155799295139442339e-13, -1.8210973173070351861e-12,
  2.2845093116070794132e-12,  4.0779588334056029375e-12,  -5.6244893904653707547e-12,
  2.1931201402150453004e-13,  -3.7500256439289843058e-12, 1.8373810451457061093e-11,
  -4.1813362704799626746e-11, 1.019150849721175233e-10,   -2.8265466982174972856e-10,
  8.5441528870231663416e-10,  -2.8711262583427696137e-9,  1.1058682219000378309e-8,
  -5.0864250253411962736e-8,  2.97590062943018095e-7,     -2.4599633256229835959e-6,
  0.000034917305812295122689, -0.0013274931272003313955,  0.99863476590919905978
};
static const double sine_0[] = {
  -1.2064057495730163557e-12,  1.7122282409111514565e-12,  3.5304134564697806398e-12,
  -4.3611348831243665075e-12,  -7.4473348695598032929e-12, 9.7758772138648529971e-12,
  1.3969128881606416872e-12,   3.0248924729466253711e-12,  -2.4435105760910626826e-11,
  5.16975619566037224e-11,     -1.1614153083518033048e-10, 3.0416328812211753006e-10,
  -8.5913440812578006154e-10,  2.6595889558072115564e-9,   -9.2795604456600881278e-9,
  3.7740567905105808652e-8,    -1.8819750652607561356e-7,  1.2478226352134048418e-6,
  -0.000012677430885018453274, 0.00026284279458203208203,  -0.024722992705223729957
};
static const double cosine_1[] = {
  -6.8633334513889975342e-13, 1.0046600398097369494e-12,  1.9148548730827157751e-12,
  -2.4036126609094835865e-12, -4.3041549035072945086e-12, 5.9535965381081497208e-12,
  -2.9957635939099797309e-13, 4.1125471271174000818e-12,  -1.9781279965851924873e-11,
  4.5237272906430095217e-11,  -1.108927614603864677e-10,  3.0910802251980933358e-10,
  -9.4029398171774085209e-10, 3.1855729167256640898e-9,   -1.2403104628317827017e-8,
  5.7916601527383689347e-8,   -3.466718737814457288e-7,   2.978621109513194387e-6,
  -0.00004578280653100388837, 0.0022414632139171184711,   1.0022906462560662095
};
static const double sine_1[] = {
  1.2698783811079176022e-12,  -1.8049299445088646838e-12, -3.7081632893687252318e-12,
  4.5840507745854616533e-12,  7.8446794745203132253e-12,  -1.03231854861711354e-11,
  -1.3784100947262930363e-12, -3.3838170931283897354e-12, 2.6209228616927467576e-11,
  -5.5725981355202249673e-11, 1.2593499308730485682e-10,  -3.3126415985057913927e-10,
  9.408283653740853835e-10,   -2.9331342317849729296e-9,  1.0328284559603885644e-8,
  -4.2533452690430070632e-8,  2.1597707884178486793e-7,   -1.4739855909090526067e-6,
  0.000015796188355886478118, -0.00037296992436824416289, 0.074609486634816040796
};

#define POLYNOMIAL(x, c) polynomial (b, x, c, G_N_ELEMENTS (c))

/* Returns J (`second`: Y) of this order for 0 < x <= 5, J also for -5 <= x <= 0. */
static GmVal
swinging_near (GmBuilder *b, GmVal x, int order, bool second)
{
  GmVal square = TWO (mul, x, x), t = NUM (sub, NUM (mul, square, 0.08), 1), first;
  if (order == 0)
    first = gm_num_apply (b, sub, 1, TWO (mul, NUM (mul, square, 0.25), POLYNOMIAL (t, near_j0)));
  else
    first = TWO (mul, x,
                 gm_num_apply (b, sub, 0.5,
                               TWO (mul, NUM (mul, square, 1.0 / 16), POLYNOMIAL (t, near_j1))));
  if (!second)
    return first;
  GmVal rest = TWO (mul, ONE (log, x), first);
  if (order == 0)
    return TWO (add, NUM (mul, rest, 2 / G_PI), POLYNOMIAL (t, near_y0));
  return TWO (add, NUM (mul, TWO (sub, rest, ONE (reciprocal, x)), 2 / G_PI),
              TWO (mul, x, POLYNOMIAL (t, near_y1)));
}

/* Returns J (`second`: Y) of this order for x >= 5. The cosine and the sine of x - pi/4 are sums of
 * those of x. */
static GmVal
swinging_far (GmBuilder *b, GmVal x, int order, bool second)
{
  GmVal nearer = gm_num_apply (b, div, SWINGS_FROM, x),
        v = NUM (sub, NUM (mul, TWO (mul, nearer, nearer), 2), 1);
  GmVal p = order ? POLYNOMIAL (v, cosine_1) : POLYNOMIAL (v, cosine_0);
  GmVal q = TWO (mul, nearer, order ? POLYNOMIAL (v, sine_1) : POLYNOMIAL (v, sine_0));
  GmVal c = ONE (cos, x), s = ONE (sin, x), cosine = TWO (add, c, s), sine = TWO (sub, s, c);
  if (order) { /* order 1: a quarter turn further */
    GmVal before = cosine;
    cosine = sine;
    sine = ONE (neg, before);
  }
  GmVal y = second ? TWO (add, TWO (mul, p, sine), TWO (mul, q, cosine))
                   : TWO (sub, TWO (mul, p, cosine), TWO (mul, q, sine));
  return TWO (div, y, ONE (sqrt, NUM (mul, x, G_PI)));
}

static GmArg
swinging (const GmApi *api, GmBuilder *b, GmArg *a, int order, bool second)
{
  GmDtype own = GM_F32;
  GmVal x = wide_input (api, b, a, 0, &own);
  CHECK ();
  GmVal size = ONE (abs, x), high = NUM (gt, size, SWINGS_FROM), none = NUM (le, x, 0);
  GmVal near = choose_other (b, high, x, 1);
  if (second)
    near = choose_other (b, none, near, 1);
  GmVal up = swinging_far (b, choose (b, high, size, SWINGS_FROM), order, second);
  if (order == 1 && !second)
    up = gm_b (b, where, NUM (lt, x, 0), ONE (neg, up), up);
  GmVal y = gm_b (b, where, high, up, swinging_near (b, near, order, second));
  if (second) {
    y = choose_other (b, NUM (lt, x, 0), y, NAN);
    y = choose_other (b, NUM (eq, x, 0), y, -INFINITY);
  }
  return finish (b, y, own);
}

RUN (bessel_j0)
{
  return swinging (api, b, a, 0, false);
}
RUN (bessel_j1)
{
  return swinging (api, b, a, 1, false);
}
RUN (bessel_y0)
{
  return swinging (api, b, a, 0, true);
}
RUN (bessel_y1)
{
  return swinging (api, b, a, 1, true);
}
