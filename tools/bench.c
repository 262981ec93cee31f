/* weft bench: how fast this machine trains and decodes, and how fast it could.
 *
 * One shape: random tokens, a real training step (forward, backward, clipping, AdamW), then
 * prefill and decoding. Beside it the yardsticks: the rate of one large matrix product and the
 * bandwidth of reading memory, measured in the same run since machines are noisy.
 */
#include "data/rng.h"
#include "infer/cli.h"
#include "infer/session.h"
#include "model/arena.h"
#include "model/linear.h"
#include "tools/verbs.h"
#include "train/adamw.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char help[] =
    "weft bench --arch softmax --layers 6 --width 384 --heads 6\n"
    "weft bench [--arch A] [shape] [--json]\n"
    "\n"
    "Times training steps, prefill and decoding of one shape on random tokens, beside\n"
    "this machine's matrix product rate and read bandwidth. Without --arch: every\n"
    "mixer in turn. tok/s counts trained tokens; mfu is useful FLOPs (three times\n"
    "forward, causal attention at half, logits included) over the product rate.\n";

struct shape {
    const char *arch;
    int         layers, width, heads, vocab, context, batch, steps;
};

struct result {
    double tok_s, tok_s_median, mfu, sgemm_gflops, read_gbs, peak_rss_mib;
    double decode_tok_s, prefill_tok_s, state_bytes, params, step_ms;
};

/* ---- yardsticks ---- */

/* GB/s of reading 512 MiB with all threads, best of 5. */
static double read_bandwidth(void)
{
    enum { CHUNK = 1 << 16 };
    size_t bytes = (size_t)512 << 20, n = bytes / sizeof(real);
    real  *x = pages_alloc(bytes), sink = 0;
    double best = 0;

    if (!x)
        return 0;
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += 1024)
        x[i] = 1;
    for (int k = 0; k < 5; k++) {
        double start = wall_seconds(), rate;

        #pragma omp parallel for schedule(static)
        for (size_t at = 0; at < n; at += CHUNK) {
            real sum = 0;

            #pragma omp simd reduction(+ : sum)
            for (size_t i = at; i < at + CHUNK; i++)
                sum += x[i];
            #pragma omp atomic
            sink += sum;
        }
        rate = (double)bytes / (wall_seconds() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    pages_free(x, bytes);
    return sink < 0 ? 0 : best;         // the sum is used, so the loop cannot be left out
}

/* The kernel's high-water mark of this process starts again. */
static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");

    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

static double peak_mib(void)
{
    char   line[128];
    double kib = 0;
    FILE  *f = fopen("/proc/self/status", "r");

    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    fclose(f);
    return kib / 1024;
}

/* ---- training ---- */

struct rig {
    struct model  model;
    struct pass   pass;
    real         *m, *v;
    int32_t      *tokens;           // (B, T + 1)
    size_t        bytes;
};

static int rig_open(struct rig *r, const struct shape *s, struct why *why)
{
    struct config c;
    struct rng    draw = rng_open(1, RNG_TEST, 0);
    long          n = (long)s->batch * s->context + 1;
    int           code;

    *r = (struct rig){0};
    config_defaults(&c);
    c.layers = s->layers, c.width = s->width, c.heads = s->heads;
    c.context = s->context, c.batch = s->batch, c.vocab = s->vocab;
    c.mlp = c.kv_heads = 0, c.tied = 1;
    if ((code = config_set(&c, "mixers", s->arch, why)) || (code = config_resolve(&c, why)) ||
        (code = model_open(&r->model, &c, why)) ||
        (code = pass_open(&r->pass, &r->model, s->batch, s->context, true, why)))
        return code;
    model_init(&r->model, 1);
    r->bytes = r->model.n * sizeof(real);
    r->m = pages_alloc(r->bytes);
    r->v = pages_alloc(r->bytes);
    r->tokens = malloc(n * sizeof *r->tokens);
    if (!r->m || !r->v || !r->tokens)
        return fail(why, FAIL_INPUT, "not enough memory for this shape");
    for (long i = 0; i < n; i++)
        r->tokens[i] = (int32_t)rng_below(&draw, s->vocab);
    return FAIL_NONE;
}

static void rig_close(struct rig *r)
{
    pages_free(r->m, r->bytes);
    pages_free(r->v, r->bytes);
    free(r->tokens);
    pass_close(&r->pass);
    model_close(&r->model);
}

static double step_seconds(struct rig *r, long step)
{
    const struct adamw o = {0.9, 0.95, 1e-8, 0.1, 1};
    double start = wall_seconds(), norm;

    model_step(&r->model, &r->pass, r->tokens, r->tokens + 1, 0, 1);
    norm = adamw_norm(&r->model, r->pass.dw);
    adamw_step(&o, &r->model, r->pass.dw, r->m, r->v, norm, 1e-4, step);
    return wall_seconds() - start;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void time_training(struct rig *r, const struct shape *s, struct result *out)
{
    enum { MOST = 64, WARM_UP = 2 };
    double seconds[MOST], start = wall_seconds(), tokens = (double)s->batch * s->context;
    int    n = 0;

    for (int i = 0; i < WARM_UP; i++)
        step_seconds(r, i + 1);
    while (n < MOST && n < s->steps && (n < 3 || wall_seconds() - start < 20)) {
        seconds[n] = step_seconds(r, WARM_UP + n + 1);
        n++;
    }
    qsort(seconds, n, sizeof *seconds, ascending);
    out->tok_s = tokens / seconds[0];
    out->tok_s_median = tokens / seconds[n / 2];
    out->step_ms = seconds[0] * 1e3;
    out->mfu = 3 * model_flops(&r->model, s->context, 0) * s->batch / seconds[0] / 1e9 /
               out->sgemm_gflops;
    out->peak_rss_mib = peak_mib();
    out->params = (double)model_count(&r->model);
}

/* ---- decoding ---- */

static int time_decoding(struct rig *r, const struct shape *s, struct result *out, struct why *why)
{
    struct session d;
    int            n = s->context < 512 ? s->context : 512, code;
    double         start, best = 1e9;

    if ((code = session_open(&d, &r->model, 1, why)))
        return code;
    for (int k = 0; k < 4; k++) {
        session_reset(&d);
        start = wall_seconds();
        session_prompt(&d, r->tokens, n);
        if (k && wall_seconds() - start < best)
            best = wall_seconds() - start;
    }
    out->prefill_tok_s = n / best;
    out->decode_tok_s = 0;
    for (int block = 0; block < 5; block++) {
        enum { AT_ONCE = 32 };

        start = wall_seconds();
        for (int i = 0; i < AT_ONCE; i++)
            session_extend(&d, r->tokens + i);
        best = AT_ONCE / (wall_seconds() - start);
        out->decode_tok_s = best > out->decode_tok_s ? best : out->decode_tok_s;
    }
    out->state_bytes = (double)model_state_bytes(&r->model);
    session_close(&d);
    return FAIL_NONE;
}

/* ---- the verb ---- */

static int bench_shape(const struct shape *s, struct result *out, struct why *why)
{
    struct rig r;
    int        code;

    reset_peak();
    code = rig_open(&r, s, why);
    if (!code) {
        time_training(&r, s, out);
        code = time_decoding(&r, s, out, why);
    }
    rig_close(&r);
    return code;
}

static void print_json(const struct shape *s, const struct result *r)
{
    printf("{\"arch\": \"%s\", \"layers\": %d, \"width\": %d, \"heads\": %d, \"vocab\": %d, "
           "\"context\": %d, \"batch\": %d, \"threads\": %d, \"params\": %.0f, ",
           s->arch, s->layers, s->width, s->heads, s->vocab, s->context, s->batch,
           omp_get_max_threads(), r->params);
    printf("\"tok_s\": %.1f, \"tok_s_median\": %.1f, \"step_ms\": %.2f, \"mfu\": %.4f, "
           "\"sgemm_gflops\": %.1f, \"read_gbs\": %.2f, \"peak_rss_mib\": %.1f, "
           "\"decode_tok_s\": %.1f, \"prefill_tok_s\": %.1f, \"state_bytes\": %.0f}\n",
           r->tok_s, r->tok_s_median, r->step_ms, r->mfu, r->sgemm_gflops, r->read_gbs,
           r->peak_rss_mib, r->decode_tok_s, r->prefill_tok_s, r->state_bytes);
    fflush(stdout);
}

static void print_row(const struct shape *s, const struct result *r)
{
    char params[16], memory[16], state[16];

    format_count(params, sizeof params, r->params);
    format_bytes(memory, sizeof memory, r->peak_rss_mib * (1 << 20));
    format_bytes(state, sizeof state, r->state_bytes);
    printf("%-20s %8s %10.0f %6.2f %10s %11.0f %10.0f %10s\n", s->arch, params, r->tok_s, r->mfu,
           memory, r->prefill_tok_s, r->decode_tok_s, state);
    fflush(stdout);
}

static void print_head(const struct shape *s, const struct result *r)
{
    printf("%d layers, width %d, %d heads, vocabulary %d, context %d, batch %d, %d threads\n"
           "products %.0f GFLOP/s, reading %.1f GB/s\n\n"
           "%-20s %8s %10s %6s %10s %11s %10s %10s\n", s->layers, s->width, s->heads, s->vocab,
           s->context, s->batch, omp_get_max_threads(), r->sgemm_gflops, r->read_gbs, "arch",
           "params", "train/s", "mfu", "memory", "prefill/s", "decode/s", "state");
}

int bench_main(int argc, char **argv)
{
    struct shape  s = {NULL, 4, 128, 4, 512, 256, 16, 5};
    int           threads = 0;
    bool          json = false;
    struct result r = {0};
    struct why    why;
    const struct flag flags[] = {
        {.name = "arch", .value = "A", .about = "a mixer, or several joined by /", .text = &s.arch},
        {.name = "layers", .value = "L", .about = "blocks (4)", .number = &s.layers, .min = 1, .max = 1000},
        {.name = "width", .value = "D", .about = "model width (128)", .number = &s.width, .min = 1, .max = 65536},
        {.name = "heads", .value = "H", .about = "heads (4)", .number = &s.heads, .min = 1, .max = 1024},
        {.name = "vocab", .value = "V", .about = "vocabulary (512)", .number = &s.vocab, .min = 2, .max = 1 << 20},
        {.name = "context", .value = "T", .about = "tokens of a sequence (256)", .number = &s.context, .min = 1, .max = 1 << 22},
        {.name = "batch", .value = "B", .about = "sequences of a step (16)", .number = &s.batch, .min = 1, .max = 65536},
        {.name = "steps", .value = "N", .about = "steps to time; the best counts (5)", .number = &s.steps, .min = 1, .max = 64},
        {.name = "threads", .value = "N", .about = "threads (all cores)", .number = &threads, .min = 1, .max = 1024},
        {.name = "json", .about = "one object per line", .on = &json},
        {0},
    };
    struct cli cli = {.verb = "bench", .help = help, .flags = flags};
    const char *all = s.arch;
    int         code = 0;

    cli_parse(&cli, argc, argv);
    if (cli.n_args)
        cli_die(&cli, FAIL_USAGE, "'%s': bench takes no input; see weft bench --help", cli.args[0]);
    if (threads)
        omp_set_num_threads(threads);
    all = s.arch;
    r.sgemm_gflops = linear_peak_gflops(10);
    if (!json) {
        r.read_gbs = read_bandwidth();
        print_head(&s, &r);
    }
    for (int i = 0; all ? i < 1 : i < n_mixers; i++) {
        s.arch = all ? all : mixers[i]->name;
        if ((code = bench_shape(&s, &r, &why)))
            cli_fail(&cli, code, &why);
        if (json) {
            r.read_gbs = read_bandwidth();
            print_json(&s, &r);
        } else
            print_row(&s, &r);
    }
    return 0;
}
