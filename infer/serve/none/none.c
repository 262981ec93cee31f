/* What stands for the server where weft is built without it: make SERVE=0. */
#include "infer/serve/serve.h"

void serve_defaults(struct serve_options *o)
{
    *o = (struct serve_options){0};
}

enum fail serve_start(struct server **s, const struct serve_options *o, struct why *why)
{
    (void)o;
    *s = NULL;
    return fail(why, FAIL_USAGE,
                "this weft was built without its server (make SERVE=0); install "
                "libmicrohttpd and build it again");
}

const char *serve_url(const struct server *s)
{
    (void)s;
    return "";
}

int serve_port(const struct server *s)
{
    (void)s;
    return 0;
}

bool serve_refused(struct server *s, struct why *why)
{
    (void)s;
    (void)why;
    return false;
}

void serve_stop(struct server *s, double seconds)
{
    (void)s;
    (void)seconds;
}
