/* A sequence mixer: the layer of a block that moves information between positions.
 *
 *     block:  x += mixer(norm(x));  x += mlp(norm(x))
 *
 * One new mixer = one file in model/mixers/ + one line in MIXERS below. What it must
 * bring is struct mixer; naming, allocation, initialisation, counting, weight decay,
 * clipping, checkpoints, tests, bench and comparison follow from its declarations.
 *
 * A position encoding is a second, orthogonal choice (struct position, model/positions/):
 * it leaves angles in ctx and the mixer rotates its q and k by them.
 *
 * Callers use the mixer_* functions at the end, which run the encoding and the mixer.
 */
#ifndef WEFT_MIXER_H
#define WEFT_MIXER_H

#include "data/base/fail.h"
#include "data/base/rng.h"
#include "model/kernels/real.h"
#include "model/layers/rotate.h"
#include "model/mixer_memory.h"

#include <stdbool.h>
#include <stddef.h>

enum { MIXER_OPTS = 12 };
#define MIXER_EPS 1e-5

/* ---- declarations ------------------------------------------------------------------ */

enum opt_type {
    OPT_INT,
    OPT_REAL,
    OPT_FLAG,           // 0 or 1
    OPT_CHOICE,         // one of choices, "ln|rms"; the value is its index
    OPT_SPAN,           // tokens: a number, or a share of the context such as 1/8
};

/* A setting of a mixer's or an encoding's own: softmax(window=128). */
struct opt {
    const char   *name, *about;
    enum opt_type type;
    double        standard;         // default
    double        min, max;         // both included; unused for OPT_FLAG and OPT_CHOICE
    const char   *choices;          // OPT_CHOICE only
};

/* What a layer is built from: the model's settings and the entry of `mixers` it took. */
struct mixer_cfg {
    const struct mixer    *mixer;
    const struct position *position;
    int    C;                           // width
    int    H, Hk;                       // heads, key/value heads
    int    layers;                      // of the model, for INIT_OUTPUT
    int    context;                     // tokens the model is trained on at once
    double eps;                         // of RMSNorm; 0: MIXER_EPS, once parsed
    double opt[MIXER_OPTS];             // in the order of mixer->opts
    double position_opt[MIXER_OPTS];
};

/* Bytes that passes over (B, T) need. */
struct sizes {
    size_t kept;        // from forward to backward
    size_t scratch;     // inside one call
    size_t state;       // of one sequence, between calls; independent of B and T
};

/* ---- what a call gets -------------------------------------------------------------- */

struct ctx {
    const struct mixer_cfg *cfg;
    int                B, T;    // sequences, tokens of each
    int                window;  // this step's draw, 0: none; see smaller_window
    const long        *pos;     // (B) tokens each sequence has seen before; NULL: none
    void *const       *state;   // (B) of the running sequences; NULL: all begin
    void              *acts;    // the struct that layout() filled
    struct angles      angles;  // left by the position encoding
};

static inline long ctx_rows(const struct ctx *x)
{
    return (long)x->B * x->T;
}

/* The window a layer must use: the smaller of its own and the draw of this step; 0 is no
 * limit. A layer without a window of its own takes no draw. */
static inline int smaller_window(int own, int drawn)
{
    return own > 0 && drawn > 0 && drawn < own ? drawn : own;
}

/* ---- the interfaces ---------------------------------------------------------------- */

struct mixer {
    const char *name, *about;  // about: one line for --help

    /* Lay out the layer for passes over (m->B, m->T): declare its weights, take its
     * buffers and its state, and say what is not said by that, see model/mixer_memory.h.
     * The struct that names them is ctx->acts of every call. */
    void (*layout)(struct layout *m, const struct mixer_cfg *c);

    /* y (B, T, C) from x (B, T, C); y is overwritten. Every sequence begins; or, with
     * ctx->state, these are T more tokens of each of B running ones, whose states they
     * begin from and leave behind. A state is zero bytes at its start. T = 1 decodes,
     * many prefill. */
    void (*forward)(struct ctx *ctx, const real *x, real *y);

    /* dx = and all dw += from dy, after a forward without state of this ctx and x. */
    void (*backward)(struct ctx *ctx, const real *x, const real *dy, real *dx);

    /* ---- for those that need it ---- */

    const struct opt *opts;    // (optional) settings; ends with a NULL name
    const char *position;      // (optional) the encoding it takes by default, "rope" or
                               // "none"; without it, it takes none at all

    /* (optional) Fill the weights of INIT_OWN. acts as layout() leaves them where it has
     * weights alone. */
    void (*init)(const struct mixer_cfg *c, void *acts, struct rng *r);

    /* What `weft info` and tests ask of it beside: model/mixer_instruments.h. */
    const struct instruments *instruments;
};

/* A position encoding: fills ctx->angles from x; backward starts from angles.dtheta. Same
 * conventions as struct mixer, but dx holds the mixer's share and is added to. */
struct position {
    const char *name, *about;
    const struct opt *opts;
    void (*layout)(struct layout *m, const struct mixer_cfg *c);    // (optional)
    void (*forward)(struct ctx *ctx, const real *x);
    void (*backward)(struct ctx *ctx, const real *x, real *dx);     // (optional)
    void (*extend)(struct ctx *ctx, void *const *state, const real *x);
};

/* ---- the tables -------------------------------------------------------------------- */

#define MIXERS(X) X(softmax) X(rela) X(linear) X(luna) X(normattn) X(inline)  \
    X(retention) X(mlstm) X(ssd) X(deltanet) X(gla) X(metala) X(qlstm) X(rglru) \
    X(mingru) X(s6)
#define POSITIONS(X) X(none) X(rope) X(srope)

#define DECLARE_MIXER(name) extern const struct mixer mixer_##name;
#define DECLARE_POSITION(name) extern const struct position position_##name;
MIXERS(DECLARE_MIXER)
POSITIONS(DECLARE_POSITION)

extern const struct mixer *const    mixers[];       // NULL-terminated
extern const struct position *const positions[];    // NULL-terminated
extern const int                    n_mixers;

/* ---- what callers use -------------------------------------------------------------- */

/* Parse one entry, "softmax(window=128,heads=2)+rope(base=1e4)", into c, whose C, H,
 * Hk, layers and context are set. Unknown names and options answer with the nearest.
 * FAIL_USAGE. */
enum fail mixer_parse(struct mixer_cfg *c, const char *entry, struct why *why);

/* Why this cfg cannot work, or NULL. */
const char *mixer_problem(const struct mixer_cfg *c);

/* The key heads and their width that an encoding may rotate. */
void   mixer_angles(const struct mixer_cfg *c, int *heads, int *dk);

/* The mixer's parameters, then the encoding's; own of the first. */
int    mixer_params(const struct mixer_cfg *c, struct param *p);
int    mixer_own_params(const struct mixer_cfg *c);
void   mixer_init(const struct mixer_cfg *c, real *const *w, uint64_t seed,
                  uint64_t first);

/* FLOPs of forward over one sequence of T tokens, with this window drawn. */
double mixer_flops(const struct mixer_cfg *c, int T, int window);

/* The most that any pass over (B, T) needs. */
void   mixer_sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s);

/* A mixer and its encoding with their buffers in place, for passes over (B, T). It must
 * stay where mixer_layout found it.
 *
 *     kept      the encoding's | the mixer's
 *     scratch   dtheta | the encoding's | the mixer's      dtheta where it is trained
 *     state     the encoding's | the mixer's, each from a cache line on
 */
struct mixer_layer {
    struct ctx  ctx;            // the mixer's; the caller sets cfg, B and T,
    const real *const *w;       // the parameters,
    real *const       *dw;      // and their gradients; NULL where nothing is trained
    struct ctx  encoding;       // the encoding's
    real       *dtheta;         // gradient of its angles; NULL: none is wanted
    size_t      n_dtheta;
    size_t      state_at;       // where this layer's part of a sequence's state begins,
    size_t      inner_at;       // the mixer's in it,
    size_t      state_bytes;    // and its size
    void      **state, **inner; // (B) scratch of extend
    struct layout of_encoding, of_mixer;
};

/* Lay l out for passes of this mode, from kept and scratch, which may only measure. */
void mixer_layout(struct mixer_layer *l, enum pass_mode mode, struct arena *kept,
                  struct arena *scratch);

/* As the functions of struct mixer. Backward has the window of forward. */
void mixer_forward(struct mixer_layer *l, int window, const real *x, real *y);
void mixer_backward(struct mixer_layer *l, const real *x, const real *dy, real *dx);
void mixer_extend(struct mixer_layer *l, void *const *state, const long *pos,
                  const real *x, real *y);

/* ---- for mixers' files ------------------------------------------------------------- */

/* An option, or what stands for its 0. */
static inline int opt_or(const struct mixer_cfg *c, int opt, int otherwise)
{
    return c->opt[opt] > 0 ? (int)c->opt[opt] : otherwise;
}

/* A bias whose softplus, a step in time, is log-uniform in [1e-3, 1e-1]. */
real param_step(struct rng *r);

/* Fill one tensor as declared (all but INIT_OWN); layers is for INIT_OUTPUT. */
void param_fill(const struct param *p, real *w, int layers, struct rng *r);

#endif
