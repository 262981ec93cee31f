#include "tools/bench/bench.h"

#include "data/base/cli.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/live.h"
#include "data/base/version.h"
#include "model/kernels/product.h"
#include "tools/verbs.h"
#include "train/ranks.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "weft bench small\n"
    "weft bench [tiny|small|base|long] [--arch 'softmax(window=64)'] [--layers L …]\n"
    "\n"
    "Training, prefill and decoding on random tokens, where the time goes, and this\n"
    "machine's rate of products and of reading; the step's products alone are its\n"
    "ceiling, mfu is useful FLOPs over weft's own rate. No shape: each mixer.\n"
    "weft bench small --weights only decodes, with f32, bf16 and q8_0 in turns;\n"
    "mpirun -np 2 weft bench small --ranks measures what ranks exchange.\n";

static const struct shape known[] = {
    {"tiny", "softmax", 4, 128, 4, 512, 256, 16, 5},
    {"small", "softmax", 6, 384, 6, 4096, 256, 16, 5},
    {"base", "softmax", 12, 768, 12, 8192, 1024, 4, 5},
    {"long", "softmax", 6, 384, 6, 4096, 4096, 1, 5},
};

enum { KNOWN = sizeof known / sizeof *known };

/* ---- one shape ---- */

/* The rates of products, the best of runs in turns; OpenBLAS's is 0 where it is not. */
static struct result machine_rates(struct live *l)
{
    enum { TURNS = 5, TRIES = 3 };
    struct result      r = {0};
    const struct gemm *openblas;
    struct why         unread;
    bool               there = !gemm_openblas(&openblas, &unread);

    live_show(l, "products");
    for (int i = 0; i < TURNS; i++) {
        r.own_gflops = fmax(r.own_gflops, product_gflops(gemm_yardstick(), TRIES));
        if (there)
            r.openblas_gflops = fmax(r.openblas_gflops, product_gflops(openblas, TRIES));
    }
    return r;
}

/* On a terminal, what is being measured; its figures replace it. */
static enum fail bench_shape(const struct shape *s, struct live *l, struct result *out,
                             struct why *why)
{
    struct rig r;
    enum fail  err;

    live_show(l, "training %s", s->arch);
    err = bench_training(&r, s, out, why);
    if (!err) {
        live_show(l, "decoding %s", s->arch);
        if (!out->read_gbs)
            out->read_gbs = read_bandwidth();
        err = bench_decoding(&r, out, why);
    }
    live_clear(l);
    rig_close(&r);
    return err;
}

static void print_shape(const struct shape *s)
{
    printf("%s%s%s, %d layer%s, width %d, %d head%s, vocabulary %d, context %d, "
           "batch %d, %d thread%s%s%s\n", s->name ? s->name : "", s->name ? ": " : "",
           s->arch, s->layers, s->layers > 1 ? "s" : "", s->width, s->heads,
           s->heads > 1 ? "s" : "", s->vocab, s->context, s->batch,
           omp_get_max_threads(), omp_get_max_threads() > 1 ? "s" : "",
           s->recompute ? ", recompute" : "",
           s->openblas ? ", by OpenBLAS" : s->bf16 ? ", bf16" : "");
}

/* "76 GFLOP/s in products (OpenBLAS 71)"; the result is buf. */
static char *rates(char *buf, size_t cap, const struct result *r)
{
    int n = snprintf(buf, cap, "%.0f GFLOP/s in products", r->own_gflops);

    if (r->openblas_gflops > 0)
        snprintf(buf + n, cap - n, " (OpenBLAS %.0f)", r->openblas_gflops);
    return buf;
}

static void print_part(const char *name, double seconds, double step_ms)
{
    printf("    %-24s %8.1f ms  %4.1f %%\n", name, seconds * 1e3,
           seconds * 1e5 / step_ms);
}

static void print_parts(const struct shape *shape, const struct result *r)
{
    const double *s = r->parts.seconds;

    print_part("projections", s[METER_PROJECTIONS], r->step_ms);
    print_part("core of the mixer", s[METER_MIXER], r->step_ms);
    print_part("mlp", s[METER_MLP], r->step_ms);
    print_part("norms, sums, embedding", s[METER_NORMS], r->step_ms);
    print_part("loss", s[METER_LOSS], r->step_ms);
    print_part(shape->muon ? "optimiser (Muon)" : "optimiser", r->parts.optimiser,
               r->step_ms);
    print_part("data", r->parts.data, r->step_ms);
}

static void print_report(const struct shape *s, const struct result *r)
{
    char memory[16], state[16], params[16], acts[16], less[16], said[80];

    format_bytes(memory, sizeof memory, r->peak_rss_mib * (1 << 20));
    format_bytes(acts, sizeof acts, r->activations);
    format_bytes(less, sizeof less, r->recomputed);
    format_bytes(state, sizeof state, r->state_bytes);
    format_count(params, sizeof params, r->params);
    print_shape(s);
    printf("  machine   %s, reads %.1f GB/s\n", rates(said, sizeof said, r), r->read_gbs);
    printf("  training  %.0f tok/s (median %.0f), mfu %.2f, %s, %s parameters\n",
           r->tok_s, r->tok_s_median, r->mfu, memory, params);
    printf("  memory    activations %s, %s with recompute\n", acts, less);
    printf("  ceiling   %.0f tok/s by its products alone: %.2f of that reached\n",
           r->tok_s * r->step_ms / r->products_ms, r->products_ms / r->step_ms);
    printf("  step      %.1f ms, products alone %.1f ms\n", r->step_ms, r->products_ms);
    print_parts(s, r);
    printf("  prefill   %.0f tok/s over %d tokens, %.2f of the product rate\n",
           r->prefill_tok_s, BENCH_PREFILL, r->prefill_mfu);
    printf("  decoding  %.0f tok/s, %.2f of the read bandwidth; "
           "%d at once %.0f tok/s, %.1f x\n", r->decode_tok_s, r->decode_share,
           BENCH_TOGETHER, r->decode_together_tok_s,
           r->decode_together_tok_s / r->decode_tok_s);
    printf("  state     %s a sequence\n\n", state);
    fflush(stdout);
}

static void print_json(const struct shape *s, const struct result *r)
{
    const double *t = r->parts.seconds;
    const struct {
        const char *name;
        double      value;
    } measured[] = {
        {"tok_s", r->tok_s},
        {"tok_s_median", r->tok_s_median},
        {"step_ms", r->step_ms},
        {"products_ms", r->products_ms},
        {"mfu", r->mfu},
        {"sgemm_gflops", r->own_gflops},
        {"openblas_gflops", r->openblas_gflops},
        {"read_gbs", r->read_gbs},
        {"peak_rss_mib", r->peak_rss_mib},
        {"activations", r->activations},
        {"recomputed", r->recomputed},
        {"projections_ms", t[METER_PROJECTIONS] * 1e3},
        {"core_ms", t[METER_MIXER] * 1e3},
        {"mlp_ms", t[METER_MLP] * 1e3},
        {"norms_ms", t[METER_NORMS] * 1e3},
        {"loss_ms", t[METER_LOSS] * 1e3},
        {"optimiser_ms", r->parts.optimiser * 1e3},
        {"data_ms", r->parts.data * 1e3},
        {"prefill_tok_s", r->prefill_tok_s},
        {"prefill_mfu", r->prefill_mfu},
        {"decode_tok_s", r->decode_tok_s},
        {"decode_share", r->decode_share},
        {"decode_together_tok_s", r->decode_together_tok_s},
    };
    json_t *j = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "arch",
                          s->arch, "layers", s->layers, "width", s->width, "heads",
                          s->heads, "vocab", s->vocab, "context", s->context, "batch",
                          s->batch, "threads", omp_get_max_threads(), "params",
                          (json_int_t)r->params);

    if (s->muon)
        json_object_set_new(j, "muon", json_true());
    if (s->recompute)
        json_object_set_new(j, "recompute", json_true());
    if (s->openblas)
        json_object_set_new(j, "openblas", json_true());
    if (s->bf16)
        json_object_set_new(j, "bf16", json_true());
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
        json_object_set_new(j, measured[i].name, json_from_double(measured[i].value));
    json_object_set_new(j, "state_bytes", json_integer((json_int_t)r->state_bytes));
    json_object_set_new(j, "build", json_string(version_line));
    json_line(stdout, j, JSON_REAL_PRECISION(6));
    fflush(stdout);
}

/* ---- every mixer ---- */

static void print_head(const struct shape *s, const struct result *r)
{
    struct shape any = *s;
    char         said[80];

    any.arch = "every mixer";
    print_shape(&any);
    printf("%s, reading %.1f GB/s\n\n"
           "%-10s %7s %8s %5s %7s %9s %9s %8s %9s %9s\n", rates(said, sizeof said, r),
           r->read_gbs, "arch", "params", "train/s", "mfu", "ceiling", "memory",
           "prefill/s", "decode/s", "8 at once", "state");
}

static void print_row(const struct shape *s, const struct result *r)
{
    char params[16], memory[16], state[16];

    format_count(params, sizeof params, r->params);
    format_bytes(memory, sizeof memory, r->peak_rss_mib * (1 << 20));
    format_bytes(state, sizeof state, r->state_bytes);
    printf("%-10s %7s %8.0f %5.2f %7.2f %9s %9.0f %8.0f %9.0f %9s\n", s->arch, params,
           r->tok_s, r->mfu, r->products_ms / r->step_ms, memory, r->prefill_tok_s,
           r->decode_tok_s, r->decode_together_tok_s, state);
    fflush(stdout);
}

/* ---- the verb ---- */

static void run_shape(const struct cli *cli, const struct shape *s, bool json)
{
    struct live   l = live_open(0);
    struct result r = machine_rates(&l);
    struct why    why;
    enum fail     err = bench_shape(s, &l, &r, &why);

    if (err)
        cli_fail(cli, err, &why);
    (json ? print_json : print_report)(s, &r);
}

static void run_mixers(const struct cli *cli, struct shape s, bool json)
{
    struct live   l = live_open(0);
    struct result r = machine_rates(&l);
    struct why    why;

    for (int i = 0; i < n_mixers; i++) {
        enum fail err;

        s.arch = mixers[i]->name;
        if ((err = bench_shape(&s, &l, &r, &why)))
            cli_fail(cli, err, &why);
        if (!i && !json)
            print_head(&s, &r);
        (json ? print_json : print_row)(&s, &r);
    }
}

static const struct shape *find_shape(const struct cli *cli, const char *name)
{
    for (int i = 0; i < KNOWN; i++)
        if (!strcmp(known[i].name, name))
            return &known[i];
    cli_die(cli, FAIL_USAGE,
            "'%s' is no shape; tiny, small, base, long, or --layers, --width …", name);
}

/* A shape with what was asked for in place of its own. */
static struct shape changed(struct shape s, const struct shape *asked)
{
    s.arch = asked->arch ? asked->arch : s.arch;
    s.layers = asked->layers ? asked->layers : s.layers;
    s.width = asked->width ? asked->width : s.width;
    s.heads = asked->heads ? asked->heads : s.heads;
    s.vocab = asked->vocab ? asked->vocab : s.vocab;
    s.context = asked->context ? asked->context : s.context;
    s.batch = asked->batch ? asked->batch : s.batch;
    s.steps = asked->steps ? asked->steps : s.steps;
    s.recompute = asked->recompute;
    s.muon = asked->muon;
    s.openblas = asked->openblas;
    s.bf16 = asked->bf16;
    return s;
}

static void run_named(const struct cli *cli, const struct shape *asked, bool json)
{
    for (int i = 0; i < cli->n_args; i++) {
        struct shape s = changed(*find_shape(cli, cli->args[i]), asked);

        run_shape(cli, &s, json);
    }
}

static void run_unnamed(const struct cli *cli, const struct shape *asked, bool json)
{
    struct shape s = changed(known[0], asked);

    s.name = NULL;
    if (asked->arch)
        run_shape(cli, &s, json);
    else
        run_mixers(cli, s, json);
}

/* The shape that is asked for where one is: tiny, if it has no name. */
static struct shape one_shape(const struct cli *cli, const struct shape *asked)
{
    return changed(cli->n_args ? *find_shape(cli, cli->args[0]) : known[0], asked);
}

static enum fail run_weights(const struct cli *cli, const struct shape *asked, bool json,
                             struct why *why)
{
    struct shape s = one_shape(cli, asked);

    if (!json)
        print_shape(&s);
    return bench_weights(&s, json, why);
}

int bench_main(int argc, char **argv)
{
    struct shape s = {0};
    int          threads = 0;
    bool         json = false, slopes = false, changes = false, ranks = false,
                 weights = false;
    struct why   why;
    const struct flag flags[] = {
        {.name = "arch", .value = "A", .about = "a preset, or mixers joined by /",
         .text = &s.arch},
        {.name = "layers", .value = "L", .about = "blocks (4)", .number = &s.layers,
         .min = 1, .max = 1000},
        {.name = "width", .value = "D", .about = "model width (128)", .number = &s.width,
         .min = 1, .max = 65536},
        {.name = "heads", .value = "H", .about = "heads (4)", .number = &s.heads,
         .min = 1, .max = 1024},
        {.name = "vocab", .value = "V", .about = "vocabulary (512)", .number = &s.vocab,
         .min = 2, .max = 1 << 20},
        {.name = "context", .value = "T", .about = "tokens of a sequence (256)",
         .number = &s.context, .min = 1, .max = 1 << 22},
        {.name = "batch", .value = "B", .about = "sequences of a step (16)",
         .number = &s.batch, .min = 1, .max = 65536},
        {.name = "steps", .value = "N", .about = "steps to time; the best counts (5)",
         .number = &s.steps, .min = 1, .max = 64},
        {.name = "recompute", .about = "make activations again in backward",
         .on = &s.recompute},
        {.name = "muon", .about = "for the matrices inside blocks; AdamW for the rest",
         .on = &s.muon},
        {.name = "openblas", .about = "let OpenBLAS make the products",
         .on = &s.openblas},
        {.name = "bf16", .about = "multiply numbers rounded to bf16 (precision=bf16)",
         .on = &s.bf16},
        {.name = "threads", .value = "N", .about = "threads (all cores)",
         .number = &threads, .min = 1, .max = 1024},
        {.name = "slopes", .about = "cost against length, every mixer's or --arch's",
         .on = &slopes},
        {.name = "ranks", .about = "under mpirun: the exchange, and up to 1,024 ranks",
         .on = &ranks},
        {.name = "weights", .about = "decoding only, with f32, bf16 and q8_0 in turns",
         .on = &weights},
        {.name = "changes", .about = "compare two files", .on = &changes},
        {.name = "json", .about = "one object per line", .on = &json},
        {0},
    };
    struct cli cli = {.verb = "bench", .help = help, .flags = flags};
    enum fail  err = FAIL_NONE;
    const struct gemm *by = &gemm_own;

    if ((err = ranks_open(&why)))
        cli_fail(&cli, err, &why);
    cli_parse(&cli, argc, argv);
    if (threads)
        omp_set_num_threads(threads);
    if (changes && cli.n_args != 2)
        cli_die(&cli, FAIL_USAGE, "--changes takes two files of --json lines");
    if (slopes && (cli.n_args || s.layers || s.width || s.heads || s.vocab || s.context ||
                   s.batch || s.steps || s.recompute))
        cli_die(&cli, FAIL_USAGE, "--slopes has a shape of its own; only --arch and "
                                  "--threads go with it");
    if (s.openblas && s.bf16)
        cli_die(&cli, FAIL_USAGE, "--bf16 does not go with --openblas");
    if (s.openblas && (err = gemm_openblas(&by, &why)))
        cli_fail(&cli, err, &why);
    if (s.bf16)
        by = gemm_in_bf16();
    gemm_use(by);
    if (changes)
        err = bench_changes(cli.args[0], cli.args[1], &why);
    else if (slopes)
        err = bench_slopes(s.arch, &why);
    else if (ranks) {
        s = one_shape(&cli, &s);
        err = bench_ranks(&s, &why);
    } else if (weights)
        err = run_weights(&cli, &s, json, &why);
    else if (cli.n_args)
        run_named(&cli, &s, json);
    else
        run_unnamed(&cli, &s, json);
    if (err)
        cli_fail(&cli, err, &why);
    return 0;
}
