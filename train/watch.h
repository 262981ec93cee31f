/* What set-up and training tell whoever started them: a verb that prints, or a comparison
 * that keeps its own table. Every member is optional. */
#ifndef WEFT_WATCH_H
#define WEFT_WATCH_H

#include "train/log.h"

struct setup;

struct watch {
    /* A phase of preparing the data, and how far it is: 0 .. 1. */
    void (*phase)(void *user, const char *phase, double done);

    /* The data and the model are there; what to do with them is settled; training begins,
     * with its clock running. */
    void (*opened)(void *user, const struct setup *s);
    void (*planned)(void *user, const struct setup *s);
    void (*begun)(void *user, const struct setup *s);

    /* A step is done; the validation and the sample of a step. */
    void (*step)(void *user, const struct log_line *line);
    void (*validation)(void *user, long step, double nats, double bits);
    void (*sample)(void *user, long step, const char *text, size_t len);

    /* Anything else that a person should read: one line. */
    void (*note)(void *user, const char *line);

    void *user;
};

#endif
