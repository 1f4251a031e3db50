/* SPDX-License-Identifier: Apache-2.0
 * tiles-convolve.h -- products with windows (convolve.h) for one floating type.
 *
 * Included by tiles-impl.h for GM_T f32 and f64; defines the table convolve_T.  The central
 * function is `product`: a block of rows times vectors of columns that stays in registers while it
 * runs along the depth. With AVX-512 the block takes 8 x 3 of 32 registers, with AVX2 4 x 3 of 16,
 * which leaves room for the factors.
 */
/* clang-format off */

#define VEC GM_N (A)
#define ELEM GM_N (E)
#define LANES GM_N (L)
#define PANEL (3 * LANES)
#ifdef GM_ISA_AVX512
#define ROWS 8
#else
#define ROWS 4
#endif

/* -- Rows times a panel ------------------------------------------------------------------------ */

/* Computes c (rows x n vectors) = or += a (rows x depth) b (depth x n vectors), where row k of b
 * begins at places[k], or is one of rows that follow one another (NULL). */
GM_INLINE void
GM_N (product) (const int rows, const int n, int64_t depth, const ELEM *a, int64_t lda,
                const ELEM *b, const int64_t *places, ELEM *c, int64_t ldc, bool more)
{
  VEC sum[ROWS][3];
  GM_UNROLL for (int r = 0; r < rows; r++)
    GM_UNROLL for (int j = 0; j < n; j++)
      sum[r][j] = more ? GM_N (load) (c + r * ldc + j * LANES) : (VEC){ 0 };
  for (int64_t k = 0; k < depth; k++) {
    VEC x[3];
    const ELEM *row = b + (places ? places[k] : k * n * LANES);
    GM_UNROLL for (int j = 0; j < n; j++)
      x[j] = GM_N (load) (row + j * LANES);
    GM_UNROLL for (int r = 0; r < rows; r++) {
      VEC y = GM_N (splat) (a[r * lda + k]);
      GM_UNROLL for (int j = 0; j < n; j++)
        sum[r][j] = GM_N (fma) (y, x[j], sum[r][j]);
    }
  }
  GM_UNROLL for (int r = 0; r < rows; r++)
    GM_UNROLL for (int j = 0; j < n; j++)
      GM_N (store) (c + r * ldc + j * LANES, sum[r][j]);
}

/* Calls body (rows, n) with constants, for the compiler. */
#define BY_COLUMNS(body, rows, n) \
  ((n) == 3 ? body (rows, 3) : (n) == 2 ? body (rows, 2) : body (rows, 1))
#define BY_ROWS(body, left, n, take) \
  do { \
    if (ROWS == 8 && (left) >= 8) { \
      BY_COLUMNS (body, ROWS, n); \
      take = ROWS; \
    } else if ((left) >= 4) { \
      BY_COLUMNS (body, 4, n); \
      take = 4; \
    } else if ((left) >= 2) { \
      BY_COLUMNS (body, 2, n); \
      take = 2; \
    } else { \
      BY_COLUMNS (body, 1, n); \
      take = 1; \
    } \
  } while (0)

static void
GM_N (product_rows) (int64_t rows, int n, int64_t depth, const ELEM *a, int64_t lda, const ELEM *b, ELEM *c, int64_t ldc, bool more)
{
  for (int64_t r = 0, take; r < rows; r += take) {
#define BODY(rows_, n_) \
  GM_N (product) (rows_, n_, depth, a + r * lda, lda, b, NULL, c + r * ldc, ldc, more)
    BY_ROWS (BODY, rows - r, n, take);
#undef BODY
  }
}

/* Multiplies a panel of three vectors that is read where it is. */
static void
GM_N (product_there) (int64_t rows, int64_t depth, const ELEM *a, int64_t lda, const ELEM *b,
                      const int64_t *places, ELEM *c, int64_t ldc, bool more)
{
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS)
    GM_N (product) (ROWS, 3, depth, a + r * lda, lda, b, places, c + r * ldc, ldc, more);
  for (; r < rows; r++)
    GM_N (product) (1, 3, depth, a + r * lda, lda, b, places, c + r * ldc, ldc, more);
}

/* -- Gathering a panel ------------------------------------------------------------------------- */

/* A run of windows of one line that follow one another: `n` windows from `at` elements behind the
 * source, the first of them in column `to`. */
typedef struct {
  int64_t at, to, n, out;
} GM_N (Run);

static int
GM_N (find_runs) (const GmCorrelation *c, int64_t first, int64_t n, GM_N (Run) *runs)
{
  const GmWindows *w = &c->windows;
  int64_t x = first % w->size[2], line = first / w->size[2], plane = line / w->size[1],
          image = plane / w->size[0];
  int k = 0;
  line %= w->size[1];
  plane %= w->size[0];
  for (int64_t to = 0; to < n;) {
    int64_t take = w->size[2] - x < n - to ? w->size[2] - x : n - to;
    int64_t at = image * w->image_step + plane * w->step[0] + line * w->step[1] + x,
            out = image * c->out_image + plane * c->out_step[0] + line * c->out_step[1]
                  + x * c->out_step[2];
    runs[k++] = (GM_N (Run)){ at, to, take, out };
    to += take;
    x = 0;
    if (++line == w->size[1]) {
      line = 0;
      if (++plane == w->size[0]) {
        plane = 0;
        image++;
      }
    }
  }
  return k;
}

/* Gathers a panel.  Whole vectors are copied: superfluous elements of a column are overwritten by
 * the next run or row. */
static void
GM_N (gather_panel) (const GmWindows *w, const GM_N (Run) *runs, int n_runs, int64_t from, int64_t to, ELEM *panel, int64_t width)
{
  for (int64_t k = from; k < to; k++, panel += width) {
    const ELEM *source = (const ELEM *) w->source + w->places[k];
    for (int i = 0; i < n_runs; i++) {
      const ELEM *s = source + runs[i].at;
      ELEM *d = panel + runs[i].to;
      int64_t x = 0, n = runs[i].n;
      for (; x + LANES <= n; x += LANES)
        GM_N (store) (d + x, GM_N (load) (s + x));
      if (x < n && !w->tight)
        GM_N (store) (d + x, GM_N (load) (s + x));
      else if (x < n)
        GM_N (store) (d + x, GM_N (load_part) (s + x, (size_t) (n - x), (VEC){ 0 }));
    }
  }
}

/* -- Few rows: line by line, nothing gathered -------------------------------------------------- */

/* Computes n vectors of windows, the last of them with `last` lanes. */
GM_INLINE void
GM_N (line_part) (const int n, const GmWindows *w, const ELEM *a, const ELEM *s, size_t last, ELEM *out)
{
  VEC sum[4];
  const bool part = last < LANES, careful = part && w->tight;
  GM_UNROLL for (int j = 0; j < n; j++)
    sum[j] = (VEC){ 0 };
  for (int64_t k = 0; k < w->depth; k++) {
    VEC y = GM_N (splat) (a[k]);
    const ELEM *at = s + w->places[k];
    GM_UNROLL for (int j = 0; j < n - 1; j++)
      sum[j] = GM_N (fma) (y, GM_N (load) (at + j * LANES), sum[j]);
    at += (n - 1) * LANES;
    sum[n - 1] = GM_N (fma) (y, careful ? GM_N (load_part) (at, last, (VEC){ 0 }) : GM_N (load) (at), sum[n - 1]);
  }
  GM_UNROLL for (int j = 0; j < n - 1; j++)
    GM_N (store) (out + j * LANES, sum[j]);
  if (part)
    GM_N (store_part) (out + (n - 1) * LANES, last, sum[n - 1]);
  else
    GM_N (store) (out + (n - 1) * LANES, sum[n - 1]);
}

static void
GM_N (correlate_line) (const GmWindows *w, const ELEM *a, const ELEM *s, ELEM *out)
{
  for (int64_t x = 0, n = w->size[2]; x < n; x += 4 * LANES) {
    int64_t left = n - x < 4 * LANES ? n - x : 4 * LANES, vectors = (left + LANES - 1) / LANES;
    size_t last = (size_t) (left - (vectors - 1) * LANES);
    if (vectors == 4)
      GM_N (line_part) (4, w, a, s + x, last, out + x);
    else if (vectors == 3)
      GM_N (line_part) (3, w, a, s + x, last, out + x);
    else if (vectors == 2)
      GM_N (line_part) (2, w, a, s + x, last, out + x);
    else
      GM_N (line_part) (1, w, a, s + x, last, out + x);
  }
}

/* For a kernel of 3 x 3 whose lines are as far apart as lines of windows: each line of the source
 * is read once, for the three lines of windows that meet it.  `line`, `out_line`: distance between
 * lines of windows, in the direction in which the taps follow; so an element's chain still has the
 * order of its places.  n vectors of windows, the last of them with `last` lanes. */
#define ROLL 3
#ifdef GM_ISA_AVX512
#define ROLL_VECTORS 4
#else
#define ROLL_VECTORS 1
#endif
GM_INLINE void
GM_N (roll_part) (const int n, const GmWindows *w, const ELEM *a, const ELEM *s, int64_t line, size_t last, ELEM *out, int64_t out_line)
{
  /* sum[i]: sums of the line of windows that meets this line of the source with its i-th taps. */
  VEC y[ROLL * ROLL], sum[ROLL][ROLL_VECTORS];
  const bool part = last < LANES, careful = part && w->tight;
  GM_UNROLL for (int k = 0; k < ROLL * ROLL; k++)
    y[k] = GM_N (splat) (a[k]);
  GM_UNROLL for (int i = 0; i < ROLL; i++)
    GM_UNROLL for (int j = 0; j < n; j++)
      sum[i][j] = (VEC){ 0 };
  for (int64_t r = 0; r < w->size[1] + ROLL - 1; r++, s += line) {
    GM_UNROLL for (int c = 0; c < ROLL; c++) {
      const ELEM *at = s + w->places[c];
      VEC x[ROLL_VECTORS];
      GM_UNROLL for (int j = 0; j < n; j++)
        x[j] = careful && j == n - 1 ? GM_N (load_part) (at + j * LANES, last, (VEC){ 0 }) : GM_N (load) (at + j * LANES);
      GM_UNROLL for (int i = 0; i < ROLL; i++)
        GM_UNROLL for (int j = 0; j < n; j++)
          sum[i][j] = GM_N (fma) (y[i * ROLL + c], x[j], sum[i][j]);
    }
    if (r >= ROLL - 1) {
      ELEM *to = out + (r - (ROLL - 1)) * out_line;
      GM_UNROLL for (int j = 0; j < n - 1; j++)
        GM_N (store) (to + j * LANES, sum[ROLL - 1][j]);
      if (part)
        GM_N (store_part) (to + (n - 1) * LANES, last, sum[ROLL - 1][n - 1]);
      else
        GM_N (store) (to + (n - 1) * LANES, sum[ROLL - 1][n - 1]);
    }
    GM_UNROLL for (int i = ROLL - 1; i > 0; i--)
      GM_UNROLL for (int j = 0; j < n; j++)
        sum[i][j] = sum[i - 1][j];
    GM_UNROLL for (int j = 0; j < n; j++)
      sum[0][j] = (VEC){ 0 };
  }
}

/* roll_part where lines of windows are two lines of the source apart: `line` is one line of the
 * source, and every second line of it meets two lines of windows. */
GM_INLINE void
GM_N (roll_part_by_2) (const int n, const GmWindows *w, const ELEM *a, const ELEM *s, int64_t line, size_t last, ELEM *out, int64_t out_line)
{
  VEC y[ROLL * ROLL], sum[ROLL_VECTORS], next[ROLL_VECTORS], x[ROLL_VECTORS];
  const bool part = last < LANES, careful = part && w->tight;
  GM_UNROLL for (int k = 0; k < ROLL * ROLL; k++)
    y[k] = GM_N (splat) (a[k]);
  GM_UNROLL for (int j = 0; j < n; j++)
    sum[j] = (VEC){ 0 };
#define TAPS(from) \
  GM_UNROLL for (int j = 0; j < n; j++) \
    x[j] = careful && j == n - 1 ? GM_N (load_part) ((from) + j * LANES, last, (VEC){ 0 }) : GM_N (load) ((from) + j * LANES)
#define JOIN(sum, i, c) \
  GM_UNROLL for (int j = 0; j < n; j++) \
    sum[j] = GM_N (fma) (y[(i) * ROLL + (c)], x[j], sum[j])
  for (int64_t r = 0; r <= w->size[1]; r++, s += w->step[1]) {
    GM_UNROLL for (int j = 0; j < n; j++)
      next[j] = (VEC){ 0 };
    GM_UNROLL for (int c = 0; c < ROLL; c++) {
      TAPS (s + w->places[c]);
      JOIN (sum, 2, c);
      JOIN (next, 0, c);
    }
    if (r > 0) {
      ELEM *to = out + (r - 1) * out_line;
      GM_UNROLL for (int j = 0; j < n - 1; j++)
        GM_N (store) (to + j * LANES, sum[j]);
      if (part)
        GM_N (store_part) (to + (n - 1) * LANES, last, sum[n - 1]);
      else
        GM_N (store) (to + (n - 1) * LANES, sum[n - 1]);
    }
    if (r == w->size[1])
      break;
    GM_UNROLL for (int c = 0; c < ROLL; c++) {
      TAPS (s + line + w->places[c]);
      JOIN (next, 1, c);
    }
    GM_UNROLL for (int j = 0; j < n; j++)
      sum[j] = next[j];
  }
#undef TAPS
#undef JOIN
}

/* Returns 1 if the three lines of taps are one line of windows apart, -1 if so from the last to the
 * first, 2 if they are half a line of windows apart, else 0. */
GM_INLINE int
GM_N (rolls) (const GmCorrelation *c)
{
  const GmWindows *w = &c->windows;
  if (w->depth != ROLL * ROLL || c->out_step[2] != 1 || w->size[1] < 2)
    return 0;
  int64_t apart = w->places[ROLL] - w->places[0];
  if (apart != w->step[1] && apart != -w->step[1] && 2 * apart != w->step[1])
    return 0;
  for (int k = ROLL; k < ROLL * ROLL; k++)
    if (w->places[k] - w->places[k - ROLL] != apart)
      return 0;
  return 2 * apart == w->step[1] ? 2 : apart == w->step[1] ? 1 : -1;
}

static void
GM_N (roll_plane) (const GmCorrelation *c, const ELEM *a, const ELEM *s, ELEM *out, int way)
{
  const GmWindows *w = &c->windows;
  int64_t line = way == 2 ? w->step[1] / 2 : way * w->step[1], out_line = way == 2 ? c->out_step[1] : way * c->out_step[1];
  if (way < 0) {
    s += (w->size[1] - 1) * w->step[1];
    out += (w->size[1] - 1) * c->out_step[1];
  }
  for (int64_t x = 0, n = w->size[2]; x < n; x += ROLL_VECTORS * LANES) {
    int64_t left = n - x < ROLL_VECTORS * LANES ? n - x : ROLL_VECTORS * LANES, vectors = (left + LANES - 1) / LANES;
    size_t last = (size_t) (left - (vectors - 1) * LANES);
#define ROLLED(n) \
  if (ROLL_VECTORS >= (n) && vectors == (n) && way == 2) \
    GM_N (roll_part_by_2) (n, w, a, s + x, line, last, out + x, out_line); \
  else if (ROLL_VECTORS >= (n) && vectors == (n)) \
    GM_N (roll_part) (n, w, a, s + x, line, last, out + x, out_line);
    ROLLED (1)
    ROLLED (2)
    ROLLED (3)
    ROLLED (4)
#undef ROLLED
  }
}

/* Computes a line at a time.  If a line's elements are apart in the result, the line is made in
 * `scratch`, in pieces of a panel. */
static void
GM_N (correlate_lines) (const GmCorrelation *c)
{
  const GmWindows *w = &c->windows;
  int way = GM_N (rolls) (c);
  for (int64_t r = 0; way && r < c->rows; r++)
    for (int64_t p = 0; p < w->size[0]; p++)
      GM_N (roll_plane) (c, (const ELEM *) c->a + r * w->depth, (const ELEM *) w->source + p * w->step[0],
                         (ELEM *) c->out + r * c->out_row + p * c->out_step[0], way);
  for (int64_t r = 0; !way && r < c->rows; r++)
    for (int64_t p = 0; p < w->size[0]; p++)
      for (int64_t l = 0; l < w->size[1]; l++) {
        const ELEM *a = (const ELEM *) c->a + r * w->depth, *s = (const ELEM *) w->source + p * w->step[0] + l * w->step[1];
        ELEM *out = (ELEM *) c->out + r * c->out_row + p * c->out_step[0] + l * c->out_step[1];
        if (c->out_step[2] == 1) {
          GM_N (correlate_line) (w, a, s, out);
          continue;
        }
        ELEM *line = c->scratch;
        GmWindows part = *w;
        for (int64_t x = 0; x < w->size[2]; x += GM_PANEL) {
          part.size[2] = w->size[2] - x < GM_PANEL ? w->size[2] - x : GM_PANEL;
          GM_N (correlate_line) (&part, a, s + x, line);
          for (int64_t i = 0; i < part.size[2]; i++)
            out[(x + i) * c->out_step[2]] = line[i];
        }
      }
}

/* -- Any rows ---------------------------------------------------------------------------------- */

/* A panel of the result that is being made: `n` vectors of columns at `to`, which is the result
 * itself (direct) or lies in the scratch. */
typedef struct {
  GM_N (Run) runs[PANEL];
  int n_runs, n;
  bool direct;
  ELEM *to;
  int64_t ldc;
} GM_N (Panel);

#define MOST_PANELS 8
/* The number of rows up to which a panel of one line of a copy is read where it is: to gather it
 * would take more time than the products with it save. */
#define ROWS_THERE 64

static void
GM_N (begin_panel) (const GmCorrelation *c, int64_t first, bool dense, ELEM *block,
                    GM_N (Panel) *panel)
{
  const GmWindows *w = &c->windows;
  int64_t columns = c->to - first < PANEL ? c->to - first : PANEL,
          windows = w->size[0] * w->size[1] * w->size[2];
  int n = (int) ((columns + LANES - 1) / LANES);
  panel->n = n;
  panel->n_runs = GM_N (find_runs) (c, first, columns, panel->runs);
  panel->direct = dense && columns == n * LANES
                  && first / windows == (first + columns - 1) / windows;
  panel->to = panel->direct ? (ELEM *) c->out + panel->runs[0].out : block;
  panel->ldc = panel->direct ? c->out_row : n * LANES;
}

static void
GM_N (put_panel) (const GmCorrelation *c, const GM_N (Panel) *panel)
{
  for (int64_t r = 0; r < c->rows; r++)
    for (int i = 0; i < panel->n_runs; i++) {
      ELEM *d = (ELEM *) c->out + r * c->out_row + panel->runs[i].out;
      const ELEM *s = panel->to + r * panel->ldc + panel->runs[i].to;
      int64_t x = 0, n = panel->runs[i].n;
      if (c->out_step[2] == 1)
        for (; x + LANES <= n; x += LANES)
          GM_N (store) (d + x, GM_N (load) (s + x));
      for (; x < n; x++)
        d[x * c->out_step[2]] = s[x];
    }
}

/* Several panels are made together if the depth is more than one piece, so that a piece of `a` is
 * in the cache for all but the first of them. */
static void
GM_N (correlate) (const GmCorrelation *c)
{
  const GmWindows *w = &c->windows;
  GM_N (Panel) panels[MOST_PANELS];
  bool dense = c->out_step[2] == 1 && (w->size[1] == 1 || c->out_step[1] == w->size[2])
               && (w->size[0] == 1 || c->out_step[0] == w->size[1] * w->size[2]);
  int64_t fit = GM_PANEL_BLOCK / (c->rows * PANEL), at_once = fit < MOST_PANELS ? fit : MOST_PANELS;
  if (at_once < 1 || w->depth <= GM_PANEL_DEPTH)
    at_once = 1;
  ELEM *gathered = c->scratch, *block = gathered + GM_PANEL * GM_PANEL_DEPTH + GM_WINDOW_SLACK;
  for (int64_t p = c->from; p < c->to; p += at_once * PANEL) {
    int64_t k = 0;
    int n_panels = 0;
    for (; n_panels < at_once && p + n_panels * PANEL < c->to; n_panels++)
      GM_N (begin_panel) (c, p + n_panels * PANEL, dense, block + n_panels * PANEL * c->rows,
                          &panels[n_panels]);
    do {
      int64_t depth = w->depth - k < GM_PANEL_DEPTH ? w->depth - k : GM_PANEL_DEPTH;
      const ELEM *a = (const ELEM *) c->a + k, *source = w->source;
      for (int i = 0; i < n_panels; i++) {
        const GM_N (Panel) *to = &panels[i];
        if (c->rows <= ROWS_THERE && to->runs[0].n == PANEL && !w->tight) {
          GM_N (product_there) (c->rows, depth, a, w->depth, source + to->runs[0].at,
                                w->places + k, to->to, to->ldc, k > 0);
          continue;
        }
        GM_N (gather_panel) (w, to->runs, to->n_runs, k, k + depth, gathered, to->n * LANES);
        GM_N (product_rows) (c->rows, to->n, depth, a, w->depth, gathered, to->to, to->ldc, k > 0);
      }
      k += depth;
    } while (k < w->depth);
    for (int i = 0; i < n_panels; i++)
      if (!panels[i].direct)
        GM_N (put_panel) (c, &panels[i]);
  }
}

/* -- Sums over windows ------------------------------------------------------------------------- */

/* Windows that are weighed for all places before the next: their rows of g stay in the cache. */
#define WEIGHED 256

/* A run of neighbouring windows; `last` of its image. */
typedef struct {
  int64_t at, n;
  bool last;
} GM_N (Stretch);

static int
GM_N (find_stretches) (const GmWindows *w, int64_t first, int64_t n, GM_N (Stretch) *stretches)
{
  int64_t x = first % w->size[2], line = first / w->size[2], lines = w->size[0] * w->size[1];
  int k = 0;
  for (; n > 0; line++, x = 0, k++) {
    int64_t take = w->size[2] - x < n ? w->size[2] - x : n, l = line % lines;
    stretches[k].at = line / lines * w->image_step + l / w->size[1] * w->step[0]
                      + l % w->size[1] * w->step[1] + x;
    stretches[k].n = take;
    stretches[k].last = l == lines - 1 && x + take == w->size[2];
    n -= take;
  }
  return k;
}

/* Weighs some places.  resumed: the first stretch goes on with the chains; open: the last stretch
 * leaves them to the next block. */
GM_INLINE void
GM_N (weigh_rows) (const int rows, const int n, const GmWindows *w,
                   const GM_N (Stretch) *stretches, int n_stretches, int64_t k, const ELEM *g,
                   ELEM *sums, ELEM *chains, bool resumed, bool open)
{
  VEC sum[ROWS][3];
  GM_UNROLL for (int r = 0; r < rows; r++)
    GM_UNROLL for (int j = 0; j < n; j++)
      sum[r][j] = resumed ? GM_N (load) (chains + (k + r) * PANEL + j * LANES) : (VEC){ 0 };
  for (int i = 0; i < n_stretches; i++) {
    const ELEM *s[ROWS];
    GM_UNROLL for (int r = 0; r < rows; r++)
      s[r] = (const ELEM *) w->source + w->places[k + r] + stretches[i].at;
    for (int64_t x = 0; x < stretches[i].n; x++, g += PANEL) {
      VEC y[3];
      GM_UNROLL for (int j = 0; j < n; j++)
        y[j] = GM_N (load) (g + j * LANES);
      GM_UNROLL for (int r = 0; r < rows; r++) {
        VEC v = GM_N (splat) (s[r][x]);
        GM_UNROLL for (int j = 0; j < n; j++)
          sum[r][j] = GM_N (fma) (v, y[j], sum[r][j]);
      }
    }
    if (!stretches[i].last)
      continue;
    GM_UNROLL for (int r = 0; r < rows; r++)
      GM_UNROLL for (int j = 0; j < n; j++) {
        ELEM *to = sums + (k + r) * PANEL + j * LANES;
        GM_N (store) (to, GM_N (load) (to) + sum[r][j]);
        sum[r][j] = (VEC){ 0 };
      }
  }
  GM_UNROLL for (int r = 0; open && r < rows; r++)
    GM_UNROLL for (int j = 0; j < n; j++)
      GM_N (store) (chains + (k + r) * PANEL + j * LANES, sum[r][j]);
}

static void
GM_N (weigh) (const GmWindows *w, const void *pg, int64_t columns, void *psums, void *pchains)
{
  GM_N (Stretch) stretches[WEIGHED];
  int64_t windows = w->size[0] * w->size[1] * w->size[2], all = w->images * windows;
  int n = (int) ((columns + LANES - 1) / LANES);
  ELEM *sums = psums, *chains = pchains;
  for (int64_t p = 0, end; p < all; p = end) {
    end = all - p < WEIGHED ? all : p + WEIGHED;
    int n_stretches = GM_N (find_stretches) (w, p, end - p, stretches);
    const ELEM *g = (const ELEM *) pg + p * PANEL;
    bool resumed = p % windows != 0, open = end % windows != 0;
    for (int64_t k = 0, take; k < w->depth; k += take) {
#define BODY(rows_, n_) \
  GM_N (weigh_rows) (rows_, n_, w, stretches, n_stretches, k, g, sums, chains, resumed, open)
      BY_ROWS (BODY, w->depth - k, n, take);
#undef BODY
    }
  }
}

#define CHAIN_VECTORS (GM_WINDOW_CHAINS / LANES)

/* Processes `rows` places at once; the elements of a line behind its last whole block join its
 * chains one by one. */
GM_INLINE void
GM_N (weigh_line_rows) (const int rows, const GmWindows *w, int64_t k, const ELEM *g, ELEM *chains)
{
  VEC sum[4][CHAIN_VECTORS];
  const ELEM *s[4];
  GM_UNROLL for (int r = 0; r < rows; r++) {
    s[r] = (const ELEM *) w->source + w->places[k + r];
    GM_UNROLL for (int j = 0; j < CHAIN_VECTORS; j++)
      sum[r][j] = GM_N (load) (chains + (k + r) * GM_WINDOW_CHAINS + j * LANES);
  }
  for (int64_t p = 0; p < w->size[0]; p++)
    for (int64_t l = 0; l < w->size[1]; l++, g += w->size[2]) {
      int64_t at = p * w->step[0] + l * w->step[1], x = 0;
      for (; x + GM_WINDOW_CHAINS <= w->size[2]; x += GM_WINDOW_CHAINS)
        GM_UNROLL for (int j = 0; j < CHAIN_VECTORS; j++) {
          VEC y = GM_N (load) (g + x + j * LANES);
          GM_UNROLL for (int r = 0; r < rows; r++)
            sum[r][j] = GM_N (fma) (GM_N (load) (s[r] + at + x + j * LANES), y, sum[r][j]);
        }
      GM_UNROLL for (int j = 0; j < CHAIN_VECTORS; j++) {
        int64_t left = w->size[2] - x - j * LANES;
        if (left <= 0)
          break;
        size_t part = (size_t) (left < LANES ? left : LANES);
        VEC zero = { 0 };
        VEC y = part < LANES ? GM_N (load_part) (g + x + j * LANES, part, zero) : GM_N (load) (g + x + j * LANES);
        GM_UNROLL for (int r = 0; r < rows; r++) {
          const ELEM *e = s[r] + at + x + j * LANES;
          sum[r][j] = GM_N (fma) (part < LANES ? GM_N (load_part) (e, part, zero) : GM_N (load) (e), y, sum[r][j]);
        }
      }
    }
  GM_UNROLL for (int r = 0; r < rows; r++)
    GM_UNROLL for (int j = 0; j < CHAIN_VECTORS; j++)
      GM_N (store) (chains + (k + r) * GM_WINDOW_CHAINS + j * LANES, sum[r][j]);
}

static void
GM_N (weigh_line) (const GmWindows *w, const void *g, void *chains)
{
  int64_t k = 0;
  for (; k + 4 <= w->depth; k += 4)
    GM_N (weigh_line_rows) (4, w, k, g, chains);
  for (; k < w->depth; k++)
    GM_N (weigh_line_rows) (1, w, k, g, chains);
}

static void
GM_N (fold_chains) (void *pout, const void *pchains, int64_t depth)
{
  ELEM *out = pout, c[GM_WINDOW_CHAINS];
  for (int64_t k = 0; k < depth; k++) {
    memcpy (c, (const ELEM *) pchains + k * GM_WINDOW_CHAINS, sizeof c);
    for (int half = GM_WINDOW_CHAINS / 2; half; half /= 2)
      for (int i = 0; i < half; i++)
        c[i] = c[i] + c[i + half];
    out[k] = c[0];
  }
}

/* -- The largest of a window ------------------------------------------------------------------- */

GM_INLINE void
GM_N (best_part) (const GmWindows *w, const ELEM *s, size_t n, ELEM *best, GM_N (B) *where)
{
  const bool part = n < LANES, careful = part && w->tight;
#define SEEN(k) (careful ? GM_N (load_part) (s + w->places[k], n, (VEC){ 0 }) : GM_N (load) (s + w->places[k]))
  VEC most = SEEN (0);
  GM_N (M) at = { 0 };
  for (int64_t k = 1; k < w->depth; k++) {
    VEC x = SEEN (k);
    GM_N (M) better = (x > most) | ((x != x) & (most == most));
    most = GM_N (sel) (better, x, most);
    at = (better & (GM_N (B)) k) | (~better & at);
  }
#undef SEEN
  if (part)
    GM_N (store_part) (best, n, most);
  else
    GM_N (store) (best, most);
  if (where && part)
    GM_N (store_part) ((ELEM *) where, n, (VEC) at);
  else if (where)
    GM_N (store) ((ELEM *) where, (VEC) at);
}

static void
GM_N (best) (const GmWindows *w, void *pbest, void *pwhere)
{
  ELEM *best = pbest;
  GM_N (B) *where = pwhere;
  for (int64_t p = 0; p < w->size[0]; p++)
    for (int64_t l = 0; l < w->size[1]; l++) {
      const ELEM *s = (const ELEM *) w->source + p * w->step[0] + l * w->step[1];
      for (int64_t x = 0; x < w->size[2]; x += LANES) {
        int64_t left = w->size[2] - x;
        GM_N (best_part) (w, s + x, (size_t) (left < LANES ? left : LANES), best + x, where ? where + x : NULL);
      }
      best += w->size[2];
      where = where ? where + w->size[2] : NULL;
    }
}

static void
GM_N (part) (void *peven, void *podd, const void *pin, int64_t n)
{
  ELEM *even = peven, *odd = podd;
  const ELEM *in = pin;
  GM_N (M) evens, odds;
  for (int i = 0; i < LANES; i++) {
    evens[i] = 2 * i;
    odds[i] = 2 * i + 1;
  }
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    VEC a = GM_N (load) (in + 2 * i), b = GM_N (load) (in + 2 * i + LANES);
    GM_N (store) (even + i, __builtin_shuffle (a, b, evens));
    GM_N (store) (odd + i, __builtin_shuffle (a, b, odds));
  }
  for (; i < n; i++) {
    even[i] = in[2 * i];
    odd[i] = in[2 * i + 1];
  }
}

/* -- Transposition ----------------------------------------------------------------------------- */

/* Transposes squares of 16 bytes' lanes, which fit into registers on both sides. */
static void
GM_N (transpose) (void *pout, int64_t out_row, const void *pin, int64_t in_row, int64_t rows, int64_t columns)
{
  enum { SIDE = 16 / sizeof (ELEM) };
  typedef ELEM Line __attribute__ ((vector_size (16)));
  typedef ELEM Anywhere __attribute__ ((vector_size (16), aligned (1), may_alias));
  ELEM *out = pout;
  const ELEM *in = pin;
  int64_t whole_rows = rows / SIDE * SIDE, whole_columns = columns / SIDE * SIDE;
  for (int64_t r = 0; r < whole_rows; r += SIDE)
    for (int64_t c = 0; c < whole_columns; c += SIDE) {
      Line a[SIDE], b[SIDE];
      GM_UNROLL for (int i = 0; i < SIDE; i++)
        a[i] = *(const Anywhere *) (in + (r + i) * in_row + c);
      GM_N (turn_square) (a, b);
      GM_UNROLL for (int i = 0; i < SIDE; i++)
        *(Anywhere *) (out + (c + i) * out_row + r) = b[i];
    }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
      out[c * out_row + r] = in[r * in_row + c];
}

static const GmConvolveTiles GM_N (convolve) = {
  .panel = PANEL,
  .correlate = GM_N (correlate),
  .correlate_lines = GM_N (correlate_lines),
  .weigh = GM_N (weigh),
  .weigh_line = GM_N (weigh_line),
  .fold_chains = GM_N (fold_chains),
  .best = GM_N (best),
  .part = GM_N (part),
  .transpose = GM_N (transpose),
};

#undef VEC
#undef ELEM
#undef LANES
#undef PANEL
#undef ROWS
#undef BY_COLUMNS
#undef BY_ROWS
#undef CHAIN_VECTORS
#undef MOST_PANELS
#undef ROWS_THERE
#undef WEIGHED
#undef ROLL
#undef ROLL_VECTORS
