/* A server of a run's model over HTTP, in threads of its own: see docs/serve.md.
 *
 *     http.c       libmicrohttpd: connections, their limits, who may ask
 *     routes.c     what each address answers
 *     ask.c        a request's JSON, checked        answer.c   what becomes of it
 *     served.c     which models; follows `latest`   engine.c   one of them, loaded
 *     scheduler.c  the one thread that computes     job.c      one text
 *     events.c     a run's log as it grows          none/      of make SERVE=0
 *
 * It catches no signal and prints nothing.
 */
#ifndef WEFT_SERVE_H
#define WEFT_SERVE_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct serve_options {
    const char *path;           // a run, a checkpoint, a comparison
    const char *host;           // 127.0.0.1
    int         port;           // 8080; 0: any free one
    bool        fixed;          // just this port, not the next free one
    const char *key_file;       // whose first line every request must bring; NULL: none
    bool        insecure;       // beyond this machine without one
    int         slots;          // 16: texts at once, of each model
    int         threads;        // 0: as many as who starts it has of OpenMP
    int         most_waiting;   // 256 texts, then 503; more of one request, if alone
    size_t      cache;          // 256 MiB of prompts, of each model
    const char *chat_template;  // "{content}\n" for each message
    double      beat;           // seconds without news after which a stream says that
                                // it lives
    bool        training;       // the run is about to be trained: no checkpoint is fine
};

struct server;

void serve_defaults(struct serve_options *o);

/* Listen and begin to load; what nobody trains is loaded before it returns. The options'
 * strings must outlive the server. FAIL_USAGE: the address; FAIL_INPUT: the path, what is
 * there, the key; FAIL_WRITE: the port; FAIL_MEMORY. */
enum fail serve_start(struct server **s, const struct serve_options *o, struct why *why);

/* Where it listens, "http://127.0.0.1:8080/". */
const char *serve_url(const struct server *s);
int         serve_port(const struct server *s);

/* A checkpoint that came later cannot be loaded: why, each time once. */
bool serve_refused(struct server *s, struct why *why);

/* Take no more requests, finish those that are under way (at most `seconds`; those that
 * follow a log end at once), and close. NULL is fine. */
void serve_stop(struct server *s, double seconds);

int serve_main(int argc, char **argv);      // weft serve, in serve_verb.c

#endif
