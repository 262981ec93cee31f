/* One request over HTTP: what routes.c has of it, and how it is answered. */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include "data/base/json.h"
#include "infer/serve/ask.h"
#include "infer/serve/scheduler.h"
#include "infer/serve/serve.h"
#include "infer/serve/served.h"

#include <microhttpd.h>

struct server {
    struct serve_options o;
    struct MHD_Daemon   *daemon;
    struct scheduler    *scheduler;
    struct served       *served;
    char                 url[128], key[512];
    int                  port;
    bool                 local;         // it listens on this machine only
    double               began;         // wall seconds
    atomic_bool          stopping;      // no more requests; logs are not followed
    atomic_bool          hurry;         // and nothing more is written
    atomic_int           open;          // requests under way
    atomic_long          answers[6];    // by the hundreds of their status
    pthread_mutex_t      lock;          // of peers
    struct peer         *peers;
    pthread_t            guard;         // shuts out who is too slow
    bool                 guarded;
};

/* A request. */
struct call {
    const struct route    *route;
    struct MHD_Connection *connection;
    char                   url[128];
    char                  *body;
    size_t                 len, cap;
    double                 began;
    struct refusal         refusal;     // status 0: none so far
};

/* Does the client still wait? */
bool call_waits(const struct call *c);

/* Answers. The JSON is taken over; NULL: out of memory, which is said. */
enum MHD_Result reply_json(struct server *s, struct call *c, int status, json_t *j);
enum MHD_Result reply_text(struct server *s, struct call *c, int status, const char *type,
                           const char *text, size_t len);
enum MHD_Result reply_refusal(struct server *s, struct call *c, const struct refusal *r);

/* A stream of server-sent events. read as MHD_ContentReaderCallback; end is called once,
 * with user, when it is over or could not begin. */
enum MHD_Result reply_stream(struct server *s, struct call *c,
                             MHD_ContentReaderCallback read, void *user,
                             MHD_ContentReaderFreeCallback end);

/* ---- routes.c ---- */

struct route {
    const char *method, *url;
    bool        open;           // needs no key
    enum MHD_Result (*answer)(struct server *s, struct call *c);
};

/* The route of a request, or NULL; *allowed: the methods that its address takes, NULL:
 * there is nothing at this address. */
const struct route *route_find(const char *method, const char *url, const char **allowed);

/* ---- page.c ---- */

/* A file of the page, compiled in: its text, length and type; NULL: none. */
const char *page_file(const char *url, size_t *len, const char **type);

/* ---- events.c ---- */

enum MHD_Result events_answer(struct server *s, struct call *c);

#endif
