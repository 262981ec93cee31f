/* What JSON asks of a text: fields that are checked one by one. A value that makes no
 * sense is refused with its field's name; null is as good as nothing. */
#ifndef WEFT_ASKED_H
#define WEFT_ASKED_H

#include "data/base/json.h"
#include "infer/sampler.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    ASKED_DEPTH = 32,           // arrays and objects in one another
    ASKED_STOPS = 16,
};

/* Why something is refused: what an error answer says. */
struct refusal {
    int         status;         // of HTTP; 0: it is not refused
    const char *param;          // the field, NULL: none
    const char *code;
    char        message[256];
};

bool refuse(struct refusal *why, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));      // false

/* The object that the text is: no key twice, not too deep. NULL, and why. */
json_t *asked_json(const char *text, size_t len, struct refusal *why);

/* Fields. What is not there leaves its place as it is, a string NULL. False, and why. */
bool asked_string(const json_t *body, const char *key, const char **text, size_t *len,
                  struct refusal *why);
bool asked_real(const json_t *body, const char *key, double min, double max, double *x,
                struct refusal *why);
bool asked_whole(const json_t *body, const char *key, long min, long max, long *x,
                 struct refusal *why);
bool asked_switch(const json_t *body, const char *key, bool *on, struct refusal *why);

/* How a text is sampled and where it stops. */
struct asked {
    struct sampler_options sampler;     // set to the defaults before; its bias is owned
    const char            *stop[ASKED_STOPS];       // in the JSON
    int                    n_stop;
    struct logit_bias     *bias;
};

/* temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, presence_penalty,
 * frequency_penalty, logit_bias {"ID": -100 (never) .. 100}, seed (else chance); stop: a
 * string or several. False, and why. */
bool asked_sampler(struct asked *a, const json_t *body, int vocab, struct refusal *why);
bool asked_stops(struct asked *a, const json_t *body, struct refusal *why);
void asked_close(struct asked *a);

#endif
