#include "train/report.h"

#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "model/files/checkpoint.h"
#include "train/presets.h"
#include "train/size.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* So many parameters for a token of text, or passes over it, learn it by heart; nats that
 * make no difference; bytes of validation text that a verdict takes. */
static const double memorised = 50, often = 40, noise = 0.02, telling = 10000;

/* ---- help ---- */

/* about, and what values it takes, from column `from` on in lines of 80. */
static void print_wrapped(const char *text, int from)
{
    for (int column = from; *text;) {
        size_t word = strcspn(text, " ");

        if (column > from && column + 1 + (int)word > 80) {
            printf("\n%*s", from, "");
            column = from;
        }
        column += printf("%s%.*s", column > from ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}

void tell_settings(void)
{
    enum { COLUMN = 32 };
    struct config c;

    config_defaults(&c);
    puts("Settings, as key=value or --key value, or a line of a --config FILE; beside "
         "each\nits default, which a --size or --arch may change.\n");
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c.mixers], text[400];

        config_format(&c, k, value, sizeof value);
        if (printf("%s = %-*s", k->name, COLUMN - 3 - (int)strlen(k->name), value) >
            COLUMN)
            printf("\n%*s", COLUMN, "");
        snprintf(text, sizeof text, k->max > k->min ? "%s; %.12g to %.12g" : "%s",
                 k->about, k->min, k->max);
        print_wrapped(text, COLUMN);
    }
}

/* ---- before ---- */

/* "mix, times in an epoch: a.txt 2, b.jsonl 1", as many as fit. */
static void tell_mix(struct live *l, const struct dataset *d)
{
    char   line[256];
    size_t n = 0;

    for (int i = 0; i < d->n_mix && n + 80 < sizeof line; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s %s %.4g", i ? "," : "",
                              d->mix[i].name, d->mix[i].weight);
    live_say(l, "mix, times in an epoch:%s", line);
}

void tell_overlap(struct live *l, const struct dataset *d)
{
    if (dataset_overlaps(d))
        live_say(l, "validation: %" PRIu64 " of %" PRIu64 " lines stand in training too, "
                 "so its loss flatters", d->val_seen, d->val_lines);
}

void tell_data(struct live *l, const struct setup *s)
{
    const struct dataset *d = &s->data;
    char   bytes[32], tokens[32], line[256];
    size_t n = 0;

    format_bytes(bytes, sizeof bytes, (double)(d->train.bytes + d->val.bytes));
    format_count(tokens, sizeof tokens, (double)(d->train.tokens + d->val.tokens));
    live_say(l, "text: %s, %s tokens of a vocabulary of %d (%s)", bytes, tokens, d->vocab,
             tokenizer_kind(d->tokenizer));
    if (d->n_mix)
        tell_mix(l, d);
    if (*d->val_file)
        live_say(l, "validation: %s", d->val_file);
    tell_overlap(l, d);
    if (d->invalid)
        live_say(l, "text: %llu bytes are not UTF-8; they are kept as they are",
                 (unsigned long long)d->invalid);
    if (d->zstd_bpb > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, " zstd -19 %.3f,", d->zstd_bpb);
    if (d->order2_bpb > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, " order-2 model %.3f,",
                              d->order2_bpb);
    if (d->floor_bpb > 0)
        n += (size_t)snprintf(line + n, sizeof line - n, " no model below %.3f,",
                              d->floor_bpb);
    if (n)
        live_say(l, "to beat, bits/byte:%.*s", (int)n - 1, line);
    if (s->validation.n == 0)
        live_say(l, "there is no text to validate on");
}

/* The largest size that the text can feed, whatever the time; NULL when this model is no
 * larger. */
static const char *smaller_size(const struct setup *s)
{
    const struct dataset *d = &s->data;
    const struct config  *c = &s->run.cfg;
    const char *size = choose_size((double)(d->train.bytes + d->val.bytes), HUGE_VAL, 1);
    struct config fits;
    struct why    unread;

    (void)presets_apply(&fits, &(struct sources){.size = size}, &unread);
    return fits.layers * fits.width < c->layers * c->width ? size : NULL;
}

/* Why this model, or that it is too large for the text. */
static void tell_choice(struct live *l, const struct setup *s)
{
    const struct config *c = &s->run.cfg;
    double params = (double)model_count(&s->trainer.model);
    char   count[32], bytes[32], time[48] = "", arch[64] = "";
    const char *size;

    format_bytes(bytes, sizeof bytes, (double)(s->data.train.bytes + s->data.val.bytes));
    if (s->run.budget == BUDGET_FOR) {
        memcpy(time, " and ", 6);
        format_time(time + 5, sizeof time - 5, s->run.amount);
    }
    if (s->chosen_arch)
        snprintf(arch, sizeof arch, " --arch %s", s->chosen_arch);
    if (s->chosen)
        live_say(l, "settings for %s%s: --size %s%s vocab=%d", bytes, time, s->chosen,
                 arch, c->vocab);
    if (params < memorised * (double)s->data.train.tokens)
        return;
    size = smaller_size(s);
    format_count(count, sizeof count, params);
    live_say(l,
             "%s of text are little for %s parameters, which learn it by heart: "
             "give more%s%s",
             bytes, count, size ? ", or --size " : "", size ? size : "");
}

/* A parameter's name without its block. */
static const char *short_name(const struct model_param *p)
{
    const char *name = p->name;

    return strncmp(name, "blocks.", 7) ? name : strchr(name + 7, '.') + 1;
}

/* The parameters that were taken, or the others: each name once, "mixer.wq (2 of 6)"
 * where only some blocks' were. */
static void list_names(const struct trainer *t, bool taken, char *line, size_t cap)
{
    const struct model_param *p = t->model.param;
    size_t                    len = 0;

    *line = 0;
    for (int i = 0; i < t->model.n_param && len < cap; i++) {
        int before = 0, all = 0, some = 0;

        for (int k = 0; k < t->model.n_param; k++)
            if (!strcmp(short_name(p + k), short_name(p + i)))
                before += k < i, all++, some += t->taken[k] == taken;
        if (before || !some)
            continue;
        len += snprintf(line + len, cap - len, " %s", short_name(p + i));
        if (some < all && len < cap)
            len += snprintf(line + len, cap - len, " (%d of %d)", some, all);
    }
}

/* What it began with. */
static void tell_start(struct live *l, const struct setup *s)
{
    const struct trainer *t = &s->trainer;
    double kept = 0;
    int    n = 0;
    char   names[1024], some[32], all[32];

    for (int i = 0; i < t->model.n_param; i++) {
        n += t->taken[i];
        kept += t->taken[i] ? (double)param_size(&t->model.param[i].is) : 0;
    }
    format_count(some, sizeof some, kept);
    format_count(all, sizeof all, (double)t->model.n);
    list_names(t, true, names, sizeof names);
    live_say(l, "from %s: kept %d of %d tensors (%s of %s parameters):%s", s->run.from, n,
             t->model.n_param, some, all, names);
    list_names(t, false, names, sizeof names);
    if (n < t->model.n_param)
        live_say(l, "initialised anew:%s", names);
}

void tell_model(struct live *l, const struct setup *s)
{
    const struct config *c = &s->run.cfg;
    const struct model  *m = &s->trainer.model;
    char count[32], memory[32], flops[32];

    format_count(count, sizeof count, (double)model_count(m));
    format_bytes(memory, sizeof memory, plan_memory(m, c));
    format_count(flops, sizeof flops, 3 * model_flops(m, c->context, 0) / c->context);
    live_say(l, "model: %s, %d layer%s of width %d, context %d: %s parameters", c->mixers,
             c->layers, c->layers == 1 ? "" : "s", c->width, c->context, count);
    live_say(l, "memory %s; %s FLOPs a token; products at %.0f GFLOP/s, %d thread%s",
             memory, flops, s->peak / 1e9, c->threads, c->threads == 1 ? "" : "s");
    if (c->window_p > 0 && trainer_step_flops(&s->trainer, c->window_short) ==
                               trainer_step_flops(&s->trainer, 0))
        live_say(l, "a window of %d is the layers' own here: its draws change nothing; "
                    "raise context",
                 c->window_short);
    if (s->trainer.start && s->trainer.tally.step == 0)
        tell_start(l, s);
    if (s->trainer.tally.step == 0)
        tell_choice(l, s);
}

/* Steps that are left, and seconds; of a clock's run the steps are a guess. */
static long plan_left(const struct setup *s, double *seconds)
{
    const struct config *c = &s->run.cfg;
    long                 step = s->trainer.tally.step;

    *seconds = clock_left(&s->clock);
    if (s->clock.amount > 0)
        return plan_steps(&s->trainer, BUDGET_FOR, fmax(*seconds, 0), &s->cost,
                          s->validation.n);
    *seconds = s->cost.step * (double)(setup_steps(s) - step);
    if (s->trainer.decisions.n == 0)
        *seconds = (double)(c->steps - step) / (double)c->steps *
                   plan_seconds(c, &s->cost);
    return setup_steps(s) - step;
}

void tell_plan(struct live *l, const struct setup *s)
{
    double seconds, tokens = (double)trainer_step_tokens(&s->run.cfg);
    long   left = plan_left(s, &seconds);
    double passes = tokens * (double)left / (double)s->data.train.tokens;
    bool   clock = s->clock.amount > 0;
    char   time[32], each[32];

    format_time(time, sizeof time, seconds);
    format_count(each, sizeof each, tokens);
    if (s->trainer.tally.step > 0)
        live_say(l, "continuing %s at step %ld", s->run.dir, s->trainer.tally.step);
    live_say(l, "%s%ld step%s of %s tokens (%.3g times the text), %s%s",
             clock ? "about " : "", left, left == 1 ? "" : "s", each, passes,
             clock ? "" : "about ", time);
    if (s->extends)
        live_say(l, "over these the learning rate climbs, stays and falls once more");
    if (passes > often)
        live_say(l, "so often read, a text is learned by heart: more text "
                    "or less time is better");
}

/* ---- after ---- */

/* best: that checkpoint is there, and better than the last. */
static void tell_next(const struct setup *s, bool best)
{
    char run[1100], word[1200], more[48];

    snprintf(run, sizeof run, "%s%s", s->run.dir, best ? "@best" : "");
    path_quote(word, sizeof word, run);
    if (s->run.budget == BUDGET_FOR)
        snprintf(more, sizeof more, "--for %.0fs", ceil(s->run.amount));
    else if (s->run.budget == BUDGET_STEPS && s->trainer.decisions.n == 0)
        snprintf(more, sizeof more, "--steps %ld", 2 * s->run.cfg.steps);
    else
        snprintf(more, sizeof more, "--tokens %" PRIu64, s->trainer.tally.tokens);
    say(stderr, "write with it:  %s infer %s -p \"Once upon a time\"\n",
            cli_program(), word);
    path_quote(word, sizeof word, s->run.dir);
    if (!*s->run.replay)
        say(stderr, "train it more:  %s train --resume %s %s\n", cli_program(), word,
                more);
}

void tell_finished(const struct setup *s)
{
    say(stderr, "%s is finished: %ld step%s done\n", s->run.dir,
            s->trainer.tally.step, s->trainer.tally.step == 1 ? "" : "s");
    tell_next(s, false);
}

void tell_verdict(const struct dataset *d, double bits, char *line, size_t cap)
{
    double zstd = d->zstd_bpb, order2 = d->order2_bpb;

    if (bits > 8)
        snprintf(line, cap, "worse than guessing every byte: it came apart; lower lr");
    else if (zstd <= 0 || order2 <= 0)
        snprintf(line, cap, "there is nothing to compare it with");
    else if (bits < fmin(zstd, order2))
        snprintf(line, cap,
                 "good: %.0f %% below zstd -19, it has learned how this text goes",
                 100 * (1 - bits / zstd));
    else if (bits < fmax(zstd, order2))
        snprintf(line, cap, "fair: it beats %s; train longer to beat %s",
                 bits < order2 ? "an order-2 model" : "zstd -19",
                 bits < order2 ? "zstd -19" : "an order-2 model");
    else
        snprintf(line, cap,
                 "poor: it has learned little yet; train longer or give more text");
}

static void tell_validation(const struct dataset *d, double nats, double bits)
{
    char verdict[128];

    say(stderr, "validation %.3f bits/byte (%.4f nats/token, perplexity %.2f)\n",
            bits, nats, exp(nats));
    if (d->zstd_bpb > 0)
        say(stderr, "beside it: zstd -19 %.3f, order-2 model %.3f", d->zstd_bpb,
                d->order2_bpb);
    if (d->floor_bpb > 0)
        say(stderr, ", no model below %.3f", d->floor_bpb);
    if (d->zstd_bpb > 0)
        fputc('\n', stderr);
    tell_verdict(d, bits, verdict, sizeof verdict);
    if ((double)d->val.bytes >= telling)
        say(stderr, "%s\n", verdict);
    else
        say(stderr,
                "the validation text is too small to tell (%llu bytes): give more text\n",
                (unsigned long long)d->val.bytes);
}

/* It was better once, and what became of it then. Is that checkpoint there? */
static bool tell_best(const struct setup *s, const char *then)
{
    const struct tally *y = &s->trainer.tally;
    char best[PATH_MAX], word[PATH_MAX];

    checkpoint_path(best, sizeof best, s->run.dir, y->best_step);
    path_quote(word, sizeof word, best);
    say(stderr, "it was best at step %ld (%.4f nats/token), then %s\n", y->best_step,
            y->best_loss, then);
    if (path_is_dir(best))
        say(stderr, "that is in:     %s\n", word);
    return path_is_dir(best);
}

void tell_result(const struct setup *s, double nats, double bits)
{
    const struct tally *y = &s->trainer.tally;
    char time[32], tokens[32];
    bool best = false;

    format_time(time, sizeof time, y->seconds);
    format_count(tokens, sizeof tokens, (double)y->tokens);
    say(stderr, "%s: %ld step%s, %s tokens in %s", s->run.dir, y->step,
            y->step == 1 ? "" : "s", tokens, time);
    if (y->skipped)
        say(stderr, ", %ld step%s skipped", y->skipped, y->skipped == 1 ? "" : "s");
    fputc('\n', stderr);
    if (isfinite(nats))
        tell_validation(&s->data, nats, bits);
    if (y->best_step && y->best_loss < nats - noise)
        best = tell_best(s, bits > 8                           ? "it came apart"
                            : y->tokens < s->data.train.tokens ? "it got worse"
                                                               : "learned by heart");
    tell_next(s, best);
}

void tell_interrupted(const struct setup *s)
{
    char word[1200];

    path_quote(word, sizeof word, s->run.dir);
    if (s->saved > 0 && setup_steps(s))
        say(stderr, "saved at step %ld of %ld\n", s->saved, setup_steps(s));
    else if (s->saved > 0)
        say(stderr, "saved at step %ld\n", s->saved);
    say(stderr, "continue with:  %s train --resume %s", cli_program(), word);
    for (int i = 0; s->saved <= 0 && i < s->run.n_input; i++)
        if (strcmp(s->run.input[i], "-") != 0)      // which was read to its end
            say(stderr, " %s", path_quote(word, sizeof word, s->run.input[i]));
    if (s->saved <= 0 && *s->run.val)
        say(stderr, " %s", path_quote(word, sizeof word, s->run.val));
    fputc('\n', stderr);
}
