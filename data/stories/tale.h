/* A story while it is written or read; what stories.c and tale.c share. */
#ifndef WEFT_TALE_H
#define WEFT_TALE_H

#include "data/stories/grammar.h"
#include "data/stories/stories.h"

enum mode {
    WRITE,          // draw each choice
    READ,           // find each choice in the text
    TRY,            // does the text fit, up to the horizon?
};

struct tale {
    enum mode           mode;
    const struct node  *program;
    struct world        world;
    struct rng         *rng;            // WRITE
    char               *out;            // WRITE: cap bytes
    const char         *text;           // READ, TRY: cap bytes
    size_t              cap, at, horizon;
    double              p, bits;        // probability so far is p 2^-bits
    size_t             *reach;          // how far any attempt came
    struct story_fault *fault;          // (optional) why the farthest attempt stopped
};

/* Multiply the probability by weight / total. */
void tale_spend(struct tale *t, int weight, int total);

/* An index drawn by these weights, or -1 when all are 0. */
int tale_draw(struct tale *t, const int *weights, int n, int total);

/* Are these the next bytes of the text? */
bool tale_next(const struct tale *t, const char *s, size_t n);

/* Each writes its text, or reads it; false when it does not fit. */
bool tale_text(struct tale *t, const char *s, size_t n);
bool tale_recall(struct tale *t, const struct node *node);
bool tale_learn(struct tale *t, const struct node *node);
bool tale_appoint(struct tale *t, const struct node *node);
bool tale_end(struct tale *t);

void    tale_copy(struct tale *t, const struct node *node);
int8_t *tale_cell(struct tale *t, const struct node *node);

#endif
