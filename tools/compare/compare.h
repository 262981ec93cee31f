/* weft compare: which architecture wins on a text at equal compute.
 *
 *     OUT/compare.json            what is compared; another comparison is refused here
 *     OUT/data/                   the text, tokenized once
 *     OUT/ARCH/seed-K/            a run as weft train makes them, and result.json
 *     OUT/ARCH/lr-X/              the sweep's, on a quarter of the budget
 *     OUT/ARCH/speed.json         where runs were side by side, its speeds alone
 *     OUT/results.csv, results.jsonl, report.md, report.html, report.svg
 *
 * A run with result.json is finished; any other goes on from its newest checkpoint.
 */
#ifndef WEFT_COMPARE_H
#define WEFT_COMPARE_H

#include "data/base/live.h"
#include "infer/score.h"
#include "tools/compare/stats.h"
#include "train/presets.h"
#include "train/setup.h"

enum { MOST_ARCHS = 32, MOST_SEEDS = 64, SWEEP = 11, CURVE = 10, LOSSES = 48 };
enum { CURVE_TOKENS = 1 << 13, FINAL_TOKENS = 1 << 18, STORIES = 32, SAMPLE = 1200,
       DECODES = 3, PACES = 3 };

enum match { MATCH_PARAMS, MATCH_FLOPS, MATCH_NONE };

/* Validation while training, at CURVE points, and the training loss in LOSSES bins. */
struct curve {
    int    n, losses;
    double tokens[2 * CURVE], flops[2 * CURVE], seconds[2 * CURVE], bpb[2 * CURVE];
    double loss_tokens[LOSSES], loss[LOSSES];       // nats a token
};

/* One architecture with one seed (or one learning rate of the sweep). */
struct trial {
    int      arch;                      // index
    uint64_t seed;
    double   lr, share;                 // share of the budget: 1, or 1/4 in the sweep
    char     dir[1024];
    bool     done;
    bool     shared;                    // others may have run beside it
    char     failed[256];               // done, but without a result: why
    double   bpb, nats, error;          // of the validation text; error: of bpb
    double   tokens, flops, steps;
    double   seconds;                   // of optimiser steps
    double   wall;                      // of everything, for the time left
    double   decode;                    // tokens/s of one sequence, best of DECODES
    double   decode_low;                // the slowest of them
    double   stories;                   // share of them that hold, NAN: unknown
    double   bucket[SCORE_BUCKETS];     // nats a token by log2 of the position, NAN: none
    char     sample[SAMPLE];            // UTF-8
    char     build[512];                // what computed it, version_line of then
    struct curve curve;
};

/* What an architecture does in a second when nothing runs beside it; 0: not measured. */
struct pace {
    double train, train_low;            // tokens, the best and the slowest of PACES
    double decode, decode_low;          // as a trial's
};

struct arch {
    char          name[512];            // as it was asked for
    char          slug[96];             // its directory
    struct config cfg;                  // matched; lr as chosen
    double        params, flops;        // flops: of training on a token
    double        state;                // bytes of a sequence being written
    char          failed[256];          // why it cannot be trained at all, ""
    struct trial  sweep[SWEEP];         // lr times 1/32, 1/16, ... 32: of these
    int           low, high;            // are run, at first 1/2, 1 and 2
    struct trial  trial[MOST_SEEDS];
    struct pace   pace;                 // for the trials that were shared, see speed.c

    // over the seeds, see gather()
    struct mean   bpb, tokens, steps, seconds, stories;
    struct rate   speed, decode;        // tokens/s of training and of writing
    struct paired against;              // the first architecture
    double        p;                    // of that, corrected for all the tests; NAN
};

struct comparison {
    char           out[900];
    char           command[4096];       // that made it
    char           input[1024];         // as given, for titles
    int            n, seeds;
    uint64_t       seed;                // the first
    enum match     match;
    bool           sweep;
    bool           joined;              // others make it, too: claim every run
    enum budget    budget;
    double         amount;
    struct dataset data;
    struct arch    arch[MOST_ARCHS];

    // the view, see view.c
    int            done, trials;
    bool           quiet;               // of finished runs another process has told
    struct live         live;
    double         unit[MOST_ARCHS];    // seconds of a whole trial, 0: unknown
    double         bits;                                // last validation
    const struct trial *now;
    double         now_began;
    long           now_first, now_steps;
    double         now_seconds;         // that it has; 0: it is counted in steps
};

/* ---- entries.c: from names to models of equal size ---- */

/* Split --arch at commas outside parentheses into c->arch[].name and slug. FAIL_USAGE. */
enum fail entries_split(struct comparison *c, const char *list, struct why *why);

/* Settings of all, before the vocabulary is known. FAIL_USAGE, FAIL_INPUT. */
enum fail entries_settle(struct comparison *c, const struct sources *from,
                         struct why *why);

/* With the vocabulary: match sizes to the first, count. FAIL_USAGE: no size matches.
 * FAIL_INPUT: the text is too small. */
enum fail entries_match(struct comparison *c, struct why *why);

/* FAIL_USAGE when the budget (FLOPs or tokens) buys less than a step of one of them. */
enum fail entries_check_budget(const struct comparison *c, struct why *why);

/* ---- trial.c ---- */

/* Name every trial's directory, seed and learning rate. */
void trials_name(struct comparison *c);

/* The rate of a's sweep with the lowest bits per byte, of equal ones the lowest; NULL:
 * none came to an end. Is it the lowest or the highest that was run? */
const struct trial *sweep_best(const struct arch *a);
bool                sweep_at_edge(const struct arch *a);

/* All rates of the sweep are done: take in the one beyond the edge where the best is
 * (below, when all failed); false: the best is inside, or there is none beyond. Then the
 * trials get the best rate. */
bool sweep_extend(struct arch *a);
void sweep_choose(struct arch *a, int seeds);

/* Run or continue a trial up to its result. 0, also when it failed (t->failed says why);
 * FAIL_INTERRUPTED; FAIL_WRITE; FAIL_USAGE: the time is too short for a step. */
enum fail trial_run(struct comparison *c, struct trial *t, struct why *why);

/* ---- join.c ---- */

/* Run all trials; where it is joined, beside other processes that do the same in c->out,
 * and those that they run are waited for. As trial_run. */
enum fail join_run(struct comparison *c, struct why *why);

/* ---- judge.c: what a trained model is worth ---- */

enum fail judge(struct setup *s, struct trial *t, struct why *why);

/* Write t's sample, DECODES times: decode and decode_low. */
enum fail judge_decode(const struct setup *s, struct trial *t, struct why *why);

/* ---- speed.c: what runs that were side by side could not tell ---- */

/* All trials are done: every architecture with a shared one gets its pace, from
 * speed.json or measured now and written there. One process measures, one architecture
 * after the other, while those that joined it wait. Where a run cannot be opened any more
 * a line says so, and there is no pace. FAIL_INTERRUPTED, FAIL_WRITE. */
enum fail speed_measure(struct comparison *c, struct why *why);

/* The shared trials as if they had run alone: their rates and times are the pace's, or
 * NAN. Not the seconds of a budget of time, which they had. */
void speed_apply(struct comparison *c);

/* Tokens a second of t's training, NAN: not known. */
double speed_of(const struct comparison *c, const struct trial *t);

/* ---- result.c ---- */

/* Write t as computed by this program. FAIL_WRITE. */
enum fail result_write(const struct comparison *c, struct trial *t, struct why *why);
bool result_read(struct trial *t);                  // false: there is none
void curve_read(struct trial *t);                   // and seconds, from log.jsonl; where
                                                    // that is gone they stay
json_t *result_json(const struct comparison *c, const struct trial *t);

/* ---- view.c: one line about all runs ---- */

void view_begin(struct comparison *c, const struct trial *t);
void view_phase(struct comparison *c, const char *what);   // beside its steps
void view_step(void *c, const struct log_line *line);
void view_end(struct comparison *c, const struct trial *t);

/* ---- table.c, report.c, html.c ---- */

void gather(struct comparison *c);                      // means and tests
void table_print(const struct comparison *c, FILE *f, int columns); // 0: any number
enum fail table_files(const struct comparison *c, struct why *why); // results.csv, .jsonl
enum fail report_markdown(const struct comparison *c, struct why *why);
enum fail report_html(const struct comparison *c, struct why *why); // and report.svg

/* plots.c: every chart, each in a <figure>. */
void plots_write(const struct comparison *c, FILE *f);
void plots_alone(const struct comparison *c, FILE *f);  // the first, as a file

/* The plain sentences, one after the other, each ended by a line break. */
void report_conclude(const struct comparison *c, FILE *f);
void report_rate(char *buf, size_t cap, struct rate r);   // 12k, ~12k, "" for NAN
void report_speeds(const struct comparison *c, FILE *f);  // how they were measured
void report_p(char *buf, size_t cap, double p);           // 0.034, or "" for NAN
void report_budget(const struct comparison *c, char *buf, size_t cap);  // "2e12 FLOPs"

/* What became of a's sweep at its edges, "" when the best of three was inside. */
void report_sweep(const struct arch *a, char *buf, size_t cap);

/* f, an open_memstream of text, becomes OUT/name. */
enum fail report_save(const struct comparison *c, const char *name, FILE *f, char **text,
                      size_t *len, struct why *why);

#endif
