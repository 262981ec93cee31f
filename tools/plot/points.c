#include "tools/plot/plot.h"

#include <math.h>
#include <string.h>

const struct quantity plot_axes[] = {
    {"steps", LOG_STEP, "steps", "steps", false, 0},
    {"tokens", LOG_TOKENS, "tokens", "tokens", false, 0},
    {"flops", LOG_FLOPS, "FLOPs", "training FLOPs", false, 0},
    {"seconds", LOG_SECONDS, "seconds", "seconds of training steps", false, 0},
    {.name = NULL},
};

const struct quantity plot_quantities[] = {
    {"val", LOG_VAL_BPB, "Validation", "bits per byte", false, 0},
    {"loss", LOG_LOSS, "Training loss", "nats per token", true, 80},
    {"lr", LOG_LR, "Learning rate", "learning rate", false, 0},
    {"norm", LOG_GRAD_NORM, "Gradient norm, before clipping", "norm", true, 80},
    {"window", LOG_WINDOW, "Attention window drawn", "tokens, 0: none", false, 24},
    {"speed", LOG_TOK_S, "Training speed", "tokens a second", false, 40},
    {.name = NULL},
};

int plot_points(const struct plot_run *r, enum log_column x, enum log_column y, int most,
                double *px, double *py)
{
    const double *cx = r->log.column[x], *cy = r->log.column[y];
    long          there = 0, seen = 0, in = 0;
    int           n = 0;
    double        sx = 0, sy = 0;

    for (long i = 0; i < r->log.n; i++)
        there += isfinite(cx[i]) && isfinite(cy[i]);
    for (long i = 0; i < r->log.n; i++) {
        if (!isfinite(cx[i]) || !isfinite(cy[i]))
            continue;
        sx += cx[i];
        sy += cy[i];
        in++;
        seen++;
        if (there > most && seen * most < there * (n + 1))
            continue;
        px[n] = sx / (double)in;
        py[n++] = sy / (double)in;
        sx = sy = 0;
        in = 0;
    }
    return n;
}

/* The value of a run's k-th yardstick: zstd, the floor. */
static double value(const struct plot_run *r, int k)
{
    return k ? r->floor_bpb : r->zstd_bpb;
}

/* Has no run before i the same? */
static bool first_with(const struct plot *p, int i, int k)
{
    for (int j = 0; j < i; j++)
        if (value(&p->run[j], k) == value(&p->run[i], k))
            return false;
    return value(&p->run[i], k) > 0;
}

bool plot_yardstick(const struct plot *p, int index, double *bits, char *name, size_t cap)
{
    static const char *const names[] = {"zstd -19", "no model below"};

    for (int k = 0; k < 2; k++) {
        int different = 0;

        for (int i = 0; i < p->n; i++)
            different += first_with(p, i, k);
        for (int i = 0; i < p->n; i++)
            if (first_with(p, i, k) && index-- == 0) {
                const char *run = p->run[i].name, *slash = strrchr(run, '/');

                *bits = value(&p->run[i], k);
                snprintf(name, cap, different > 1 ? "%s, %s" : "%s", names[k],
                         slash && slash[1] ? slash + 1 : run);
                return true;
            }
    }
    return false;
}

bool plot_worth(const struct plot *p, const struct quantity *q)
{
    double low = INFINITY, high = -INFINITY;

    for (int i = 0; i < p->n; i++)
        for (long k = 0; k < p->run[i].log.n; k++) {
            double y = p->run[i].log.column[q->column][k];

            if (isfinite(y)) {
                low = fmin(low, y);
                high = fmax(high, y);
            }
        }
    return q->column == LOG_WINDOW ? low < high : low <= high;
}
