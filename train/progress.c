#include "train/progress.h"

#include "data/base/clock.h"
#include "data/base/format.h"
#include "data/corpus_sample.h"
#include "infer/stream.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 512, BAR_MIN = 4, BAR_FAIR = 8, BAR_MAX = 32 };

static const double smoothing = 0.05;

/* ---- the line ---- */

/* Fields in the order shown; the lowest rank goes first when they do not fit. */
struct field {
    int  rank;
    char text[48];
};

enum { STEP, LOSS, VAL, ZSTD, FLOOR, SPEED, PEAK, LEFT, FIELDS };

static double left_seconds(const struct progress *p, double now)
{
    long done = p->step - p->first;

    if (p->span > 0)
        return fmax(p->deadline - now, 0);
    return done > 0 ? (now - p->start) / (double)done * (double)(p->steps - p->step)
                    : NAN;
}

static double done_share(const struct progress *p, double now)
{
    if (p->span > 0)
        return fmin(fmax(1 - left_seconds(p, now) / p->span, 0), 1);
    return (double)p->step / (double)p->steps;
}

static double peak_share(const struct progress *p)
{
    return p->peak > 0 && p->seconds > 0 ? p->flops / p->seconds / p->peak : NAN;
}

#define FIELD(i, ...) snprintf(field[i].text, sizeof field[i].text, __VA_ARGS__)

/* The speed, and the time that is left; tight: a digit less, without the word. */
static void fill_pace(const struct progress *p, double now, bool tight,
                      struct field *field)
{
    double left = left_seconds(p, now), speed = p->tokens / p->seconds;
    char   word[32];

    if (p->seconds > 0) {
        format_count(word, sizeof word, speed);
        if (tight && strlen(word) == 5)     // 1.23k, 12.3k: a digit less
            memmove(word + (word[2] == '.' ? 2 : 3), word + 4, 2);
        FIELD(SPEED, "%s tok/s", word);
    }
    if (isfinite(left)) {
        format_time(word, sizeof word, left);
        FIELD(LEFT, "%s%s", word, tight ? "" : " left");
    }
}

static void fill_fields(const struct progress *p, double now, bool tight,
                       struct field *field)
{
    static const int rank[FIELDS] = {
        [PEAK] = 1, [SPEED] = 2, [FLOOR] = 3, [ZSTD] = 4, [LEFT] = 6, [VAL] = 7,
        [LOSS] = 8, [STEP] = 9,
    };
    double share = peak_share(p);

    for (int i = 0; i < FIELDS; i++)
        field[i] = (struct field){.rank = rank[i]};
    FIELD(STEP, p->steps ? "%ld/%ld" : "%ld", p->step, p->steps);
    if (isfinite(p->loss))
        FIELD(LOSS, "%s %.*f", p->transfer ? "transfer" : "loss", tight ? 2 : 3, p->loss);
    if (isfinite(p->bpb)) {
        FIELD(VAL, "val %.2f", p->bpb);
        if (p->zstd > 0)
            FIELD(ZSTD, "zstd %.2f", p->zstd);
        if (p->floor > 0)
            FIELD(FLOOR, "floor %.2f", p->floor);
    }
    if (isfinite(share))
        FIELD(PEAK, "%.0f%%%s", 100 * share, tight ? "" : " peak");
    fill_pace(p, now, tight, field);
}

static int fields_width(const struct field *field)
{
    int width = 0;

    for (int i = 0; i < FIELDS; i++)
        width += field[i].text[0] ? (int)strlen(field[i].text) + 1 : 0;
    return width;
}

/* Empty parts, lowest rank first, until width is enough. */
static void fit_fields(struct field *field, int width)
{
    for (int rank = 1; rank < 9 && fields_width(field) > width; rank++)
        for (int i = 0; i < FIELDS; i++)
            if (field[i].rank == rank)
                field[i].text[0] = 0;
}

static size_t put_bar(char *buf, int width, double done)
{
    int inside = width - 2, full = (int)(done * inside);

    buf[0] = '[';
    for (int i = 0; i < inside; i++)
        buf[1 + i] = i < full ? '=' : i == full ? '>' : ' ';
    buf[width - 1] = ']';
    return (size_t)width;
}

void progress_format(const struct progress *p, double now, int width, char *buf,
                     size_t cap)
{
    struct field field[FIELDS];
    size_t      n = 0;
    int         bar;

    if (width > (int)cap)
        width = (int)cap;
    fill_fields(p, now, false, field);
    if (fields_width(field) > width - 1 - BAR_FAIR)
        fill_fields(p, now, true, field);
    fit_fields(field, width - 1 - BAR_MIN);
    bar = width - 1 - fields_width(field);
    if (bar >= BAR_MIN)
        n = put_bar(buf, bar < BAR_MAX ? bar : BAR_MAX, done_share(p, now));
    buf[n] = 0;
    for (int i = 0; i < FIELDS; i++)
        if (field[i].text[0] && n < cap)
            n += (size_t)snprintf(buf + n, cap - n, "%s%s", n ? " " : "", field[i].text);
    if (width > 0 && strlen(buf) >= (size_t)width)
        buf[width - 1] = 0;
}

/* ---- events ---- */

static double blend(double old, double x, double share)
{
    return isfinite(old) ? old + share * (x - old) : x;
}

void progress_open(struct progress *p, long steps, long first, const struct dataset *d,
                   double peak)
{
    *p = (struct progress){
        .live = live_open(PROGRESS_PLAIN),
        .steps = steps,
        .first = first,
        .step = first,
        .peak = peak,
        .loss = NAN,
        .bpb = NAN,
        .seconds = NAN,
        .zstd = d->zstd_bpb,
        .floor = d->floor_bpb,
        .start = wall_seconds(),
        .deadline = p->deadline,
        .span = p->span,
    };
}

static void show_plain(struct progress *p, double now)
{
    struct field field[FIELDS];
    char        line[LINE];
    int         n = 0;

    fill_fields(p, now, false, field);
    field[VAL].text[0] = field[ZSTD].text[0] = field[FLOOR].text[0] = 0;
    for (int i = 0; i < FIELDS; i++)
        if (field[i].text[0])
            n += snprintf(line + n, sizeof line - (size_t)n, "%s%s", n ? "  " : "step ",
                          field[i].text);
    live_show(&p->live, "%s", line);
}

void progress_step(void *user, const struct log_line *line)
{
    struct progress   *p = user;
    const struct step *s = line->step;
    double             now = wall_seconds();
    char               text[LINE];

    p->step = line->tally->step;
    // the plain mean at first, until it is as smooth
    double share = fmax(smoothing, 1 / (double)(p->step - p->first));

    if (p->transfer != s->transfer)
        p->loss = NAN;
    p->transfer = s->transfer;
    if (isfinite(s->loss))
        p->loss = blend(p->loss, s->loss, share);
    p->seconds = blend(p->seconds, s->seconds, share);
    p->tokens = line->tok_s * s->seconds;
    p->flops = s->flops;
    if (line->mfu > 0)
        p->peak = s->flops / s->seconds / line->mfu;
    if (!live_due(&p->live))
        return;
    if (p->live.terminal) {
        progress_format(p, now, term_width(), text, sizeof text);
        live_show(&p->live, "%s", text);
    } else {
        show_plain(p, now);
    }
}

void progress_validation(void *user, long step, double nats, double bits)
{
    struct progress *p = user;
    char             beside[80] = "", of[32] = "";
    int              n = 0;

    p->bpb = bits;
    if (p->live.terminal || !isfinite(nats))
        return;
    if (p->zstd > 0)
        n = snprintf(beside, sizeof beside, "; zstd -19 %.3f", p->zstd);
    if (p->floor > 0)
        snprintf(beside + n, sizeof beside - (size_t)n, "; floor %.3f", p->floor);
    if (p->steps)
        snprintf(of, sizeof of, "/%ld", p->steps);
    live_say(&p->live,
             "step %ld%s  validation %.3f bits/byte (%.4f nats/token, "
             "perplexity %.2f%s)",
             step, of, bits, nats, exp(nats), beside);
}

/* Bytes of text, of len, that a line of width columns takes: up to a newline, or to the
 * last space that fits, both included, or within a word that is longer. */
static size_t line_length(const char *text, size_t len, size_t width)
{
    const char *end = memchr(text, '\n', len);
    size_t      n = end ? (size_t)(end - text) + 1 : len, space;

    if (n <= width)
        return n;
    for (space = width; space > 0 && text[space - 1] != ' '; space--)
        ;
    return space ? space : utf8_floor(text, width);
}

/* The sample with every line indented, and broken between words. */
void progress_sample(void *user, long step, const char *text, size_t len)
{
    struct progress *p = user;
    struct stream   *out;
    int              width = term_width() - 8;

    live_title(&p->live, "sample at step %ld:", step);
    out = stream_open(stderr, true, NULL, 0);
    if (!out)
        return;
    while (len) {
        size_t n = line_length(text, len, (size_t)(width > 20 ? width : 20));

        stream_echo(out, "    ", 4);
        stream_echo(out, text, n);
        if (n < len && text[n - 1] != '\n')
            stream_echo(out, "\n", 1);
        text += n;
        len -= n;
    }
    stream_end(out);
    if (!stream_at_line_start(out))
        stream_echo(out, "\n", 1);
    stream_close(out);
}

void progress_phase(void *user, const char *phase, double done)
{
    live_phase(&((struct progress *)user)->live, phase, done);
}

void progress_note(void *user, const char *line)
{
    live_say(&((struct progress *)user)->live, "%s", line);
}
