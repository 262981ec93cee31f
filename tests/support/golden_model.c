/* Golden files of the optimiser and of whole models. */
#include "tests/support/golden.h"
#include "tests/support/rig.h"

#include "model/pass.h"
#include "train/adamw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the optimiser ----------------------------------------------------------------- */

/* A model of nothing but the file's parameters, in its order. */
static void open_params(const struct golden *g, struct model *m)
{
    *m = (struct model){.param = calloc((size_t)g->file.n, sizeof *m->param)};
    for (int i = 0; i < g->file.n; i++) {
        const struct tensor *t = &g->file.tensor[i];
        struct model_param  *p = &m->param[m->n_param];

        if (strncmp(t->name, "param.", 6))
            continue;
        snprintf(p->name, sizeof p->name, "%.60s", t->name + 6);
        p->is = (struct param){.name = p->name, .rows = (int)t->n,
                               .decay = !strcmp(p->name, golden_text(g, "decay"))};
        p->at = m->n;
        m->n += t->n;
        m->n_param++;
    }
    m->w = rig_reals(m->n);
}

static void read_all(const struct golden *g, const struct model *m, const char *kind,
                     real *to)
{
    char name[128];

    for (int i = 0; i < m->n_param; i++) {
        snprintf(name, sizeof name, "%s.%s", kind, m->param[i].name);
        golden_read(g, name, to + m->param[i].at, param_size(&m->param[i].is));
    }
}

static void compare_all(const struct golden *g, const struct model *m, const char *kind,
                        const real *a)
{
    char name[128];

    for (int i = 0; i < m->n_param; i++) {
        snprintf(name, sizeof name, "%s.%s", kind, m->param[i].name);
        golden_compare(g, name, "", a + m->param[i].at, param_size(&m->param[i].is));
    }
}

void golden_check_adamw(const struct golden *g)
{
    struct adamw  o = {golden_number(g, "beta1"), golden_number(g, "beta2"),
                       golden_number(g, "eps"), golden_number(g, "wd"),
                       golden_number(g, "clip"), 1};
    int           steps = (int)golden_number(g, "steps");
    const double *lr = golden_values(g, "lr", steps);
    const double *norm = golden_values(g, "norm", steps);
    struct model  model;
    char          kind[32];

    open_params(g, &model);
    real *d = rig_reals(model.n);
    real *m = calloc(model.n, sizeof *m), *v = calloc(model.n, sizeof *v);

    read_all(g, &model, "param", model.w);
    for (int s = 0; s < steps; s++) {
        snprintf(kind, sizeof kind, "grad.%d", s);
        read_all(g, &model, kind, d);
        double found = adamw_norm(&model, d);

        ck_assert_msg(fabs(found - norm[s]) <= rig_tolerance() * norm[s],
                      "%s: norm.%d is %.9g, not %.9g", g->path, s, found, norm[s]);
        adamw_step(&o, &model, d, m, v, found, lr[s], s + 1);
        snprintf(kind, sizeof kind, "out.%d", s);
        compare_all(g, &model, kind, model.w);
    }
    compare_all(g, &model, "m", m);
    compare_all(g, &model, "v", v);
    free(d), free(m), free(v), free(model.w), free(model.param);
}

/* ---- whole models ------------------------------------------------------------------ */

/* The entries of the pattern ("swa,mlstm"), joined by '/'. In each that has a window,
 * `window` replaces it when above 0; the file's own is left in *own. */
static void lm_mixers(const struct golden *g, int window, int *own, char *text,
                      size_t cap)
{
    char pattern[64], prefix[64], key[80], entry[256], *save = NULL;

    *own = 0;
    *text = 0;
    snprintf(pattern, sizeof pattern, "%s", golden_text(g, "pattern"));
    for (char *p = strtok_r(pattern, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        size_t      len = strlen(text);
        const char *w;

        snprintf(prefix, sizeof prefix, "%s.", p);
        snprintf(key, sizeof key, "%swindow", prefix);
        w = safetensors_meta(&g->file, key);
        if (w && atoi(w) > 0)
            *own = atoi(w);
        golden_entry(g, prefix, w && atoi(w) > 0 && window > 0 ? window : -1, entry,
                     sizeof entry);
        snprintf(text + len, cap - len, "%s%s", len ? "/" : "", entry);
    }
}

static void open_lm(const struct golden *g, struct model *m, int window, int *own)
{
    struct config c;
    struct why    why = {""};

    config_defaults(&c);
    lm_mixers(g, window, own, c.mixers, sizeof c.mixers);
    c.layers = (int)golden_number(g, "layers");
    c.width = (int)golden_number(g, "d");
    c.mlp = (int)golden_number(g, "mlp");
    c.tied = (int)golden_number(g, "tied");
    c.vocab = (int)golden_number(g, "vocab");
    c.context = (int)golden_number(g, "T");
    c.heads = c.kv_heads = 1;                   // every entry has its own
    ck_assert_msg(config_resolve(&c, &why) == FAIL_NONE, "%s: %s", g->path, why.line);
    ck_assert_msg(model_open(m, &c, &why) == FAIL_NONE, "%s: %s", g->path, why.line);
    read_all(g, m, "param", m->w);
}

static void compare_loss(const struct golden *g, const char *name, const char *what,
                         double loss)
{
    real got = (real)loss;

    golden_compare(g, name, what, &got, 1);
}

/* Mean of model_score's nats. */
static double scored(const struct golden *g, const struct model *m, struct pass *p,
                     const int32_t *tokens, const int32_t *targets, int draw)
{
    size_t n = golden_rows(g);
    real  *nats = rig_reals(n);
    double sum = 0, count = 0;

    model_score(m, p, p->B, p->T, tokens, targets, draw, nats);
    for (size_t i = 0; i < n; i++) {
        sum += (double)nats[i];
        count += targets[i] >= 0;
    }
    free(nats);
    return sum / count;
}

/* Loss with this window drawn, by training and by scoring; and gradients when wanted. */
static void compare_training(const struct golden *g, const struct model *m, int draw,
                             const char *loss, bool grads)
{
    size_t      n = golden_rows(g);
    int         B = (int)golden_number(g, "B"), T = (int)golden_number(g, "T");
    int32_t    *tokens = golden_ids(g, "tokens", n);
    int32_t    *targets = golden_ids(g, "targets", n);
    struct pass p;
    struct why  why = {""};

    ck_assert_msg(!pass_open(&p, m, B, T, PASS_TRAIN, &why), "%s: %s", g->path, why.line);
    compare_loss(g, loss, " of a step", model_step(m, &p, tokens, targets, draw, 1));
    if (grads)
        compare_all(g, m, "grad", p.dw);
    compare_loss(g, loss, " by scoring", scored(g, m, &p, tokens, targets, draw));
    pass_close(&p);
    free(tokens), free(targets);
}

/* Logits of all tokens, one token at a time. */
static void compare_logits(const struct golden *g, const struct model *m,
                           const char *name)
{
    int      B = (int)golden_number(g, "B"), T = (int)golden_number(g, "T");
    int      V = m->cfg.vocab;
    int32_t *tokens = golden_ids(g, "tokens", (size_t)B * T);
    real    *logits = rig_reals((size_t)B * T * V);
    void    *state = aligned_alloc(64, (model_state_bytes(m) + 63) / 64 * 64);
    struct pass p;
    struct why  why = {""};

    ck_assert_msg(!pass_open(&p, m, 1, 1, PASS_EXTEND, &why), "%s", why.line);
    for (int b = 0; b < B; b++) {
        memset(state, 0, model_state_bytes(m));
        for (long t = 0; t < T; t++)
            model_extend(m, &p, &state, &t, 1, 1, tokens + b * T + t,
                         logits + ((size_t)b * T + t) * V);
    }
    golden_compare(g, name, ", one token at a time", logits, (size_t)B * T * V);
    pass_close(&p);
    free(tokens), free(logits), free(state);
}

/* A file with window_alt has two sets of results. Built with that window, a draw of the
 * file's own window gives the first, and no draw the second. */
void golden_check_lm(const struct golden *g)
{
    const char  *alt = safetensors_meta(&g->file, "window_alt");
    struct model m;
    int          own;

    golden_assert_constant(g, "eps", 1e-5);
    open_lm(g, &m, 0, &own);
    compare_training(g, &m, 0, "loss", true);
    compare_logits(g, &m, "logits");
    model_close(&m);
    if (!alt)
        return;
    open_lm(g, &m, atoi(alt), &own);
    compare_training(g, &m, own, "loss", true);
    compare_training(g, &m, 0, "loss_alt", false);
    compare_logits(g, &m, "logits_alt");
    model_close(&m);
}
