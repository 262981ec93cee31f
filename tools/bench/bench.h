/* weft bench: how fast this machine trains and decodes, and how fast it could.
 *
 * A shape is measured on random tokens: real training steps (forward, backward, clipping,
 * AdamW or Muon), the matrix products of one such step alone, prefill, decoding. Beside
 * it the yardsticks, in the same run since machines are noisy: the rate of one large
 * product and the bandwidth of reading memory.
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include "data/base/fail.h"
#include "infer/session.h"
#include "model/meter.h"
#include "model/pass.h"
#include "train/muon.h"

/* Tokens of a prompt, sequences at once. */
enum { BENCH_PREFILL = 512, BENCH_TOGETHER = 8 };

struct shape {
    const char *name;               // "small", or NULL
    const char *arch;
    int         layers, width, heads, vocab, context, batch, steps;
    bool        recompute;
    bool        muon;               // and AdamW for the rest
    bool        openblas;           // makes the products
    bool        bf16;               // is what they multiply
};

/* Seconds of the best step, by part; REST is the optimiser and data together. */
struct parts {
    double seconds[METER_PARTS], optimiser, data;
};

struct result {
    double own_gflops, openblas_gflops, read_gbs;
    double params, peak_rss_mib;
    double activations, recomputed; // bytes of a step's, without and with recompute
    double tok_s, tok_s_median, mfu;
    double step_ms, products_ms;    // the best step; its products alone
    struct parts parts;
    double prefill_tok_s, prefill_mfu;
    double decode_tok_s, decode_share, decode_together_tok_s;
    double state_bytes;
};

/* A model in training, with its moments and a batch of random tokens. */
struct rig {
    struct model model;
    struct pass  pass;
    real        *m, *v;
    struct muon  muon;              // zero: AdamW for all
    int32_t     *tokens;            // (B T + 1)
    size_t       bytes;             // of m, of v
    long         n_tokens, step;
};

enum fail shape_config(struct config *c, const struct shape *s, struct why *why);
enum fail rig_open(struct rig *r, const struct shape *s, struct why *why);
void rig_close(struct rig *r);

/* One step; seconds, and of each part unless p is NULL. */
double rig_step(struct rig *r, struct parts *p);

/* gflops as a share of the product's rate; what is faster than it is the rate. */
double bench_share(struct result *r, double gflops);

/* Training: everything of a result up to parts. */
enum fail bench_training(struct rig *r, const struct shape *s, struct result *out,
                         struct why *why);

/* Prefill and decoding, by the weights of r. */
enum fail bench_decoding(struct rig *r, struct result *out, struct why *why);

/* Tokens a second: of a prompt, of one sequence, of BENCH_TOGETHER in all. */
struct decoding {
    double prefill, one, together;
};

/* The sequences that are timed. On failure, too, readers_close. */
struct readers {
    struct session one, together;
};
enum fail readers_open(struct readers *r, const struct model *m, struct why *why);
void readers_close(struct readers *r);
struct decoding bench_decode(struct readers *r, const int32_t tokens[BENCH_PREFILL]);

/* Bytes of weights that a token reads, as model_pack has left them: all but the rows of
 * an embedding that is not the head. */
double weights_read(const struct model *m);

/* Prefill and decoding with weights of every type, in turns. */
enum fail bench_weights(const struct shape *s, bool json, struct why *why);

/* GB/s of reading 512 MiB with all threads. */
double read_bandwidth(void);

/* The process's largest memory since reset. */
void   peak_reset(void);
double peak_mib(void);

/* Cost against length: a training step at fixed tokens, decoding at several positions. */
enum fail bench_slopes(const char *arch, struct why *why);

/* A step shared by the ranks of mpirun, and what more of them would make of it. All ranks
 * together. FAIL_USAGE: there is one. */
enum fail bench_ranks(const struct shape *s, struct why *why);

/* What changed from one file of --json lines to another, beyond their noise. */
enum fail bench_changes(const char *before, const char *after, struct why *why);

#endif
